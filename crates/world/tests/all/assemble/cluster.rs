//! A small cluster in YAML, and its snapshot as text.

use jiff::Timestamp;
use world::{ApplicationKey, AssembleError, AssembledSnapshot, Index, Objects, Policy, assemble};

/// Two nodes of four cores, the first with two GPUs; a pool for each kind; one application of one group.
pub const BASE: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n0, labels: {disk: ssd, topology.kubernetes.io/zone: a}},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10", nvidia.com/gpu: "2"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n0}, spec: {devices: [
  {id: gpu-0, type: GPU, model: A100, numaNode: 0}, {id: gpu-1, type: GPU, model: A100, numaNode: 0}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus},
 spec: {kind: gpu, resource: {devicePlugin: nvidia.com/gpu}, speed: "2"}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: app, namespace: ns}, spec: {actors: [
  {name: cam, replicas: 2, arrivals: 1/s, implementations: [
    {kind: cpu, serviceTime: 10ms, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 500m, memory: 100Mi}}}]}}},
    {kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}}
"#;

pub fn key(name: &str) -> ApplicationKey {
    ApplicationKey { namespace: "ns".into(), name: name.into() }
}

pub fn world_of(yaml: &str) -> Result<AssembledSnapshot, AssembleError> {
    let mut objects = Objects::default();
    objects.read("test", yaml).unwrap();
    assemble(&Index::of(&objects), &key("app"), &Policy::builtin("p"), Timestamp::UNIX_EPOCH)
}

/// The base with one text replaced by another, and documents added.
pub fn changed(from: &str, to: &str, more: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    format!("{}\n---\n{more}", BASE.replacen(from, to, 1))
}

/// Units, what nodes provide, actors, edges, rules: one line each.
pub fn shown(yaml: &str) -> String {
    let world = match world_of(yaml) {
        Ok(world) => world,
        Err(e) => return format!("error: {e}"),
    };
    let file = world.snapshot.file();
    let json = |value: &dyn erased::Json| value.json();
    let mut lines: Vec<String> = Vec::new();
    lines.extend(file.nodes.iter().map(|node| format!("node {} {}", node.id, json(&node.provides))));
    lines.extend(file.units.iter().map(|unit| {
        let slots = unit.slots.map_or("many".to_owned(), |slots| slots.to_string());
        let numa = unit.numa.as_deref().unwrap_or("-");
        format!("unit {} {} {slots} {numa}", unit.id, unit.capacity)
    }));
    lines.extend(file.actors.iter().map(|actor| {
        let fixed = if actor.fixed { " fixed" } else { "" };
        let current = actor.current.as_deref().map_or(String::new(), |unit| format!(" on {unit}"));
        format!("actor {} {}{fixed}{current}", actor.id, json(&actor.runs_on))
    }));
    lines.extend(file.messages.iter().map(|m| format!("messages {} {} {}", m.from, m.to, m.count)));
    lines.extend(file.group_messages.iter().map(|channel| format!("channel {}", json(channel))));
    lines.extend(file.annoyance.iter().map(|p| format!("drag {} {} {}", p.a, p.b, p.drag)));
    lines.extend(file.constraints.iter().map(|constraint| format!("rule {}", json(constraint))));
    for (pool, report) in &world.pools {
        lines
            .extend(report.problems.iter().map(|(type_, message)| format!("pool {pool} {type_}: {message}")));
        lines.extend(report.notes.iter().map(|(type_, note)| format!("pool {pool} note {type_}: {note}")));
        if !report.is_ready() {
            let problem = report.main_problem().map_or("Empty", |(type_, _)| type_);
            lines.push(format!("pool {pool} not ready: {problem}"));
        }
    }
    lines.extend(world.warnings.iter().map(|note| format!("note {}: {}", note.condition, note.message)));
    lines.join("\n")
}

mod erased {
    /// Types that serialise to JSON.
    pub trait Json {
        fn json(&self) -> String;
    }
    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}

/// The lines that a change adds to the snapshot of the base, and those that it removes.
pub fn difference(yaml: &str) -> String {
    let (before, after) = (shown(BASE), shown(yaml));
    let gone = before
        .lines()
        .filter(|line| !after.lines().any(|other| other == *line))
        .map(|line| format!("- {line}"));
    let new = after
        .lines()
        .filter(|line| !before.lines().any(|other| other == *line))
        .map(|line| format!("+ {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}

pub const PLACEMENT: &str = r"{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: APP, namespace: ns}, spec: {application: APP,
  applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, assignments: [
    {actor: cam-0, unit: n0/gpus-0, node: n0, pool: gpus}]}, status: STATUS}";

pub fn placement(application: &str, status: &str) -> String {
    PLACEMENT.replace("APP", application).replace("STATUS", status)
}
