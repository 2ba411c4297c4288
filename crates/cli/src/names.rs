//! Looks up names in a cluster for completion, with a timeout.

use std::sync::mpsc;
use std::time::Duration;

use crds::{ActorApplication, NodeTopology, labels};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::args::ClusterArgs;
use crate::cluster::{block_on, client, list_error};
use crate::error::CliError;

/// The timeout of a lookup.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// An application, optionally with its namespace.
    Application,
    /// An application with its namespace.
    Qualified,
    /// A namespace.
    Namespace,
    /// A node with a NodeTopology.
    Node,
    /// A policy.
    Policy,
    /// A context of the kubeconfig.
    Context,
}

impl NameKind {
    /// The kind of names that the argument with this id takes.
    pub fn of_argument(id: &str) -> Option<Self> {
        match id {
            "name" => Some(Self::Application),
            "application" => Some(Self::Qualified),
            "namespace" | "agents_namespace" | "operator_namespace" => Some(Self::Namespace),
            "node" => Some(Self::Node),
            "default_policy" => Some(Self::Policy),
            "context" => Some(Self::Context),
            _ => None,
        }
    }
}

/// A query for names.
#[derive(Clone, Debug)]
pub struct NameQuery {
    /// The kind of names.
    pub kind: NameKind,
    /// Restricts applications to this namespace.
    pub namespace: Option<String>,
    /// Whether to return applications with their namespace.
    pub qualified: bool,
    /// The cluster.
    pub cluster: ClusterArgs,
}

/// The names in the cluster; empty on errors and after the timeout.
pub fn lookup(query: NameQuery) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    // DNS or a credential plugin can block; the thread then ends with the process.
    std::thread::spawn(move || {
        // The receiver is dropped after the timeout.
        let _ = sender.send(find(&query));
    });
    receiver.recv_timeout(TIMEOUT).ok().and_then(Result::ok).unwrap_or_default()
}

fn find(query: &NameQuery) -> Result<Vec<String>, CliError> {
    if query.kind == NameKind::Context {
        let kubeconfig = match &query.cluster.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let contexts = kubeconfig.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
        return Ok(contexts.into_iter().map(|context| context.name).collect());
    }
    block_on(&query.cluster, async {
        let client = client(&query.cluster).await?;
        let all = ListParams::default();
        let found = match query.kind {
            NameKind::Application | NameKind::Qualified => return applications(query, client).await,
            NameKind::Namespace => list(Api::<Namespace>::all(client), &all).await?,
            NameKind::Node => list(Api::<NodeTopology>::all(client), &all).await?,
            NameKind::Policy => {
                let api = Api::<ConfigMap>::namespaced(client, &query.cluster.operator_namespace);
                list(api, &ListParams::default().labels(&labels::policy_selector())).await?
            }
            NameKind::Context => Vec::new(),
        };
        Ok(found.into_iter().map(|(_, name)| name).collect())
    })
}

/// Applications of a namespace, or all readable ones; the default namespace is omitted.
async fn applications(query: &NameQuery, client: Client) -> Result<Vec<String>, CliError> {
    let here = query.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let own = Api::<ActorApplication>::namespaced(client.clone(), &here);
    let (all, parameters) = (Api::<ActorApplication>::all(client), ListParams::default());
    let found = match &query.namespace {
        Some(_) => list(own, &parameters).await?,
        // Users may have access to their own namespace only.
        None => match list(all, &parameters).await {
            Ok(found) => found,
            Err(_) => list(own, &parameters).await?,
        },
    };
    let qualified = query.qualified || query.kind == NameKind::Qualified;
    let format = |(namespace, name): (String, String)| {
        if qualified || namespace != here { format!("{namespace}/{name}") } else { name }
    };
    Ok(found.into_iter().map(format).collect())
}

/// Namespaces and names of all objects of a kind.
async fn list<K>(api: Api<K>, parameters: &ListParams) -> Result<Vec<(String, String)>, CliError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = api.list_metadata(parameters).await.map_err(|source| list_error::<K>(source, ""))?;
    Ok(found.iter().map(|it| (it.namespace().unwrap_or_default(), it.name_any())).collect())
}
