//! Detects applications that were deleted and recreated under the same name, which must not inherit state.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crds::ActorApplication;
use kube::ResourceExt;
use world::ApplicationKey;

/// The last uid by name.
#[derive(Default)]
pub struct UidTracker(Mutex<HashMap<ApplicationKey, Option<String>>>);

impl UidTracker {
    /// Whether the uid differs from the last call's.
    pub fn is_recreated(&self, key: &ApplicationKey, application: &ActorApplication) -> bool {
        let mut uids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = application.uid();
        uids.insert(key.clone(), uid.clone()).is_some_and(|before| before != uid)
    }

    /// Drops applications that do not exist any more, and returns them.
    pub fn remove_gone(&self, exists: impl Fn(&ApplicationKey) -> bool) -> Vec<ApplicationKey> {
        let mut uids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let remove_gone: Vec<ApplicationKey> = uids.keys().filter(|key| !exists(key)).cloned().collect();
        for key in &remove_gone {
            uids.remove(key);
        }
        remove_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recreated_application_is_detected() {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        let of = |uid: &str| {
            let spec = serde_json::from_value(serde_json::json!({"actors": []})).unwrap();
            let mut application = ActorApplication::new("app", spec);
            application.metadata.uid = Some(uid.to_owned());
            application
        };
        let uids = UidTracker::default();
        assert!(!uids.is_recreated(&key, &of("1")), "there was none before");
        assert!(!uids.is_recreated(&key, &of("1")));
        assert!(uids.is_recreated(&key, &of("2")));
        assert!(!uids.is_recreated(&key, &of("2")));
        assert!(uids.remove_gone(|_| true).is_empty());
        assert_eq!(uids.remove_gone(|_| false), [key]);
        assert!(uids.remove_gone(|_| false).is_empty());
    }
}
