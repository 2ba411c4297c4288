//! Channels between large groups, with more pairs of actors than are expanded.

use std::fmt::Write as _;

use crate::{File, Ran, cairn};

/// Nodes of 64 cores and 250 pods, a pool, and an application with an all-to-all channel between two groups.
fn manifests(nodes: usize, replicas: usize) -> String {
    let mut text = String::from(
        "apiVersion: cairn.dev/v1alpha1\nkind: DevicePool\nmetadata: {name: cpus}\nspec: {kind: cpu}\n",
    );
    for node in 0..nodes {
        let sizes = "{cpu: \"64\", memory: 256Gi, pods: \"250\"}";
        write!(
            text,
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n{node}\n  annotations: {{kwok.x-k8s.io/node: fake}}\n  \
             labels: {{topology.kubernetes.io/zone: z{}}}\nstatus:\n  allocatable: {sizes}\n  capacity: {sizes}\n  \
             conditions: [{{type: Ready, status: \"True\"}}]\n",
            node / 16
        )
        .unwrap();
    }
    let group = |name: &str| {
        format!(
            "  - {{name: {name}, replicas: {replicas}, implementations: [{{kind: cpu, serviceTime: 1ms, \
             template: {{spec: {{containers: [{{name: actor, image: none}}]}}}}}}]}}\n"
        )
    };
    write!(
        text,
        "---\napiVersion: cairn.dev/v1alpha1\nkind: ActorApplication\nmetadata: {{name: dense, namespace: big}}\nspec:\n  \
         actors:\n{}{}  channels: [{{from: map, to: reduce, rate: 60/s, pattern: AllToAll, drag: 1}}]\n",
        group("map"),
        group("reduce")
    )
    .unwrap();
    text
}

/// A snapshot of 100 units and two groups.
fn snapshot(members: usize) -> String {
    let list = |items: Vec<String>| items.join(",");
    let units = (0..100).map(|at| {
        format!(
            r#"{{"id": "n{}/{at}", "kind": "cpu", "node": "n{}", "capacity": {members}}}"#,
            at / 4,
            at / 4
        )
    });
    let actors = (0..2 * members).map(|at| {
        let group = ["map", "reduce"][at % 2];
        format!(r#"{{"id": "big/dense/{group}-{}", "group": "{group}", "runsOn": {{"cpu": 10}}}}"#, at / 2)
    });
    format!(
        r#"{{"version": 1, "units": [{}], "actors": [{}], "exchangeCost": {{"otherKind": 1, "otherNode": 30}},
        "groupMessages": [{{"from": "big/dense/map", "to": "big/dense/reduce", "count": 3, "drag": 1}}]}}"#,
        list(units.collect()),
        list(actors.collect())
    )
}

/// The numbers of placed and unplaced actors, the number of pairs in the note, and what clingo verified.
fn result(ran: &Ran) -> (usize, usize, String, String) {
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let plan = ran.json();
    let note = plan["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap());
    let note = note.filter_map(|note| note.split_once(" pairs of actors")).next_back();
    (
        plan["assignments"].as_object().unwrap().len(),
        plan["unplaced"].as_array().unwrap().len(),
        note.map_or(String::new(), |(before, _)| before.rsplit(' ').next().unwrap().to_owned()),
        plan["judged"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn all_to_all_channels_between_large_groups_are_planned() {
    for (nodes, replicas, expected) in [(16, 450, ("202500", "parts")), (64, 2500, ("6250000", "scaled"))] {
        let file = File::new("dense.yaml", &manifests(nodes, replicas));
        let ran = cairn(&["plan", "-f", file.path(), "--application=big/dense", "--effort=1", "-o", "json"]);
        let (placed, unplaced, pairs, judged) = result(&ran);
        assert_eq!((placed, unplaced), (2 * replicas, 0));
        assert_eq!((pairs.as_str(), judged.as_str()), expected);
    }
    let file = File::new("dense.json", &snapshot(5000));
    let ran = cairn(&["plan", "--snapshot", file.path(), "--effort=1", "-o", "json"]);
    let (placed, unplaced, pairs, judged) = result(&ran);
    assert_eq!((placed, unplaced, (pairs.as_str(), judged.as_str())), (10_000, 0, ("25000000", "parts")));
}

#[test]
fn strategies_and_rules_over_pairs_are_rejected_above_the_limit() {
    let file = File::new("dense.json", &snapshot(450));
    let error = |more: &[&str]| {
        let ran = cairn(&[&["plan", "--snapshot", file.path(), "--effort=1"], more].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.all());
        ran.err
    };
    let pairs =
        "reads pairs of actors, and the channels between groups make 202500; at most 200000 are written out";
    assert!(error(&["--strategy=clingo"]).contains(&format!("clingo {pairs}; choose another strategy")));
    let program = File::new("talk.lp", ":- run_on(A,U), run_on(B,U), msg_exch_rate(A,B,R), R > 100.\n");
    let message = error(&["--policy", program.path()]);
    assert!(message.contains(&format!("`msg_exch_rate` {pairs}")), "{message}");
    let message = error(&["--objectives=busiest"]);
    assert!(
        message.contains("groupMessages: 202500 pairs of actors, and `busiest` looks at each"),
        "{message}"
    );
    let ran = cairn(&["plan", "--snapshot", file.path(), "--strategy=greedy", "--effort=1"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("without proofs and bounds for the cost of pairs"), "{}", ran.out);
}
