//! Lists objects as far as the user's permissions allow, and records what is inaccessible.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crds::labels;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use world::{Objects, SchedulingKind, SchedulingObjects};

use crate::args::ClusterArgs;
use crate::cluster::{CLUSTER_ACCESS_HINT, block_on, client, list_error};
use crate::error::CliError;
use crate::print_warning;

/// The hint when a list is forbidden.
const VIEW_ROLE_HINT: &str = "; you need the role view in the namespace";
/// The hint when a list over the whole cluster is forbidden.
const CLUSTER_ROLE_HINT: &str = "; you need a ClusterRole that may list them, with a ClusterRoleBinding";

/// The accessible objects, and the kinds that are not fully accessible.
#[derive(Debug, Default)]
pub struct AccessibleObjects {
    /// The accessible objects.
    pub objects: Objects,
    /// By the plural of the kind.
    pub inaccessible: BTreeMap<String, InaccessibleKind>,
}

/// A kind that is not fully accessible.
#[derive(Debug)]
pub struct InaccessibleKind {
    /// The error message.
    pub why: String,
    /// Whether the objects of one namespace are accessible.
    pub except_one_namespace: bool,
    /// Whether the kind is not installed in the cluster.
    pub is_unknown: bool,
}

impl AccessibleObjects {
    /// The error of the first of these kinds that is not accessible at all.
    pub fn first_error(&self, kinds: &[&str]) -> Option<String> {
        let mut found = kinds.iter().filter_map(|kind| self.inaccessible.get(*kind));
        found.find(|kind| !kind.except_one_namespace).map(|kind| kind.why.clone())
    }

    /// Notes on what is inaccessible, and on what is not installed.
    pub fn describe_inaccessible(&self) -> Vec<String> {
        let names = |is_wanted: &dyn Fn(&InaccessibleKind) -> bool| {
            let kinds = self.inaccessible.iter().filter(|(_, kind)| is_wanted(kind));
            kinds.map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ")
        };
        let forbidden = [
            ("", names(&|kind| !kind.is_unknown && !kind.except_one_namespace)),
            ("in other namespaces: ", names(&|kind| !kind.is_unknown && kind.except_one_namespace)),
        ];
        let forbidden = forbidden.into_iter().filter(|(_, names)| !names.is_empty());
        let forbidden: Vec<String> = forbidden.map(|(scope, names)| format!("{scope}{names}")).collect();
        let missing = names(&|kind| kind.is_unknown);
        let notes = [
            ("Not accessible with your permissions: ", forbidden.join("; "), ""),
            ("Not installed in the cluster: ", missing, "; kubectl cairn doctor has the remedy"),
        ];
        let notes = notes.into_iter().filter(|(_, names, _)| !names.is_empty());
        notes.map(|(before, names, after)| format!("{before}{names}{after}")).collect()
    }
}

/// Lists objects and records inaccessible kinds.
struct Lister<'a> {
    client: &'a Client,
    /// The namespace to list if listing all namespaces is forbidden.
    namespace: Option<&'a str>,
    /// An inaccessible kind is an error.
    needs_all: bool,
    inaccessible: RefCell<BTreeMap<String, InaccessibleKind>>,
}

impl Lister<'_> {
    /// Records a forbidden or unknown kind unless all are needed; returns all other errors.
    fn record<K: Resource<DynamicType = ()>>(
        &self,
        source: kube::Error,
        except_one_namespace: bool,
        hint: &str,
    ) -> Result<(), CliError> {
        let code = if let kube::Error::Api(status) = &source { status.code } else { 0 };
        let error = list_error::<K>(source, if self.needs_all { CLUSTER_ACCESS_HINT } else { hint });
        if self.needs_all || !matches!(code, 403 | 404) {
            return Err(error);
        }
        let kind =
            InaccessibleKind { why: error.with_causes(), except_one_namespace, is_unknown: code == 404 };
        self.inaccessible.borrow_mut().insert(K::plural(&()).into_owned(), kind);
        Ok(())
    }

    async fn list<K>(&self, api: Api<K>, parameters: ListParams, hint: &str) -> Result<Vec<Arc<K>>, CliError>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        match api.list(&parameters).await {
            Ok(found) => Ok(found.items.into_iter().map(Arc::new).collect()),
            Err(source) => self.record::<K>(source, false, hint).map(|()| Vec::new()),
        }
    }

    /// Lists the objects of the whole cluster.
    async fn all<K>(&self) -> Result<Vec<Arc<K>>, CliError>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.list(Api::all(self.client.clone()), ListParams::default(), CLUSTER_ROLE_HINT).await
    }

    /// Adds the objects of a kind that pod templates refer to. A forbidden list is recorded, and no object judged missing.
    async fn add<K>(&self, objects: &RefCell<SchedulingObjects>) -> Result<(), CliError>
    where
        K: SchedulingKind + Clone + std::fmt::Debug + DeserializeOwned,
    {
        match Api::<K>::all(self.client.clone()).list(&ListParams::default()).await {
            Ok(found) => {
                let mut objects = objects.borrow_mut();
                found.items.into_iter().for_each(|it| objects.put(Arc::new(it)));
            }
            // An older API server does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                objects.borrow_mut().set_served::<K>(false);
            }
            Err(source) => {
                let is_forbidden = matches!(&source, kube::Error::Api(status) if status.code == 403);
                let error = list_error::<K>(source, "; what its objects decide is not checked");
                if !is_forbidden {
                    return Err(error);
                }
                let kind = InaccessibleKind {
                    why: error.with_causes(),
                    except_one_namespace: false,
                    is_unknown: false,
                };
                self.inaccessible.borrow_mut().insert(K::plural(&()).into_owned(), kind);
                objects.borrow_mut().set_unknown::<K>();
            }
        }
        Ok(())
    }

    /// The objects that pod templates refer to.
    async fn scheduling(&self) -> Result<SchedulingObjects, CliError> {
        let objects = RefCell::default();
        futures::try_join!(
            self.add::<RuntimeClass>(&objects),
            self.add::<PriorityClass>(&objects),
            self.add::<ServiceAccount>(&objects),
            self.add::<PersistentVolumeClaim>(&objects),
            self.add::<PersistentVolume>(&objects),
            self.add::<StorageClass>(&objects),
            self.add::<CSINode>(&objects),
            self.add::<CSIDriver>(&objects),
            self.add::<CSIStorageCapacity>(&objects),
            self.add::<ResourceClaimTemplate>(&objects),
            self.add::<ResourceClaim>(&objects),
            self.add::<DeviceClass>(&objects),
            self.add::<ResourceSlice>(&objects),
        )?;
        Ok(objects.into_inner())
    }

    /// Lists the objects of all namespaces, or of one if that is forbidden.
    async fn namespaced<K>(&self) -> Result<Vec<Arc<K>>, CliError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let all = Api::<K>::all(self.client.clone());
        let source = match all.list(&ListParams::default()).await {
            Ok(found) => return Ok(found.items.into_iter().map(Arc::new).collect()),
            Err(source) => source,
        };
        let forbidden = matches!(&source, kube::Error::Api(status) if status.code == 403);
        let Some(namespace) = self.namespace.filter(|_| forbidden) else {
            return self.record::<K>(source, false, VIEW_ROLE_HINT).map(|()| Vec::new());
        };
        self.record::<K>(source, true, VIEW_ROLE_HINT)?;
        self.list(Api::namespaced(self.client.clone(), namespace), ListParams::default(), VIEW_ROLE_HINT)
            .await
    }
}

/// Applications with their Placements and Instances, pools, and policies if they may be listed.
///
/// If listing all namespaces is forbidden, falls back to `namespace` or that of the kubeconfig's context.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn applications(args: &ClusterArgs, namespace: Option<&str>) -> Result<AccessibleObjects, CliError> {
    block_on(args, async {
        let client = client(args).await?;
        let here = namespace.unwrap_or_else(|| client.default_namespace()).to_owned();
        let lister = Lister {
            client: &client,
            namespace: Some(&here),
            needs_all: false,
            inaccessible: RefCell::default(),
        };
        let (pools, applications, placements, instances) =
            futures::try_join!(lister.all(), lister.namespaced(), lister.namespaced(), lister.namespaced())?;
        // Only the mode of an application's policy is read from them, which may be forbidden.
        let policies = Api::<ConfigMap>::namespaced(client.clone(), &args.operator_namespace);
        let policies = policies.list(&ListParams::default().labels(&labels::policy_selector())).await;
        let policies =
            policies.map(|found| found.items.into_iter().map(Arc::new).collect()).unwrap_or_default();
        let objects = Objects { pools, applications, placements, instances, policies, ..Objects::default() };
        Ok(AccessibleObjects { objects, inaccessible: lister.inaccessible.into_inner() })
    })
}

/// All accessible objects that a planning snapshot is built from.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn everything(args: &ClusterArgs) -> Result<AccessibleObjects, CliError> {
    planning_objects(args, false)
}

/// All objects that a planning snapshot is built from.
///
/// # Errors
/// If the cluster cannot be reached, or one of the kinds is not accessible. For those that only templates refer to it is a
/// warning.
pub fn required(args: &ClusterArgs) -> Result<Objects, CliError> {
    let found = planning_objects(args, true)?;
    for kind in found.inaccessible.values() {
        print_warning(&kind.why);
    }
    Ok(found.objects)
}

fn planning_objects(args: &ClusterArgs, needs_all: bool) -> Result<AccessibleObjects, CliError> {
    block_on(args, async {
        let client = client(args).await?;
        let lister = Lister { client: &client, namespace: None, needs_all, inaccessible: RefCell::default() };
        let policies = Api::<ConfigMap>::namespaced(client.clone(), &args.operator_namespace);
        let selector = ListParams::default().labels(&labels::policy_selector());
        let (
            (nodes, pods, quotas, limits, namespaces),
            (topologies, pools, applications, placements, instances),
            policies,
            scheduling,
        ) = futures::try_join!(
            async {
                futures::try_join!(lister.all(), lister.all(), lister.all(), lister.all(), lister.all())
            },
            async {
                futures::try_join!(lister.all(), lister.all(), lister.all(), lister.all(), lister.all())
            },
            lister.list(policies, selector, VIEW_ROLE_HINT),
            lister.scheduling(),
        )?;
        let objects = Objects {
            nodes,
            pods,
            quotas,
            limits,
            namespaces,
            topologies,
            pools,
            applications,
            placements,
            instances,
            policies,
            scheduling,
        };
        Ok(AccessibleObjects { objects, inaccessible: lister.inaccessible.into_inner() })
    })
}
