//! Owner references and metadata of created objects.

use crds::{ActorApplication, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

/// A controller reference to `object`.
///
/// It does not block the owner's deletion, which would need permission on the owner's finalizers.
pub fn owner<K: Resource<DynamicType = ()>>(object: &K) -> Option<Vec<OwnerReference>> {
    let owner = object.controller_owner_ref(&())?;
    Some(vec![OwnerReference { block_owner_deletion: None, ..owner }])
}

/// Metadata of an object of an application: name, namespace, label, owner.
pub fn metadata(application: &ActorApplication, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: application.namespace(),
        labels: Some([(labels::APPLICATION.to_owned(), application.name_any())].into()),
        owner_references: owner(application),
        ..ObjectMeta::default()
    }
}
