//! Rolls back policy versions whose programs fail in a plan.

use crds::ActorApplication;
use kube::runtime::events::EventType;
use world::{Policy, PolicyError};

use crate::error::Error;
use crate::plan::policies::store::Policies;
use crate::runtime::context::Context;
use crate::status::report::event;

/// Rolls back the policy version whose program fails, so that the last proven one is in force again, and emits an event on
/// the application and on the ConfigMap of the policy.
///
/// # Errors
/// If no earlier version can replace it.
pub async fn roll_back(
    policy: &Policy,
    problem: &str,
    application: &ActorApplication,
    ctx: &Context,
) -> Result<(), Error> {
    let Some(refused) = roll_back_first_unproven(&ctx.policies, policy, problem) else {
        return Err(Error::Policy(policy.locate_problem(problem).1));
    };
    let note = ctx.policies.instead_of_refused(&refused);
    let event = event(EventType::Warning, "PolicyRefused", "Plan", note);
    ctx.emit_event(application, &event).await;
    if let Some(config_map) = ctx.policies.config_map(&refused.name) {
        ctx.emit_event(&config_map, &event).await;
    }
    Ok(())
}

/// Rolls back the first suspect whose newest version has produced no plan.
fn roll_back_first_unproven(policies: &Policies, policy: &Policy, problem: &str) -> Option<PolicyError> {
    let (_, located) = policy.locate_problem(problem);
    policy.suspects(problem).into_iter().find_map(|name| policies.withdraw(policy, name, &located))
}

#[cfg(test)]
mod tests {
    use crds::labels;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn policy(name: &str, program: &str) -> ConfigMap {
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some(name.to_owned());
        config_map.metadata.namespace = Some("cairn-system".to_owned());
        if name == "rules" {
            config_map.metadata.labels =
                Some([(labels::POLICY.to_owned(), labels::ENFORCED.to_owned())].into());
        }
        config_map.data = Some([("program.lp".to_owned(), program.to_owned())].into());
        config_map
    }

    /// Two programs that are valid one by one and depend on each other through `not`: the newer one is rolled back.
    #[test]
    fn the_unproven_one_of_two_conflicting_programs_is_rolled_back() {
        let (named, enforced) =
            ("p(1).\nq(1).\np(2) :- q(1), not q(2).", "p(1).\nq(1).\nq(2) :- p(1), p(2).");
        let fault = "policy fast: line 3 column 18: `p` rests on itself";
        for (changed, text) in [("rules", enforced), ("fast", named)] {
            let policies = Policies::default();
            let in_force = || policies.in_force("fast", "vision").unwrap().0;
            for name in ["fast", "rules"] {
                let first = match (name, changed == name) {
                    (_, true) => "p(1).",
                    ("fast", false) => named,
                    _ => enforced,
                };
                policies.learn(&policy(name, first)).unwrap();
            }
            let before = in_force();
            policies.prove(&before);
            policies.learn(&policy(changed, text)).unwrap();
            let refused = roll_back_first_unproven(&policies, &in_force(), fault).unwrap();
            assert_eq!(refused.name, changed);
            assert!(refused.problem.contains("line 3 column 18: `p` rests on itself"), "{refused}");
            assert_eq!(in_force(), before, "{changed}");
            let config_map = policies.config_map(changed).unwrap();
            assert_eq!(config_map.metadata.namespace.as_deref(), Some("cairn-system"));
        }
    }
}
