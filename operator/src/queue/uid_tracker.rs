//! An application that is deleted and made again is another one: it inherits nothing from the one whose name it has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crds::ActorApplication;
use kube::ResourceExt;
use world::ApplicationKey;

/// Which applications were met, by name.
#[derive(Default)]
pub struct UidTracker(Mutex<HashMap<ApplicationKey, Option<String>>>);

impl UidTracker {
    /// Whether there was another one of its name when it was asked last.
    pub fn is_recreated(&self, key: &ApplicationKey, application: &ActorApplication) -> bool {
        let mut uids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = application.uid();
        uids.insert(key.clone(), uid.clone()).is_some_and(|before| before != uid)
    }

    /// Forgets those that are gone, and says which.
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
    fn another_of_the_same_name_is_told_apart() {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        let of = |uid: &str| {
            let spec = serde_json::from_value(serde_json::json!({"actors": []})).unwrap();
            let mut application = ActorApplication::new("app", spec);
            application.metadata.uid = Some(uid.to_owned());
            application
        };
        let uids = UidTracker::default();
        assert!(!uids.is_recreated(&key, &of("1")), "nobody was there before");
        assert!(!uids.is_recreated(&key, &of("1")));
        assert!(uids.is_recreated(&key, &of("2")));
        assert!(!uids.is_recreated(&key, &of("2")));
        assert!(uids.remove_gone(|_| true).is_empty());
        assert_eq!(uids.remove_gone(|_| false), [key]);
        assert!(uids.remove_gone(|_| false).is_empty());
    }
}
