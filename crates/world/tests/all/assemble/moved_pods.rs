//! Pods of other applications that move, end or wait, and own pods that differ from their templates.

use super::cluster::world_of;
use super::pods::{cluster, group, pod, shown};

const CONTAINER: &str = "containers: [{name: c}]";
const PORT: &str = "containers: [{name: c, ports: [{containerPort: 80, hostPort: 8080}]}]";
const HOST: &str = "kubernetes.io/hostname";

fn owner(kind: &str, name: &str, uid: &str) -> String {
    format!(
        "ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: {kind}, name: {name}, uid: {uid}, controller: true}}]"
    )
}

/// An Instance of an application and its pod, with a label and more metadata.
fn running((application, uid): (&str, &str), actor: &str, node: &str, metadata: &str, spec: &str) -> String {
    let (group, _) = actor.split_once('-').unwrap();
    let name = format!("{application}-{actor}");
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: {name}, namespace: ns, uid: {name}, {}}}, \
         spec: {{applicationName: {application}, actorGroup: {group}, actor: {actor}, template: {{}}}}}}\n---\n\
         {{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns, uid: p-{name}, \
         annotations: {{cairn.dev/unit: {node}/cpus-0}}, {}, {metadata}}}, spec: {{nodeName: {node}, {spec}}}, \
         status: {{phase: Running}}}}",
        owner("ActorApplication", application, uid),
        owner("Instance", &name, &name)
    )
}

/// The decision that an actor of an application runs on a node.
fn decided((application, uid): (&str, &str), actor: &str, node: &str) -> String {
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: {application}, namespace: ns, {}}}, \
         spec: {{application: {application}, applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, \
         effort: 1, assignments: [{{actor: {actor}, unit: {node}/cpus-0, node: {node}, pool: cpus}}]}}}}",
        owner("ActorApplication", application, uid)
    )
}

/// Another application with the actor `b-0`, decided on `n1`.
fn other(spec: &str, metadata: &str) -> String {
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: other, namespace: ns, uid: other{metadata}}}, \
         spec: {{actors: [{}]}}}}\n---\n{}",
        group("b", 1, spec),
        decided(OTHER, "b-0", "n1")
    )
}

const OTHER: (&str, &str) = ("other", "other");
const OWN: (&str, &str) = ("app", "own");
const GOING: &str = ", deletionTimestamp: '1970-01-01T00:00:00Z', finalizers: [x/y]";

fn term(kind: &str, labels: &str) -> String {
    format!(
        "affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {HOST}, \
         labelSelector: {{matchLabels: {{{labels}}}}}}}]}}}}, {CONTAINER}"
    )
}

#[test]
fn pods_that_move_count_where_they_are_and_where_they_go() {
    let (near, apart) = (term("podAffinity", "app: b"), term("podAntiAffinity", "app: b"));
    let spread = format!(
        "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {HOST}, whenUnsatisfiable: DoNotSchedule, \
         labelSelector: {{matchLabels: {{app: b}}}}}}], {CONTAINER}"
    );
    let repels = term("podAntiAffinity", "app: a");
    let [near, apart, spread, repels] = [&near, &apart, &spread, &repels].map(String::as_str);
    let ends = "labels: {app: b}, deletionTimestamp: '1970-01-01T00:00:00Z'";
    let stays = "labels: {app: b}";
    let joins = |n0: u32, n1: u32| format!("peers a-0 of : n0+{n0} n1+{n1} n2+0; None None (Peer)");
    let spreads = |n0: u32, n1: u32| format!("peers a-0 of : n0+{n0} n1+{n1} n2+0; None (1) None");
    // the template, the other one's, where its pod is and its metadata
    for (own, template, there, expected) in [
        (PORT, PORT, None, "never a-0 n1".to_owned()),
        (PORT, PORT, Some(("n1", stays)), "never a-0 n1".to_owned()),
        (PORT, PORT, Some(("n0", stays)), "never a-0 n0,n1".to_owned()),
        (PORT, PORT, Some(("n0", ends)), "never a-0 n0,n1".to_owned()),
        (apart, CONTAINER, Some(("n0", stays)), "never a-0 n0,n1".to_owned()),
        (CONTAINER, repels, Some(("n0", stays)), "never a-0 n0\nnever a-0 n1".to_owned()),
        // a pod that leaves is neither joined nor counted by a spread
        (near, CONTAINER, None, joins(0, 1)),
        (near, CONTAINER, Some(("n1", stays)), joins(0, 1)),
        (near, CONTAINER, Some(("n0", stays)), joins(0, 1)),
        (spread, CONTAINER, Some(("n0", stays)), spreads(0, 1)),
        // one that ends at its place is followed by another there
        (spread, CONTAINER, Some(("n1", ends)), spreads(0, 1)),
    ] {
        let there = there.map(|(node, metadata)| running(OTHER, "b-0", node, metadata, template));
        let more = [other(template, ""), there.unwrap_or_default()].join("\n---\n");
        assert_eq!(shown(&cluster(&group("a", 1, own), &more)), expected, "{own}: {more}");
    }
}

#[test]
fn an_application_that_is_being_deleted_starts_no_pods() {
    let near = term("podAffinity", "app: b");
    let quota = "\n---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {pods: 1}}}";
    let max = |yaml: String| yaml.replace("{kind: cpu}}", "{kind: cpu, instances: {max: 1}}}");
    let there = || format!("\n---\n{}", running(OTHER, "b-0", "n0", "labels: {app: b}", PORT));
    let no_peer = "peers a-0 of : n0+0 n1+0 n2+0; None None (Peer)";
    let yaml = |own: &str, metadata: &str, more: &str| {
        cluster(&group("a", 1, own), &format!("{}{more}", other(PORT, metadata)))
    };
    for (yaml, expected) in [
        (yaml(PORT, "", ""), "never a-0 n1"),
        (yaml(PORT, GOING, ""), ""),
        (yaml(PORT, GOING, &there()), "never a-0 n0"),
        (yaml(&near, GOING, ""), no_peer),
        (yaml(CONTAINER, "", quota), "quota a-0 0"),
        (yaml(CONTAINER, GOING, quota), ""),
        (yaml(CONTAINER, GOING, &format!("{quota}{}", there())), "quota a-0 0"),
        (max(yaml(CONTAINER, "", "")), "quota a-0 0"),
        (max(yaml(CONTAINER, GOING, "")), ""),
        (max(yaml(CONTAINER, GOING, &there())), "quota a-0 0"),
    ] {
        assert_eq!(shown(&yaml), expected, "{yaml}");
    }
}

#[test]
fn running_pods_that_differ_from_their_templates_repel_others() {
    let repels = term("podAntiAffinity", "app: b");
    let at = |metadata: &str, spec: &str| running(OWN, "a-0", "n0", metadata, spec);
    let labels =
        |app: &str| format!("labels: {{app: {app}, cairn.dev/application: app, cairn.dev/actor-group: a}}");
    let (from_old, from_new) = (term("podAntiAffinity", "app: old"), term("podAntiAffinity", "app: a"));
    let (from_old, from_new) = (from_old.as_str(), from_new.as_str());
    let from_a = "peers b-0 of a-0: n0+0 n1+0 n2+0; (0) None None";
    for (a, b, pod, expected) in [
        (CONTAINER, PORT, at(&labels("a"), PORT), "never b-0 n0"),
        (CONTAINER, PORT, at(&labels("a"), CONTAINER), ""),
        (PORT, PORT, at(&labels("a"), PORT), "apart node a-0,b-0"),
        (CONTAINER, CONTAINER, at(&labels("a"), &repels), "never b-0 n0"),
        (CONTAINER, from_old, at(&labels("old"), CONTAINER), "never b-0 n0"),
        (CONTAINER, from_old, at(&labels("a"), CONTAINER), ""),
        (CONTAINER, from_new, at(&labels("a"), CONTAINER), from_a),
        // one that ends is replaced
        (
            CONTAINER,
            PORT,
            at(&format!("{}, deletionTimestamp: '1970-01-01T00:00:00Z'", labels("a")), PORT),
            "",
        ),
    ] {
        let groups = format!("{}, {}", group("a", 1, a), group("b", 1, b));
        let shown = shown(&cluster(&groups, &format!("{}\n---\n{pod}", decided(OWN, "a-0", "n0"))));
        assert_eq!(shown, expected, "{b} beside {pod}");
    }
}

#[test]
fn pods_of_an_earlier_template_are_peers_by_the_labels_that_they_have() {
    let labels =
        |app: &str| format!("labels: {{app: {app}, cairn.dev/application: app, cairn.dev/actor-group: a}}");
    let spread = |app: &str| {
        format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {HOST}, whenUnsatisfiable: DoNotSchedule, \
             labelSelector: {{matchLabels: {{app: {app}}}}}}}], {CONTAINER}"
        )
    };
    let joins = |peers: &str| format!("peers b-0 of {peers}: n0+0 n1+0 n2+0; None None (Peer)");
    let spreads = |peers: &str| format!("peers b-0 of {peers}: n0+0 n1+0 n2+0; None (1) None");
    for (b, has, expected) in [
        (term("podAffinity", "app: a"), "a", joins("a-0")),
        (term("podAffinity", "app: a"), "old", joins("")),
        // it has the label only until it is replaced
        (term("podAffinity", "app: old"), "old", joins("")),
        (spread("a"), "a", spreads("a-0")),
        (spread("a"), "old", spreads("")),
    ] {
        let groups = format!("{}, {}", group("a", 1, CONTAINER), group("b", 1, &b));
        let pod = running(OWN, "a-0", "n0", &labels(has), CONTAINER);
        let shown = shown(&cluster(&groups, &format!("{}\n---\n{pod}", decided(OWN, "a-0", "n0"))));
        assert_eq!(shown, expected, "{b} beside a pod with app {has}");
    }
}

#[test]
fn what_pods_request_beyond_their_templates_is_taken() {
    let cpu = |amount: &str| format!("containers: [{{name: c, resources: {{requests: {{cpu: {amount}}}}}}}]");
    let sidecar = format!(
        "initContainers: [{{name: s, restartPolicy: Always, resources: {{requests: {{cpu: 500m}}}}}}], {}",
        cpu("1")
    );
    let overhead = format!("overhead: {{cpu: 250m}}, {}", cpu("1"));
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {requests.cpu: 3}}}";
    let ends = "deletionTimestamp: '1970-01-01T00:00:00Z'";
    for (spec, metadata, place, left, max) in [
        (cpu("1"), "labels: {}", "n0", 4000, None),
        (cpu("500m"), "labels: {}", "n0", 4000, None),
        (cpu("3500m"), "labels: {}", "n0", 1500, Some(500)),
        (sidecar, "labels: {}", "n0", 3500, Some(2500)),
        (overhead, "labels: {}", "n0", 3750, Some(2750)),
        // its successor has the template's size
        (cpu("3500m"), ends, "n0", 4000, None),
        // it leaves the node; until then, the quota counts it
        (cpu("3500m"), "labels: {}", "n1", 4000, Some(500)),
    ] {
        let pod = running(OWN, "a-0", "n0", metadata, &spec);
        let more = [decided(OWN, "a-0", place), pod, quota.to_owned()].join("\n---\n");
        let world = world_of(&cluster(&group("a", 3, &cpu("1")), &more)).unwrap();
        let file = world.snapshot.file();
        let node = file.nodes.iter().find(|node| node.id == "n0").unwrap();
        assert_eq!(node.provides["cpuMilli"], left, "{more}");
        let most = file.constraints.iter().find_map(|rule| match rule {
            placement::file::Constraint::Quota { max, reason, .. } => Some((*max, reason.clone().unwrap())),
            _ => None,
        });
        let expected = max.map(|max| {
            let beyond = "less the usage of others and what running pods request beyond their templates";
            (max, format!("ResourceQuota q allows requests.cpu 3, {beyond}"))
        });
        assert_eq!(most, expected, "{more}");
    }
}

#[test]
fn selectors_of_existing_pods_are_merged_already() {
    let keyed = |labels: &str, keys: &str| {
        term("podAntiAffinity", labels).replace("topologyKey", &format!("{keys}: [tier], topologyKey"))
    };
    let tiered = |spec: &str| group("a", 1, spec).replace("{app: a}", "{app: a, tier: new}");
    for (tier, keys) in [("old", "matchLabelKeys"), ("new", "mismatchLabelKeys")] {
        let there =
            pod("n0", "x", &keyed("app: a", keys)).replace("{app: x}", &format!("{{app: x, tier: {tier}}}"));
        assert_eq!(shown(&cluster(&tiered(CONTAINER), &there)), "never a-0 n0", "{keys}");
    }
    // the pod of a decided actor will be merged when it is created
    let decided = other(&keyed("app: a", "matchLabelKeys"), "").replace("{app: b}", "{app: b, tier: old}");
    assert_eq!(shown(&cluster(&tiered(CONTAINER), &decided)), "");
}

#[test]
fn nominated_pods_hold_ports_and_are_not_joined() {
    let nominated = |spec: &str| {
        pod("n0", "b", spec).replace("nodeName: n0, ", "").replacen(
            "{apiVersion: v1, kind: Pod,",
            "{apiVersion: v1, kind: Pod, status: {phase: Pending, nominatedNodeName: n0},",
            1,
        )
    };
    let near = term("podAffinity", "app: b");
    for (own, expected) in
        [(PORT, "never a-0 n0"), (near.as_str(), "peers a-0 of : n0+0 n1+0 n2+0; None None (Peer)")]
    {
        assert_eq!(shown(&cluster(&group("a", 1, own), &nominated(PORT))), expected, "{own}");
    }
}
