//! Rules between pods: plans that obey them, and what is left to the scheduler.

use std::collections::BTreeMap;

use crate::{File, cairn};

#[test]
fn plan_and_explanation_name_what_is_left_to_the_scheduler() {
    let world = "
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: {hard: {pods: '9'}, scopes: [BestEffort]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: web, namespace: shop}, spec: {actors: [
  {name: a, replicas: 1, implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c, image: i}]}}}]}]}}";
    let file = File::new("scopes.yaml", world);
    let plan = cairn(&["plan", "-f", file.path()]).out;
    assert!(plan.contains("\nProven optimal under the rules that Cairn models. ("), "{plan}");
    assert!(plan.contains("\nLeft to the scheduler: ResourceQuota q: its scopes.\n"), "{plan}");
    let explain = ["explain", "actorapp", "shop/web", "-f", file.path()];
    let page = cairn(&explain).out;
    assert!(page.contains("\nLeft to the scheduler\n  ResourceQuota q: its scopes\n"), "{page}");
    let report = cairn(&[&explain[..], &["-o", "json"]].concat()).json();
    assert_eq!(report["leftToScheduler"], serde_json::json!(["ResourceQuota q: its scopes"]));
}

#[test]
fn anti_affinity_and_spread_of_templates_are_solved_to_optimality() {
    let node = |name: &str, zone: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, \
             topology.kubernetes.io/zone: {zone}}}}}, status: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '10'}}}}}}\n---\n"
        )
    };
    let selector = "labelSelector: {matchLabels: {app: x}}";
    let apart = format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
         [{{topologyKey: kubernetes.io/hostname, {selector}}}]}}}}"
    );
    let spread = format!(
        "topologySpreadConstraints: [{{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, \
         {selector}}}]"
    );
    // Without the rule all actors share a node.
    for (rule, replicas, expected) in [
        ("hostNetwork: false", 2, [2, 0, 0]),
        (apart.as_str(), 3, [1, 1, 1]),
        (spread.as_str(), 4, [2, 2, 0]),
    ] {
        let application = format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: cpus}}, spec: {{kind: cpu}}}}\n---\n\
             {{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: web, namespace: shop}}, spec: {{actors: [\
             {{name: a, replicas: {replicas}, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{\
             metadata: {{labels: {{app: x}}}}, spec: {{{rule}, containers: [{{name: c, image: i}}]}}}}}}]}}], \
             channels: [{{from: a, to: a, rate: 10/s, pattern: AllToAll}}]}}}}"
        );
        let world = [node("n0", "a"), node("n1", "a"), node("n2", "b"), application].concat();
        let file = File::new("world.yaml", &world);
        let plan = cairn(&["plan", "-f", file.path(), "--application", "shop/web", "-o", "json"]).json();
        assert_eq!(plan["optimal"], true, "{rule}: {plan}");
        assert!(plan.get("leftToScheduler").is_none(), "{rule}: {plan}");
        let mut on = BTreeMap::from(["n0", "n1", "n2"].map(|node| (node.to_owned(), 0)));
        for unit in plan["assignments"].as_object().unwrap().values() {
            *on.get_mut(unit.as_str().unwrap().split('/').next().unwrap()).unwrap() += 1;
        }
        let mut on: Vec<i32> = on.into_values().collect();
        on.sort_unstable_by_key(|count| -count);
        assert_eq!(on, expected, "{rule}: {plan}");
    }
}
