//! Instances requested by runtimes, by application.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Instance, InstanceOrigin};
use kube::ResourceExt;

use crate::ApplicationKey;
use crate::index::names::Name;
use crate::index::owner::{controller_ref, uid};

/// Instances requested by runtimes: by owner, and those that have no owner yet.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By the application's uid.
    owned: BTreeMap<String, BTreeSet<Name>>,
    unowned: BTreeMap<ApplicationKey, BTreeSet<Name>>,
}

impl Requests {
    /// Adds an Instance; its owner never changes.
    pub fn put(&mut self, name: &Name, instance: &Instance) {
        self.at(name, instance, |names, name| {
            names.insert(name.clone());
        });
    }

    /// Removes an Instance.
    pub fn remove(&mut self, name: &Name, instance: &Instance) {
        self.at(name, instance, |names, name| {
            names.remove(name);
        });
        self.owned.retain(|_, names| !names.is_empty());
        self.unowned.retain(|_, names| !names.is_empty());
    }

    fn at(&mut self, name: &Name, instance: &Instance, change: impl Fn(&mut BTreeSet<Name>, &Name)) {
        if instance.spec.origin != InstanceOrigin::Runtime {
            return;
        }
        if let Some(owner) = controller_ref(instance, "ActorApplication") {
            change(self.owned.entry(owner.uid.clone()).or_default(), name);
        } else if !instance.owner_references().iter().any(|owner| owner.controller == Some(true)) {
            let application =
                ApplicationKey { namespace: name.0.clone(), name: instance.spec.application_name.clone() };
            change(self.unowned.entry(application).or_default(), name);
        }
    }

    /// Names of those that the application controls.
    pub fn of(&self, application: &ActorApplication) -> impl Iterator<Item = &Name> {
        uid(application).and_then(|uid| self.owned.get(uid)).into_iter().flatten()
    }

    /// Names of those without a controller that name the application.
    pub fn unowned(&self, application: &ApplicationKey) -> impl Iterator<Item = &Name> {
        self.unowned.get(application).into_iter().flatten()
    }
}
