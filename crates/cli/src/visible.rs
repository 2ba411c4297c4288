//! What of a cluster may be seen by who asks: a team sees its own namespace, and what it may not see is named.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crds::labels;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use world::Objects;

use crate::arguments::ClusterArguments;
use crate::cluster::{client, unlisted, wait_for};
use crate::error::CliError;

/// What is said to whoever may not see something.
const VIEW: &str = "; ask for the role view in the namespace";

/// What was found, and what was not to be seen.
#[derive(Debug, Default)]
pub struct Visible {
    /// What was found.
    pub objects: Objects,
    /// By the kind's plural.
    pub hidden: BTreeMap<String, Hidden>,
}

/// A kind of which not everything was to be seen.
#[derive(Debug)]
pub struct Hidden {
    /// What the API server said.
    pub why: String,
    /// Those of one namespace were.
    pub but_one: bool,
    /// The cluster has no such kind.
    pub is_unknown: bool,
}

impl Visible {
    /// What was said against the first of these kinds of which nothing was to be seen.
    pub fn without(&self, kinds: &[&str]) -> Option<String> {
        let hidden = kinds.iter().filter_map(|kind| self.hidden.get(*kind)).find(|hidden| !hidden.but_one);
        hidden.map(|hidden| hidden.why.clone())
    }

    /// What was not to be seen, a line each.
    pub fn not_seen(&self) -> Vec<String> {
        let names = |but_one: bool| {
            let those = self.hidden.iter().filter(|(_, hidden)| hidden.but_one == but_one);
            those.map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ")
        };
        let told = [("", names(false)), ("of other namespaces: ", names(true))];
        told.into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(of, names)| format!("{of}{names}"))
            .collect()
    }
}

/// A list that is asked for, and what becomes of a refusal.
struct Look<'a> {
    client: &'a Client,
    /// Where else to ask, when not everything is to be seen.
    namespace: Option<&'a str>,
    hidden: RefCell<BTreeMap<String, Hidden>>,
}

impl Look<'_> {
    /// A refusal is remembered; that nobody answers is an error.
    fn refused<K: Resource<DynamicType = ()>>(
        &self,
        source: kube::Error,
        but_one: bool,
    ) -> Result<(), CliError> {
        let kube::Error::Api(status) = &source else { return Err(unlisted::<K>(source, "")) };
        if !matches!(status.code, 403 | 404) {
            return Err(unlisted::<K>(source, ""));
        }
        let is_unknown = status.code == 404;
        let hidden = Hidden { why: unlisted::<K>(source, VIEW).in_full(), but_one, is_unknown };
        self.hidden.borrow_mut().insert(K::plural(&()).into_owned(), hidden);
        Ok(())
    }

    async fn list<K>(&self, api: Api<K>, parameters: ListParams) -> Result<Vec<Arc<K>>, CliError>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        match api.list(&parameters).await {
            Ok(found) => Ok(found.items.into_iter().map(Arc::new).collect()),
            Err(source) => self.refused::<K>(source, false).map(|()| Vec::new()),
        }
    }

    /// Those of the whole cluster.
    async fn all<K>(&self) -> Result<Vec<Arc<K>>, CliError>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.list(Api::all(self.client.clone()), ListParams::default()).await
    }

    /// Those of all namespaces, or of one where all may not be listed.
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
            return self.refused::<K>(source, false).map(|()| Vec::new());
        };
        self.refused::<K>(source, true)?;
        self.list(Api::namespaced(self.client.clone(), namespace), ListParams::default()).await
    }
}

/// Applications with what was decided for them and what runs, and pools, as far as they may be seen; where all namespaces are too
/// many, those of `namespace`, or of that of the kubeconfig's context.
///
/// # Errors
/// When there is no cluster, or it does not answer.
pub fn applications(arguments: &ClusterArguments, namespace: Option<&str>) -> Result<Visible, CliError> {
    wait_for(async {
        let client = client(arguments).await?;
        let here = namespace.unwrap_or_else(|| client.default_namespace()).to_owned();
        let look = Look { client: &client, namespace: Some(&here), hidden: RefCell::default() };
        let (pools, applications, placements, instances) =
            futures::try_join!(look.all(), look.namespaced(), look.namespaced(), look.namespaced())?;
        let objects = Objects { pools, applications, placements, instances, ..Objects::default() };
        Ok(Visible { objects, hidden: look.hidden.into_inner() })
    })
}

/// Everything that a snapshot is made from, as far as it may be seen.
///
/// # Errors
/// When there is no cluster, or it does not answer.
pub fn everything(arguments: &ClusterArguments) -> Result<Visible, CliError> {
    wait_for(async {
        let client = client(arguments).await?;
        let look = Look { client: &client, namespace: None, hidden: RefCell::default() };
        let policies = Api::<ConfigMap>::namespaced(client.clone(), &arguments.operator_namespace);
        let of_policies = ListParams::default().labels(&labels::policy_selector());
        let (
            (nodes, pods, quotas, limits, namespaces),
            (topologies, pools, applications, placements, instances),
            policies,
        ) = futures::try_join!(
            async { futures::try_join!(look.all(), look.all(), look.all(), look.all(), look.all()) },
            async { futures::try_join!(look.all(), look.all(), look.all(), look.all(), look.all()) },
            look.list(policies, of_policies),
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
        };
        Ok(Visible { objects, hidden: look.hidden.into_inner() })
    })
}
