//! Requested actors in the index.

use std::sync::Arc;

use crds::{ActorApplication, Instance, InstanceOrigin};

use crate::demand::actors::ApplicationActors;
use crate::demand::admission::PodAdmission;
use crate::index::names::{Name, namespace_of};
use crate::{ApplicationKey, Index};

/// What admission adds to the pods of a namespace.
pub(crate) fn admission(index: &Index, namespace: &str) -> PodAdmission {
    PodAdmission {
        container_defaults: index.namespaces.defaults(namespace),
        runtime_classes: index.scheduling.runtime_classes.clone(),
        pools: index.pools.values().cloned().collect(),
        tolerates_extended_resources: index.scheduling.tolerates_extended_resources,
    }
}

/// All actors of an application, and the rejected requests.
pub fn desired_actors(index: &Index, application: &ActorApplication) -> ApplicationActors {
    let admission = admission(index, &namespace_of(application));
    let decision = index.placement(&ApplicationKey::of(application)).map(AsRef::as_ref);
    let asked = index.requests_of(application);
    ApplicationActors { admission, ..ApplicationActors::of(application, asked, decision) }
}

impl Index {
    /// Requested Instances that the application controls.
    pub(crate) fn requests_of(&self, application: &ActorApplication) -> impl Iterator<Item = &Instance> {
        self.requests.of(application).filter_map(|name| self.instances.get(name)).map(AsRef::as_ref)
    }

    /// Requested Instances that name the application and have no controller yet.
    pub fn unowned_requests(&self, application: &ApplicationKey) -> impl Iterator<Item = &Arc<Instance>> {
        self.requests.unowned(application).filter_map(|name| self.instances.get(name))
    }

    /// A requested Instance changes its application's load.
    pub(crate) fn request_changed(&mut self, name: &Name, instance: &Instance) {
        if instance.spec.origin == InstanceOrigin::Runtime {
            let application = instance.spec.application_name.clone();
            self.load_changed(&ApplicationKey { namespace: name.0.clone(), name: application });
        }
    }
}
