//! What is wrong with an application, each with a line of advice.

use std::collections::BTreeMap;

use crds::{ActorApplication, Condition, Instance, InstancePhase, Placement, Refusal, RefusalScope};
use kube::ResourceExt;
use serde::Serialize;

/// The conditions that are well when they are true; every other one says what is wrong, or worth knowing.
const GOOD: [&str; 3] = ["Ready", "Placed", "Accepted"];

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wrong {
    pub text: String,
    /// What to do about it.
    pub to_do: String,
}

/// How people and advice call an application.
struct Name<'a> {
    name: &'a str,
    namespace: &'a str,
}

/// Everything that is wrong, the conditions first.
pub fn wrong(
    application: &ActorApplication,
    decision: Option<&Placement>,
    instances: &BTreeMap<&str, &Instance>,
    unfit: &BTreeMap<String, world::Unfit>,
) -> Vec<Wrong> {
    let (name, namespace) =
        (application.name_any(), application.namespace().unwrap_or_else(|| "default".to_owned()));
    let of = Name { name: &name, namespace: &namespace };
    let mut wrong = Vec::new();
    if application.status.is_none() {
        wrong.push(Wrong {
            text: "nobody has looked at it yet".to_owned(),
            to_do: "see whether the operator runs: kubectl cairn doctor".to_owned(),
        });
    }
    let (newest, told) = (application.metadata.generation, application.status.as_ref());
    if let (Some(newest), Some(told)) = (newest, told.and_then(|status| status.observed_generation))
        && told < newest
    {
        wrong.push(Wrong {
            text: format!("its newest version, generation {newest}, was not looked at yet; what is told is of generation {told}"),
            to_do: "see whether the operator runs: kubectl cairn doctor".to_owned(),
        });
    }
    let conditions = application.status.iter().flat_map(|status| &status.conditions);
    let is_bad = |it: &&Condition| (it.status == "False") == GOOD.contains(&it.type_.as_str());
    // That not all run says nothing more than why they do not.
    let is_told = |it: &&Condition| {
        // Told by a condition of that name.
        let is_twice = it.type_ == "Accepted" && ["TooLarge", "NameTaken"].contains(&it.reason.as_str());
        !is_twice
            && (it.type_ != "Ready" || !["Unplaced", "NotAccepted", "NodeLost"].contains(&it.reason.as_str()))
    };
    wrong.extend(conditions.filter(is_bad).filter(is_told).map(|condition| of.condition(condition)));
    let refusals = decision.and_then(|decision| decision.status.as_ref()).into_iter();
    wrong.extend(refusals.flat_map(|status| &status.refusals).map(|refusal| of.refusal(refusal)));
    wrong.extend(instances.iter().filter_map(|(actor, instance)| of.failed(actor, instance)));
    wrong.extend(instances.iter().filter_map(|(actor, instance)| of.hangs(actor, instance)));
    wrong.extend(unfit.iter().map(|(instance, unfit)| Wrong {
        text: format!("Instance {instance} is no actor: {}", unfit.message),
        to_do: format!("ask for one that fits: kubectl delete instance {instance} -n {namespace}"),
    }));
    wrong
}

impl Name<'_> {
    fn condition(&self, condition: &Condition) -> Wrong {
        let Name { name, namespace } = self;
        let edit = format!("kubectl edit actorapp {name} -n {namespace}");
        let to_do = match (condition.type_.as_str(), condition.reason.as_str()) {
            ("Placed", _) => {
                format!("why, and what would make room: kubectl cairn explain actorapp {name} -n {namespace}")
            }
            ("PolicyRefused", _) | ("Accepted", "Policy") => {
                "correct the policy, and try it with kubectl cairn check-policy".to_owned()
            }
            ("NameTaken", _) | ("Accepted", "NameTaken") => {
                "delete or rename what has the name, or rename the application".to_owned()
            }
            ("Refused", _) | ("Accepted", "Refused") => {
                format!("let it be made, or raise the quota: kubectl describe resourcequota -n {namespace}")
            }
            ("Accepted", "Search" | "Plan" | "Mismatch") => {
                "read the operator's log, and try it at a desk: kubectl cairn plan".to_owned()
            }
            ("Accepted", _) => format!("correct the manifest: {edit}"),
            ("TooLarge", _) => format!("divide it into several, or fewer replicas: {edit}"),
            ("TemplateInvalid", _) => format!("correct the template: {edit}"),
            ("Paused", _) => format!(
                "go on: kubectl patch actorapp {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"paused\":false}}}}'"
            ),
            ("NodeLost", _) => {
                "wait for the node; where it does not come back: kubectl delete node NODE, or taint it \
                                node.kubernetes.io/out-of-service=off:NoExecute"
                    .to_owned()
            }
            ("Saturated", _) => {
                format!(
                    "more actors, a faster kind, or less work for each (serviceTime, arrivals, rates): {edit}"
                )
            }
            ("Partial", _) => "correct the application that is named".to_owned(),
            ("Ready", _) => format!(
                "see what its pods wait for: kubectl describe pods -n {namespace} -l cairn.dev/application={name}"
            ),
            _ => format!("look closer: kubectl describe actorapp {name} -n {namespace}"),
        };
        Wrong { text: format!("{}: {}", condition.type_, condition.message), to_do }
    }

    fn refusal(&self, refusal: &Refusal) -> Wrong {
        let Name { name, namespace } = self;
        let until = &refusal.until.0;
        let (by, to_do) = match (&refusal.node, refusal.scope) {
            (Some(node), _) => (
                node.as_str(),
                format!("it is tried elsewhere; what {node} lacks: kubectl describe node {node}"),
            ),
            (None, RefusalScope::Namespace) => (
                "its namespace",
                format!("make room in the quota, or raise it: kubectl describe resourcequota -n {namespace}"),
            ),
            (None, _) => (
                "admission",
                format!(
                    "correct what is refused in its template: kubectl edit actorapp {name} -n {namespace}"
                ),
            ),
        };
        Wrong {
            text: format!("{} was refused by {by} until {until}: {}", refusal.actor, refusal.reason),
            to_do,
        }
    }

    /// One that runs or starts, and of which the containers say why it does not serve.
    fn hangs(&self, actor: &str, instance: &Instance) -> Option<Wrong> {
        let status = instance.status.as_ref()?;
        let begun = matches!(status.phase, Some(InstancePhase::Starting | InstancePhase::Running));
        let pod = status.pod.as_ref().filter(|_| begun)?;
        let said = status.conditions.iter().find(|it| it.type_ == "Ready" && it.status == "False")?;
        let why = said.message.strip_prefix("its pod is not ready: ")?;
        let to_do = if why.contains("exit code") {
            format!("read its log: kubectl logs {pod} -n {} --previous", self.namespace)
        } else {
            format!("see its events: kubectl describe pod {pod} -n {}", self.namespace)
        };
        Some(Wrong { text: format!("{actor} is not ready: {why}"), to_do })
    }

    fn failed(&self, actor: &str, instance: &Instance) -> Option<Wrong> {
        let status = instance.status.as_ref()?;
        let pod = status.pod.as_ref().filter(|_| status.phase == Some(InstancePhase::Failed))?;
        let said = status.conditions.iter().find(|condition| condition.status == "False");
        let why = said.map(|condition| format!(": {}", condition.message)).unwrap_or_default();
        let to_do = format!("read its log: kubectl logs {pod} -n {} --previous", self.namespace);
        Some(Wrong { text: format!("{actor} failed{why}"), to_do })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_condition_has_advice_of_its_own() {
        let of = Name { name: "web", namespace: "shop" };
        let condition = |type_: &str, reason: &str| -> Condition {
            let status = if GOOD.contains(&type_) { "False" } else { "True" };
            serde_json::from_value(
                json!({"type": type_, "status": status, "reason": reason, "message": "it is so",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            )
            .unwrap()
        };
        // Those that the operator writes.
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
            ("Partial", "Partial"),
        ];
        let page = include_str!("../../../../docs/operations/conditions.md");
        let general = of.condition(&condition("Unheard", "Of")).to_do;
        for (type_, reason) in all {
            assert!(
                page.contains(&format!("\n| `{type_}`")),
                "docs/operations/conditions.md says nothing of {type_}"
            );
            let told = of.condition(&condition(type_, reason));
            assert_eq!(told.text, format!("{type_}: it is so"));
            assert!(told.to_do != general && !told.to_do.contains('\n'), "{type_} {reason}: {}", told.to_do);
        }
    }

    /// Those of pools are on the page, and `kubectl explain` names them.
    #[test]
    fn every_condition_of_a_pool_can_be_looked_up() {
        let page = include_str!("../../../../docs/operations/conditions.md");
        let schema = include_str!("../../../../crds/manifests/devicepools.yaml");
        let explained = schema.lines().find(|line| line.contains("What holds for the pool now")).unwrap();
        for type_ in world::PROBLEMS {
            assert!(
                page.contains(&format!("\n| `{type_}` |")),
                "docs/operations/conditions.md says nothing of {type_}"
            );
            assert!(explained.contains(&format!("`{type_}`")), "kubectl explain says nothing of {type_}");
        }
    }
}
