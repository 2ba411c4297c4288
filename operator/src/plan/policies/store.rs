//! The policies in force: the last valid version of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::ObjectId;
use crds::labels;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use tokio::sync::Notify;
use world::{PROGRAM, Policy, PolicyError};

use crate::error::Error;
use crate::plan::policies::versions::{self, KeptVersion, Text, check_program, check_strategy};

/// The versions of one policy.
#[derive(Clone, Debug, Default)]
struct PolicyVersions {
    /// The uid of its ConfigMap; absent if only versions kept in the cluster are known.
    uid: Option<String>,
    /// The namespace of its ConfigMap.
    namespace: Option<String>,
    /// The last valid version, with its text unless that is unknown.
    good: Option<(Policy, Option<Text>)>,
    /// The last version that a plan was made with, so its program can be grounded in this cluster.
    proven: Option<Policy>,
    /// Proven versions that are kept in the cluster, by number.
    kept: BTreeMap<i64, KeptVersion>,
    /// The highest number in the cluster, also of versions that this release cannot read.
    last_number: i64,
    /// The problem of the newest version.
    problem: Option<PolicyError>,
    /// Namespaces that may use it; absent: all.
    namespaces: Option<BTreeSet<String>>,
    /// Whether its program is enforced on all of them, whichever policy they name.
    enforced: bool,
}

impl PolicyVersions {
    fn is_for(&self, namespace: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|list| list.contains(namespace))
    }

    fn last_kept(&self) -> Option<&KeptVersion> {
        self.kept.last_key_value().map(|(_, version)| version)
    }

    /// The version in force: of this process, or else that of an earlier one if the newest is refused.
    fn in_force(&self) -> Option<&Policy> {
        let kept = || self.last_kept().filter(|_| self.problem.is_some()).map(|version| &version.policy);
        self.good.as_ref().map(|(policy, _)| policy).or_else(kept)
    }

    /// The text of the version in force, if it is proven and not the last one that is kept.
    fn unrecorded(&self) -> Option<&Text> {
        let (policy, text) = self.good.as_ref()?;
        let text = text.as_ref().filter(|_| self.proven.as_ref() == Some(policy))?;
        self.last_kept().is_none_or(|version| version.text != *text).then_some(text)
    }
}

/// The version of this policy that a plan under `policy` uses: `policy` itself, or the enforced one if it is in force.
fn used_of(policy: &Policy, name: &str, known: &PolicyVersions) -> Option<Policy> {
    if policy.name == name {
        return Some(policy.clone().with_enforced([]));
    }
    let (_, program) = policy.enforced.iter().find(|(enforced, _)| enforced == name)?;
    known.in_force().filter(|good| good.program.as_ref() == Some(program)).cloned()
}

/// All policies by name.
#[derive(Debug, Default)]
pub struct Policies {
    all: Mutex<BTreeMap<String, PolicyVersions>>,
    /// Notified when there are versions to keep in the cluster, or to delete.
    pub changed: Notify,
}

impl Policies {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PolicyVersions>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a version; an error if it is invalid and the last valid one stays in force.
    pub fn learn(&self, config_map: &ConfigMap) -> Result<(), PolicyError> {
        let read = Policy::read(config_map).and_then(check_strategy).and_then(check_program);
        let mut all = self.lock();
        let known = all.entry(config_map.name_any()).or_default();
        known.uid = Some(config_map.uid().unwrap_or_default());
        known.namespace = config_map.namespace();
        known.namespaces = Policy::namespaces(config_map);
        known.enforced = Policy::is_enforced(config_map);
        match read {
            Ok(policy) => {
                let text = config_map.data.clone().unwrap_or_default();
                (known.good, known.problem) = (Some((policy, Some(text))), None);
                Ok(())
            }
            Err(problem) => {
                known.problem = Some(problem.clone());
                Err(problem)
            }
        }
    }

    /// Adds a version that is kept in the cluster; returns whether it comes into force by that.
    pub fn restore(&self, revision: &ControllerRevision) -> bool {
        let Some(name) = versions::policy_of(revision) else { return false };
        let (number, read) = (revision.revision, KeptVersion::read(name, revision));
        let mut all = self.lock();
        let known = all.entry(name.to_owned()).or_default();
        known.last_number = known.last_number.max(number);
        let Some(version) = read else { return false };
        let before = known.in_force().cloned();
        known.kept.insert(number, version);
        if known.kept.len() > 1 {
            self.changed.notify_one();
        }
        before.as_ref() != known.in_force()
    }

    /// Drops the versions that are kept under other names than these.
    pub fn retain_kept(&self, is_there: impl Fn(&str) -> bool) {
        for known in self.lock().values_mut() {
            known.kept.retain(|_, version| is_there(&version.id.name));
        }
    }

    /// Proven versions that the cluster does not keep yet, in these ConfigMaps' namespace.
    pub fn missing_revisions(&self, namespace: &str) -> Vec<ControllerRevision> {
        let revision = |(name, known): (&String, &PolicyVersions)| {
            let number = known.last_number + 1;
            Some(versions::revision((namespace, name), known.uid.as_ref()?, number, known.unrecorded()?))
        };
        self.lock().iter().filter_map(revision).collect()
    }

    /// Kept versions that are older than the last one, with name and uid of their ConfigMaps.
    pub fn surplus(&self) -> Vec<((String, Option<String>), ObjectId)> {
        let older = |(name, known): (&String, &PolicyVersions)| {
            let all = known.kept.len().saturating_sub(1);
            let old = known.kept.values().take(all).map(|version| version.id.clone());
            old.map(|id| ((name.clone(), known.uid.clone()), id)).collect::<Vec<_>>()
        };
        self.lock().iter().flat_map(older).collect()
    }

    /// Records that a plan was made with a version, and with those enforced on it.
    pub fn prove(&self, policy: &Policy) {
        for (name, known) in self.lock().iter_mut() {
            if let Some(used) = used_of(policy, name, known)
                && known.proven.as_ref() != Some(&used)
            {
                known.proven = Some(used);
                if known.unrecorded().is_some() {
                    self.changed.notify_one();
                }
            }
        }
    }

    /// Withdraws a version whose program failed in a plan, if an earlier one can replace it. A version that already produced
    /// plans is kept: then only this snapshot is too large for it. `name` is the policy at fault: `policy`, or one enforced on
    /// it.
    pub fn withdraw(&self, policy: &Policy, name: &str, problem: &str) -> Option<PolicyError> {
        let mut all = self.lock();
        let known = all.get_mut(name)?;
        // Otherwise a newer version arrived meanwhile, or another application already withdrew it.
        let used = used_of(policy, name, known).filter(|used| known.in_force() == Some(used))?;
        let kept = || known.last_kept().map(|version| version.policy.clone());
        let earlier = known.proven.clone().or_else(kept).filter(|proven| *proven != used)?;
        let about = format!("policy {name} ");
        let problem = problem.strip_prefix(&about).unwrap_or(problem).to_owned();
        let problem = PolicyError { name: name.to_owned(), place: PROGRAM.to_owned(), problem };
        (known.good, known.problem) = (Some((earlier, None)), Some(problem.clone()));
        Some(problem)
    }

    /// The ConfigMap of a policy, by name and uid.
    pub fn config_map(&self, name: &str) -> Option<ConfigMap> {
        let known = self.lock().get(name)?.clone();
        let (name, uid) = (Some(name.to_owned()), Some(known.uid?));
        let metadata = ObjectMeta { name, uid, namespace: known.namespace, ..ObjectMeta::default() };
        Some(ConfigMap { metadata, ..ConfigMap::default() })
    }

    /// Drops all other policies.
    pub fn keep(&self, names: &BTreeSet<String>) {
        self.lock().retain(|name, _| names.contains(name));
    }

    /// Drops a policy whose ConfigMap is deleted.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// The policy in force for a namespace, with those enforced on it, and the problem of its newest version.
    ///
    /// # Errors
    /// When no valid version exists for that namespace, of it or of an enforced one: an enforced policy is never skipped
    /// because it is invalid.
    pub fn in_force(&self, name: &str, namespace: &str) -> Result<(Policy, Option<PolicyError>), Error> {
        let (policy, problem) = self.named(name, namespace)?;
        let all = self.lock();
        let mut enforced = Vec::new();
        for known in all.values().filter(|known| known.enforced && known.is_for(namespace)) {
            match (known.in_force(), &known.problem) {
                (Some(policy), _) => enforced.push(policy),
                (None, Some(problem)) => {
                    let why = "it is enforced and has no earlier valid version, so nothing is planned";
                    return Err(Error::Policy(format!("{problem}; {why}")));
                }
                (None, None) => {}
            }
        }
        Ok((policy.with_enforced(enforced), problem))
    }

    /// What is in force instead of the refused newest version of a policy.
    pub fn instead_of_refused(&self, problem: &PolicyError) -> String {
        let all = self.lock();
        let known = all.get(&problem.name);
        let Some(in_force) = known.and_then(PolicyVersions::in_force) else {
            return format!("{problem}; no earlier valid version exists");
        };
        let kept = known.and_then(PolicyVersions::last_kept).filter(|version| version.policy == *in_force);
        let named = kept.map_or(String::new(), |it| format!(": ControllerRevision {}", it.id.name));
        format!("{problem}; the last valid version stays in force{named}")
    }

    fn named(&self, name: &str, namespace: &str) -> Result<(Policy, Option<PolicyError>), Error> {
        let all = self.lock();
        let there = |known: &&PolicyVersions| known.uid.is_some();
        match all.get(name).filter(there) {
            Some(known) if !known.is_for(namespace) => Err(Error::Policy(format!(
                "policy {name} is not available in namespace {namespace}; choose another one, or ask an administrator to add the \
                 namespace to its annotation {}",
                labels::NAMESPACES
            ))),
            Some(known) => match (known.in_force(), &known.problem) {
                (Some(policy), problem) => Ok((policy.clone(), problem.clone())),
                (None, Some(problem)) => {
                    Err(Error::Policy(format!("{problem}; no earlier valid version exists")))
                }
                (None, None) => Err(Error::Policy(format!("policy {name} has not been loaded yet"))),
            },
            None => {
                let known = all.iter().filter(|(_, known)| there(known) && known.is_for(namespace));
                let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
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
        config_map.metadata.uid = Some("1".to_owned());
        config_map.data = Some([("policy.yaml".to_owned(), text.to_owned())].into());
        config_map
    }

    #[test]
    fn the_last_valid_version_stays_in_force() {
        let policies = Policies::default();
        policies.learn(&policy("window: 10s")).unwrap();
        let refused = policies.learn(&policy("window: 10s\nobjectives: [overload")).unwrap_err();
        assert!(refused.to_string().starts_with("policy fast: policy.yaml line "), "{refused}");
        let (in_force, problem) = policies.in_force("fast", "vision").unwrap();
        assert_eq!(in_force.window, world::duration("10s").unwrap());
        assert_eq!(problem, Some(refused));
    }

    /// The versions that the cluster keeps, as a restarted operator reads them.
    fn kept(policies: &Policies) -> Vec<ControllerRevision> {
        let with_uid = |mut revision: ControllerRevision| {
            revision.metadata.uid = Some("r".to_owned());
            revision
        };
        policies.missing_revisions("cairn-system").into_iter().map(with_uid).collect()
    }

    #[test]
    fn the_last_proven_version_survives_a_restart() {
        let policies = Policies::default();
        let mut first = policy("window: 10s");
        policies.learn(&first).unwrap();
        assert_eq!(kept(&policies), [], "no plan was made with it");
        let (used, _) = policies.in_force("fast", "vision").unwrap();
        policies.prove(&used);
        let revisions = kept(&policies);
        assert_eq!(revisions[0].name_any(), "fast-policy-1");
        policies.restore(&revisions[0]);
        assert_eq!(kept(&policies), [], "it is kept");

        // Whatever the order of the two watches, the restarted operator plans by the kept version.
        first.data.as_mut().unwrap().insert("policy.yaml".to_owned(), "windw: 10s".to_owned());
        for config_map_first in [false, true] {
            let restarted = Policies::default();
            if config_map_first {
                restarted.learn(&first).unwrap_err();
                restarted.in_force("fast", "vision").unwrap_err();
                assert!(restarted.restore(&revisions[0]), "it comes into force");
            } else {
                restarted.restore(&revisions[0]);
                restarted.in_force("fast", "vision").unwrap_err();
                restarted.keep(&["fast".to_owned()].into());
                restarted.learn(&first).unwrap_err();
            }
            let (in_force, problem) = restarted.in_force("fast", "vision").unwrap();
            assert_eq!(in_force, used);
            let message = restarted.instead_of_refused(&problem.unwrap());
            assert!(message.starts_with("policy fast: policy.yaml"), "{message}");
            let expected = "; the last valid version stays in force: ControllerRevision fast-policy-1";
            assert!(message.ends_with(expected), "{message}");
            // The corrected policy replaces it, and the older version is deleted.
            restarted.learn(&policy("window: 20s")).unwrap();
            let (corrected, _) = restarted.in_force("fast", "vision").unwrap();
            restarted.prove(&corrected);
            let next = kept(&restarted);
            assert_eq!(next[0].name_any(), "fast-policy-2");
            restarted.restore(&next[0]);
            let surplus: Vec<String> = restarted.surplus().into_iter().map(|(_, it)| it.name).collect();
            assert_eq!((surplus, kept(&restarted)), (vec!["fast-policy-1".to_owned()], vec![]));
        }
    }

    #[test]
    fn a_kept_version_replaces_one_that_cannot_be_grounded() {
        let policies = Policies::default();
        policies.learn(&with_program("p(1).")).unwrap();
        let (fine, _) = policies.in_force("fast", "vision").unwrap();
        policies.prove(&fine);
        let restarted = Policies::default();
        restarted.restore(&kept(&policies)[0]);
        restarted.learn(&with_program("n(0). n(X+1) :- n(X).")).unwrap();
        let (endless, _) = restarted.in_force("fast", "vision").unwrap();
        restarted.withdraw(&endless, "fast", "it takes too many steps").unwrap();
        assert_eq!(restarted.in_force("fast", "vision").unwrap().0, fine);
        assert_eq!(kept(&restarted), []);
        // A version that this release cannot read keeps its number.
        let unreadable = Policies::default();
        unreadable.learn(&with_program("p(1).")).unwrap();
        unreadable.prove(&fine);
        let mut newer = kept(&policies).remove(0);
        (newer.revision, newer.data) = (7, None);
        assert!(!unreadable.restore(&newer));
        assert_eq!(kept(&unreadable)[0].name_any(), "fast-policy-8");
        // Without its ConfigMap a kept version is no policy.
        restarted.forget("fast");
        restarted.restore(&kept(&policies)[0]);
        let message = restarted.in_force("fast", "vision").unwrap_err().to_string();
        assert_eq!(message, "there is no policy fast; name one of: (none)");
    }

    #[test]
    fn an_invalid_policy_and_a_missing_one_differ() {
        let policies = Policies::default();
        policies.learn(&policy("windw: 10s")).unwrap_err();
        let message = |name: &str| policies.in_force(name, "vision").unwrap_err().to_string();
        assert!(message("fast").ends_with("no earlier valid version exists"), "{}", message("fast"));
        assert_eq!(message("slow"), "there is no policy slow; name one of: fast");
    }

    #[test]
    fn a_policy_may_be_limited_to_namespaces() {
        let policies = Policies::default();
        let mut limited = policy("window: 10s");
        let annotate = |list: &str| Some([(labels::NAMESPACES.to_owned(), list.to_owned())].into());
        for (list, message) in [
            ("vision, audio", None),
            ("audio", Some("policy fast is not available in namespace vision; choose another one")),
            ("", Some("policy fast is not available in namespace vision; choose another one")),
        ] {
            limited.metadata.annotations = annotate(list);
            policies.learn(&limited).unwrap();
            match (policies.in_force("fast", "vision"), message) {
                (Ok(_), None) => {}
                (Err(e), Some(message)) => assert!(e.to_string().starts_with(message), "{e}"),
                (other, _) => panic!("{list}: {other:?}"),
            }
        }
        // a policy of other namespaces is not suggested either
        let message = policies.in_force("slow", "vision").unwrap_err().to_string();
        assert_eq!(message, "there is no policy slow; name one of: (none)");
        limited.metadata.annotations = None;
        policies.learn(&limited).unwrap();
        policies.in_force("fast", "vision").unwrap();
    }

    #[test]
    fn enforced_policies_apply_to_every_policy() {
        let policies = Policies::default();
        policies.learn(&policy("window: 10s")).unwrap();
        let enforced = |program: &str, namespaces: Option<&str>| {
            let mut enforced = with_program(program);
            enforced.metadata.name = Some("rules".to_owned());
            enforced.metadata.labels =
                Some([(labels::POLICY.to_owned(), labels::ENFORCED.to_owned())].into());
            let list = |list: &str| [(labels::NAMESPACES.to_owned(), list.to_owned())].into();
            enforced.metadata.annotations = namespaces.map(list);
            enforced
        };
        let rules = |namespace: &str| {
            let in_force = policies.in_force("fast", namespace);
            in_force.map(|(policy, _)| policy.rules()).map_err(|e| e.to_string())
        };
        assert_eq!(rules("vision"), Ok(None));
        policies.learn(&enforced("p(1).", Some("vision"))).unwrap();
        let rule = "% enforced: rules\np(1).".to_owned();
        assert_eq!(rules("vision"), Ok(Some(rule.clone())));
        assert_eq!(rules("audio"), Ok(None), "it is for another namespace");
        // The last valid version stays in force, and the named policy keeps its own program.
        policies.learn(&enforced("p(", None)).unwrap_err();
        assert_eq!(rules("audio"), Ok(Some(rule.clone())));
        policies.learn(&with_program("q(1).")).unwrap();
        assert_eq!(rules("vision"), Ok(Some(format!("q(1).\n{rule}"))));
        // Proving and withdrawing concern the named policy.
        let (proven, _) = policies.in_force("fast", "vision").unwrap();
        policies.prove(&proven);
        policies.learn(&with_program("n(0). n(X+1) :- n(X).")).unwrap();
        let (endless, _) = policies.in_force("fast", "vision").unwrap();
        assert!(policies.withdraw(&endless, "fast", "it takes too many steps").is_some());
        assert_eq!(rules("vision"), Ok(Some(format!("q(1).\n{rule}"))));
        // An enforced policy is at fault by itself, and its earlier version returns.
        policies.learn(&enforced("n(0). n(X+1) :- n(X).", None)).unwrap();
        let (endless, _) = policies.in_force("fast", "vision").unwrap();
        assert_eq!(
            policies.withdraw(&endless, "fast", "line 3: it is another's"),
            None,
            "that one is proven"
        );
        let message = policies.withdraw(&endless, "rules", "policy rules line 1: it takes too many steps");
        assert_eq!(message.unwrap().to_string(), "policy rules: program.lp: line 1: it takes too many steps");
        assert_eq!(rules("vision"), Ok(Some(format!("q(1).\n{rule}"))));
        // An enforced policy that is named applies once.
        assert_eq!(policies.in_force("rules", "vision").unwrap().0.rules(), Some("p(1).".to_owned()));
        policies.forget("rules");
        assert_eq!(rules("vision"), Ok(Some("q(1).".to_owned())));
        // An enforced policy without a valid version blocks planning.
        policies.learn(&enforced("p(", None)).unwrap_err();
        assert!(rules("vision").unwrap_err().ends_with("so nothing is planned"));
    }

    fn with_program(text: &str) -> ConfigMap {
        let mut config_map = policy("window: 10s");
        config_map.data.as_mut().unwrap().insert("program.lp".to_owned(), text.to_owned());
        config_map
    }

    #[test]
    fn an_invalid_program_is_refused_with_its_line() {
        let policies = Policies::default();
        policies.learn(&with_program("forbid(A,U) :- group(A,\"web\"), cu_kind(U,\"gpu\").")).unwrap();
        let bad = "% web stays off GPUs\nforbid(A,U) :- group(A,web), cu_kind(U,\"gpu\").";
        assert_eq!(
            policies.learn(&with_program(bad)).unwrap_err().to_string(),
            "policy fast: program.lp line 2 column 24: the constant `web` never matches a name; write \"web\" in group(A,G)"
        );
        let (in_force, _) = policies.in_force("fast", "vision").unwrap();
        assert!(in_force.program.unwrap().contains("\"web\""));
    }

    #[test]
    fn a_program_that_cannot_be_grounded_is_withdrawn() {
        let policies = Policies::default();
        let (fine, endless) = (with_program("p(1)."), with_program("n(0). n(X+1) :- n(X)."));
        policies.learn(&fine).unwrap();
        let (before, _) = policies.in_force("fast", "vision").unwrap();
        policies.prove(&before);
        policies.learn(&endless).unwrap();
        let (newest, problem) = policies.in_force("fast", "vision").unwrap();
        assert_eq!((newest == before, problem), (false, None));
        let message =
            policies.withdraw(&newest, "fast", "policy fast line 1: it takes too many steps").unwrap();
        assert_eq!(message.to_string(), "policy fast: program.lp: line 1: it takes too many steps");
        assert_eq!(policies.in_force("fast", "vision").unwrap(), (before.clone(), Some(message)));
        // A version that produced plans is not withdrawn for one application.
        assert_eq!(policies.withdraw(&before, "fast", "too large"), None);
        // A version without a predecessor cannot be withdrawn.
        let first = Policies::default();
        first.learn(&endless).unwrap();
        let (only, _) = first.in_force("fast", "vision").unwrap();
        assert_eq!(first.withdraw(&only, "fast", "too large"), None);
    }
}
