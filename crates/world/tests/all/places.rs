//! Feasibility of a decided place without a pod: terminating pods are waited for, others are not.

use std::collections::BTreeSet;

use jiff::Timestamp;
use world::{
    ApplicationKey, Index, Objects, Policy, assemble, decision, desired_state, infeasible, observed_state,
    units,
};

/// A pool of nodes, and the application `web` with one actor that requests two cores, decided on `n0` without a pod.
const BASE: &str = r#"
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: web, namespace: ns, uid: web-uid}, spec: {actors: [
  {name: server, replicas: 1, arrivals: 1/s, implementations: [
    {kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}}]}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {name: web-server-0, namespace: ns, uid: web-server-0-uid,
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: web, uid: web-uid, controller: true}]},
  spec: {applicationName: web, actorGroup: server, actor: server-0, template: {}}}
"#;

fn owner(kind: &str, uid: &str) -> String {
    format!(
        "ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: {kind}, name: {uid}, uid: {uid}, controller: true}}]"
    )
}

/// A node of four cores.
fn node(name: &str) -> String {
    format!(
        "\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{cpu: \"4\", memory: 8Gi, pods: \"10\"}}}}}}"
    )
}

/// The decision that the only actor of an application is on this node.
fn decided(application: &str, actor: &str, node: &str) -> String {
    let owner = owner("ActorApplication", &format!("{application}-uid"));
    format!(
        "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: {application}, namespace: ns, uid: {application}-plc, {owner}}}, \
         spec: {{application: {application}, applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, \
         assignments: [{{actor: {actor}, unit: {node}/cpus-0, node: {node}, pool: cpus}}]}}}}"
    )
}

/// A pod of three cores on `n0` in this phase, controlled by the Instance of this uid if there is one.
fn pod(name: &str, phase: &str, owned: Option<&str>) -> String {
    let owned = owned.map_or(String::new(), |uid| format!(", {}", owner("Instance", uid)));
    format!(
        "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns, uid: {name}-pod, \
         annotations: {{cairn.dev/unit: n0/cpus-0}}{owned}}}, \
         spec: {{nodeName: n0, containers: [{{name: c, resources: {{requests: {{cpu: \"3\"}}}}}}]}}, status: {{phase: {phase}}}}}"
    )
}

/// Another application with one actor of three cores, which is decided to be on this node.
fn shop(node: &str) -> String {
    let owner = owner("ActorApplication", "shop-uid");
    let application = "\n---\n{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: shop, namespace: ns, uid: shop-uid}, \
         spec: {actors: [{name: s, replicas: 1, arrivals: 1/s, implementations: [{kind: cpu, serviceTime: 1ms, \
         template: {spec: {containers: [{name: c, resources: {requests: {cpu: \"3\"}}}]}}}]}]}}";
    let instance = format!(
        "\n---\n{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: shop-s-0, namespace: ns, uid: shop-s-0-uid, {owner}}}, \
         spec: {{applicationName: shop, actorGroup: s, actor: s-0, template: {{}}}}}}"
    );
    application.to_owned() + &instance + &decided("shop", "s-0", node)
}

/// What the actor of `web` is blocked on given these objects, and whether its place is infeasible.
fn summary(more: &str) -> String {
    let mut objects = Objects::default();
    objects.read("test", &format!("{BASE}{}{more}", decided("web", "server-0", "n0"))).unwrap();
    let (index, policy) = (Index::of(&objects), Policy::builtin("p"));
    let key = ApplicationKey { namespace: "ns".to_owned(), name: "web".to_owned() };
    let web = index.application(&key).unwrap();
    let places = decision(index.placement(&key).unwrap());
    let world = assemble(&index, &key, &policy, Timestamp::UNIX_EPOCH).unwrap();
    let lost = infeasible(&index, web, &world, Some(&places));
    let seen = observed_state(&index, web, &units(&index, &policy));
    let todo = control::next_actions(&desired_state(&index, web, "p"), &places, &seen, &BTreeSet::new());
    let waits = todo.blocked.get("server-0").map_or("starts".to_owned(), ToString::to_string);
    if lost.is_empty() { waits } else { format!("{waits}; its place is lost") }
}

#[test]
fn terminating_pods_are_waited_for_and_others_make_a_place_infeasible() {
    let two = node("n0") + &node("n1");
    let in_use = "cpuMilli of n0 is still in use";
    let lost = format!("{in_use}; its place is lost");
    let lost = lost.as_str();
    for (more, expected) in [
        (String::new(), "starts"),
        // Orphaned pods will be deleted.
        (pod("left", "Running", Some("gone")), in_use),
        // A pod of another application uses its node even if its actor is decided elsewhere; so does a foreign pod.
        (shop("n1") + &pod("shop-s-0", "Running", Some("shop-s-0-uid")), lost),
        (shop("n0") + &pod("shop-s-0", "Running", Some("shop-s-0-uid")), lost),
        (shop("n0"), "starts; its place is lost"),
        (pod("foreign", "Running", None), lost),
        (pod("foreign", "Failed", None), "starts"),
    ] {
        assert_eq!(summary(&(two.clone() + &more)), expected, "{more}");
    }
    let not_offered = "n0/cpus-0 is no longer offered; re-planning; its place is lost";
    assert_eq!(summary(&node("n1")), not_offered);
}
