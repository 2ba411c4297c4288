//! Reads the objects of a cluster.

use std::sync::Arc;

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement, labels};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use world::Objects;

use crate::args::ClusterArgs;
use crate::error::CliError;

/// All objects that a planning snapshot is built from.
pub fn objects(args: &ClusterArgs) -> Result<Objects, CliError> {
    block_on(async {
        let client = client(args).await?;
        let policies = Api::<ConfigMap>::namespaced(client.clone(), &args.operator_namespace);
        let selector = ListParams::default().labels(&labels::policy_selector());
        let client = &client;
        let (
            (nodes, pods, quotas, limits, namespaces),
            (topologies, pools, applications, placements, instances),
            policies,
        ) = futures::try_join!(
            async {
                futures::try_join!(
                    all::<Node>(client),
                    all::<Pod>(client),
                    all::<ResourceQuota>(client),
                    all::<LimitRange>(client),
                    all::<Namespace>(client)
                )
            },
            async {
                futures::try_join!(
                    all::<NodeTopology>(client),
                    all::<DevicePool>(client),
                    all::<ActorApplication>(client),
                    all::<Placement>(client),
                    all::<Instance>(client)
                )
            },
            list(policies, selector),
        )?;
        Ok(Objects {
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
        })
    })
}

/// The hint when a list that a plan needs is forbidden.
const CLUSTER_ACCESS_HINT: &str =
    "; this command needs read access to the whole cluster; `kubectl cairn status` needs only one namespace";

/// The namespace of the kubeconfig's context.
pub fn namespace(args: &ClusterArgs) -> Result<String, CliError> {
    block_on(async { Ok(client(args).await?.default_namespace().to_owned()) })
}

/// The topology of a node; if there is none, all topologies, for the error message.
pub fn topologies(args: &ClusterArgs, node: &str) -> Result<Vec<Arc<NodeTopology>>, CliError> {
    block_on(async {
        let api = Api::<NodeTopology>::all(client(args).await?);
        match api.get_opt(node).await {
            Ok(Some(found)) => Ok(vec![Arc::new(found)]),
            // The error of a list is more helpful: a missing CRD or a missing permission.
            Ok(None) | Err(_) => list(api, ListParams::default()).await,
        }
    })
}

/// Runs the future on a single-threaded runtime.
pub fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let failed = |source: std::io::Error| CliError::Cluster {
        what: "start the asynchronous runtime".to_owned(),
        source: source.into(),
    };
    runtime.map_err(failed)?.block_on(work)
}

/// A client for the cluster of the arguments.
pub async fn client(args: &ClusterArgs) -> Result<Client, CliError> {
    let failed = |what: &str, source: Box<dyn std::error::Error + Send + Sync>| CliError::Cluster {
        what: what.to_owned(),
        source,
    };
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let reading = "read the kubeconfig (set --kubeconfig, or pass files with -f)";
    let config = match &args.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|e| failed(reading, e.into()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|e| failed(reading, e.into()))?
        }
        None if args.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|e| failed(reading, e.into()))?
        }
        None => Config::infer().await.map_err(|e| failed(reading, e.into()))?,
    };
    Client::try_from(config).map_err(|e| failed("create a client for the cluster", e.into()))
}

/// All objects of a kind, in all namespaces.
async fn all<K>(client: &Client) -> Result<Vec<Arc<K>>, CliError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    list(Api::all(client.clone()), ListParams::default()).await
}

async fn list<K>(api: Api<K>, parameters: ListParams) -> Result<Vec<Arc<K>>, CliError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = api.list(&parameters).await.map_err(|source| list_error::<K>(source, CLUSTER_ACCESS_HINT))?;
    Ok(found.items.into_iter().map(Arc::new).collect())
}

/// The error of a failed list, with a hint; `forbidden` is the hint for missing permissions.
pub fn list_error<K: Resource<DynamicType = ()>>(source: kube::Error, forbidden: &str) -> CliError {
    let code = if let kube::Error::Api(status) = &source { status.code } else { 0 };
    let hint = match code {
        404 if K::group(&()) == crds::GROUP => {
            "; is Cairn installed? Run `helm install cairn charts/cairn -n cairn-system --create-namespace`"
        }
        403 => forbidden,
        _ => "",
    };
    CliError::Cluster { what: format!("list {}{hint}", K::plural(&())), source: source.into() }
}
