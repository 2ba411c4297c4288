//! Which version of an object is the newer one: answers to what was written and events of watches overtake each other.

use std::collections::BTreeMap;

use crds::Placement;
use kube::ResourceExt;
use world::ApplicationKey;

use crate::watch::watches::Names;

/// Whether one version is older than another of the same name. Resource versions are numbers that the API server counts up,
/// also where an object is deleted and made again; where they are none, generations say it.
pub fn is_older<K: ResourceExt>(one: &K, other: &K) -> bool {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one < other,
        _ => one.meta().generation.unwrap_or(0) < other.meta().generation.unwrap_or(0),
    }
}

fn number(object: &impl ResourceExt) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

/// What is known of decisions beside those that are there.
#[derive(Default)]
pub struct Versions {
    /// Those that were written and that the watch has not brought yet.
    written: BTreeMap<ApplicationKey, Placement>,
    /// Those that were seen to be deleted, as they were then, as long as their application is there.
    deleted: BTreeMap<ApplicationKey, Placement>,
}

impl Versions {
    /// The answer to a write came: whether it tells of a newer version than what is known.
    pub fn record_written(
        &mut self,
        key: &ApplicationKey,
        known: Option<&Placement>,
        written: &Placement,
    ) -> bool {
        let before = known.or(self.deleted.get(key));
        let is_newer = before.is_none_or(|before| is_older(before, written));
        if is_newer {
            self.deleted.remove(key);
            self.written.insert(key.clone(), version_only(written));
        }
        is_newer
    }

    /// The watch brought a version: whether it is at least as new as what is known.
    pub fn record_observed(
        &mut self,
        key: &ApplicationKey,
        known: Option<&Placement>,
        seen: &Placement,
    ) -> bool {
        if known.is_some_and(|known| is_older(seen, known)) {
            return false;
        }
        self.written.remove(key);
        self.deleted.remove(key);
        true
    }

    /// The watch says that it is gone.
    pub fn record_deleted(&mut self, key: &ApplicationKey, last: &Placement) {
        self.written.remove(key);
        self.deleted.insert(key.clone(), version_only(last));
    }

    /// The application is gone: nobody writes its decision any more.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.written.remove(key);
        self.deleted.remove(key);
    }

    /// Decisions that a list may not have, and that are not gone.
    pub fn unobserved(&self, exists: impl Fn(&ApplicationKey) -> bool) -> Names {
        self.written
            .keys()
            .filter(|key| exists(key))
            .map(|key| (key.namespace.clone(), key.name.clone()))
            .collect()
    }
}

/// Which version it is, and nothing of what it says.
fn version_only(placement: &Placement) -> Placement {
    let mut version_only = Placement::new(&placement.name_any(), crds::PlacementSpec::default());
    version_only.metadata.resource_version.clone_from(&placement.metadata.resource_version);
    version_only.metadata.generation = placement.metadata.generation;
    version_only
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: &str, generation: i64) -> Placement {
        let mut placement = Placement::new("app", crds::PlacementSpec::default());
        placement.metadata.resource_version = Some(version.to_owned());
        placement.metadata.generation = Some(generation);
        placement
    }

    #[test]
    fn versions_are_numbers_and_else_generations() {
        for (one, other, expected) in [
            (("9", 2), ("10", 1), true),
            (("10", 1), ("9", 2), false),
            (("9", 1), ("9", 1), false),
            (("x", 1), ("9", 2), true),
            (("x", 2), ("9", 2), false),
        ] {
            let (one, other) = (version(one.0, one.1), version(other.0, other.1));
            assert_eq!(is_older(&one, &other), expected);
        }
    }

    #[test]
    fn an_answer_that_comes_after_newer_events_changes_nothing() {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        let mut versions = Versions::default();
        let (first, second) = (version("5", 1), version("8", 2));
        assert!(versions.record_written(&key, None, &first));
        assert!(versions.written.contains_key(&key), "it is not gone because a list does not have it");
        assert!(versions.record_observed(&key, Some(&first), &second));
        assert!(versions.written.is_empty());
        // A status of before, whose answer took its time.
        assert!(!versions.record_written(&key, Some(&second), &version("6", 1)));
        assert!(!versions.record_written(&key, Some(&second), &second), "the watch was faster");
        assert!(versions.written.is_empty());
        // An older event of a list that was read from a cache.
        assert!(!versions.record_observed(&key, Some(&second), &first));
        // It is deleted, and what was written before does not come back.
        versions.record_deleted(&key, &version("9", 2));
        assert!(!versions.record_written(&key, None, &second));
        assert!(versions.record_written(&key, None, &version("12", 1)), "a new one");
        versions.forget(&key);
        assert!(versions.written.is_empty() && versions.deleted.is_empty());
    }
}
