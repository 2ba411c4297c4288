//! The digest of the demand: whether a changed manifest has to be planned again, or is only rolled out.

use std::collections::BTreeSet;

use crds::ActorApplicationSpec;
use placement::file::{Actor, ExchangeCost, GroupMessage, SnapshotFile};
use serde_json::{Map, Value};

use crate::AssembledSnapshot;
use crate::digest::digest;
use crate::snapshot::memory_units::round_requests_up;

/// Version of the digest, incremented whenever the digest of an unchanged manifest and policy changes.
const VERSION: u32 = 2;

impl AssembledSnapshot {
    /// Digest of the demand of manifest and policy, without measured numbers, units, other applications and current places,
    /// such as `v2:sha256:…`; images and other fields that no plan depends on are left out.
    ///
    /// Digests of different versions cannot be compared.
    ///
    /// If the policy has a program, it includes facts of the nodes and units that the program may read: those that host
    /// the application's actors, or all while an actor is unplaced.
    pub fn demand(&self) -> String {
        self.digests.demand.get_or_init(|| self.compute_demand()).clone()
    }

    fn compute_demand(&self) -> String {
        let mut of_manifest = None;
        let whole = match &self.replaced {
            Some(replaced) => {
                let file = of_manifest.insert(self.snapshot.file().clone());
                replaced.restore(file);
                file
            }
            None => self.snapshot.file(),
        };
        let own = |actor: &&Actor| !actor.fixed;
        let is_ruled = whole.policy.as_ref().is_some_and(|policy| policy.program.is_some());
        let (mut units, mut nodes) = (Vec::new(), Vec::new());
        if is_ruled {
            let hosting = whole.actors.iter().filter(own).filter_map(|actor| actor.current.as_ref());
            let hosting: BTreeSet<&String> = hosting.collect();
            let waits = whole.actors.iter().filter(own).any(|actor| actor.current.is_none());
            units = whole.units.iter().filter(|unit| waits || hosting.contains(&unit.id)).cloned().collect();
            let read: BTreeSet<&String> = units.iter().map(|unit| &unit.node).collect();
            nodes = whole.nodes.iter().filter(|node| read.contains(&node.id)).cloned().collect();
        }
        for node in &mut nodes {
            node.provides.clear();
        }
        for unit in &mut units {
            (unit.capacity, unit.slots) = (0, None);
        }
        let mut actors: Vec<Actor> = whole.actors.iter().filter(own).cloned().collect();
        for actor in &mut actors {
            (actor.current, actor.arriving) = (None, false);
        }
        // Digests count memory in MiB, whatever the snapshot's unit.
        round_requests_up(&mut actors);
        let others: BTreeSet<&String> =
            whole.actors.iter().filter(|actor| actor.fixed).map(|actor| &actor.id).collect();
        let prefix = whole.application.as_ref().map(|application| format!("{application}/"));
        let is_own =
            |channel: &&GroupMessage| prefix.as_ref().is_some_and(|own| channel.from.starts_with(own));
        let messages = whole.messages.iter().filter(|message| !others.contains(&message.from));
        let annoyance = whole.annoyance.iter().filter(|pair| !others.contains(&pair.a));
        let file = SnapshotFile {
            nodes,
            units,
            actors,
            messages: messages.cloned().collect(),
            group_messages: whole.group_messages.iter().filter(is_own).cloned().collect(),
            annoyance: annoyance.cloned().collect(),
            constraints: Vec::new(),
            left_to_scheduler: Vec::new(),
            version: 0,
            name: None,
            application: whole.application.clone(),
            window_microseconds: whole.window_microseconds,
            interference: whole.interference.clone(),
            summed_up: whole.summed_up.clone(),
            zones_of_nodes: whole.zones_of_nodes.clone(),
            shared_links: Vec::new(),
            // Links are a part of the units.
            exchange_cost: ExchangeCost { pairs: Vec::new(), ..whole.exchange_cost.clone() },
            policy: whole.policy.clone(),
            objectives: whole.objectives.clone(),
        };
        let file = serde_json::to_string(&file).expect("plain data with text keys always serializes");
        let manifest = planned_fields(&self.application.spec);
        format!("v{VERSION}:{}", digest(&format!("{file}\n{manifest}")))
    }
}

/// Fields of the manifest that only say how a plan is carried out.
const ROLLOUT_FIELDS: [&str; 2] = ["paused", "update"];

/// Fields of a container that matter only once it runs.
const RUNTIME_FIELDS: [&str; 18] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Prefix of the annotations of a template that Cairn reads.
const OWN_ANNOTATIONS: &str = "cairn.dev/";

/// The manifest without what no plan depends on, with sorted keys and without nulls.
///
/// An unknown field counts as one that plans depend on: a search too many is harmless.
fn planned_fields(spec: &ActorApplicationSpec) -> Value {
    let mut whole =
        canonical(serde_json::to_value(spec).expect("plain data with text keys always serializes"));
    remove(&mut whole, &ROLLOUT_FIELDS);
    for group in items(&mut whole, "actors") {
        for implementation in items(group, "implementations") {
            let Some(template) = implementation.get_mut("template") else { continue };
            if let Some(Value::Object(annotations)) = template.pointer_mut("/metadata/annotations") {
                annotations.retain(|name, _| name.starts_with(OWN_ANNOTATIONS));
            }
            let Some(pod) = template.get_mut("spec") else { continue };
            for list in ["containers", "initContainers"] {
                items(pod, list).for_each(|container| remove(container, &RUNTIME_FIELDS));
            }
        }
    }
    drop_empty_metadata(&mut whole);
    whole
}

fn items<'a>(of: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    of.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn remove(from: &mut Value, fields: &[&str]) {
    if let Value::Object(object) = from {
        object.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// The first annotation of a template must not differ from none.
fn drop_empty_metadata(whole: &mut Value) {
    for group in items(whole, "actors") {
        for implementation in items(group, "implementations") {
            let Some(Value::Object(template)) = implementation.get_mut("template") else { continue };
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
                metadata.retain(|_, value| !is_empty(value));
            }
            template.retain(|name, value| name != "metadata" || !is_empty(value));
        }
    }
}

/// The same value with sorted keys and without nulls, whatever order and defaults it was written with.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> =
                fields.into_iter().filter(|(_, it)| !it.is_null()).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().map(|(name, it)| (name, canonical(it))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(canonical).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(change: impl FnOnce(&mut Value)) -> ActorApplicationSpec {
        let mut spec = json!({"actors": [{"name": "a", "implementations": [{"kind": "cpu", "serviceTime": "1ms",
            "template": {"spec": {"containers": [{"name": "c", "image": "one",
                "resources": {"requests": {"cpu": "1"}}}]}}}]}]});
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn only_fields_that_plans_depend_on_are_kept() {
        let base = planned_fields(&spec(|_| ()));
        let template = "/actors/0/implementations/0/template";
        for (at, field, value, is_planned) in [
            ("", "paused", json!(true), false),
            ("", "update", json!({"maxUnavailable": 3}), false),
            ("", "priority", json!(7), true),
            ("", "start", json!("AllOrNothing"), true),
            ("/actors/0", "spread", json!("node"), true),
            ("/actors/0", "replicas", json!(2), true),
            (template, "metadata", json!({"annotations": {"team": "x"}}), false),
            (template, "metadata", json!({"annotations": {"cairn.dev/do-not-move": "true"}}), true),
            (template, "metadata", json!({"labels": {"tier": "x"}}), true),
            ("spec", "nodeSelector", json!({"disk": "ssd"}), true),
            ("spec", "hostNetwork", json!(true), true),
            ("container", "image", json!("two"), false),
            ("container", "args", json!(["-v"]), false),
            ("container", "env", json!([{"name": "A", "value": "1"}]), false),
            ("container", "resources", json!({"requests": {"cpu": "2"}}), true),
            ("container", "ports", json!([{"containerPort": 80, "hostPort": 80}]), true),
        ] {
            let at = match at {
                "spec" => format!("{template}/spec"),
                "container" => format!("{template}/spec/containers/0"),
                at => at.to_owned(),
            };
            let changed = spec(|spec| spec.pointer_mut(&at).unwrap()[field] = value.clone());
            assert_eq!(planned_fields(&changed) != base, is_planned, "{field}: {value}");
        }
    }

    #[test]
    fn order_and_nulls_do_not_matter() {
        let (one, other) = (json!({"b": [{"d": 1, "c": null}], "a": 2}), json!({"a": 2, "b": [{"d": 1}]}));
        assert_eq!(canonical(one).to_string(), canonical(other).to_string());
    }
}
