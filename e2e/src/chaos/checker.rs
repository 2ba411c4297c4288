//! Finds violations in the audit log: a duplicate actor, a lost actor, a pod deleted without cause, two operators
//! writing.
//!
//! It knows nothing of the product but the label names. Requests are processed in order of arrival: a request that
//! reacts to another one arrives later.

use std::collections::{BTreeMap, BTreeSet};

use crds::labels;
use serde_json::Value;

use crate::{
    AuditEvent,
    product::{NAMESPACE, OPERATOR},
};

/// The account that confirms that pods of simulated nodes ended.
const KUBELET: &str = "kwok";

/// The verdict on the log of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The violations.
    pub findings: Vec<String>,
    /// The number of started pods.
    pub started: usize,
    /// The number of deleted pods.
    pub stopped: usize,
    /// The number of leadership changes.
    pub hand_overs: usize,
}

/// A pod, from its creation to its end.
#[derive(Default)]
struct Life {
    application: String,
    actor: String,
    /// The node that it was created for, and the node that it was bound to.
    nodes: BTreeSet<String>,
    is_bound: bool,
    is_asked_to_go: bool,
    /// Its image.
    image: String,
    /// Whether its deletion has had a cause since its creation: it was not wanted, or not with this image, or its node was gone, or
    /// cordoned before the binding.
    may_go: bool,
}

#[derive(Default)]
struct Book {
    verdict: Verdict,
    /// By application and group, the wanted number of actors and their image.
    wanted: BTreeMap<String, BTreeMap<String, (u64, String)>>,
    /// By pod name, which is free again when the pod is gone.
    lives: BTreeMap<String, Life>,
    /// The last create request of each pod with an unknown result: it succeeded if the pod is bound later.
    unanswered: BTreeMap<String, AuditEvent>,
    /// The last account that deleted a pod of each name, or confirmed its end.
    last_asked: BTreeMap<String, String>,
    nodes_that_went: BTreeSet<String>,
    /// Cordoned nodes: their pods may be evicted by a drain, not by the operator.
    cordoned: BTreeSet<String>,
    /// The credentials of operators, in order of their first writes.
    writers: Vec<String>,
}

/// Checks all events in `namespace`, which was the only one with applications; everything is reconciled by
/// now.
pub fn check(events: &[AuditEvent], namespace: &str) -> Verdict {
    let has_happened = |event: &&AuditEvent| (200..300).contains(&event.code) || is_unanswered(event);
    let mut events: Vec<&AuditEvent> =
        events.iter().filter(has_happened).filter(|event| !event.is_trial()).collect();
    events.sort_by_key(|event| event.received);
    let mut book = Book::default();
    for event in events {
        if event.is_write() && is_by_operator(event) && event.resource != "leases" {
            book.written_by(event);
        }
        match (event.resource.as_str(), event.subresource.as_str(), event.verb.as_str()) {
            ("nodes", "", "create") => drop(book.nodes_that_went.remove(&event.name)),
            ("nodes", "", "delete") => book.node_went(&event.name),
            ("nodes", "", "patch") => book.node_changed(event),
            _ if event.namespace != namespace => {}
            ("actorapplications", "", "create" | "update" | "patch") => book.application(event),
            ("actorapplications", "", "delete") => book.application_went(&event.name),
            ("pods", "", "create") if is_unanswered(event) => {
                book.unanswered.insert(text(&event.request["metadata"]["name"]).to_owned(), event.clone());
            }
            ("pods", "", "create") => book.started(event),
            ("pods", "binding", "create") => book.bound(event),
            ("pods", "", "delete") | ("pods", "eviction", "create") => book.deleted(event),
            _ => {}
        }
    }
    book.end()
}

/// Whether a pod may have been created although the request to the API server's store timed out.
fn is_unanswered(event: &AuditEvent) -> bool {
    event.code == 504
        && (event.resource.as_str(), event.subresource.as_str()) == ("pods", "")
        && event.verb == "create"
}

fn is_by_operator(event: &AuditEvent) -> bool {
    event.is_by_service_account(NAMESPACE, OPERATOR)
}

/// The image of the first container of a pod's spec.
fn image(spec: &Value) -> &str {
    text(&spec["containers"][0]["image"])
}

impl Book {
    fn find(&mut self, finding: String) {
        self.verdict.findings.push(finding);
    }

    fn written_by(&mut self, event: &AuditEvent) {
        if self.writers.last() == Some(&event.credential) {
            return;
        }
        if self.writers.contains(&event.credential) {
            let (verb, resource, name) = (&event.verb, &event.resource, &event.name);
            self.find(format!("{verb} {resource} {name} by an operator after another had begun to write"));
            return;
        }
        self.verdict.hand_overs += usize::from(!self.writers.is_empty());
        self.writers.push(event.credential.clone());
    }

    fn node_went(&mut self, node: &str) {
        self.nodes_that_went.insert(node.to_owned());
        for life in self.lives.values_mut().filter(|life| life.nodes.contains(node)) {
            life.may_go = true;
        }
    }

    fn node_changed(&mut self, event: &AuditEvent) {
        let Some(unschedulable) = event.request["spec"].get("unschedulable") else { return };
        if unschedulable.as_bool() != Some(true) {
            self.cordoned.remove(&event.name);
            return;
        }
        self.cordoned.insert(event.name.clone());
        let comes = |life: &&mut Life| !life.is_bound && life.nodes.contains(&event.name);
        self.lives.values_mut().filter(comes).for_each(|life| life.may_go = true);
    }

    /// The image of a wanted actor; none if it is not wanted.
    fn wanted_image(&self, application: &str, actor: &str) -> Option<&str> {
        let (group, index) = actor.rsplit_once('-')?;
        let (replicas, image) = self.wanted.get(application)?.get(group)?;
        index.parse::<u64>().ok().filter(|index| index < replicas)?;
        Some(image)
    }

    fn is_wanted(&self, application: &str, actor: &str) -> bool {
        self.wanted_image(application, actor).is_some()
    }

    fn application(&mut self, event: &AuditEvent) {
        let Some(groups) = event.request["spec"]["actors"].as_array() else { return };
        let name = if event.name.is_empty() { text(&event.request["metadata"]["name"]) } else { &event.name };
        let group = |group: &Value| {
            let image = image(&group["implementations"][0]["template"]["spec"]).to_owned();
            (text(&group["name"]).to_owned(), (group["replicas"].as_u64().unwrap_or_default(), image))
        };
        self.wanted.insert(name.to_owned(), groups.iter().map(group).collect());
        let wanted: BTreeSet<String> = self
            .lives
            .iter()
            .filter(|(_, life)| {
                self.wanted_image(&life.application, &life.actor) == Some(life.image.as_str())
            })
            .map(|(pod, _)| pod.clone())
            .collect();
        for (_, life) in self.lives.iter_mut().filter(|(pod, _)| !wanted.contains(*pod)) {
            life.may_go = true;
        }
    }

    fn application_went(&mut self, name: &str) {
        self.wanted.remove(name);
        for life in self.lives.values_mut().filter(|life| life.application == name) {
            life.may_go = true;
        }
    }

    fn started(&mut self, event: &AuditEvent) {
        let metadata = &event.request["metadata"];
        let label = |name: &str| text(&metadata["labels"][name]).to_owned();
        let (application, actor) = (label(labels::APPLICATION), label(labels::ACTOR));
        if actor.is_empty() {
            return;
        }
        self.verdict.started += 1;
        let node =
            text(&metadata["annotations"][labels::UNIT]).split('/').next().unwrap_or_default().to_owned();
        let image = image(&event.request["spec"]).to_owned();
        let may_go = self.nodes_that_went.contains(&node)
            || self.cordoned.contains(&node)
            || self.wanted_image(&application, &actor) != Some(&image);
        let life = Life { application, actor, nodes: [node].into(), image, may_go, ..Life::default() };
        let pod = text(&metadata["name"]).to_owned();
        // A pod ends with its node, even if the response to its deletion was lost with an operator.
        let before = self.lives.insert(pod.clone(), life);
        let may_live = |life: &Life| life.nodes.is_disjoint(&self.nodes_that_went);
        if before.as_ref().is_some_and(may_live) {
            self.find(format!("{pod} was started before the end of its predecessor was confirmed"));
        }
    }

    fn bound(&mut self, event: &AuditEvent) {
        let node = text(&event.request["target"]["name"]);
        let is_gone = self.nodes_that_went.contains(node);
        if let Some(made) = self.unanswered.remove(&event.name)
            && !self.lives.contains_key(&event.name)
        {
            self.started(&made);
        }
        if let Some(life) = self.lives.get_mut(&event.name) {
            life.nodes.insert(node.to_owned());
            life.is_bound = true;
            life.may_go |= is_gone;
        }
    }

    fn deleted(&mut self, event: &AuditEvent) {
        let pod = &event.name;
        let Some(life) = self.lives.get_mut(pod) else { return };
        let at_once = event.request["gracePeriodSeconds"].as_i64() == Some(0);
        let node_is_there = !life.nodes.iter().any(|node| self.nodes_that_went.contains(node));
        let drained = !is_by_operator(event) && life.nodes.iter().any(|node| self.cordoned.contains(node));
        let was_asked = std::mem::replace(&mut life.is_asked_to_go, true);
        let (may_go, is_bound) = (life.may_go, life.is_bound);
        self.last_asked.insert(pod.clone(), event.user.clone());
        self.verdict.stopped += usize::from(!was_asked);
        if !was_asked && !may_go && !drained {
            self.find(format!("{pod} was deleted by {} without a cause", event.user));
        }
        if at_once && is_bound && node_is_there && event.user != KUBELET {
            self.find(format!("{pod} was force-deleted by {}: it may run next to its successor", event.user));
        }
        // an unbound pod, or one on a deleted node, is removed at once when deleted: it counts as failed
        if at_once || !is_bound || !node_is_there {
            self.lives.remove(pod);
        }
    }

    fn end(mut self) -> Verdict {
        for (application, groups) in &self.wanted {
            for (group, (replicas, image)) in groups {
                for index in 0..*replicas {
                    let pod = format!("{application}-{group}-{index}");
                    let life = self.lives.get(&pod).filter(|life| life.is_bound && !life.is_asked_to_go);
                    match life {
                        None => {
                            let why = match (self.lives.get(&pod), self.last_asked.get(&pod)) {
                                (Some(life), Some(by)) if life.is_asked_to_go => {
                                    format!("{by} asked it to go")
                                }
                                (Some(_), _) => "no node has it".to_owned(),
                                (None, Some(by)) => format!("{by} ended it, and none came after it"),
                                (None, None) => "it never was there".to_owned(),
                            };
                            self.verdict.findings.push(format!("{pod} is lost: {why}"));
                        }
                        Some(life) if life.image != *image => {
                            self.verdict.findings.push(format!("{pod} is of an older template"));
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        let unwanted = |life: &&Life| !self.is_wanted(&life.application, &life.actor);
        let finding =
            |life: &Life| format!("{}-{} runs though it is not wanted", life.application, life.actor);
        let unwanted: Vec<String> = self.lives.values().filter(unwanted).map(finding).collect();
        self.verdict.findings.extend(unwanted);
        self.verdict
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One request per line: `want app-a 2`, `want app-a 2 newer`, `forget app`, `start P on N`, `start P on N newer`, `bind P to N`,
    /// `stop P`, `evict P` (both by the operator), `drain P` (by a user), `ended P` (by its node), `kill P` (forced, by the
    /// operator), `lose N`, `cordon N`, `uncordon N`, `write W` (by an operator with credential W).
    fn verdict(log: &str) -> String {
        let events: Vec<AuditEvent> =
            log.lines().enumerate().map(|(at, line)| event(at, line.trim())).collect();
        check(&events, "here").findings.join("\n")
    }

    /// A pod's spec with an image.
    fn running(image: Option<&&str>) -> Value {
        json!({"containers": [{"image": image.unwrap_or(&"first")}]})
    }

    fn event(at: usize, line: &str) -> AuditEvent {
        let words: Vec<&str> = line.split_whitespace().collect();
        let operator = format!("system:serviceaccount:{NAMESPACE}:{OPERATOR}");
        let (what, name) = (words[0], words[1]);
        let delete = |grace: Value| ("delete", "pods", "", json!({"gracePeriodSeconds": grace}));
        let (verb, resource, subresource, request) = match what {
            "want" => {
                let implementation = json!({"template": {"spec": running(words.get(3))}});
                let actors = json!([{"name": "a", "replicas": words[2].parse::<u32>().unwrap(),
                    "implementations": [implementation]}]);
                ("patch", "actorapplications", "", json!({"spec": {"actors": actors}}))
            }
            "forget" => ("delete", "actorapplications", "", Value::Null),
            "start" | "begin" => {
                let (application, actor) = name.split_once('-').unwrap();
                let labels = json!({labels::APPLICATION: application, labels::ACTOR: actor});
                let annotations = json!({labels::UNIT: format!("{}/cpus-0", words[3])});
                let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
                ("create", "pods", "", json!({"metadata": metadata, "spec": running(words.get(4))}))
            }
            "bind" => ("create", "pods", "binding", json!({"target": {"name": words[3]}})),
            "stop" => delete(Value::Null),
            "evict" | "drain" => ("create", "pods", "eviction", Value::Null),
            "ended" | "kill" => delete(json!(0)),
            "lose" => ("delete", "nodes", "", Value::Null),
            "cordon" => ("patch", "nodes", "", json!({"spec": {"unschedulable": true}})),
            "uncordon" => ("patch", "nodes", "", json!({"spec": {"unschedulable": null}})),
            "write" => ("patch", "placements", "", Value::Null),
            other => panic!("{other}"),
        };
        let user = match what {
            "ended" => KUBELET.to_owned(),
            "start" | "begin" | "stop" | "evict" | "kill" | "write" => operator,
            other => other.to_owned(),
        };
        AuditEvent {
            user,
            verb: verb.into(),
            group: String::new(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: if resource == "nodes" { String::new() } else { "here".into() },
            name: name.into(),
            uri: String::new(),
            user_agent: String::new(),
            credential: if what == "write" { name.into() } else { "one".into() },
            code: if what == "begin" { 504 } else { 200 },
            is_forbidden: false,
            stage: "ResponseComplete".into(),
            received: jiff::Timestamp::from_second(i64::try_from(at).unwrap()).unwrap(),
            request,
        }
    }

    #[test]
    fn valid_histories_have_no_findings() {
        let logs = [
            // scale up, down, and up again
            "want app 2\n start app-a-0 on n\n bind app-a-0 to n\n start app-a-1 on n\n bind app-a-1 to n\n want app 1\n \
             stop app-a-1\n ended app-a-1\n want app 2\n start app-a-1 on m\n bind app-a-1 to m",
            // a node is lost, and no end is confirmed
            "want app 1\n start app-a-0 on n\n bind app-a-0 to n\n lose n\n kill app-a-0\n start app-a-0 on m\n bind app-a-0 to m",
            // the same, with an unanswered forced deletion
            "want app 1\n start app-a-0 on n\n bind app-a-0 to n\n lose n\n start app-a-0 on m\n bind app-a-0 to m",
            // the same with a graceful deletion, which needs no confirmation
            "want app 1\n start app-a-0 on n\n bind app-a-0 to n\n lose n\n want app 0\n stop app-a-0\n want app 1\n \
             start app-a-0 on m\n bind app-a-0 to m",
            // the node is lost before the pod is bound
            "want app 1\n lose n\n start app-a-0 on n\n stop app-a-0\n start app-a-0 on m\n bind app-a-0 to m",
            // a recreated application
            "want app 1\n start app-a-0 on n\n bind app-a-0 to n\n forget app\n want app 1\n stop app-a-0\n ended app-a-0\n \
             start app-a-0 on n\n bind app-a-0 to n",
            // a new template, while a new pod may still have the older one
            "want app 2\n start app-a-0 on n\n bind app-a-0 to n\n want app 2 newer\n start app-a-1 on n\n bind app-a-1 to n\n \
             stop app-a-0\n ended app-a-0\n start app-a-0 on n newer\n bind app-a-0 to n\n \
             stop app-a-1\n ended app-a-1\n start app-a-1 on n newer\n bind app-a-1 to n",
            // a node is drained before a pod is bound to it
            "want app 2\n start app-a-0 on n\n bind app-a-0 to n\n start app-a-1 on n\n cordon n\n drain app-a-0\n \
             ended app-a-0\n stop app-a-1\n uncordon n\n start app-a-0 on m\n bind app-a-0 to m\n start app-a-1 on n\n \
             bind app-a-1 to n",
            "write one\n write one\n write two",
            // a pod that was created without a response
            "want app 1\n begin app-a-0 on n\n bind app-a-0 to n",
            "want app 1\n begin app-a-0 on n\n start app-a-0 on n\n bind app-a-0 to n",
        ];
        for log in logs {
            assert_eq!(verdict(log), "", "{log}");
        }
    }

    #[test]
    fn violations_are_found() {
        let up = "want app 1\n start app-a-0 on n\n bind app-a-0 to n\n";
        let logs = [
            (
                "start app-a-0 on m\n bind app-a-0 to m",
                "app-a-0 was started before the end of its predecessor was confirmed",
            ),
            (
                "stop app-a-0\n ended app-a-0\n start app-a-0 on n\n bind app-a-0 to n",
                "app-a-0 was deleted by system:serviceaccount:cairn-system:cairn-operator without a cause",
            ),
            (
                "evict app-a-0\n ended app-a-0\n start app-a-0 on n\n bind app-a-0 to n",
                "app-a-0 was deleted by system:serviceaccount:cairn-system:cairn-operator without a cause",
            ),
            (
                "lose n\n kill app-a-0",
                "app-a-0 is lost: system:serviceaccount:cairn-system:cairn-operator ended it, and none came after it",
            ),
            (
                "lose n\n stop app-a-0",
                "app-a-0 is lost: system:serviceaccount:cairn-system:cairn-operator ended it, and none came after it",
            ),
            ("want app 2\n start app-a-1 on n", "app-a-1 is lost: no node has it"),
            ("want app 2\n begin app-a-1 on n", "app-a-1 is lost: it never was there"),
            ("want app 1 newer", "app-a-0 is of an older template"),
            // a cordon is no cause for the operator to delete pods, nor is a previous one
            (
                "cordon n\n evict app-a-0\n ended app-a-0\n start app-a-0 on m\n bind app-a-0 to m",
                "app-a-0 was deleted by system:serviceaccount:cairn-system:cairn-operator without a cause",
            ),
            (
                "cordon n\n uncordon n\n drain app-a-0\n ended app-a-0\n start app-a-0 on m\n bind app-a-0 to m",
                "app-a-0 was deleted by drain without a cause",
            ),
            ("want app 0", "app-a-0 runs though it is not wanted"),
            (
                "want app 0\n kill app-a-0",
                "app-a-0 was force-deleted by system:serviceaccount:cairn-system:cairn-operator: it may run next to its successor",
            ),
            ("write two\n write one", "patch placements one by an operator after another had begun to write"),
        ];
        for (log, finding) in logs {
            assert_eq!(verdict(&format!("{up}{log}")), finding, "{log}");
        }
    }
}
