//! Nodes, devices and their units.

use super::cluster::{BASE, changed, difference, shown, world_of};

#[test]
fn the_base() {
    insta::assert_snapshot!(shown(BASE));
}

#[test]
fn requests_of_foreign_pods_are_subtracted() {
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
fn units_need_healthy_and_offered_devices() {
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
fn node_constraints_have_a_reason() {
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
                "{name: n1}, spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}, \
                 {key: node.kubernetes.io/not-ready, effect: NoExecute}]}, ",
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
    // A taint overrides the leniency of a cordon.
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
fn units_have_the_power_of_their_pool() {
    for (power, expected) in [
        ("", (None, None)),
        (", power: {idle: 50W, busy: 300W}", (Some(50), Some(300))),
        (", power: {busy: 300W}", (Some(0), Some(300))),
    ] {
        let world = world_of(&changed("speed: \"2\"", &format!("speed: \"2\"{power}"), "")).unwrap();
        let unit = world.snapshot.file().units.iter().find(|unit| unit.id == "n0/gpus-0").unwrap();
        assert_eq!((unit.idle_watts, unit.power_watts), expected, "{power}");
    }
}

#[test]
fn nominated_pods_keep_their_room() {
    let pod = |fields: &str, status: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: away}}, spec: {{{fields}containers: \
             [{{name: c, resources: {{requests: {{cpu: 3}}}}}}]}}, status: {{phase: Pending, {status}}}}}"
        )
    };
    for (fields, status, expected) in [
        ("", "nominatedNodeName: n0", 1000),
        ("priority: 5, ", "nominatedNodeName: n0", 1000),
        // below the priority of a template without a class
        ("priority: -5, ", "nominatedNodeName: n0", 4000),
        ("nodeName: n1, ", "nominatedNodeName: n0", 4000),
        ("", "nominatedNodeName: ''", 4000),
    ] {
        let world = world_of(&changed("kind: cpu", "kind: cpu", &pod(fields, status))).unwrap();
        let node = world.snapshot.file().nodes.iter().find(|node| node.id == "n0").unwrap();
        assert_eq!(node.provides["cpuMilli"], expected, "{fields}{status}");
    }
}

#[test]
fn numbers_of_nodes_and_pools_are_capped() {
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
        let summary = shown(&changed(from, to, ""));
        assert!(summary.lines().any(|line| line == expected), "{expected}: {summary}");
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
