//! A small cluster with some of everything.

use std::fmt::Write as _;

use world::Objects;

/// Two nodes with two GPUs each, two applications with two actors, their Instances, pods and decisions, and a foreign pod.
pub fn everything() -> Objects {
    let mut text = String::new();
    for node in ["n0", "n1"] {
        write!(
            text,
            r#"
---
{{apiVersion: v1, kind: Node, metadata: {{name: {node}}}, status: {{allocatable: {{cpu: "8", memory: 8Gi, pods: "10", nvidia.com/gpu: "2"}}}}}}
---
{{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: {node}}}, spec: {{devices: [{{id: gpu-0, type: GPU}}, {{id: gpu-1, type: GPU}}]}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: foreign-{node}, namespace: ns, uid: foreign-{node}}}, spec: {{nodeName: {node}, containers: [{{name: c,
  resources: {{requests: {{cpu: "1", nvidia.com/gpu: "1"}}}}}}]}}}}"#
        )
        .unwrap();
    }
    text += r"
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, instances: {max: 3}, resource: {devicePlugin: nvidia.com/gpu}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}";
    let owner = |kind: &str, uid: &str| {
        format!(
            "ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: {kind}, name: {uid}, uid: {uid}, controller: true}}]"
        )
    };
    for (app, node) in [("web", "n0"), ("shop", "n1")] {
        let by_application = owner("ActorApplication", &format!("{app}-uid"));
        write!(
            text,
            r#"
---
{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: {app}, namespace: ns, uid: {app}-uid}}, spec: {{actors: [
  {{name: s, replicas: 2, arrivals: 1/s, implementations: [
    {{kind: gpu, serviceTime: 1ms, template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "1"}}}}}}]}}}}}},
    {{kind: cpu, serviceTime: 9ms, template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "2"}}}}}}]}}}}}}]}}]}}}}
---
{{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: {app}, namespace: ns, uid: {app}-plc, {by_application}}}, spec: {{application: {app},
  applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, assignments: [
  {{actor: s-0, unit: {node}/gpus-0, node: {node}, pool: gpus}}, {{actor: s-1, unit: n0/cpus-0, node: n0, pool: cpus}}]}}}}"#
        )
        .unwrap();
        for (actor, unit) in [("s-0", format!("{node}/gpus-0")), ("s-1", "n0/cpus-0".to_owned())] {
            let by_instance = owner("Instance", &format!("{app}-{actor}-uid"));
            let bound = unit.split_once('/').unwrap().0;
            write!(
                text,
                r#"
---
{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: {app}-{actor}, namespace: ns, uid: {app}-{actor}-uid, {by_application}}},
  spec: {{applicationName: {app}, actorGroup: s, actor: {actor}, template: {{}}}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: {app}-{actor}, namespace: ns, uid: {app}-{actor}-pod, annotations: {{cairn.dev/unit: {unit}}}, {by_instance}}},
  spec: {{nodeName: {bound}, containers: [{{name: c, resources: {{requests: {{cpu: "1"}}}}}}]}}}}"#
            )
            .unwrap();
        }
    }
    let mut objects = Objects::default();
    objects.read("test", &text).unwrap();
    objects
}
