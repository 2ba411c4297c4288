//! Versions of policies: their texts, and the `ControllerRevision`s that hold them. Pure.

use std::collections::BTreeMap;

use control::ObjectId;
use crds::labels;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use policy::Program;
use portfolio::Purpose;
use world::{PARAMETERS, PROGRAM, Policy, PolicyError};

/// The data of a policy's ConfigMap.
pub type Text = BTreeMap<String, String>;

/// A version that the cluster keeps.
#[derive(Clone, Debug)]
pub struct KeptVersion {
    /// The revision that holds it.
    pub id: ObjectId,
    /// The policy.
    pub policy: Policy,
    /// Its text.
    pub text: Text,
}

impl KeptVersion {
    /// The version of this policy in a revision; nothing if this release of Cairn cannot read it.
    pub fn read(name: &str, revision: &ControllerRevision) -> Option<Self> {
        let text: Text = serde_json::from_value(revision.data.as_ref()?.0.clone()).ok()?;
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let config_map = ConfigMap { metadata, data: Some(text.clone()), ..ConfigMap::default() };
        let policy = Policy::read(&config_map).and_then(check_program).ok()?;
        let id = ObjectId { name: revision.name_any(), uid: revision.uid()?, resource_version: None };
        Some(Self { id, policy, text })
    }
}

/// The policy whose version a revision holds.
pub fn policy_of(revision: &ControllerRevision) -> Option<&str> {
    config_map_of(revision).map(|owner| owner.name.as_str())
}

/// The ConfigMap whose version it is.
pub fn config_map_of(revision: &ControllerRevision) -> Option<&OwnerReference> {
    let mut owners = revision.owner_references().iter();
    owners.find(|owner| {
        owner.controller == Some(true) && owner.kind == "ConfigMap" && owner.api_version == "v1"
    })
}

/// The revision of a version of this policy, which its ConfigMap, of this uid, owns.
pub fn revision((namespace, name): (&str, &str), uid: &str, number: i64, text: &Text) -> ControllerRevision {
    let owner = OwnerReference {
        api_version: ConfigMap::api_version(&()).into_owned(),
        kind: ConfigMap::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{name}-policy-{number}")),
            namespace: Some(namespace.to_owned()),
            labels: Some([(labels::POLICY_VERSION.to_owned(), number.to_string())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        revision: number,
        data: serde_json::to_value(text).ok().map(RawExtension),
    }
}

/// The policy, if its search strategy may be used for planning.
///
/// # Errors
/// There is no such strategy, or it is for comparisons alone.
pub fn check_strategy(policy: Policy) -> Result<Policy, PolicyError> {
    match portfolio::strategy(&policy.strategy, Purpose::Production) {
        Ok(_) => Ok(policy),
        Err(problem) => Err(PolicyError {
            name: policy.name,
            place: format!("{PARAMETERS}, strategy"),
            problem: problem.to_string(),
        }),
    }
}

/// Rejects a program that is invalid in any snapshot.
pub fn check_program(policy: Policy) -> Result<Policy, PolicyError> {
    let faults = policy.program.as_deref().map(Program::parse).and_then(Result::err).unwrap_or_default();
    let Some(first) = faults.first() else { return Ok(policy) };
    let more = match faults.len() - 1 {
        0 => String::new(),
        1 => " (and one more fault)".to_owned(),
        more => format!(" (and {more} more faults)"),
    };
    Err(PolicyError {
        name: policy.name,
        place: format!("{PROGRAM} line {} column {}", first.line(), first.column()),
        problem: format!("{}{more}", first.problem()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_needs_a_strategy_that_plans() {
        let refused = |strategy: &str| {
            let policy = Policy::parse("p", &format!("strategy: {strategy}")).unwrap();
            check_strategy(policy).err().map(|problem| problem.to_string())
        };
        assert_eq!(refused("asp"), None);
        for strategy in ["greedyy", "metis"] {
            let problem = refused(strategy).unwrap();
            assert!(problem.starts_with("policy p: policy.yaml, strategy: "), "{problem}");
            assert!(problem.contains(strategy), "{problem}");
        }
    }
}
