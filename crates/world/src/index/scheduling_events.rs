//! Objects that pod templates refer to, in the index.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Resource as _;

use crate::Index;
use crate::index::scheduling::{SchedulingKey as _, SchedulingKind};

impl Index {
    /// The API server has the admission plugin `ExtendedResourceToleration`.
    pub fn tolerate_extended_resources(&mut self) {
        self.scheduling.tolerate_extended_resources();
    }

    /// Adds or updates an object that pod templates refer to.
    pub fn put_scheduling<K: SchedulingKind>(&mut self, object: Arc<K>) {
        self.scheduling.put(object);
        self.scheduling_changed::<K>();
    }

    /// Removes an object that pod templates refer to.
    pub fn remove_scheduling<K: SchedulingKind>(&mut self, object: &K) {
        K::all_mut(&mut self.scheduling).remove(&K::Key::of(object));
        self.scheduling_changed::<K>();
    }

    /// Removes the objects of a kind that are not among `names`.
    pub fn retain_scheduling<K: SchedulingKind>(&mut self, names: &BTreeSet<(String, String)>) {
        K::all_mut(&mut self.scheduling).retain(|key, _| key.is_among(names));
        self.scheduling_changed::<K>();
    }

    /// The overhead of a `RuntimeClass` counts as load.
    fn scheduling_changed<K: SchedulingKind>(&mut self) {
        if K::kind(&()) == RuntimeClass::kind(&()) {
            self.forget_loads();
        }
    }
}
