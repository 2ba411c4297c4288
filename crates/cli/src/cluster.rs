//! What a cluster knows, read once; nothing is written.

use std::sync::Arc;

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement, labels};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use world::Objects;

use crate::arguments::ClusterArguments;
use crate::error::CliError;

/// Everything that a snapshot is made from.
pub fn objects(arguments: &ClusterArguments) -> Result<Objects, CliError> {
    wait_for(async {
        let client = client(arguments).await?;
        let policies = Api::<ConfigMap>::namespaced(client.clone(), &arguments.operator_namespace);
        let of_policies = ListParams::default().labels(&labels::policy_selector());
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
            list(policies, of_policies),
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

/// What is said to whoever may not list something that a plan needs.
const WHOLE: &str =
    "; one has to see the whole cluster for that; `kubectl cairn status` needs one namespace alone";

/// The namespace of the kubeconfig's context.
pub fn namespace(arguments: &ClusterArguments) -> Result<String, CliError> {
    wait_for(async { Ok(client(arguments).await?.default_namespace().to_owned()) })
}

/// What the agent of a node reported; where it did not, what the others did, to name them.
pub fn topologies(arguments: &ClusterArguments, node: &str) -> Result<Vec<Arc<NodeTopology>>, CliError> {
    wait_for(async {
        let api = Api::<NodeTopology>::all(client(arguments).await?);
        match api.get_opt(node).await {
            Ok(Some(found)) => Ok(vec![Arc::new(found)]),
            // A list says better what is wrong: that there is no such kind, or no such right.
            Ok(None) | Err(_) => list(api, ListParams::default()).await,
        }
    })
}

/// One thread is enough to wait for a few answers; commands on files never start one.
pub fn wait_for<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let failed = |source: std::io::Error| CliError::Cluster {
        what: "start waiting for the cluster".to_owned(),
        source: source.into(),
    };
    runtime.map_err(failed)?.block_on(work)
}

/// A connection to the cluster of the arguments.
pub async fn client(arguments: &ClusterArguments) -> Result<Client, CliError> {
    let failed = |what: &str, source: Box<dyn std::error::Error + Send + Sync>| CliError::Cluster {
        what: what.to_owned(),
        source,
    };
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    let reading = "read the kubeconfig (give one with --kubeconfig, or files with -f)";
    let config = match &arguments.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|e| failed(reading, e.into()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|e| failed(reading, e.into()))?
        }
        None if arguments.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|e| failed(reading, e.into()))?
        }
        None => Config::infer().await.map_err(|e| failed(reading, e.into()))?,
    };
    Client::try_from(config).map_err(|e| failed("set up the connection to the cluster", e.into()))
}

/// All of a kind, of every namespace.
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
    let found = api.list(&parameters).await.map_err(|source| unlisted::<K>(source, WHOLE))?;
    Ok(found.items.into_iter().map(Arc::new).collect())
}

/// That a kind could not be listed, and what to do where that is known; `forbidden` is for whoever may not.
pub fn unlisted<K: Resource<DynamicType = ()>>(source: kube::Error, forbidden: &str) -> CliError {
    let code = if let kube::Error::Api(status) = &source { status.code } else { 0 };
    let hint = match code {
        404 if K::group(&()) == crds::GROUP => {
            "; is Cairn installed? `helm install cairn charts/cairn -n cairn-system --create-namespace`"
        }
        403 => forbidden,
        _ => "",
    };
    CliError::Cluster { what: format!("list {}{hint}", K::plural(&())), source: source.into() }
}
