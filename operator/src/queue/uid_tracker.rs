//! An application that is deleted and made again is another one: it inherits nothing from the one whose name it has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crds::ActorApplication;
use kube::ResourceExt;
use world::ApplicationKey;

/// Which applications were met, by name.
#[derive(Default)]
pub struct Met(Mutex<HashMap<ApplicationKey, Option<String>>>);

impl Met {
    /// Whether there was another one of its name when it was asked last.
    pub fn is_another(&self, key: &ApplicationKey, application: &ActorApplication) -> bool {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = application.uid();
        met.insert(key.clone(), uid.clone()).is_some_and(|before| before != uid)
    }

    /// Forgets those that are gone, and says which.
    pub fn gone(&self, is_there: impl Fn(&ApplicationKey) -> bool) -> Vec<ApplicationKey> {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<ApplicationKey> = met.keys().filter(|key| !is_there(key)).cloned().collect();
        for key in &gone {
            met.remove(key);
        }
        gone
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
        let met = Met::default();
        assert!(!met.is_another(&key, &of("1")), "nobody was there before");
        assert!(!met.is_another(&key, &of("1")));
        assert!(met.is_another(&key, &of("2")));
        assert!(!met.is_another(&key, &of("2")));
        assert!(met.gone(|_| true).is_empty());
        assert_eq!(met.gone(|_| false), [key]);
        assert!(met.gone(|_| false).is_empty());
    }
}
