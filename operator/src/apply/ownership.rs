//! What is made of an application says whose it is.

use crds::{ActorApplication, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

/// A reference that makes `object` the owner that the garbage collector looks at.
///
/// It does not hold up the owner's deletion, which would need rights over the owner's finalizers.
pub fn owner<K: Resource<DynamicType = ()>>(object: &K) -> Option<Vec<OwnerReference>> {
    let owner = object.controller_owner_ref(&())?;
    Some(vec![OwnerReference { block_owner_deletion: None, ..owner }])
}

/// What is made once for an application: named after it, labelled, owned by it.
pub fn metadata(application: &ActorApplication, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: application.namespace(),
        labels: Some([(labels::APPLICATION.to_owned(), application.name_any())].into()),
        owner_references: owner(application),
        ..ObjectMeta::default()
    }
}
