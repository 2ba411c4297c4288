//! Objects that pod templates refer to, in the index.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Resource as _;

use crate::Index;
use crate::index::scheduling::{SchedulingKey as _, SchedulingKind};
use crate::units::unit::pool_of;

impl Index {
    /// The API server has the admission plugin `ExtendedResourceToleration`.
    pub fn tolerate_extended_resources(&mut self) {
        self.scheduling.tolerate_extended_resources();
    }

    /// Adds or updates an object that pod templates refer to.
    pub fn put_scheduling<K: SchedulingKind>(&mut self, object: Arc<K>) {
        let before = K::all(&self.scheduling).get(&K::Key::of(object.as_ref())).cloned();
        let after = object.clone();
        let change = (before.as_deref().map(as_any), Some(as_any(after.as_ref())));
        self.change_devices(change, |index| index.scheduling.put(object));
        self.scheduling_changed::<K>();
    }

    /// Removes an object that pod templates refer to.
    pub fn remove_scheduling<K: SchedulingKind>(&mut self, object: &K) {
        let key = K::Key::of(object);
        let before = K::all(&self.scheduling).get(&key).cloned();
        let change = (before.as_deref().map(as_any), None);
        self.change_devices(change, |index| drop(K::all_mut(&mut index.scheduling).remove(&key)));
        self.scheduling_changed::<K>();
    }

    /// Removes the objects of a kind that are not among `names`.
    pub fn retain_scheduling<K: SchedulingKind>(&mut self, names: &BTreeSet<(String, String)>) {
        let all = K::all(&self.scheduling);
        let gone: Vec<Arc<K>> =
            all.iter().filter(|(key, _)| !key.is_among(names)).map(|(_, object)| object.clone()).collect();
        for object in &gone {
            self.remove_scheduling(object.as_ref());
        }
        self.scheduling_changed::<K>();
    }

    /// Records whether the API server serves this kind.
    pub fn set_served<K: SchedulingKind>(&mut self, is_served: bool) {
        self.scheduling.set_served::<K>(is_served);
        self.forget_offers();
    }

    /// The pool in a unit's id; names of pools and devices may contain dashes.
    pub fn pool_of_unit<'a>(&self, unit: &'a str) -> Option<&'a str> {
        pool_of(unit, &self.pools)
    }

    /// The overhead of a `RuntimeClass` counts as load.
    fn scheduling_changed<K: SchedulingKind>(&mut self) {
        if K::kind(&()) == RuntimeClass::kind(&()) {
            self.forget_loads();
        }
    }
}

fn as_any<K: SchedulingKind>(object: &K) -> &dyn Any {
    object
}
