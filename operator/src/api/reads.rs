//! Reads from the API server instead of the cache, where a write depends on what the cache cannot know.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::api::writes::Writer;
use crate::error::Error;

impl Writer {
    /// Whether a node exists.
    pub async fn node_exists(&self, name: &str) -> Result<bool, Error> {
        let permit = self.leadership.begin()?;
        let api: Api<Node> = Api::all(self.client.clone());
        match permit.within(api.get_metadata_opt(name)).await {
            Ok(node) => Ok(node.is_some()),
            Err(source) => Err(Error::Apply { what: format!("Node {name}"), source }),
        }
    }

    /// The object of this name. It is listed: the operator may not get single objects.
    pub async fn find<K>(&self, wanted: &K) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let permit = self.leadership.begin()?;
        let api: Api<K> = Api::namespaced(self.client.clone(), &wanted.namespace().unwrap_or_default());
        let this = ListParams::default().fields(&format!("metadata.name={}", wanted.name_any()));
        match permit.within(api.list(&this)).await {
            Ok(found) => Ok(found.items.into_iter().next()),
            Err(source) => Err(Error::Observe { what: "the object whose name is taken", source }),
        }
    }
}
