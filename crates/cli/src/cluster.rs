//! Reads the objects of a cluster.

use std::sync::Arc;

use crds::NodeTopology;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};

use world::{ApplicationKey, Objects, SchedulingObjects};

use crate::args::ClusterArgs;
use crate::error::{CliError, answer};

/// The hint when a list that a plan needs is forbidden.
pub const CLUSTER_ACCESS_HINT: &str =
    "; this command needs read access to the whole cluster; `kubectl cairn status` needs only one namespace";

/// The namespace of the kubeconfig's context.
pub fn namespace(args: &ClusterArgs) -> Result<String, CliError> {
    block_on(args, async { Ok(client(args).await?.default_namespace().to_owned()) })
}

/// The application of a name with or without its namespace; the default is that of the kubeconfig's context, or `default` for
/// files.
pub fn application_key(
    name: &str,
    namespace: Option<&str>,
    connection: Option<&ClusterArgs>,
) -> Result<ApplicationKey, CliError> {
    if name.contains('/') {
        let key: ApplicationKey = name.parse().map_err(CliError::Usage)?;
        return match namespace {
            Some(other) if other != key.namespace => {
                Err(CliError::Usage(format!("{key} contradicts --namespace {other}; set only one of them")))
            }
            _ => Ok(key),
        };
    }
    let namespace = match (namespace, connection) {
        (Some(given), _) => given.to_owned(),
        (None, Some(connection)) => self::namespace(connection)?,
        (None, None) => "default".to_owned(),
    };
    format!("{namespace}/{name}").parse().map_err(CliError::Usage)
}

/// The topology of a node with the devices that drivers publish for claims; if it has none, all topologies, for the error message.
pub fn devices(args: &ClusterArgs, node: &str) -> Result<Objects, CliError> {
    block_on(args, async {
        let client = client(args).await?;
        let topologies = topologies(client.clone(), node).await?;
        let mut scheduling = SchedulingObjects::default();
        let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        // Clusters without dynamic resource allocation, and users who may not read claims, have none.
        if let Ok(found) = Api::<ResourceSlice>::all(client.clone()).list(&of_node).await {
            found.items.into_iter().for_each(|slice| scheduling.put(Arc::new(slice)));
        }
        if let Ok(found) = Api::<ResourceClaim>::all(client).list(&ListParams::default()).await {
            found.items.into_iter().for_each(|claim| scheduling.put(Arc::new(claim)));
        }
        Ok(Objects { topologies, scheduling, ..Objects::default() })
    })
}

async fn topologies(client: Client, node: &str) -> Result<Vec<Arc<NodeTopology>>, CliError> {
    let api = Api::<NodeTopology>::all(client);
    if let Ok(Some(found)) = api.get_opt(node).await {
        return Ok(vec![Arc::new(found)]);
    }
    // The error of a list is more helpful: a missing CRD or a missing permission.
    let found = api.list(&ListParams::default()).await;
    let found = found.map_err(|source| list_error::<NodeTopology>(source, CLUSTER_ACCESS_HINT))?;
    Ok(found.items.into_iter().map(Arc::new).collect())
}

/// Runs requests to the cluster of the arguments on a single-threaded runtime.
pub fn block_on<T>(
    args: &ClusterArgs,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let failed = |source: std::io::Error| CliError::Cluster {
        what: "start the asynchronous runtime".to_owned(),
        source: source.into(),
    };
    runtime.map_err(failed)?.block_on(async {
        match work.await {
            Err(CliError::Cluster { what, source }) => Err(located(args, what, source).await),
            other => other,
        }
    })
}

/// The error of a request. If the server was not reached, or refused the credentials, with server, context and a remedy.
async fn located(
    args: &ClusterArgs,
    what: String,
    source: Box<dyn std::error::Error + Send + Sync>,
) -> CliError {
    let problem = match source.downcast_ref() {
        Some(kube::Error::Api(answer)) if answer.code == 401 => {
            "refuses the credentials; renew them, or set --kubeconfig or --context"
        }
        Some(kube::Error::HyperError(_) | kube::Error::Service(_)) => {
            "cannot be reached; check its address and the network, or set --kubeconfig or --context"
        }
        _ => return CliError::Cluster { what, source },
    };
    let Ok(config) = config(args).await else { return CliError::Cluster { what, source } };
    let context = args.context.clone().or_else(|| {
        let kubeconfig = args.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        kubeconfig.ok()?.current_context
    });
    let context = context.map(|context| format!(" of context {context}")).unwrap_or_default();
    let what = format!("{what}: the server {}{context} {problem}", config.cluster_url);
    // The causes in between are names of protocol layers.
    let causes = std::iter::successors(source.source(), |cause| cause.source());
    let cause = source.downcast_ref().and_then(answer).or_else(|| causes.last().map(ToString::to_string));
    CliError::Cluster { what, source: cause.map_or(source, Into::into) }
}

fn failed(what: &str, source: Box<dyn std::error::Error + Send + Sync>) -> CliError {
    CliError::Cluster { what: what.to_owned(), source }
}

/// A client for the cluster of the arguments.
pub async fn client(args: &ClusterArgs) -> Result<Client, CliError> {
    let config = config(args).await?;
    Client::try_from(config).map_err(|e| failed("create a client for the cluster", e.into()))
}

async fn config(args: &ClusterArgs) -> Result<Config, CliError> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let reading =
        "read the kubeconfig (set --kubeconfig; plan, explain, status and topology also read files with -f)";
    match &args.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|e| failed(reading, e.into()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| failed(reading, e.into()))
        }
        None if args.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|e| failed(reading, e.into()))
        }
        None => Config::infer().await.map_err(|e| failed(reading, e.into())),
    }
}

/// The error of a failed list, with a hint; `forbidden` is the hint for missing permissions.
pub fn list_error<K: Resource<DynamicType = ()>>(source: kube::Error, forbidden: &str) -> CliError {
    let code = if let kube::Error::Api(status) = &source { status.code } else { 0 };
    let hint = match code {
        404 if K::group(&()) == crds::GROUP => {
            "; install Cairn (docs/getting-started.md); if it is installed, `kubectl cairn doctor` has the remedy"
        }
        403 => forbidden,
        _ => "",
    };
    CliError::Cluster { what: format!("list {}{hint}", K::plural(&())), source: source.into() }
}
