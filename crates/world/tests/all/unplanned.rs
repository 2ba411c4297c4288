//! Feasibility of decided places while the manifest cannot be planned.

use std::sync::Arc;

use crds::{ActorApplication, DevicePool, Placement};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};
use world::{
    ApplicationKey, Index, Objects, Policy, assemble, decision, infeasible_without_plan, observed_state,
    units_on,
};

use crate::scene::everything;

/// Updates the first node with this spec.
fn node(index: &mut Index, all: &Objects, spec: Value) {
    let mut node: Node = all.nodes[0].as_ref().clone();
    node.spec = Some(serde_json::from_value(spec).unwrap());
    index.put_node(Arc::new(node));
}

/// Updates the pool of GPUs so that its pods tolerate this taint.
fn tolerated(index: &mut Index, all: &Objects, key: &str) {
    let pool = all.pools.iter().find(|pool| pool.name_any() == "gpus").unwrap();
    let mut pool: DevicePool = pool.as_ref().clone();
    let defaults = json!({"tolerations": [{"key": key, "operator": "Exists"}]});
    pool.spec.pod_defaults = Some(serde_json::from_value(defaults).unwrap());
    index.put_pool(Arc::new(pool));
}

/// Records that the first node refused a pod of the group on a GPU.
fn refused(index: &mut Index, all: &Objects) {
    let mut placement: Placement = all.placements[0].as_ref().clone();
    let refusal = json!({"scope": "Node", "group": "s", "kind": "gpu", "actor": "s-7", "node": "n0", "reason": "no",
        "until": "1970-01-01T00:01:00Z"});
    placement.status = Some(serde_json::from_value(json!({"refusals": [refusal]})).unwrap());
    index.put_placement(Arc::new(placement));
}

/// Actors of `web` with an infeasible place after a change; with pods and without.
fn found(change: impl Fn(&mut Index, &Objects)) -> [String; 2] {
    [true, false].map(|with_pods| {
        let all = everything();
        let mut index = Index::of(&all);
        let mut edited: ActorApplication = all.applications[0].as_ref().clone();
        edited.spec.actors[0].replicas = 5001;
        index.put_application(Arc::new(edited.clone()));
        if !with_pods {
            for name in ["web-s-0", "web-s-1"] {
                index.remove_pod("ns", name);
            }
        }
        change(&mut index, &all);
        let (key, now) =
            (ApplicationKey { namespace: "ns".into(), name: "web".into() }, Timestamp::UNIX_EPOCH);
        assert!(assemble(&index, &key, &Policy::builtin("p"), now).is_err(), "it cannot be planned");
        let found = infeasible_without_plan(&index, &edited, &decision(&all.placements[0]), now);
        found.into_iter().collect::<Vec<_>>().join(" ")
    })
}

/// Actors of `web` that cannot restart in place after a change.
fn without_return(change: impl Fn(&mut Index, &Objects)) -> String {
    let all = everything();
    let mut index = Index::of(&all);
    change(&mut index, &all);
    let units = units_on(&index, ["n0"], &Policy::builtin("units"));
    let seen = observed_state(&index, &all.applications[0], &units);
    let pods = seen
        .instances
        .iter()
        .filter(|(_, instance)| instance.pod.as_ref().is_some_and(|pod| pod.restart_blocked));
    pods.map(|(actor, _)| actor.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn feasibility_without_a_plan() {
    type Change = fn(&mut Index, &Objects);
    let table: [(&str, Change, [&str; 3]); 9] = [
        ("nothing", |_, _| (), ["", "", ""]),
        ("the node is gone", |index, _| index.remove_node("n0"), ["s-0 s-1", "s-0 s-1", ""]),
        ("its GPUs are offered no more", |index, _| index.remove_pool("gpus"), ["s-0", "s-0", ""]),
        ("its agent is silent", |index, _| index.set_agent_stale("n0", true), ["", "s-0", "s-0"]),
        (
            "it is cordoned",
            |index, all| node(index, all, json!({"unschedulable": true})),
            ["", "s-0 s-1", "s-0 s-1"],
        ),
        (
            "it is tainted",
            |index, all| node(index, all, json!({"taints": [{"key": "x", "effect": "NoExecute"}]})),
            ["", "s-0 s-1", "s-0 s-1"],
        ),
        (
            "it would rather not",
            |index, all| node(index, all, json!({"taints": [{"key": "x", "effect": "PreferNoSchedule"}]})),
            ["", "", ""],
        ),
        (
            "pods of the pool tolerate its taint",
            |index, all| {
                tolerated(index, all, "x");
                node(index, all, json!({"taints": [{"key": "x", "effect": "NoSchedule"}]}));
            },
            ["", "s-1", "s-1"],
        ),
        ("it refused one like it", refused, ["", "s-0", ""]),
    ];
    for (what, change, expected) in table {
        let [with_pods, without] = found(change);
        let summary = [with_pods, without, without_return(change)];
        assert_eq!(summary, expected, "{what}: with pods, without, and who there could not start again");
    }
}
