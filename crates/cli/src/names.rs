//! The names of what is in a cluster, for whoever types one: soon, or not at all.

use std::sync::mpsc;
use std::time::Duration;

use crds::{ActorApplication, NodeTopology, labels};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::arguments::ClusterArguments;
use crate::cluster::{client, unlisted, wait_for};
use crate::error::CliError;

/// Nobody waits longer for a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// What has names that a cluster knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// An application, which may be written without its namespace.
    Application,
    /// An application, written with its namespace.
    Qualified,
    /// A namespace.
    Namespace,
    /// A node that has a topology.
    Node,
    /// A policy.
    Policy,
    /// A context of the kubeconfig.
    Context,
}

impl Named {
    /// What the argument of this id names.
    pub fn by(id: &str) -> Option<Self> {
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

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What has the names.
    pub what: Named,
    /// Applications of this namespace; of all where none is given.
    pub namespace: Option<String>,
    /// Whether an application of it is written with its namespace.
    pub qualified: bool,
    /// Which cluster.
    pub cluster: ClusterArguments,
}

/// The names in the cluster; none where it does not answer soon, or does not let them be seen.
pub fn known(asked: Asked) -> Vec<String> {
    let (tell, told) = mpsc::channel();
    // What it waits for, be it a name server or a credential plug-in, goes with the process.
    std::thread::spawn(move || {
        // Nobody listens any more when it took too long.
        let _ = tell.send(find(&asked));
    });
    told.recv_timeout(PATIENCE).ok().and_then(Result::ok).unwrap_or_default()
}

fn find(asked: &Asked) -> Result<Vec<String>, CliError> {
    if asked.what == Named::Context {
        let kubeconfig = match &asked.cluster.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let contexts = kubeconfig.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
        return Ok(contexts.into_iter().map(|context| context.name).collect());
    }
    wait_for(async {
        let client = client(&asked.cluster).await?;
        let all = ListParams::default();
        let found = match asked.what {
            Named::Application | Named::Qualified => return applications(asked, client).await,
            Named::Namespace => list(Api::<Namespace>::all(client), &all).await?,
            Named::Node => list(Api::<NodeTopology>::all(client), &all).await?,
            Named::Policy => {
                let there = Api::<ConfigMap>::namespaced(client, &asked.cluster.operator_namespace);
                list(there, &ListParams::default().labels(&labels::policy_selector())).await?
            }
            Named::Context => Vec::new(),
        };
        Ok(found.into_iter().map(|(_, name)| name).collect())
    })
}

/// Those of a namespace, or all that may be seen: without the namespace where it goes without saying.
async fn applications(asked: &Asked, client: Client) -> Result<Vec<String>, CliError> {
    let here = asked.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let own = Api::<ActorApplication>::namespaced(client.clone(), &here);
    let (all, every) = (Api::<ActorApplication>::all(client), ListParams::default());
    let found = match &asked.namespace {
        Some(_) => list(own, &every).await?,
        // A team sees its own.
        None => match list(all, &every).await {
            Ok(found) => found,
            Err(_) => list(own, &every).await?,
        },
    };
    let qualified = asked.qualified || asked.what == Named::Qualified;
    let typed = |(namespace, name): (String, String)| {
        if qualified || namespace != here { format!("{namespace}/{name}") } else { name }
    };
    Ok(found.into_iter().map(typed).collect())
}

/// Namespaces and names of all of a kind.
async fn list<K>(api: Api<K>, parameters: &ListParams) -> Result<Vec<(String, String)>, CliError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = api.list_metadata(parameters).await.map_err(|source| unlisted::<K>(source, ""))?;
    Ok(found.iter().map(|it| (it.namespace().unwrap_or_default(), it.name_any())).collect())
}
