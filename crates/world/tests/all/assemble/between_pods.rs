//! Rules between pods: ports of sidecars, the first pod of a group, and what a reason names.

use super::cluster::{changed, world_of};
use super::pods::{cluster, group, pod, shown};

const CONTAINER: &str = "containers: [{name: c}]";
const SIDECAR: &str =
    "initContainers: [{name: s, restartPolicy: Always, ports: [{containerPort: 9000, hostPort: 9000}]}]";

#[test]
fn implementations_may_differ_in_the_ports_of_their_sidecars() {
    let other = || pod("n0", "x", "containers: [{name: c, ports: [{containerPort: 9000, hostPort: 9000}]}]");
    for (from, excluded) in [
        ("spec: {containers: [{name: c, resources", "n0"),
        ("spec: {containers: [{name: c}]", "n0/gpus-0,n0/gpus-1"),
    ] {
        let to = from.replacen("containers", &format!("{SIDECAR}, containers"), 1);
        let shown = shown(&changed(from, &to, &other()));
        assert_eq!(shown, format!("never cam-0,cam-1 {excluded}\napart node cam-0,cam-1"), "{to}");
    }
    // Init containers that end have no ports.
    let (from, ends) = ("spec: {containers: [{name: c}]", SIDECAR.replace("restartPolicy: Always, ", ""));
    let to = from.replacen("containers", &format!("{ends}, containers"), 1);
    assert_eq!(shown(&changed(from, &to, &other())), "");
}

#[test]
fn a_pod_is_not_the_first_if_another_is_counted_by_any_topology_key() {
    let zone = "topology.kubernetes.io/zone";
    let term = |key: &str| format!("{{topologyKey: {key}, labelSelector: {{matchLabels: {{app: a}}}}}}");
    let near = format!(
        "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{}, {}]}}}}, {CONTAINER}",
        term("rack"),
        term(zone)
    );
    let all = "never a-0,a-1 n2\n";
    for (on, rack, by_zone) in [
        ("n9", "n0,n1+0; None None (First)", "n0,n1+0 n2+0; None None (First)"),
        ("n0", "n0,n1+1; None None (Peer)", "n0,n1+1 n2+0; None None (Peer)"),
        // its node has a zone, but no rack
        ("n2", "n0,n1+0; None None (Peer)", "n0,n1+0 n2+1; None None (Peer)"),
    ] {
        let yaml = cluster(&group("a", 2, &near), &pod(on, "a", CONTAINER))
            .replace("zone: a}}", "zone: a, rack: r}}");
        let peers = "peers a-0,a-1 of a-0,a-1: ";
        assert_eq!(shown(&yaml), format!("{all}{peers}{rack}\n{peers}{by_zone}"), "{on}");
    }
}

#[test]
fn a_reason_names_no_pod_of_another_namespace() {
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                 kubernetes.io/hostname, namespaces: [ns], labelSelector: {matchLabels: {app: a}}}]}}, \
                 containers: [{name: c}]";
    let own = pod("n0", "x", apart);
    for (other, name) in [
        (own.clone(), "pod ns/other"),
        (own.replace("namespace: ns", "namespace: away"), "a pod of another namespace"),
    ] {
        let world = world_of(&cluster(&group("a", 1, CONTAINER), &other)).unwrap();
        let reasons: Vec<&str> =
            world.snapshot.file().constraints.iter().filter_map(|it| it.reason()).collect();
        assert_eq!(
            reasons,
            [format!("the anti-affinity of {name} excludes the same kubernetes.io/hostname")]
        );
    }
}
