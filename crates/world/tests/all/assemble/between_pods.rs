//! Rules between pods: ports of sidecars, the first pod of a group, labels by kind, and what a reason names.

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

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A required term of `podAffinity` or `podAntiAffinity` that selects pods by the label `role`.
fn term(of: &str, role: &str) -> String {
    format!(
        "affinity: {{{of}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {HOST}, labelSelector: \
         {{matchLabels: {{role: {role}}}}}}}]}}}}, {CONTAINER}"
    )
}

/// A group whose pods have the label `role` with the name of their kind, with these pods on CPUs and on GPUs.
fn of_two_kinds(name: &str, replicas: u32, [cpu, gpu]: [&str; 2]) -> String {
    let one = |kind: &str, spec: &str| {
        format!(
            "{{kind: {kind}, serviceTime: 1ms, template: {{metadata: {{labels: {{role: {kind}}}}}, spec: {{{spec}}}}}}}"
        )
    };
    let [cpu, gpu] = [one("cpu", cpu), one("gpu", gpu)];
    format!("{{name: {name}, replicas: {replicas}, implementations: [{cpu}, {gpu}]}}")
}

/// The cluster with a GPU on `n0`.
fn with_gpu(groups: &str) -> String {
    let more = "{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, \
                spec: {kind: gpu, resource: {devicePlugin: nvidia.com/gpu}}}\n---\n\
                {apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n0}, \
                spec: {devices: [{id: gpu-0, type: GPU, model: A100, numaNode: 0}]}}";
    cluster(groups, more).replacen("pods: \"10\"", "pods: \"10\", nvidia.com/gpu: \"1\"", 1)
}

#[test]
fn pods_are_selected_by_the_labels_of_their_kind() {
    let near = |role: &str| term("podAffinity", role);
    let web = of_two_kinds("w", 2, [CONTAINER, CONTAINER]);
    let one_web = of_two_kinds("w", 1, [CONTAINER, CONTAINER]);
    let beside = format!("{web}, {}", group("b", 1, &near("gpu")));
    let itself = of_two_kinds("w", 2, [&near("gpu"), &near("gpu")]);
    let each_other = of_two_kinds("w", 2, [&near("gpu"), &near("cpu")]);
    let own_kind = of_two_kinds("w", 2, [&near("cpu"), &near("gpu")]);
    let apart = of_two_kinds("w", 2, [CONTAINER, &term("podAntiAffinity", "gpu")]);
    let spread = format!(
        "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, \
         labelSelector: {{matchLabels: {{role: gpu}}}}}}], {CONTAINER}"
    );
    let spread = format!("{one_web}, {}", group("b", 2, &spread).replace("{app: b}", "{role: gpu}"));
    let each = "n0+0 n1+0 n2+0";
    let zones = "n0,n1+0 n2+0";
    for (groups, expected) in [
        (&beside, format!("peers b-0 of w-0[gpu],w-1[gpu]: {each}; None None (Peer)")),
        // a pod on a CPU does not select itself, so it is never the first
        (
            &itself,
            format!(
                "peers w-0[cpu],w-1[cpu] of w-0[gpu],w-1[gpu]: {each}; None None (Peer)\n\
                 peers w-0[gpu],w-1[gpu] of w-0[gpu],w-1[gpu]: {each}; None None (First)"
            ),
        ),
        (
            &own_kind,
            format!(
                "peers w-0[cpu],w-1[cpu] of w-0[cpu],w-1[cpu]: {each}; None None (First)\n\
                 peers w-0[gpu],w-1[gpu] of w-0[gpu],w-1[gpu]: {each}; None None (First)"
            ),
        ),
        // neither kind can be the first
        (
            &each_other,
            format!(
                "peers w-0[cpu],w-1[cpu] of w-0[gpu],w-1[gpu]: {each}; None None (Peer)\n\
                 peers w-0[gpu],w-1[gpu] of w-0[cpu],w-1[cpu]: {each}; None None (Peer)\n\
                 peers w-0,w-1 of w-0,w-1: {each}; None None (Peer)"
            ),
        ),
        (&apart, format!("peers w-0[gpu],w-1[gpu] of w-0[gpu],w-1[gpu]: {each}; (0) None None")),
        (&spread, format!("peers b-0,b-1 of b-0,b-1,w-0[gpu]: {zones}; None (1) None")),
    ] {
        assert_eq!(shown(&with_gpu(groups)), expected, "{groups}");
    }
    for (groups, places, is_accepted) in [
        (&beside, "w-0 n0/cpus-0 b-0 n0/cpus-0", false),
        (&beside, "w-0 n0/gpus-0 b-0 n0/cpus-0", true),
        (&beside, "w-0 n0/gpus-0 w-1 n1/cpus-0 b-0 n1/cpus-0", false),
        (&itself, "w-0 n1/cpus-0", false),
        (&itself, "w-0 n0/gpus-0 w-1 n0/cpus-0", true),
        (&itself, "w-0 n0/gpus-0 w-1 n1/cpus-0", false),
        (&own_kind, "w-0 n0/gpus-0 w-1 n1/cpus-0", true),
        (&each_other, "w-0 n0/gpus-0 w-1 n0/cpus-0", false),
        (&apart, "w-0 n0/gpus-0 w-1 n0/cpus-0", true),
        (&apart, "w-0 n0/cpus-0 w-1 n0/cpus-0", true),
        // a pod with the label gpu in each zone, or two in one
        (&spread, "b-0 n0/cpus-0 b-1 n2/cpus-0", true),
        (&spread, "w-0 n2/cpus-0 b-0 n0/cpus-0 b-1 n0/cpus-0", false),
        (&spread, "w-0 n0/gpus-0 b-0 n0/cpus-0", false),
        (&spread, "w-0 n0/cpus-0 b-0 n0/cpus-0", true),
    ] {
        let snapshot = world_of(&with_gpu(groups)).unwrap().snapshot;
        let words: Vec<&str> = places.split_whitespace().collect();
        let place = |actor: &placement::file::Actor| {
            let at = words.chunks(2).find(|pair| actor.id.ends_with(&format!("/{}", pair[0])))?;
            snapshot.unit(at[1])
        };
        let assignment: placement::Assignment = snapshot.file().actors.iter().map(place).collect();
        assert_eq!(assignment.iter().flatten().count(), words.len() / 2, "{places}");
        let found = snapshot.violations(&assignment);
        assert_eq!(found.is_empty(), is_accepted, "{places} of {groups}: {found:?}");
    }
}
