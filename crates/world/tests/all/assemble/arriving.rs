//! Actors whose pods are scheduled again, at the place where they are decided.

use super::cluster::world_of;
use super::pods::{cluster, group, shown};

const CONTAINER: &str = "containers: [{name: c}]";
const RUNS: &str = "nodeName: n0";

/// The Instance of an actor, and its pod on `n0` with these fields in its metadata, spec and status.
fn running(actor: &str, (metadata, spec, phase): (&str, &str, &str)) -> String {
    format!(
        "{}\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: app-{actor}, namespace: ns, uid: p-{actor}, annotations: \
         {{cairn.dev/unit: n0/cpus-0}}, ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: Instance, \
         name: app-{actor}, uid: i-{actor}, controller: true}}]{metadata}}}, spec: {{{CONTAINER}, {spec}}}, \
         status: {{phase: {phase}}}}}\n---\n",
        instance(actor)
    )
}

fn instance(actor: &str) -> String {
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: app-{actor}, namespace: ns, uid: i-{actor}, \
         ownerReferences: [{OWNER}]}}, spec: {{applicationName: app, origin: Spec, actorGroup: a, actor: {actor}}}}}"
    )
}

const OWNER: &str =
    "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: app, uid: own, controller: true}";

/// A decision for these actors on `n0`.
fn decided(actors: &[&str]) -> String {
    let place = |actor: &&str| format!("{{actor: {actor}, unit: n0/cpus-0, node: n0, pool: cpus}}");
    let places: Vec<String> = actors.iter().map(place).collect();
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: app, namespace: ns, ownerReferences: [{OWNER}]}}, \
         spec: {{application: app, applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, \
         assignments: [{}]}}}}\n---\n",
        places.join(", ")
    )
}

#[test]
fn actors_without_a_bound_pod_arrive_where_they_are_decided() {
    let pod = |metadata: &str, spec: &str, phase: &str| running("a-0", (metadata, spec, phase));
    let ends = |at: &str| format!(", deletionTimestamp: '{at}', deletionGracePeriodSeconds: 30");
    for (case, objects, arrives) in [
        ("runs", pod("", RUNS, "Running"), false),
        ("bound, not started", pod("", RUNS, "Pending"), false),
        ("no pod", instance("a-0"), true),
        ("no Instance", String::new(), true),
        ("not bound", pod("", "priority: 0", "Pending"), true),
        ("ended", pod("", RUNS, "Failed"), true),
        ("moves, and still runs elsewhere", pod("", RUNS, "Running").replace("n0", "n1"), false),
        ("terminates", pod(&ends("1970-01-01T00:00:00Z"), RUNS, "Running"), false),
        ("past its grace period", pod(&ends("1969-12-31T00:00:00Z"), RUNS, "Running"), true),
    ] {
        let yaml = cluster(&group("a", 1, CONTAINER), &format!("{}{objects}", decided(&["a-0"])));
        let world = world_of(&yaml).unwrap();
        let actor = &world.snapshot.file().actors[0];
        assert_eq!((actor.current.as_deref(), actor.arriving), (Some("n0/cpus-0"), arrives), "{case}");
        assert_eq!(world.snapshot.write().contains("arriving"), arrives, "{case}");
    }
    // without a place there is nothing to arrive at
    let world = world_of(&cluster(&group("a", 1, CONTAINER), "")).unwrap();
    assert!(!world.snapshot.file().actors[0].arriving);
}

#[test]
fn rules_of_the_scheduler_bind_arriving_actors_at_their_place() {
    let port = |node: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: other, namespace: ns, uid: o}}, spec: {{nodeName: {node}, \
             containers: [{{name: c, ports: [{{containerPort: 80, hostPort: 80}}]}}]}}}}\n---\n"
        )
    };
    let group = group("a", 1, "containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]");
    for (spec, taken, is_feasible) in
        [(RUNS, "n0", true), (RUNS, "n1", true), ("priority: 0", "n0", false), ("priority: 0", "n1", true)]
    {
        let pod = running("a-0", ("", spec, "Pending"));
        let yaml = cluster(&group, &format!("{}{}{pod}", decided(&["a-0"]), port(taken)));
        let snapshot = world_of(&yaml).unwrap().snapshot;
        let found = snapshot.violations(&snapshot.incumbent());
        assert_eq!(found.is_empty(), is_feasible, "{spec} {taken}: {found:?}");
    }
}

#[test]
fn anti_affinity_does_not_bind_actors_that_run_together() {
    let apart = |key: &str| {
        format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {key}, \
             labelSelector: {{matchLabels: {{app: a}}}}}}]}}}}, {CONTAINER}"
        )
    };
    let [host, zone] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];
    let peers = "peers a-0,a-1 of a-0,a-1: ";
    for (key, second, expected) in [
        (host, "nodeName: n0", format!("{peers}n0+0 n1+0 n2+0; (0) None None")),
        (host, "nodeName: n1", "apart node a-0,a-1".to_owned()),
        (host, "priority: 0", "apart node a-0,a-1".to_owned()),
        (zone, "nodeName: n1", format!("{peers}n0,n1+0 n2+0; (0) None None")),
        (zone, "nodeName: n2", "apart zone a-0,a-1".to_owned()),
    ] {
        let pods = [running("a-0", ("", RUNS, "Running")), running("a-1", ("", second, "Running"))];
        assert_eq!(shown(&cluster(&group("a", 2, &apart(key)), &pods.concat())), expected, "{key} {second}");
    }
}

#[test]
fn an_ended_pod_makes_room_for_its_successor() {
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {count/pods: 1}}}\n---\n";
    let own = running("a-0", ("", RUNS, "Failed"));
    for (pod, expected) in [
        (own.clone(), ""),
        // the pod of an actor that is not wanted, or of another owner, has no successor
        (own.replace("a-0", "a-7"), "quota a-0 0"),
        (own.replace("uid: own", "uid: other"), "quota a-0 0"),
    ] {
        let yaml = cluster(&group("a", 1, CONTAINER), &format!("{quota}{pod}"));
        assert_eq!(shown(&yaml), expected, "{pod}");
    }
}
