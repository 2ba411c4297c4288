//! Whose an object is: only the chain of controller uids says so, pod → Instance → application.
//!
//! Names, labels and annotations are claims, and anybody can write them.

use std::collections::BTreeMap;

use crds::{ActorApplication, Instance, Placement};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use crate::Objects;

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<T> {
    /// Ours: it was made for this.
    Of(T),
    /// Its controller is gone, and the garbage collector takes it away.
    Leaving,
    /// Somebody else's, whatever it says of itself.
    Another,
}

/// The controllers of a cluster, by uid.
pub struct Ownership<'a> {
    applications: BTreeMap<&'a str, &'a ActorApplication>,
    instances: BTreeMap<&'a str, &'a Instance>,
}

impl<'a> Ownership<'a> {
    /// Of these objects.
    pub fn of(objects: &'a Objects) -> Self {
        let applications =
            objects.applications.iter().filter_map(|it| Some((uid(it.as_ref())?, it.as_ref())));
        let instances = objects.instances.iter().filter_map(|it| Some((uid(it.as_ref())?, it.as_ref())));
        Self { applications: applications.collect(), instances: instances.collect() }
    }

    /// The application that an Instance was made for.
    pub fn of_instance(&self, instance: &Instance) -> Whose<&'a ActorApplication> {
        let Some(owner) = controller(instance, "ActorApplication") else { return Whose::Another };
        match self.applications.get(owner.uid.as_str()) {
            None => Whose::Leaving,
            Some(application) if application.namespace() == instance.namespace() => Whose::Of(application),
            Some(_) => Whose::Another,
        }
    }

    /// The Instance that a pod was made for, whose name it has, and the Instance's application.
    pub fn of_pod(&self, pod: &Pod) -> Whose<(&'a ActorApplication, &'a Instance)> {
        let Some(owner) = controller(pod, "Instance") else { return Whose::Another };
        let Some(instance) = self.instances.get(owner.uid.as_str()) else { return Whose::Leaving };
        match self.of_instance(instance) {
            Whose::Leaving => Whose::Leaving,
            Whose::Of(application)
                if (pod.namespace(), pod.name_any()) == (instance.namespace(), instance.name_any()) =>
            {
                Whose::Of((application, instance))
            }
            Whose::Of(_) | Whose::Another => Whose::Another,
        }
    }
}

/// Whether a Placement is the decision for an application: it has its name, and the application is its controller.
pub fn is_decision_for(placement: &Placement, application: &ActorApplication) -> bool {
    let owner = controller(placement, "ActorApplication").map(|owner| owner.uid.as_str());
    placement.name_any() == application.name_any()
        && placement.namespace() == application.namespace()
        && owner == uid(application)
}

/// The controller of an object, where it is of this kind of ours.
pub fn controller<'a>(object: &'a impl ResourceExt, kind: &str) -> Option<&'a OwnerReference> {
    let is_ours = |owner: &&OwnerReference| {
        owner.controller == Some(true)
            && owner.kind == kind
            && owner.api_version.split_once('/').is_some_and(|(group, _)| group == crds::GROUP)
    };
    object.owner_references().iter().find(is_ours)
}

fn uid(object: &impl ResourceExt) -> Option<&str> {
    object.meta().uid.as_deref()
}
