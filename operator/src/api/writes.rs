//! Every write to the API server: none without the lease, each counted.

use std::collections::BTreeMap;

use control::Id;
use crds::{Instance, Placement};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::leader::{Leadership, WritePermit};
use crate::api::undeclared;
use crate::error::Error;
use crate::runtime::liveness::Liveness;
use crate::runtime::metrics::Metrics;

/// The name under which the operator owns fields.
pub const FIELD_MANAGER: &str = "cairn";

/// How many writes of one application are under way at the same time.
const AT_ONCE: usize = 16;

/// Does all of this, and says what became of each when everything has ended: a write that is dropped on its way could still
/// arrive, when another leads.
pub async fn each<T>(
    work: impl Iterator<Item = impl Future<Output = Result<T, Error>>>,
) -> Vec<Result<T, Error>> {
    stream::iter(work).buffer_unordered(AT_ONCE).collect().await
}

/// Does all of this, and fails with the first failure when everything has ended.
pub async fn all<T>(
    work: impl Iterator<Item = impl Future<Output = Result<T, Error>>>,
) -> Result<Vec<T>, Error> {
    each(work).await.into_iter().collect()
}

/// Writes, guarded by the lease.
#[derive(Clone)]
pub struct Writer {
    pub client: Client,
    pub leadership: Leadership,
    pub metrics: Metrics,
    pub liveness: Liveness,
}

/// What became of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    New,
    /// Something of that name is there already.
    Existed,
}

impl Writer {
    fn begin(&self, kind: &str, verb: &str) -> Result<WritePermit, Error> {
        let permit = self.leadership.begin()?;
        self.liveness.progress();
        self.metrics.writes.with_label_values(&[kind, verb]).inc();
        Ok(permit)
    }

    /// Writes a decision: a new object where it has no uid, else the whole spec of exactly that one in exactly the version
    /// that is known.
    ///
    /// Answers what the API server made of it; another object of its name is never met. Not by server-side apply: the fields
    /// that an object was made with are those of its making, and stay where they are left out.
    pub async fn write_placement(&self, placement: &Placement) -> Result<Placement, Error> {
        let name = placement.name_any();
        let api: Api<Placement> =
            Api::namespaced(self.client.clone(), &placement.namespace().unwrap_or_default());
        let written = if placement.uid().is_none() {
            let permit = self.begin("Placement", "create")?;
            let parameters =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            permit.within(api.create(&parameters, placement)).await
        } else {
            let permit = self.begin("Placement", "patch")?;
            // No two objects have one version.
            let whole = serde_json::json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": placement.resource_version()},
                {"op": "replace", "path": "/spec", "value": placement.spec},
            ]);
            let patch = serde_json::from_value(whole).expect("it is a list of operations");
            let parameters =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            permit.within(api.patch(&name, &parameters, &Patch::Json::<()>(patch))).await
        };
        written.map_err(|source| match source {
            // It is there by now, or it is another one: the watch will say which.
            kube::Error::Api(status) if status.code == 409 => Error::Overtaken,
            kube::Error::Api(status) if is_refusal(&status) => {
                Error::Refused(format!("Placement {name} was refused: {}", status.message))
            }
            source => Error::Apply { what: format!("Placement {name}"), source },
        })
    }

    /// Server-side apply of a status, to exactly the object of this uid in the version that is known; without the fields that
    /// the definition in the cluster does not declare, as it may be an older one.
    pub async fn apply_status<K, S>(&self, object: &K, status: &S) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
        S: Serialize,
    {
        let (kind, name) = (K::kind(&()), object.name_any());
        let mut body = serde_json::json!({"apiVersion": K::api_version(&()), "kind": kind, "status": status,
            "metadata": {"name": name, "uid": object.uid(), "resourceVersion": object.resource_version()}});
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let request = kube::core::Request::new(K::url_path(&(), object.namespace().as_deref()));
        let failed = |source| Error::Apply { what: format!("status of {kind} {name}"), source };
        loop {
            let permit = self.begin(&kind, "apply-status")?;
            let request = request.patch_subresource("status", &name, &parameters, &Patch::Apply(&body));
            let request = request.map_err(|e| failed(kube::Error::BuildRequest(e)))?;
            match permit.within(self.client.request::<K>(request)).await {
                Err(kube::Error::Api(refused)) if undeclared::strip(&mut body, &refused) => {}
                // It changed meanwhile, or is another one by now: the watch will say.
                Err(kube::Error::Api(status)) if status.code == 409 => return Err(Error::Overtaken),
                written => return written.map_err(failed),
            }
        }
    }

    /// Makes an object; what has its name already is left as it is. What the API server says against it is told apart from failures.
    pub async fn create<K>(&self, object: &K) -> Result<Result<Created, NotAdmitted>, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let kind = K::kind(&());
        let permit = self.begin(&kind, "create")?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match allow_existing(permit.within(api.create(&parameters, object)).await) {
            Ok(created) => Ok(Ok(created)),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(NotAdmitted::of(&status))),
            Err(source) => Err(Error::Apply { what: format!("{kind} {}", object.name_any()), source }),
        }
    }

    /// Makes an application the owner of exactly this Instance in the version that is known, and labels it; what the API server says
    /// against it is told apart from failures.
    pub async fn adopt(
        &self,
        there: &Instance,
        owner: &[OwnerReference],
        labels: &BTreeMap<String, String>,
    ) -> Result<Result<(), String>, Error> {
        let permit = self.begin("Instance", "patch")?;
        let name = there.name_any();
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &there.namespace().unwrap_or_default());
        let others = there.owner_references().iter().cloned();
        let owners: Vec<OwnerReference> = others.chain(owner.iter().cloned()).collect();
        let patch =
            Patch::Merge(serde_json::json!({"metadata": {"ownerReferences": owners, "labels": labels,
            "uid": there.uid(), "resourceVersion": there.resource_version()}}));
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        match permit.within(api.patch(&name, &parameters, &patch)).await {
            Ok(_) => Ok(Ok(())),
            // It changed meanwhile, went, or is another one by now: the watch will say.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(status.message.clone())),
            Err(source) => Err(Error::Apply { what: format!("Instance {name}"), source }),
        }
    }

    /// Changes the data of exactly this ConfigMap in the version that is known; what the API server says against it is told
    /// apart from failures.
    pub async fn patch_data(
        &self,
        there: &ConfigMap,
        data: &BTreeMap<String, String>,
    ) -> Result<Result<(), NotAdmitted>, Error> {
        let permit = self.begin("ConfigMap", "patch")?;
        let name = there.name_any();
        let api: Api<ConfigMap> =
            Api::namespaced(self.client.clone(), &there.namespace().unwrap_or_default());
        let patch = Patch::Merge(serde_json::json!({"data": data,
            "metadata": {"uid": there.uid(), "resourceVersion": there.resource_version()}}));
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        match permit.within(api.patch(&name, &parameters, &patch)).await {
            Ok(_) => Ok(Ok(())),
            // It changed meanwhile, went, or is another one by now: the watch will say.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Err(Error::Overtaken),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(NotAdmitted::of(&status))),
            Err(source) => Err(Error::Apply { what: format!("ConfigMap {name}"), source }),
        }
    }

    /// Asks whether a pod would be taken, and makes none; what the API server says against it is told apart from failures.
    pub async fn dry_run_pod(&self, pod: &Pod) -> Result<Result<(), String>, Error> {
        let permit = self.begin("Pod", "try")?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let parameters = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
        match allow_existing(permit.within(api.create(&parameters, pod)).await) {
            Ok(_) => Ok(Ok(())),
            // A webhook that cannot be tried says nothing against the pod.
            Err(kube::Error::Api(status)) if status.message.contains("does not support dry run") => {
                Ok(Ok(()))
            }
            Err(kube::Error::Api(status))
                if is_refusal(&status)
                    && !is_namespace_terminating(&status)
                    // A quota is full of those that the pod would replace.
                    && !status.message.contains("exceeded quota") =>
            {
                Ok(Err(status.message.clone()))
            }
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Ok(())),
            Err(source) => Err(Error::Apply { what: format!("Pod {}", pod.name_any()), source }),
        }
    }

    /// Evicts exactly the pod of this uid; that it is gone already is fine. What a disruption budget or admission says against it is
    /// told apart from failures.
    pub async fn evict(&self, namespace: &str, name: &str, uid: &str) -> Result<Result<(), String>, Error> {
        let permit = self.begin("Pod", "evict")?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let preconditions = Preconditions { resource_version: None, uid: Some(uid.to_owned()) };
        let parameters = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            }),
            ..EvictParams::default()
        };
        match permit.within(api.evict(name, &parameters)).await {
            Ok(_) => Ok(Ok(())),
            // Gone, or another one of that name: either way the one that was meant is not there any more.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
            // A budget that allows no disruption now, several budgets, which eviction cannot obey, or admission.
            Err(kube::Error::Api(status)) if is_blocked_by_budget(&status) || is_refusal(&status) => {
                Ok(Err(status.message.clone()))
            }
            Err(source) => Err(Error::Apply { what: format!("eviction of Pod {name}"), source }),
        }
    }

    /// Writes a new event.
    pub async fn create_event(&self, event: &Event) -> Result<Event, Error> {
        let permit = self.begin("Event", "create")?;
        let written = permit.within(self.events(event).create(&PostParams::default(), event)).await;
        written.map_err(|source| Error::Apply { what: format!("Event {}", event.name_any()), source })
    }

    /// Writes how often an event has been said.
    pub async fn count_event(&self, event: &Event) -> Result<Event, Error> {
        let permit = self.begin("Event", "patch")?;
        let name = event.name_any();
        let patch = Patch::Merge(serde_json::json!({"series": event.series}));
        let written = permit.within(self.events(event).patch(&name, &PatchParams::default(), &patch)).await;
        written.map_err(|source| Error::Apply { what: format!("Event {name}"), source })
    }

    fn events(&self, event: &Event) -> Api<Event> {
        Api::namespaced(self.client.clone(), &event.namespace().unwrap_or_default())
    }

    /// Whether the API server knows a node, asked itself and not what a watch has brought of it.
    pub async fn node_exists(&self, name: &str) -> Result<bool, Error> {
        let permit = self.leadership.begin()?;
        let api: Api<Node> = Api::all(self.client.clone());
        match permit.within(api.get_metadata_opt(name)).await {
            Ok(node) => Ok(node.is_some()),
            Err(source) => Err(Error::Apply { what: format!("what is to be done on Node {name}"), source }),
        }
    }

    /// Deletes exactly the object of this uid, as long as it is of the version that is given, if one is; that it is gone already is
    /// fine. What the API server says against it is told apart from failures.
    pub async fn delete<K>(
        &self,
        namespace: &str,
        object: &Id,
        at_once: bool,
    ) -> Result<Result<(), String>, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let kind = K::kind(&());
        let permit = self.begin(&kind, "delete")?;
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let Id { name, uid, version } = object;
        let preconditions = Preconditions { resource_version: version.clone(), uid: Some(uid.clone()) };
        let parameters = DeleteParams {
            grace_period_seconds: at_once.then_some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        match permit.within(api.delete(name, &parameters)).await {
            Ok(_) => Ok(Ok(())),
            // Gone, another one of that name, or not what it was: what was meant is not there any more. What it is by now the watch
            // brings, and the next look is about that.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(status.message.clone())),
            Err(source) => Err(Error::Apply { what: format!("{kind} {name}"), source }),
        }
    }
}

/// Whether a disruption budget allows no disruption now, or several select a pod. A busy API server answers 429, too.
fn is_blocked_by_budget(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let is_kept = || causes.into_iter().any(|cause| cause.reason == "DisruptionBudget");
    match status.code {
        429 => is_kept(),
        500 => status.message.contains("PodDisruptionBudget"),
        _ => false,
    }
}

/// Whether something is not taken as it is: quota, admission policies, a template that is none. That is a fact about the object, not
/// about the connection, nor about what the operator may do.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 422) && !lacks_right(status)
}

/// Whether it is the operator that may not do this. Authorization says who cannot do what; admission, what is exceeded or denied.
fn lacks_right(status: &Status) -> bool {
    let says = &status.message;
    status.code == 403 && says.contains(" is forbidden: User \"") && says.contains(" cannot ")
}

/// What admission says against an object.
pub struct NotAdmitted {
    pub message: String,
    /// Whether that is for all of its kind in the namespace: a quota, or it is being deleted.
    pub by_namespace: bool,
}

impl NotAdmitted {
    fn of(status: &Status) -> Self {
        let by_namespace = is_namespace_terminating(status) || status.message.contains("exceeded quota");
        Self { message: status.message.clone(), by_namespace }
    }
}

/// Whether the namespace is on its way out: no fault of the pod or of its node, and over soon.
fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn allow_existing<K>(created: Result<K, kube::Error>) -> Result<Created, kube::Error> {
    match created {
        Ok(_) => Ok(Created::New),
        // A quota that several writers count at once answers 409, too, and the object is not there.
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
            Ok(Created::Existed)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_busy_api_server_is_no_disruption_budget() {
        let budget = json!({"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget a needs 2 healthy pods"}]});
        for (code, message, details, expected) in [
            (429, "Cannot evict pod as it would violate the pod's disruption budget.", budget, true),
            (429, "too many requests, please try again later", json!({}), false),
            (500, "This pod has more than one PodDisruptionBudget", json!({}), true),
            (500, "etcdserver: leader changed", json!({}), false),
        ] {
            let status = json!({"code": code, "message": message, "details": details});
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(is_blocked_by_budget(&status), expected, "{message}");
        }
    }
}
