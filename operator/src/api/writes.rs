//! All writes to the API server: each requires the lease and is counted.

use std::collections::BTreeMap;

use control::ObjectId;
use crds::{Instance, Placement};
use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceSpec};
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

/// The field manager of the operator.
pub const FIELD_MANAGER: &str = "cairn";

/// Concurrent writes per application.
const AT_ONCE: usize = 16;

/// Runs all futures to completion and returns each result. A dropped write could still arrive when another replica leads.
pub async fn each<T>(
    work: impl Iterator<Item = impl Future<Output = Result<T, Error>>>,
) -> Vec<Result<T, Error>> {
    stream::iter(work).buffer_unordered(AT_ONCE).collect().await
}

/// Runs all futures to completion; fails with the first error.
pub async fn all<T>(
    work: impl Iterator<Item = impl Future<Output = Result<T, Error>>>,
) -> Result<Vec<T>, Error> {
    each(work).await.into_iter().collect()
}

/// Writes guarded by the lease.
#[derive(Clone)]
pub struct Writer {
    pub client: Client,
    pub leadership: Leadership,
    pub metrics: Metrics,
    pub liveness: Liveness,
}

/// Result of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was created.
    New,
    /// An object of that name already exists.
    Existed,
}

impl Writer {
    fn begin(&self, kind: &str, verb: &str) -> Result<WritePermit, Error> {
        let permit = self.leadership.begin()?;
        self.liveness.progress();
        self.metrics.writes.with_label_values(&[kind, verb]).inc();
        Ok(permit)
    }

    /// Creates a Placement without a uid, or replaces the spec of exactly this uid and resource version.
    ///
    /// Not by server-side apply: fields set at creation belong to another manager and would not be removed.
    pub async fn write_placement(&self, placement: &Placement) -> Result<Placement, Error> {
        if placement.uid().is_some() {
            let spec = serde_json::json!({"op": "replace", "path": "/spec", "value": placement.spec});
            return self.patch_placement(placement, [spec]).await;
        }
        let api = self.placements(placement);
        let permit = self.begin("Placement", "create")?;
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = permit.within(api.create(&parameters, placement)).await;
        written.map_err(|source| placement_error(placement, source))
    }

    /// Sets for which manifest exactly this version of a Placement holds.
    pub async fn patch_placement_record(
        &self,
        there: &Placement,
        generation: i64,
        demand: &str,
    ) -> Result<Placement, Error> {
        let changes = [
            serde_json::json!({"op": "add", "path": "/spec/applicationGeneration", "value": generation}),
            serde_json::json!({"op": "add", "path": "/spec/demandDigest", "value": demand}),
        ];
        self.patch_placement(there, changes).await
    }

    /// Sets the moves of exactly this version of a Placement.
    pub async fn patch_placement_moves(
        &self,
        there: &Placement,
        moves: &[crds::Move],
    ) -> Result<Placement, Error> {
        let change = serde_json::json!({"op": "add", "path": "/spec/moves", "value": moves});
        self.patch_placement(there, [change]).await
    }

    async fn patch_placement(
        &self,
        there: &Placement,
        changes: impl IntoIterator<Item = serde_json::Value>,
    ) -> Result<Placement, Error> {
        let permit = self.begin("Placement", "patch")?;
        // The resource version identifies the object, too.
        let version = serde_json::json!({"op": "replace", "path": "/metadata/resourceVersion",
            "value": there.resource_version()});
        let patch = std::iter::once(version).chain(changes).collect();
        let patch =
            serde_json::from_value(serde_json::Value::Array(patch)).expect("it is a list of operations");
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (api, name, patch) = (self.placements(there), there.name_any(), Patch::Json::<()>(patch));
        let written = permit.within(api.patch(&name, &parameters, &patch)).await;
        written.map_err(|source| placement_error(there, source))
    }

    fn placements(&self, placement: &Placement) -> Api<Placement> {
        Api::namespaced(self.client.clone(), &placement.namespace().unwrap_or_default())
    }

    /// Server-side apply of a status to exactly this uid and resource version. Fields that an older CRD does not declare are
    /// left out.
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
                // It changed or was recreated; the watch will tell.
                Err(kube::Error::Api(status)) if status.code == 409 => return Err(Error::Overtaken),
                written => return written.map_err(failed),
            }
        }
    }

    /// Creates an object; an existing one is left as it is. A refusal by admission is not an error.
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

    /// Adds the application as owner of exactly this Instance and version, and labels it. A refusal by admission is not an
    /// error.
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
            // It changed, was deleted or recreated; the watch will tell.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(status.message.clone())),
            Err(source) => Err(Error::Apply { what: format!("Instance {name}"), source }),
        }
    }

    /// Patches the data of exactly this ConfigMap and version. A refusal by admission is not an error.
    pub async fn patch_data(
        &self,
        there: &ConfigMap,
        data: &BTreeMap<String, String>,
    ) -> Result<Result<(), NotAdmitted>, Error> {
        self.patch_owned(there, &serde_json::json!({"data": data})).await
    }

    /// Restores selector and published addresses of exactly this Service and version. A refusal by admission is not an error.
    pub async fn patch_service(
        &self,
        there: &Service,
        wanted: &ServiceSpec,
    ) -> Result<Result<(), NotAdmitted>, Error> {
        // A merge patch removes keys only if it names them.
        let added = there.spec.iter().flat_map(|spec| spec.selector.iter().flatten());
        let mut selector: serde_json::Map<String, serde_json::Value> =
            added.map(|(key, _)| (key.clone(), serde_json::Value::Null)).collect();
        let ours = wanted.selector.iter().flatten();
        selector.extend(ours.map(|(key, value)| (key.clone(), value.as_str().into())));
        let spec = serde_json::json!({"selector": selector,
            "publishNotReadyAddresses": wanted.publish_not_ready_addresses});
        self.patch_owned(there, &serde_json::json!({"spec": spec})).await
    }

    /// Adds labels to exactly this object and version. A refusal by admission is not an error.
    pub async fn patch_labels<K>(
        &self,
        there: &K,
        labels: &BTreeMap<String, String>,
    ) -> Result<Result<(), NotAdmitted>, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.patch_owned(there, &serde_json::json!({"metadata": {"labels": labels}})).await
    }

    /// Merges a change into exactly this object and version. A refusal by admission is not an error.
    async fn patch_owned<K>(
        &self,
        there: &K,
        change: &serde_json::Value,
    ) -> Result<Result<(), NotAdmitted>, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let (kind, name) = (K::kind(&()), there.name_any());
        let permit = self.begin(&kind, "patch")?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &there.namespace().unwrap_or_default());
        let mut patch = change.clone();
        patch["metadata"]["uid"] = there.uid().into();
        patch["metadata"]["resourceVersion"] = there.resource_version().into();
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        match permit.within(api.patch(&name, &parameters, &Patch::Merge(patch))).await {
            Ok(_) => Ok(Ok(())),
            // It changed, was deleted or recreated; the watch will tell.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Err(Error::Overtaken),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(NotAdmitted::of(&status))),
            Err(source) => Err(Error::Apply { what: format!("{kind} {name}"), source }),
        }
    }

    /// Annotates exactly this version of a revision; returns false if it changed or was deleted meanwhile.
    pub async fn annotate_revision(
        &self,
        there: &ControllerRevision,
        annotation: &str,
        text: &str,
    ) -> Result<bool, Error> {
        let permit = self.begin("ControllerRevision", "patch")?;
        let name = there.name_any();
        let api: Api<ControllerRevision> =
            Api::namespaced(self.client.clone(), &there.namespace().unwrap_or_default());
        let metadata = serde_json::json!({"uid": there.uid(), "resourceVersion": there.resource_version(),
            "annotations": {annotation: text}});
        let patch = Patch::Merge(serde_json::json!({"metadata": metadata}));
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        match permit.within(api.patch(&name, &parameters, &patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(source) => Err(Error::Apply { what: format!("ControllerRevision {name}"), source }),
        }
    }

    /// Dry-runs the creation of a pod. A refusal by admission is not an error.
    pub async fn dry_run_pod(&self, pod: &Pod) -> Result<Result<(), String>, Error> {
        let permit = self.begin("Pod", "try")?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let parameters = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
        match allow_existing(permit.within(api.create(&parameters, pod)).await) {
            Ok(_) => Ok(Ok(())),
            // A webhook without dry-run support does not refuse the pod.
            Err(kube::Error::Api(status)) if status.message.contains("does not support dry run") => {
                Ok(Ok(()))
            }
            Err(kube::Error::Api(status))
                if is_refusal(&status)
                    && !is_namespace_terminating(&status)
                    // The quota is used by the pods that this one would replace.
                    && !status.message.contains("exceeded quota") =>
            {
                Ok(Err(status.message.clone()))
            }
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Ok(())),
            Err(source) => Err(Error::Apply { what: format!("Pod {}", pod.name_any()), source }),
        }
    }

    /// Evicts exactly the pod of this uid; a deleted one is fine. A refusal by a disruption budget or admission is not an
    /// error.
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
            // The pod was deleted or recreated.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
            // A disruption budget without allowance, several budgets, which eviction does not support, or admission.
            Err(kube::Error::Api(status)) if is_blocked_by_budget(&status) || is_refusal(&status) => {
                Ok(Err(status.message.clone()))
            }
            Err(source) => Err(Error::Apply { what: format!("eviction of Pod {name}"), source }),
        }
    }

    /// Creates an event.
    pub async fn create_event(&self, event: &Event) -> Result<Event, Error> {
        let permit = self.begin("Event", "create")?;
        let written = permit.within(self.events(event).create(&PostParams::default(), event)).await;
        written.map_err(|source| Error::Apply { what: format!("Event {}", event.name_any()), source })
    }

    /// Updates the series of an event.
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

    /// Deletes exactly the object of this uid, and version if given; a deleted one is fine. A refusal by admission is not an
    /// error.
    pub async fn delete<K>(
        &self,
        namespace: &str,
        object: &ObjectId,
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
        let ObjectId { name, uid, resource_version: version } = object;
        let preconditions = Preconditions { resource_version: version.clone(), uid: Some(uid.clone()) };
        let parameters = DeleteParams {
            grace_period_seconds: at_once.then_some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        match permit.within(api.delete(name, &parameters)).await {
            Ok(_) => Ok(Ok(())),
            // It was deleted, recreated or changed. The watch delivers the new state for the next reconcile.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
            Err(kube::Error::Api(status)) if is_refusal(&status) => Ok(Err(status.message.clone())),
            Err(source) => Err(Error::Apply { what: format!("{kind} {name}"), source }),
        }
    }
}

fn placement_error(placement: &Placement, source: kube::Error) -> Error {
    let name = placement.name_any();
    match source {
        // It exists by now or is another one; the watch will tell.
        kube::Error::Api(status) if status.code == 409 => Error::Overtaken,
        kube::Error::Api(status) if is_refusal(&status) => {
            Error::Refused(format!("Placement {name} was refused: {}", status.message))
        }
        source => Error::Apply { what: format!("Placement {name}"), source },
    }
}

/// Whether disruption budgets block an eviction. An overloaded API server answers 429, too.
fn is_blocked_by_budget(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let is_kept = || causes.into_iter().any(|cause| cause.reason == "DisruptionBudget");
    match status.code {
        429 => is_kept(),
        500 => status.message.contains("PodDisruptionBudget"),
        _ => false,
    }
}

/// Whether admission, a quota or validation refuses the object itself, as opposed to a connection or permission problem.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 422) && !lacks_right(status)
}

/// Whether the operator lacks the permission. Authorization messages differ from those of admission.
fn lacks_right(status: &Status) -> bool {
    let says = &status.message;
    status.code == 403 && says.contains(" is forbidden: User \"") && says.contains(" cannot ")
}

/// A refusal by admission.
pub struct NotAdmitted {
    pub message: String,
    /// Whether it concerns all such objects of the namespace: a quota, or the namespace is terminating.
    pub by_namespace: bool,
}

impl NotAdmitted {
    fn of(status: &Status) -> Self {
        let by_namespace = is_namespace_terminating(status) || status.message.contains("exceeded quota");
        Self { message: status.message.clone(), by_namespace }
    }
}

/// Whether the namespace is terminating, for which neither pod nor node is to blame.
fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn allow_existing<K>(created: Result<K, kube::Error>) -> Result<Created, kube::Error> {
    match created {
        Ok(_) => Ok(Created::New),
        // A quota conflict is a 409 too, and the object does not exist then.
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
    fn an_overloaded_api_server_is_no_disruption_budget() {
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
