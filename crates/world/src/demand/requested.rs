//! The actors that are wanted now: what a manifest says, and what the index knows to be asked for.

use std::sync::Arc;

use crds::{ActorApplication, Instance, InstanceOrigin};

use crate::demand::actors::ApplicationActors;
use crate::index::objects::{Name, namespace_of};
use crate::{ApplicationKey, Index};

/// Every actor that an application wants, and which Instances that were asked for cannot be.
pub fn desired_actors(index: &Index, application: &ActorApplication) -> ApplicationActors {
    let defaults = index.defaults(&namespace_of(application));
    ApplicationActors { defaults, ..ApplicationActors::of(application, index.requests_of(application)) }
}

impl Index {
    /// The Instances that the application's own runtime asked for and that the application controls.
    pub(crate) fn requests_of(&self, application: &ActorApplication) -> impl Iterator<Item = &Instance> {
        self.requests.of(application).filter_map(|name| self.instances.get(name)).map(AsRef::as_ref)
    }

    /// The Instances that a runtime asked for, that name the application, and that nobody controls yet.
    pub fn unowned_requests(&self, application: &ApplicationKey) -> impl Iterator<Item = &Arc<Instance>> {
        self.requests.unowned(application).filter_map(|name| self.instances.get(name))
    }

    /// What an application puts on units depends on an Instance that was asked for.
    pub(crate) fn requested(&mut self, name: &Name, instance: &Instance) {
        if instance.spec.origin == InstanceOrigin::Runtime {
            let application = instance.spec.application_name.clone();
            self.changed(&ApplicationKey { namespace: name.0.clone(), name: application });
        }
    }
}
