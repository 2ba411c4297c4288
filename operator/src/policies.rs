//! The policies in force: the last good version of each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use world::{Policy, PolicyError};

use crate::error::Error;

/// What is known of one policy.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The last version that was sound.
    good: Option<Policy>,
    /// What is wrong with the newest one.
    problem: Option<PolicyError>,
}

/// Every policy by name.
#[derive(Debug, Default)]
pub struct Policies(Mutex<BTreeMap<String, Known>>);

impl Policies {
    /// Takes in a version; an error when it is refused and the last good one stays in force.
    pub fn learn(&self, config_map: &ConfigMap) -> Result<(), PolicyError> {
        let read = Policy::read(config_map);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(config_map.name_any()).or_default();
        match read {
            Ok(policy) => {
                *known = Known { good: Some(policy), problem: None };
                Ok(())
            }
            Err(problem) => {
                known.problem = Some(problem.clone());
                Err(problem)
            }
        }
    }

    /// Forgets a policy whose ConfigMap is gone.
    pub fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The policy in force under a name, and what is wrong with its newest version.
    ///
    /// # Errors
    /// When there is none, or never was a sound one.
    pub fn in_force(&self, name: &str) -> Result<(Policy, Option<PolicyError>), Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(name) {
            Some(Known { good: Some(policy), problem }) => Ok((policy.clone(), problem.clone())),
            Some(Known { problem: Some(problem), .. }) => {
                Err(Error::Policy(format!("{problem}; no earlier version is known")))
            }
            _ => {
                let known: Vec<&str> = all.keys().map(String::as_str).collect();
                Err(Error::Policy(format!(
                    "there is no policy {name}; name one of: {}",
                    if known.is_empty() { "(none)".to_owned() } else { known.join(", ") }
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> ConfigMap {
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some("fast".to_owned());
        config_map.data = Some([("policy.yaml".to_owned(), text.to_owned())].into());
        config_map
    }

    #[test]
    fn the_last_good_version_stays_in_force() {
        let policies = Policies::default();
        policies.learn(&policy("window: 10s")).unwrap();
        let refused = policies.learn(&policy("window: 10s\nobjectives: [overload")).unwrap_err();
        assert!(refused.to_string().starts_with("policy fast: policy.yaml line "), "{refused}");
        let (in_force, problem) = policies.in_force("fast").unwrap();
        assert_eq!(in_force.window, world::duration("10s").unwrap());
        assert_eq!(problem, Some(refused));
    }

    #[test]
    fn what_never_was_sound_and_what_is_absent_are_told_apart() {
        let policies = Policies::default();
        policies.learn(&policy("windw: 10s")).unwrap_err();
        let told = |name: &str| policies.in_force(name).unwrap_err().to_string();
        assert!(told("fast").ends_with("no earlier version is known"), "{}", told("fast"));
        assert_eq!(told("slow"), "there is no policy slow; name one of: fast");
    }
}
