//! Names of objects.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

/// Namespace and name.
pub(crate) type Name = (String, String);

/// Namespace of an object; a missing one means `default`.
pub(crate) fn namespace_of(object: &impl ResourceExt) -> String {
    object.namespace().unwrap_or_else(|| "default".to_owned())
}

/// Removes an item from a set, and the set once it is empty.
pub(crate) fn remove_from_set<T: Ord>(sets: &mut BTreeMap<String, BTreeSet<T>>, at: &str, item: &T) {
    if let Some(set) = sets.get_mut(at) {
        set.remove(item);
        if set.is_empty() {
            sets.remove(at);
        }
    }
}
