//! The problems of an application with their remedies.

use std::collections::BTreeMap;

use crds::{ActorApplication, Condition, Instance, InstancePhase, Placement, Refusal, RefusalScope};
use kube::ResourceExt;
use serde::Serialize;

/// The conditions with positive polarity; all others report problems or remarks.
const POSITIVE: [&str; 3] = ["Ready", "Placed", "Accepted"];
/// The condition that says what measured load would change.
pub const WOULD_MOVE: &str = "WouldMove";

/// A problem of an application.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub text: String,
    /// The remedy.
    pub to_do: String,
}

/// The application in messages and commands.
struct ApplicationRef<'a> {
    name: &'a str,
    namespace: &'a str,
}

/// All problems, those from conditions first.
pub fn problems(
    application: &ActorApplication,
    decision: Option<&Placement>,
    instances: &BTreeMap<&str, &Instance>,
    unfit: &BTreeMap<String, world::RejectedRequest>,
) -> Vec<Problem> {
    let (name, namespace) =
        (application.name_any(), application.namespace().unwrap_or_else(|| "default".to_owned()));
    let subject = ApplicationRef { name: &name, namespace: &namespace };
    let mut problems = Vec::new();
    if application.status.is_none() {
        problems.push(Problem {
            text: "not reconciled yet".to_owned(),
            to_do: "check whether the operator runs: kubectl cairn doctor".to_owned(),
        });
    }
    let (newest, status) = (application.metadata.generation, application.status.as_ref());
    if let (Some(newest), Some(observed)) = (newest, status.and_then(|status| status.observed_generation))
        && observed < newest
    {
        problems.push(Problem {
            text: format!(
                "generation {newest} is not reconciled yet; the status is of generation {observed}"
            ),
            to_do: "check whether the operator runs: kubectl cairn doctor".to_owned(),
        });
    }
    let conditions = application.status.iter().flat_map(|status| &status.conditions);
    let is_bad = |it: &&Condition| (it.status == "False") == POSITIVE.contains(&it.type_.as_str());
    // `Ready` with these reasons repeats other conditions.
    let is_specific = |it: &&Condition| {
        // There is a condition of that name.
        let is_repeated = it.type_ == "Accepted" && ["TooLarge", "NameTaken"].contains(&it.reason.as_str());
        !is_repeated
            && it.type_ != WOULD_MOVE
            && (it.type_ != "Ready" || !["Unplaced", "NotAccepted", "NodeLost"].contains(&it.reason.as_str()))
    };
    problems
        .extend(conditions.filter(is_bad).filter(is_specific).map(|condition| subject.condition(condition)));
    let refusals = decision.and_then(|decision| decision.status.as_ref()).into_iter();
    let harms = |refusal: &&Refusal| refusal.cause.is_none() || !runs_elsewhere(refusal, instances);
    let refusals = refusals.flat_map(|status| &status.refusals).filter(harms);
    problems.extend(refusals.map(|refusal| subject.refusal(refusal)));
    problems.extend(instances.iter().filter_map(|(actor, instance)| subject.failed(actor, instance)));
    problems.extend(instances.iter().filter_map(|(actor, instance)| subject.not_ready(actor, instance)));
    problems.extend(unfit.iter().map(|(instance, unfit)| Problem {
        text: format!("Instance {instance} is rejected: {}", unfit.message),
        to_do: format!(
            "delete it and request a valid one: kubectl delete instance {instance} -n {namespace}"
        ),
    }));
    problems
}

/// Whether the refused actor runs on another node: the refusal only keeps it from moving.
fn runs_elsewhere(refusal: &Refusal, instances: &BTreeMap<&str, &Instance>) -> bool {
    let status = instances.get(refusal.actor.as_str()).and_then(|instance| instance.status.as_ref());
    let node = |unit: &String| unit.rsplit_once('/').map(|(node, _)| node.to_owned());
    status.is_some_and(|status| {
        status.phase == Some(InstancePhase::Running) && status.unit.as_ref().and_then(node) != refusal.node
    })
}

impl ApplicationRef<'_> {
    fn condition(&self, condition: &Condition) -> Problem {
        let ApplicationRef { name, namespace } = self;
        let edit = format!("kubectl edit actorapp {name} -n {namespace}");
        let to_do = match (condition.type_.as_str(), condition.reason.as_str()) {
            ("Placed", _) => {
                format!("show reasons and remedies: kubectl cairn explain actorapp {name} -n {namespace}")
            }
            ("PolicyRefused", _) | ("Accepted", "Policy") => {
                "correct the policy and validate it with kubectl cairn check-policy".to_owned()
            }
            ("NameTaken", _) | ("Accepted", "NameTaken") => {
                "delete or rename the object with that name, or rename the application".to_owned()
            }
            ("Refused", _) | ("Accepted", "Refused") => {
                format!(
                    "raise the quota or change the admission policy: kubectl describe resourcequota -n {namespace}"
                )
            }
            ("Accepted", "Search" | "Panicked" | "Plan" | "Disobeyed" | "Mismatch") => {
                "check the operator's log, and reproduce it offline: kubectl cairn plan".to_owned()
            }
            ("Accepted", _) => format!("correct the manifest: {edit}"),
            ("TooLarge", _) => format!("split the application, or reduce its replicas: {edit}"),
            ("TemplateInvalid", _) => format!("correct the template: {edit}"),
            ("Paused", _) => format!(
                "resume it: kubectl patch actorapp {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"paused\":false}}}}'"
            ),
            ("NodeLost", _) => {
                "wait for the node; if it does not recover, delete it (kubectl delete node NODE) or add the taint \
                 node.kubernetes.io/out-of-service=off:NoExecute"
                    .to_owned()
            }
            ("Saturated", _) => {
                format!(
                    "add replicas, use a faster kind, or reduce the load (serviceTime, arrivals, rates): {edit}"
                )
            }
            ("PriorityLimited", _) => {
                format!("lower spec.priority, or ask an administrator to raise the label cairn.dev/max-priority of namespace {namespace}")
            }
            ("RequestFailed", _) => {
                "correct what the message names, such as a webhook or a permission; the operator retries".to_owned()
            }
            ("Panicked", _) => "report this defect with the operator's log; the operator retries".to_owned(),
            ("Partial", _) => "correct the named application".to_owned(),
            ("CountersUnavailable", _) => {
                format!(
                    "wait for rollouts and moves to end; if it remains, check that Prometheus scrapes the actors: the \
                     leader's /debug/load/{namespace}/{name} shows the windows"
                )
            }
            ("WindowTooShort", _) => {
                "scrape actors more often (chart value metrics.actors.interval), or choose a longer window in the policy".to_owned()
            }
            ("Ready", _) => format!(
                "check its pods: kubectl describe pods -n {namespace} -l cairn.dev/application={name}"
            ),
            _ => format!("see kubectl describe actorapp {name} -n {namespace}"),
        };
        Problem { text: format!("{}: {}", condition.type_, condition.message), to_do }
    }

    fn refusal(&self, refusal: &Refusal) -> Problem {
        let ApplicationRef { name, namespace } = self;
        let until = &refusal.until.0;
        let (by, to_do) = match (&refusal.node, refusal.scope) {
            (Some(node), _) => (
                node.as_str(),
                format!("other nodes are tried; to find the cause: kubectl describe node {node}"),
            ),
            (None, RefusalScope::Namespace) => (
                "its namespace",
                format!("raise the quota or reduce its use: kubectl describe resourcequota -n {namespace}"),
            ),
            (None, _) => {
                ("admission", format!("correct the template: kubectl edit actorapp {name} -n {namespace}"))
            }
        };
        Problem {
            text: format!("{} is refused by {by} until {until}: {}", refusal.actor, refusal.reason),
            to_do,
        }
    }

    /// A started actor whose containers report why it is not ready.
    fn not_ready(&self, actor: &str, instance: &Instance) -> Option<Problem> {
        let status = instance.status.as_ref()?;
        let is_started = matches!(status.phase, Some(InstancePhase::Starting | InstancePhase::Running));
        let pod = status.pod.as_ref().filter(|_| is_started)?;
        let condition = status.conditions.iter().find(|it| it.type_ == "Ready" && it.status == "False")?;
        let why = condition.message.strip_prefix("the pod is not ready: ")?;
        let to_do = if why.contains("exit code") {
            format!("check its log: kubectl logs {pod} -n {} --previous", self.namespace)
        } else {
            format!("check its events: kubectl describe pod {pod} -n {}", self.namespace)
        };
        Some(Problem { text: format!("{actor} is not ready: {why}"), to_do })
    }

    fn failed(&self, actor: &str, instance: &Instance) -> Option<Problem> {
        let status = instance.status.as_ref()?;
        let pod = status.pod.as_ref().filter(|_| status.phase == Some(InstancePhase::Failed))?;
        let condition = status.conditions.iter().find(|condition| condition.status == "False");
        let why = condition.map(|condition| format!(": {}", condition.message)).unwrap_or_default();
        let to_do = format!("check its log: kubectl logs {pod} -n {} --previous", self.namespace);
        Some(Problem { text: format!("{actor} failed{why}"), to_do })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_condition_has_a_specific_remedy() {
        let subject = ApplicationRef { name: "web", namespace: "shop" };
        let condition = |type_: &str, reason: &str| -> Condition {
            let status = if POSITIVE.contains(&type_) { "False" } else { "True" };
            serde_json::from_value(
                json!({"type": type_, "status": status, "reason": reason, "message": "it is so",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            )
            .unwrap()
        };
        // The conditions that the operator sets.
        let all = [
            ("Ready", "Starting"),
            ("Ready", "NotReady"),
            ("Placed", "Unplaced"),
            ("Accepted", "World"),
            ("Accepted", "Policy"),
            ("Accepted", "NameTaken"),
            ("Accepted", "Search"),
            ("Accepted", "Refused"),
            ("PolicyRefused", "LastGoodInForce"),
            ("TemplateInvalid", "Refused"),
            ("TooLarge", "TooLarge"),
            ("Paused", "Paused"),
            ("NameTaken", "NameTaken"),
            ("Refused", "Refused"),
            ("NodeLost", "NodeLost"),
            ("Saturated", "Saturated"),
            ("CountersUnavailable", "NoSettledWindow"),
            ("WindowTooShort", "FewScrapes"),
            ("PriorityLimited", "PriorityLimited"),
            ("Partial", "Partial"),
            ("RequestFailed", "RequestFailed"),
            ("Panicked", "Panicked"),
        ];
        let page = include_str!("../../../../docs/operations/conditions.md");
        let fallback = subject.condition(&condition("Unknown", "Unknown")).to_do;
        for (type_, reason) in all {
            assert!(
                page.contains(&format!("\n| `{type_}`")),
                "docs/operations/conditions.md does not document {type_}"
            );
            let problem = subject.condition(&condition(type_, reason));
            assert_eq!(problem.text, format!("{type_}: it is so"));
            let to_do = problem.to_do;
            assert!(to_do != fallback && !to_do.contains('\n'), "{type_} {reason}: {to_do}");
        }
    }

    #[test]
    fn conditions_of_pools_are_documented() {
        let page = include_str!("../../../../docs/operations/conditions.md");
        let schema = include_str!("../../../../crds/manifests/devicepools.yaml");
        let description = schema.lines().find(|line| line.contains("The conditions of the pool")).unwrap();
        for type_ in world::POOL_PROBLEMS.into_iter().chain(world::POOL_NOTES) {
            assert!(
                page.contains(&format!("\n| `{type_}` |")),
                "docs/operations/conditions.md does not document {type_}"
            );
            assert!(description.contains(&format!("`{type_}`")), "kubectl explain does not list {type_}");
        }
    }
}
