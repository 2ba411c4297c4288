//! Extended resources that dynamic resource allocation serves: a `DeviceClass` names them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::DeviceClass;
use kube::ResourceExt as _;

use crate::demand::pods::allocatable;
use crate::index::scheduling::SchedulingObjects;
use crate::numbers::floor;

/// Prefix of the resource that each class serves; its name follows.
const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/";

impl SchedulingObjects {
    /// The class that serves an extended resource; of several the newest, as for kube-scheduler.
    pub(crate) fn class_serving(&self, resource: &str) -> Option<&DeviceClass> {
        if let Some(class) = resource.strip_prefix(OF_CLASS) {
            return self.device_classes.get(class).map(AsRef::as_ref);
        }
        let serves = |class: &&DeviceClass| class.spec.extended_resource_name.as_deref() == Some(resource);
        let serving = self.device_classes.values().map(AsRef::as_ref).filter(serves);
        serving.max_by_key(|class| (class.creation_timestamp(), Reverse(class.name_any())))
    }

    /// The classes whose devices a quota of this extended resource counts.
    pub(crate) fn classes_counted_as<'a>(&'a self, resource: &str) -> BTreeSet<&'a str> {
        let is_counted = |(name, class): &(&String, &Arc<DeviceClass>)| {
            let explicit = class.spec.extended_resource_name.as_deref();
            explicit.is_some_and(|explicit| {
                explicit == resource || resource.strip_prefix(OF_CLASS) == Some(name.as_str())
            })
        };
        self.device_classes.iter().filter(is_counted).map(|(name, _)| name.as_str()).collect()
    }

    /// The resources that a class serves on a node: those of which the node itself offers none.
    pub(crate) fn served_on(&self, node: &Node) -> BTreeSet<String> {
        if self.device_classes.is_empty() {
            return BTreeSet::new();
        }
        let named =
            self.device_classes.values().filter_map(|class| class.spec.extended_resource_name.clone());
        let implied = self.device_classes.keys().map(|name| format!("{OF_CLASS}{name}"));
        let offered = allocatable(node);
        let offers = |resource: &String| offered.get(resource).is_some_and(|amount| floor(*amount) > 0);
        named.chain(implied).filter(|resource| !offers(resource)).collect()
    }
}
