//! Small clusters as YAML, and what becomes of them.
#![expect(clippy::unwrap_used, reason = "a failing read fails the test")]

use jiff::Timestamp;
use placement::file::{Constraint, Places};
use world::{ApplicationKey, AssembleError, AssembledSnapshot, Index, Objects, Policy, assemble};

/// Two nodes of four cores, the first with two GPUs; a pool for each kind; one application of one group.
const BASE: &str = r#"
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

fn key(name: &str) -> ApplicationKey {
    ApplicationKey { namespace: "ns".into(), name: name.into() }
}

fn world_of(yaml: &str) -> Result<AssembledSnapshot, AssembleError> {
    let mut objects = Objects::default();
    objects.read("test", yaml).unwrap();
    assemble(&Index::of(&objects), &key("app"), &Policy::builtin("p"), Timestamp::UNIX_EPOCH)
}

/// The base with one text replaced by another, and documents added.
fn changed(from: &str, to: &str, more: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    format!("{}\n---\n{more}", BASE.replacen(from, to, 1))
}

/// Units, what nodes provide, actors, edges, rules: one line each.
fn shown(yaml: &str) -> String {
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
    }
    lines.extend(world.warnings.iter().map(|note| format!("note {}: {}", note.condition, note.message)));
    lines.join("\n")
}

mod erased {
    /// Anything that prints itself as JSON.
    pub trait Json {
        fn json(&self) -> String;
    }
    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}

/// What a change adds to the lines of the base, and what it takes away.
fn difference(yaml: &str) -> String {
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

const PLACEMENT: &str = r"{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: APP, namespace: ns}, spec: {application: APP,
  applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, assignments: [
    {actor: cam-0, unit: n0/gpus-0, node: n0, pool: gpus}]}, status: STATUS}";

fn placement(application: &str, status: &str) -> String {
    PLACEMENT.replace("APP", application).replace("STATUS", status)
}

#[test]
fn the_base() {
    insta::assert_snapshot!(shown(BASE));
}

#[test]
fn what_others_take_is_taken_off() {
    let foreign = r#"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x}, spec: {nodeName: n0, containers: [
      {name: c, resources: {requests: {cpu: 1500m, memory: 1Gi}, limits: {nvidia.com/gpu: "1"}}}],
      initContainers: [{name: i, resources: {requests: {cpu: "2"}}}]}}"#;
    insta::assert_snapshot!(difference(&changed("kind: cpu", "kind: cpu", foreign)));
    let ended = foreign.replace("spec:", "status: {phase: Succeeded}, spec:");
    assert_eq!(difference(&changed("kind: cpu", "kind: cpu", &ended)), "");
    let unbound = foreign.replace("nodeName: n0,", "");
    assert_eq!(difference(&changed("kind: cpu", "kind: cpu", &unbound)), "");
}

#[test]
fn devices_are_what_is_healthy_and_offered() {
    insta::assert_snapshot!(
        "one lost",
        difference(&changed("{id: gpu-1, type: GPU,", "{id: gpu-1, type: GPU, health: lost,", ""))
    );
    insta::assert_snapshot!(
        "one offered",
        difference(&changed("nvidia.com/gpu: \"2\"", "nvidia.com/gpu: \"1\"", ""))
    );
    insta::assert_snapshot!(
        "two models",
        difference(&changed("{id: gpu-1, type: GPU, model: A100", "{id: gpu-1, type: GPU, model: T4", ""))
    );
    let overlapping = "{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: hpus}, spec: {kind: gpu, resource: {devicePlugin: nvidia.com/gpu}}}";
    insta::assert_snapshot!("two pools", difference(&changed("kind: cpu", "kind: cpu", overlapping)));
    let shared = changed("speed: \"2\"", "sharing: {maxInstances: 2}", "")
        .replace("nvidia.com/gpu: \"2\"", "nvidia.com/gpu: \"4\"");
    insta::assert_snapshot!("shared", difference(&shared));
}

#[test]
fn nodes_object_with_a_reason() {
    let table = [
        (
            "selector",
            changed(
                "containers: [{name: c, resources",
                "nodeSelector: {disk: ssd}, containers: [{name: c, resources",
                "",
            ),
        ),
        ("cordon", changed("{name: n1}, ", "{name: n1}, spec: {unschedulable: true}, ", "")),
        (
            "taint",
            changed(
                "{name: n1}, ",
                "{name: n1}, spec: {taints: [{key: k, value: v, effect: NoExecute}]}, ",
                "",
            ),
        ),
        (
            "silent",
            changed(
                "{name: n1}, ",
                "{name: n1}, spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}]}, ",
                "",
            ),
        ),
        (
            "affinity",
            changed(
                "containers: [{name: c, resources",
                "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}}}, containers: [{name: c, resources",
                "",
            ),
        ),
    ];
    for (name, yaml) in table {
        insta::assert_snapshot!(name, difference(&yaml));
    }
    let tolerated =
        changed("{name: n1}, ", "{name: n1}, spec: {taints: [{key: k, value: v, effect: NoExecute}]}, ", "")
            .replace(
                "{kind: cpu}}",
                "{kind: cpu, podDefaults: {tolerations: [{key: k, operator: Exists}]}}}",
            );
    assert_eq!(difference(&tolerated), "");
    // Who may stay on a cordoned node may not where a taint says so as well.
    let node =
        |spec: &str| difference(&changed("{name: n1}, ", &format!("{{name: n1}}, spec: {{{spec}}}, "), ""));
    let cordon = "{key: node.kubernetes.io/unschedulable, effect: NoSchedule}";
    for (taints, is_stricter) in
        [("", false), ("k, effect: NoSchedule", false), ("k, effect: NoExecute", true)]
    {
        let taints = if taints.is_empty() { String::new() } else { format!(", {{key: {taints}}}") };
        let both = node(&format!("unschedulable: true, taints: [{cordon}{taints}]"));
        let alone = if is_stricter {
            format!("taints: [{}]", &taints[2..])
        } else {
            "unschedulable: true".to_owned()
        };
        assert_eq!(both, node(&alone), "{taints}");
        assert_eq!(both.contains("exceptCurrent"), !is_stricter, "{both}");
    }
}

#[test]
fn groups_have_rules_of_their_own() {
    let group = |rule: &str| changed("replicas: 2,", &format!("replicas: 2, {rule},"), "");
    for (name, rule) in [
        ("spread", "spread: node"),
        ("pin", "pinTo: {node: n1}"),
        ("pin nowhere", "pinTo: {node: n9}"),
        ("with itself", "with: [cam]"),
    ] {
        insta::assert_snapshot!(name, difference(&group(rule)));
    }
}

#[test]
fn what_was_decided_is_where_things_are() {
    insta::assert_snapshot!("own", difference(&changed("kind: cpu", "kind: cpu", &placement("app", "{}"))));
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    insta::assert_snapshot!(
        "other",
        difference(&changed(
            "kind: cpu",
            "kind: cpu",
            &format!("{other}\n---\n{}", placement("other", "{}"))
        ))
    );
    assert_eq!(difference(&changed("kind: cpu", "kind: cpu", &other)), "", "without a place it is left out");
    let gone = placement("app", "{}").replace("n0/gpus-0", "n7/gpus-0");
    assert_eq!(difference(&changed("kind: cpu", "kind: cpu", &gone)), "");
}

/// What bounds the application: `MAX of RESOURCE in POOLS DOMAIN: REASON`.
fn quotas(yaml: &str) -> String {
    let world = world_of(yaml).unwrap();
    let told = world.snapshot.file().constraints.iter().filter_map(|given| match given {
        Constraint::Quota { actors, pool, pools, numa, resource, max, reason } => Some(format!(
            "{} actors: {max} of {} in {}{}: {}",
            actors.len(),
            resource.as_deref().unwrap_or("them"),
            pools.as_ref().map(|pools| pools.join(" and ")).or(pool.clone()).unwrap_or("all".to_owned()),
            numa.as_ref().map(|numa| format!(" {numa}")).unwrap_or_default(),
            reason.as_deref().unwrap()
        )),
        _ => None,
    });
    told.collect::<Vec<_>>().join("\n")
}

#[test]
fn bounds_of_pools_and_namespaces_count_less_what_others_have() {
    let pool =
        |more: &str, others: &str| changed("speed: \"2\"}", &format!("speed: \"2\", {more}}}"), others);
    let quota = |hard: &str| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{hard: {{{hard}}}}}}}"
        )
    };
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let here = format!("{other}\n---\n{}", placement("other", "{}"));
    let elsewhere = here.replace("namespace: ns", "namespace: away");
    let foreign = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
         spec: {containers: [{name: c, resources: {requests: {cpu: 300m}}}]}}";
    let with =
        |hard: &str, more: &str| changed("kind: cpu", "kind: cpu", &format!("{}\n---\n{more}", quota(hard)));
    for (yaml, expected) in [
        // Bounds that cannot be reached say nothing.
        (pool("instances: {max: 2}, quota: {perNamespace: 2}", ""), ""),
        (
            pool("instances: {max: 1}", ""),
            "2 actors: 1 of them in gpus: pool gpus allows 1 instances, others use 0",
        ),
        (
            pool("instances: {max: 2}", &elsewhere),
            "2 actors: 1 of them in gpus: pool gpus allows 2 instances, others use 1",
        ),
        (pool("quota: {perNamespace: 2}", &elsewhere), ""),
        (
            pool("quota: {perNamespace: 2}", &here),
            "2 actors: 1 of them in gpus: pool gpus allows 2 instances of namespace ns, others use 1",
        ),
        (with("cpu: 2", foreign), ""),
        (
            with("requests.cpu: 900m", foreign),
            "2 actors: 600 of cpuMilli in all: ResourceQuota q allows requests.cpu 9/10, less the usage of others",
        ),
        (
            with("pods: 2", foreign),
            "2 actors: 1 of pods in all: ResourceQuota q allows pods 2, less the usage of others",
        ),
        (
            with("requests.nvidia.com/gpu: 1", foreign),
            "2 actors: 1 of them in gpus: ResourceQuota q allows requests.nvidia.com/gpu 1, less the usage of others",
        ),
        // What is no request of pods, what ended, what another namespace has, and quotas with scopes.
        (with("limits.cpu: 0, count/secrets: 0, requests.storage: 0", foreign), ""),
        (with("pods: 2", &foreign.replace("}]}}", "}]}, status: {phase: Succeeded}}")), ""),
        (with("pods: 2", &foreign.replace("namespace: ns", "namespace: away")), ""),
        (with("pods: 0", foreign).replace("{hard:", "{scopes: [BestEffort], hard:"), ""),
        (with("pods: 0", foreign).replace("name: q, namespace: ns", "name: q, namespace: away"), ""),
    ] {
        assert_eq!(quotas(&yaml), expected, "{yaml}");
    }
}

/// However many pools hand out a resource, and though it is one NUMA domain's, it is bounded once.
#[test]
fn a_quota_of_a_device_is_over_all_units_that_it_is_had_through() {
    let quota = |hard: &str| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{hard: {{{hard}}}}}}}"
        )
    };
    let pool = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: {name}}}, spec: {{{spec}}}}}"
        )
    };
    let t4s = pool(
        "t4s",
        "kind: gpu, nodeSelector: {matchLabels: {gpu: t4}}, resource: {devicePlugin: nvidia.com/gpu}",
    );
    let small = t4s.replace("kind: gpu,", "kind: cpu,");
    let domains = pool(
        "domains",
        "kind: numa-domain, unit: NumaDomain, resource: {devicePlugin: 'cairn.dev/numa-{index}'}",
    );
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let decided =
        placement("other", "{}").replace("n0/gpus-0", "n0/domains-0").replace("pool: gpus", "pool: domains");
    let with = |hard: &str, more: &[&String]| {
        let more: Vec<&str> = more.iter().map(|text| text.as_str()).collect();
        let more = format!("{}\n---\n{}", quota(hard), more.join("\n---\n"));
        changed("{kind: cpu, serviceTime", "{kind: numa-domain, serviceTime", &more)
    };
    let gpus = "2 actors: 1 of them in gpus and t4s: ResourceQuota q allows requests.nvidia.com/gpu 1, less the usage of others";
    let domain = |most: u64| {
        format!(
            "2 actors: 1 of them in domains numa-0: ResourceQuota q allows requests.cairn.dev/numa-0 {most}, less the usage of others"
        )
    };
    for (yaml, expected) in [
        (with("requests.nvidia.com/gpu: 1", &[&t4s]), gpus.to_owned()),
        (with("requests.nvidia.com/gpu: 2", &[&t4s]), String::new()),
        (with("requests.nvidia.com/gpu: 1", &[&small]), gpus.to_owned()),
        (with("requests.cairn.dev/numa-0: 1", &[&domains]), domain(1)),
        (with("requests.cairn.dev/numa-0: 2", &[&domains]), String::new()),
        (with("requests.cairn.dev/numa-0: 2", &[&domains, &other, &decided]), domain(2)),
        (with("requests.cairn.dev/numa-1: 2", &[&domains, &other, &decided]), String::new()),
        (with("requests.cairn.dev/numa-x: 0", &[&domains]), String::new()),
    ] {
        assert_eq!(quotas(&yaml), expected, "{yaml}");
    }
}

#[test]
fn what_others_asked_for_while_they_run_counts_before_it_is_started() {
    let owned = "uid: w1, ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: other, controller: true}]";
    let other = BASE.split("---").last().unwrap().replace("name: app, ", "name: other, uid: other, ");
    let decided = placement("other", "{}")
        .replace("cam-0", "inst-w1")
        .replace("namespace: ns}", &format!("namespace: ns, {}}}", owned.replace("uid: w1", "uid: plc")));
    let asked = format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: w1, namespace: ns, {owned}}}, \
         spec: {{applicationName: other, actorGroup: cam, origin: Runtime, template: {{}}}}}}"
    );
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {requests.nvidia.com/gpu: 2}}}";
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: w1, namespace: ns}, spec: {containers: [{name: c, \
         resources: {requests: {nvidia.com/gpu: 1}}}]}}";
    let left = "2 actors: 1 of them in gpus: ResourceQuota q allows requests.nvidia.com/gpu 2, less the usage of others";
    for (more, expected) in [
        (vec![quota, &other, &decided], ""),
        (vec![quota, &other, &decided, &asked], left),
        // Once its pod is there, that is what counts.
        (vec![quota, &other, &decided, &asked, pod], left),
    ] {
        let more = more.join("\n---\n");
        assert_eq!(quotas(&changed("kind: cpu", "kind: cpu", &more)), expected, "{more}");
    }
}

#[test]
fn what_admission_will_give_a_container_is_asked_for() {
    let limits = |limits: &str| {
        let spec = format!("spec: {{limits: [{limits}]}}");
        let yaml =
            format!("{{apiVersion: v1, kind: LimitRange, metadata: {{name: l, namespace: ns}}, {spec}}}");
        let lines = difference(&changed("kind: cpu", "kind: cpu", &yaml));
        let actor = lines.lines().find(|line| line.starts_with("+ actor ns/app/cam-0")).map(str::to_owned);
        actor.unwrap_or_default().replace("+ actor ns/app/cam-0 ", "")
    };
    let gpu = |asks: &str| {
        format!(
            r#"{{"cpu":{{"work":300000,"nodeRequires":{{"cpuMilli":500,"memoryMiB":100,"pods":1}}}},"gpu":{{"work":30000,"nodeRequires":{{{asks}"pods":1}}}}}}"#
        )
    };
    for (item, expected) in [
        ("type: Container, defaultRequest: {cpu: 200m}, default: {cpu: 1}", gpu(r#""cpuMilli":200,"#)),
        // As the API server fills in: the default stands for its request, the maximum for the default.
        (
            "type: Container, default: {cpu: 1}, max: {memory: 64Mi}",
            gpu(r#""cpuMilli":1000,"memoryMiB":64,"#),
        ),
        ("type: Container, min: {memory: 16Mi}", gpu(r#""memoryMiB":16,"#)),
        ("type: Pod, max: {cpu: 1}", String::new()),
    ] {
        assert_eq!(limits(&format!("{{{item}}}")), expected, "{item}");
    }
}

#[test]
fn a_pool_may_be_for_some_namespaces() {
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: ns, labels: {team: vision}}}";
    let rule = r#"+ rule {"type":"never","actors":["ns/app/cam-0","ns/app/cam-1"],"units":["n0/gpus-0","n0/gpus-1"],"exceptCurrent":true,"reason":"pool gpus does not select namespace ns: see its spec.namespaceSelector"}"#;
    for (selector, more, expected) in [
        ("matchLabels: {team: vision}", namespace, ""),
        ("matchLabels: {team: audio}", namespace, rule),
        ("matchExpressions: [{key: team, operator: Exists}]", "", rule),
        // Of a namespace that is not known the name is.
        ("matchLabels: {kubernetes.io/metadata.name: ns}", "", ""),
    ] {
        let pool = format!("speed: \"2\", namespaceSelector: {{{selector}}}}}");
        assert_eq!(difference(&changed("speed: \"2\"}", &pool, more)), expected, "{selector}");
    }
}

#[test]
fn refusals_are_remembered_until_they_are_not() {
    let refused = |until: &str| {
        placement(
            "app",
            &format!("{{refusals: [{{actor: cam-0, node: n0, reason: no room, until: '{until}'}}]}}"),
        )
    };
    insta::assert_snapshot!(
        "remembered",
        difference(&changed("kind: cpu", "kind: cpu", &refused("1970-01-01T00:01:00Z")))
    );
    insta::assert_snapshot!(
        "forgotten",
        difference(&changed("kind: cpu", "kind: cpu", &refused("1969-01-01T00:01:00Z")))
    );
}

/// The rules that a refusal makes, as `ACTORS not on UNITS: REASON`.
#[test]
fn refusals_go_as_far_as_they_say() {
    let rules = |scope: &str| {
        let refusal =
            format!("{{refusals: [{{{scope}, actor: cam-0, reason: no, until: '1970-01-01T00:01:00Z'}}]}}");
        let world = world_of(&changed("kind: cpu", "kind: cpu", &placement("app", &refusal))).unwrap();
        let told = world.snapshot.file().constraints.iter().filter_map(|rule| match rule {
            Constraint::Never { actors, places, reason: Some(reason), .. }
                if reason.starts_with("refused") =>
            {
                let (Places::Units(names) | Places::Nodes(names) | Places::Zones(names)) = places;
                Some(format!("{} not on {}: {reason}", actors.join(" "), names.join(" ")))
            }
            _ => None,
        });
        told.collect::<Vec<_>>().join("; ")
    };
    let (one, both) = ("ns/app/cam-0", "ns/app/cam-0 ns/app/cam-1");
    let table = [
        ("node: n0", format!("{one} not on n0: refused on n0: no")),
        ("node: n0, group: cam, kind: gpu", format!("{both} not on n0/gpus-0 n0/gpus-1: refused on n0: no")),
        ("node: n7, group: cam, kind: gpu", String::new()),
        ("node: n0, group: another, kind: gpu", String::new()),
        ("scope: Template, group: cam, kind: cpu", format!("{both} not on n0/cpus-0 n1/cpus-0: refused: no")),
        ("scope: Namespace", String::new()),
    ];
    for (scope, expected) in table {
        assert_eq!(rules(scope), expected, "{scope}");
    }
}

#[test]
fn channels_become_messages_rounded_once() {
    let channel =
        |channel: &str| changed("spec: {actors", &format!("spec: {{channels: [{channel}], actors"), "");
    let table = [
        ("{from: cam, to: cam, rate: 1/s, pattern: Ring, drag: 2}", "ring"),
        ("{from: cam, to: cam, rate: 1/h, messageBytes: 65Ki, pattern: AllToAll}", "two quanta, rounded up"),
        ("{from: cam, to: nobody, rate: 1/s, pattern: AllToAll}", "no such group"),
    ];
    for (text, name) in table {
        insta::assert_snapshot!(name, difference(&channel(text)));
    }
}

#[test]
fn a_pair_that_talks_both_ways_is_one_edge() {
    let all = "spec: {channels: [{from: cam, to: cam, rate: 1/s, pattern: AllToAll}], actors";
    let many = changed("spec: {actors", all, "").replace("replicas: 2", "replicas: 30");
    let world = world_of(&many).unwrap();
    let file = world.snapshot.file();
    let channels = &world.snapshot.problem().channels;
    assert_eq!((file.messages.len(), file.edges(), channels.pairs), (0, 1, 30 * 29 / 2));
    let ring = all.replace("AllToAll", "Ring");
    let many = changed("spec: {actors", &ring, "").replace("replicas: 2", "replicas: 30");
    assert_eq!(world_of(&many).unwrap().snapshot.file().edges(), 30);
    let back_and_forth = changed("spec: {actors", &ring, "");
    let world = world_of(&back_and_forth).unwrap();
    assert_eq!((world.snapshot.file().messages.len(), world.snapshot.file().edges()), (2, 1));
}

#[test]
fn what_cannot_be_planned_says_what_to_do() {
    let ring = |channel: &str| {
        let channels =
            format!("spec: {{channels: [{{from: cam, to: cam, {channel}, pattern: Ring}}], actors");
        changed("spec: {actors", &channels, "")
    };
    let table = [
        (
            changed("replicas: 2", "replicas: 5001", ""),
            "the application has 5001 actors, at most 5000 are supported; divide it",
        ),
        (
            changed(
                "containers: [{name: c}]",
                "containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]",
                "",
            ),
            "spec.actors[cam].implementations[gpu].template: requests nvidia.com/gpu itself; remove it, Cairn adds the resource of the chosen pool",
        ),
        (
            changed("arrivals: 1/s", "arrivals: 1 per second", ""),
            "spec.actors[cam].arrivals: `1 per second` is not a rate, as in 30/s, 0.5/m or 100/h",
        ),
        (
            changed("cpu: 500m", "cpu: 999999999999999999E", ""),
            "spec.actors[cam].implementations[cpu].template: has an invalid resource request: `999999999999999999E` is not a quantity that Kubernetes supports: the maximum is 2^63; correct it",
        ),
        (
            ring("rate: 999999999/s, messageBytes: 999999999999999Ei"),
            "spec.channels[0].messageBytes: `999999999999999Ei` is not a quantity that Kubernetes supports: the maximum is 2^63",
        ),
        (
            ring("rate: 999999999.999999/s, messageBytes: 1024Ei"),
            "spec.channels[0]: an actor sends too many messages in a window (rate times messageBytes); the maximum is 2^40, correct it",
        ),
        (
            changed("arrivals: 1/s", "arrivals: 999999999.999999/h", "")
                .replace("serviceTime: 10ms", "serviceTime: 999999999.999999s"),
            "spec.actors[cam].implementations[cpu].serviceTime: an actor has too much work in a window (arrivals times serviceTime); the maximum is 2^40, correct it",
        ),
    ];
    for (yaml, expected) in table {
        assert_eq!(world_of(&yaml).unwrap_err().to_string(), expected);
    }
    let busy = changed("arrivals: 1/s", "arrivals: 5000/s", "");
    assert!(shown(&busy).ends_with("note Saturated: an actor of cam has more work than any unit can do for one actor; add replicas or a faster kind"));
}

/// What one application says too much of is told to it, and the others are planned.
#[test]
fn numbers_of_one_application_are_no_trouble_of_another() {
    let application = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    for (from, to) in [
        ("cpu: 500m", "cpu: 999999999999999999E"),
        (
            "spec: {actors",
            "spec: {channels: [{from: cam, to: cam, rate: 1/s, messageBytes: 1025Ei, pattern: Ring}], actors",
        ),
        (
            "spec: {actors",
            "spec: {channels: [{from: cam, to: cam, rate: 1/s, messageBytes: 1024Ei, pattern: Ring}], actors",
        ),
        ("cpu: 500m", "cpu: 1E"),
        ("replicas: 2,", "replicas: 2, stateBytes: 4Ei,"),
        ("serviceTime: 1ms", "serviceTime: 999999999s"),
        // it fits by itself, and nobody fits beside it
        ("serviceTime: 1ms", "serviceTime: 300239975s"),
    ] {
        assert!(application.contains(from), "{from}");
        let other = application.replacen(from, to, 1);
        let yaml = changed("kind: cpu", "kind: cpu", &format!("{other}\n---\n{}", placement("other", "{}")));
        let mut objects = Objects::default();
        objects.read("test", &yaml).unwrap();
        let index = Index::of(&objects);
        let ruled =
            Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") };
        for policy in [Policy::builtin("p"), ruled] {
            let world = |name: &str| assemble(&index, &key(name), &policy, Timestamp::UNIX_EPOCH);
            let (app, other) = (world("app").unwrap(), world("other").unwrap_err().to_string());
            assert!(other.starts_with("spec."), "{to}: {other}");
            let told = |note: &world::SnapshotWarning| {
                note.condition == "Partial" && note.message.contains("of ns/other only")
            };
            assert!(app.warnings.iter().any(told), "{to}: {:?}", app.warnings);
        }
    }
}

#[test]
fn numbers_of_nodes_and_pools_that_pass_what_is_counted_are_the_most_that_is() {
    for (from, to, expected) in [
        ("speed: \"2\"", "speed: '999999', lanes: 1000", "unit n0/gpus-0 9007199254740992 1 numa-0"),
        (
            "metadata: {name: n1}, status: {allocatable: {cpu: \"4\"",
            "metadata: {name: n1}, status: {allocatable: {cpu: 9P",
            r#"node n1 {"cpuMilli":9007199254740992,"memoryMiB":8192,"pods":10}"#,
        ),
        (
            "metadata: {name: n1}, status: {allocatable: {cpu: \"4\"",
            "metadata: {name: n1}, status: {allocatable: {cpu: 9P",
            "unit n1/cpus-0 9007199254740992 many -",
        ),
    ] {
        let told = shown(&changed(from, to, ""));
        assert!(told.lines().any(|line| line == expected), "{expected}: {told}");
    }
    let licence = |cost: &str| {
        let node = format!("{{name: n1, labels: {{cairn.dev/licence-cost: '{cost}'}}}}");
        let world = world_of(&changed("{name: n1}", &node, "")).unwrap();
        world.snapshot.file().nodes.iter().find(|node| node.id == "n1").unwrap().licence_cost
    };
    for (cost, expected) in [
        ("40", Some(40)),
        ("9007199254740993", Some(1 << 40)),
        ("18446744073709551616", None),
        ("dear", None),
    ] {
        assert_eq!(licence(cost), expected, "{cost}");
    }
}

#[test]
fn other_applications_and_what_runs_do_not_change_an_applications_demand() {
    let demand = |yaml: &str| world_of(yaml).unwrap().demand();
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let more = format!("{other}\n---\n{}\n---\n{}", placement("other", "{}"), placement("app", "{}"));
    assert_eq!(demand(BASE), demand(&changed("kind: cpu", "kind: cpu", &more)));
    assert_ne!(demand(BASE), demand(&changed("arrivals: 1/s", "arrivals: 2/s", "")));
}

#[test]
fn dumps_are_read_as_kubectl_prints_them() {
    let list = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: a}}]}\n---\n{apiVersion: v1, kind: NodeList, items: [{metadata: {name: b}}]}";
    let mut objects = Objects::default();
    objects.read("dump", list).unwrap();
    assert_eq!(objects.nodes.len(), 2);
    let told = |text: &str| Objects::default().read("f.yaml", text).unwrap_err().to_string();
    assert_eq!(
        told("a: 1"),
        "f.yaml: document 1: has no `kind`; give whole objects, as `kubectl get -o yaml` prints them"
    );
    assert_eq!(
        told("{apiVersion: cairn.dev/v1alpha1, kind: Actor, metadata: {name: x}}"),
        "f.yaml: document 1, Actor x: `Actor` is not a kind of cairn.dev; correct it"
    );
    assert_eq!(
        told("{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {kind: 1}}"),
        "f.yaml: document 1, DevicePool x, spec.kind: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        told("{apiVersion: v1, kind: Node, metadata: {name: a, name: b}}"),
        "f.yaml: document 1: metadata: `name` is given twice; keep one at line 1 column 40"
    );
    let list = told("{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: [cpu]}");
    let start =
        "f.yaml: document 1, DevicePool x, spec: is a list; give an object, with its fields by name: kind, ";
    assert!(list.starts_with(start), "{list}");
}

#[test]
fn policies_are_refused_by_line() {
    let told = |text: &str| Policy::parse("p", text).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            told("window: 0s"),
            told("windw: 3s"),
            told("objectives: [overload, overload]"),
            told("objectives: [speed]"),
            told("exchangeCost:\n  otherNode: -1"),
            told("budget: {wall: soon}"),
            told("window: [1"),
            told("leastGainPercent: 101"),
        ]
        .join("\n")
    );
    assert_eq!(
        told("exchangeCost: {kinds: {cpu: {cpu: 1, cpu: 2}}}"),
        "policy p: policy.yaml line 1 column 29, exchangeCost.kinds.cpu.cpu: `cpu` is given twice; keep one"
    );
    assert_eq!(
        told("budget: [2s]"),
        "policy p: policy.yaml line 1 column 9, budget: invalid type: sequence, expected an object"
    );
    assert_eq!(Policy::parse("p", "").unwrap(), Policy::builtin("p"));
}
