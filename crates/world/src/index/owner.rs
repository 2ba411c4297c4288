//! Controllers of objects.

use crds::{ActorApplication, Placement};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

/// Whether a Placement is the decision for an application: it has its name and is controlled by it.
pub fn is_decision_for(placement: &Placement, application: &ActorApplication) -> bool {
    let owner = controller_ref(placement, "ActorApplication").map(|owner| owner.uid.as_str());
    placement.name_any() == application.name_any()
        && placement.namespace() == application.namespace()
        && owner == uid(application)
}

/// The controller of an object, if it has this kind of ours.
pub fn controller_ref<'a>(object: &'a impl ResourceExt, kind: &str) -> Option<&'a OwnerReference> {
    let is_ours = |owner: &&OwnerReference| {
        owner.controller == Some(true)
            && owner.kind == kind
            && owner.api_version.split_once('/').is_some_and(|(group, _)| group == crds::GROUP)
    };
    object.owner_references().iter().find(is_ours)
}

/// Uid of an object's controller of one of our kinds.
pub(crate) fn controlled(object: &impl ResourceExt, kind: &str) -> Option<String> {
    controller_ref(object, kind).map(|owner| owner.uid.clone())
}

/// Uid of an object; objects in files may have none.
pub(crate) fn uid(object: &impl ResourceExt) -> Option<&str> {
    object.meta().uid.as_deref()
}
