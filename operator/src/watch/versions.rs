//! Versions of Placements: answers to writes and watch events may overtake each other.

use std::collections::BTreeMap;

use crds::Placement;
use kube::ResourceExt;
use world::ApplicationKey;

use crate::watch::watches::Names;

/// Whether one version is older than another of the same name. Resource versions are increasing numbers, also across a
/// deletion; without them the generations decide.
pub fn is_older<K: ResourceExt>(one: &K, other: &K) -> bool {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one < other,
        _ => one.meta().generation.unwrap_or(0) < other.meta().generation.unwrap_or(0),
    }
}

fn number(object: &impl ResourceExt) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

/// Versions of Placements that the index does not hold.
#[derive(Default)]
pub struct Versions {
    /// Written, and not delivered by the watch yet.
    written: BTreeMap<ApplicationKey, Placement>,
    /// Deleted, as last seen, while their application exists.
    deleted: BTreeMap<ApplicationKey, Placement>,
}

impl Versions {
    /// Records the answer to a write; returns whether it is newer than the known version.
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

    /// Records a watch event; returns whether it is at least as new as the known version.
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

    /// Records a deletion.
    pub fn record_deleted(&mut self, key: &ApplicationKey, last: &Placement) {
        self.written.remove(key);
        self.deleted.insert(key.clone(), version_only(last));
    }

    /// The application is deleted, so no Placement of it is written any more.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.written.remove(key);
        self.deleted.remove(key);
    }

    /// Placements that a list may not contain yet, and that are not deleted.
    pub fn unobserved(&self, exists: impl Fn(&ApplicationKey) -> bool) -> Names {
        self.written
            .keys()
            .filter(|key| exists(key))
            .map(|key| (key.namespace.clone(), key.name.clone()))
            .collect()
    }
}

/// The version without the content.
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
    fn versions_compare_by_number_or_generation() {
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
    fn a_late_answer_after_newer_events_is_ignored() {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        let mut versions = Versions::default();
        let (first, second) = (version("5", 1), version("8", 2));
        assert!(versions.record_written(&key, None, &first));
        assert!(versions.written.contains_key(&key), "it is not gone because a list does not have it");
        assert!(versions.record_observed(&key, Some(&first), &second));
        assert!(versions.written.is_empty());
        // A late answer to an earlier status write.
        assert!(!versions.record_written(&key, Some(&second), &version("6", 1)));
        assert!(!versions.record_written(&key, Some(&second), &second), "the watch was faster");
        assert!(versions.written.is_empty());
        // An older event from a cached list.
        assert!(!versions.record_observed(&key, Some(&second), &first));
        // After its deletion an earlier write does not restore it.
        versions.record_deleted(&key, &version("9", 2));
        assert!(!versions.record_written(&key, None, &second));
        assert!(versions.record_written(&key, None, &version("12", 1)), "a new one");
        versions.forget(&key);
        assert!(versions.written.is_empty() && versions.deleted.is_empty());
    }
}
