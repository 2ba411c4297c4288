//! Claims, volumes and limits of nodes as constraints.

use super::pods::{cluster, group, pod, shown};

/// The containers of templates.
pub const CONTAINER: &str = "containers: [{name: c}]";
/// A field of classes.
pub const WAITS: &str = "volumeBindingMode: WaitForFirstConsumer";

/// A template with these named claims and an ephemeral volume for each of these specs of claims.
pub fn spec(claims: &[&str], ephemeral: &[&str]) -> String {
    let named =
        claims.iter().map(|name| format!("{{name: {name}, persistentVolumeClaim: {{claimName: {name}}}}}"));
    let made = ephemeral.iter().enumerate().map(|(at, spec)| {
        format!("{{name: e{at}, ephemeral: {{volumeClaimTemplate: {{spec: {{{spec}}}}}}}}}")
    });
    format!("volumes: [{}], {CONTAINER}", named.chain(made).collect::<Vec<_>>().join(", "))
}

/// A `StorageClass`; the one with the name `default` is the default.
pub fn class(name: &str, provisioner: &str, more: &str) -> String {
    let default = if name == "default" { "storageclass.kubernetes.io/is-default-class: 'true'" } else { "" };
    format!(
        "{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: {name}, annotations: {{{default}}}}}, \
         provisioner: {provisioner}, {more}}}"
    )
}

/// A class whose volumes an administrator creates.
pub fn local() -> String {
    class("local", "kubernetes.io/no-provisioner", WAITS)
}

/// A claim in the namespace of the application.
pub fn claim(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}, namespace: ns, uid: of-{name}}}, \
         spec: {{{spec}}}}}"
    )
}

/// A volume of 10 Gi that these nodes can use, or all.
pub fn volume(name: &str, nodes: &str, more: &str) -> String {
    let affinity = format!(
        "nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, \
         operator: In, values: [{nodes}]}}]}}]}}}}, "
    );
    let affinity = if nodes.is_empty() { "" } else { &affinity };
    format!(
        "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}}, spec: {{capacity: {{storage: 10Gi}}, \
         storageClassName: local, {affinity}{more}}}}}"
    )
}

/// An application of these groups, beside these documents.
pub fn beside(groups: &[(&str, u32, String)], documents: &[String]) -> String {
    let groups: Vec<String> =
        groups.iter().map(|(name, replicas, spec)| group(name, *replicas, spec)).collect();
    cluster(&groups.join(", "), &documents.join("\n---\n"))
}

/// Whatever the scheduler requires of an application of these groups, beside these documents.
pub fn rules(groups: &[(&str, u32, String)], documents: &[String]) -> String {
    shown(&beside(groups, documents))
}

#[test]
fn claims_of_ephemeral_volumes_are_bound_once_there_is_a_pod() {
    let in_a =
        "allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [a]}]}]";
    let immediate = "volumeBindingMode: Immediate";
    let all = "never a-0 n0,n1,n2";
    for (claim, documents, expected) in [
        ("storageClassName: fast", vec![class("fast", "d", "")], ""),
        ("storageClassName: fast", vec![class("fast", "d", immediate)], ""),
        ("storageClassName: fast", vec![class("fast", "d", &format!("{immediate}, {in_a}"))], "never a-0 n2"),
        ("storageClassName: fast", vec![class("fast", "d", "allowedTopologies: [{}]")], all),
        ("", vec![class("default", "d", immediate)], ""),
        ("storageClassName: fast", vec![], all),
        ("storageClassName: local", vec![class("local", "kubernetes.io/no-provisioner", immediate)], all),
    ] {
        assert_eq!(rules(&[("a", 1, spec(&[], &[claim]))], &documents), expected, "{claim} {documents:?}");
    }
}

#[test]
fn a_volume_that_is_reserved_for_a_claim_is_its_only_match() {
    let reserved = |more: &str| format!("claimRef: {{namespace: ns, name: data{more}}}");
    let of_data = reserved("");
    let deleted = volume("v1", "n1", &of_data)
        .replace("name: v1", "name: v1, deletionTimestamp: '2026-01-01T00:00:00Z'");
    let all = "never a-0 n0,n1,n2";
    let on_n1 = "never a-0 n0,n2";
    let data = "storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}";
    let large = "storageClassName: local, resources: {requests: {storage: 11Gi}}";
    let with_modes = "accessModes: [ReadWriteOnce]";
    let gold = format!("{data}, volumeAttributesClassName: gold");
    let of_gold = format!("{with_modes}, volumeAttributesClassName: gold");
    let in_b = "name: v1, labels: {topology.kubernetes.io/zone: b}";
    for (asked, volumes, expected) in [
        (data, vec![volume("v1", "n1", &of_data)], on_n1),
        (data, vec![volume("v1", "n1", &reserved(", uid: of-data"))], on_n1),
        (data, vec![volume("v1", "n1", &reserved(", uid: of-another"))], all),
        (data, vec![volume("v1", "n1", "claimRef: {namespace: away, name: data}")], all),
        (data, vec![volume("v1", "n1", &of_data).replace("storageClassName: local, ", "")], on_n1),
        // the free volume is for others
        (data, vec![volume("v1", "n1", &of_data), volume("v2", "n2", with_modes)], on_n1),
        (data, vec![volume("v2", "n2", with_modes)], "never a-0 n0,n1"),
        (large, vec![volume("v1", "n1", &of_data)], all),
        (&gold, vec![volume("v2", "n2", with_modes)], all),
        (&gold, vec![volume("v2", "n2", &of_gold)], "never a-0 n0,n1"),
        (data, vec![volume("v2", "n2", &of_gold)], all),
        // labels of zones count once the volume is bound
        (data, vec![volume("v1", "n1", with_modes).replace("name: v1", in_b)], on_n1),
        ("storageClassName: local, volumeMode: Block", vec![volume("v1", "n1", &of_data)], all),
        (data, vec![deleted], all),
        (data, vec![volume("v2", "n2", with_modes).replace("spec:", "status: {phase: Failed}, spec:")], all),
    ] {
        let documents: Vec<String> = [local(), claim("data", asked)].into_iter().chain(volumes).collect();
        assert_eq!(rules(&[("a", 1, spec(&["data"], &[]))], &documents), expected, "{documents:?}");
    }
}

#[test]
fn nodes_without_the_old_label_of_zones_are_judged_by_the_new_one() {
    let old = "failure-domain.beta.kubernetes.io/zone";
    for (label, zone, expected) in [
        (old, "b", "never a-0 n0,n1"),
        (old, "a__b", ""),
        ("topology.kubernetes.io/zone", "b", "never a-0 n0,n1"),
        // no node names its region
        ("failure-domain.beta.kubernetes.io/region", "r", "never a-0 n0,n1,n2"),
    ] {
        let bound = volume("v", "", "").replace("name: v", &format!("name: v, labels: {{{label}: {zone}}}"));
        let documents = [claim("data", "volumeName: v"), bound];
        assert_eq!(rules(&[("a", 1, spec(&["data"], &[]))], &documents), expected, "{label} {zone}");
    }
}

#[test]
fn limits_of_nodes_count_the_volumes_of_all_groups() {
    let limit = |node: &str, count: u32| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: {node}}}, spec: {{drivers: [{{name: d, \
             nodeID: {node}, allocatable: {{count: {count}}}}}]}}}}"
        )
    };
    let (x, y) = (spec(&["x"], &[]), spec(&["y"], &[]));
    let one = || spec(&[], &["storageClassName: fast"]);
    let two = || spec(&[], &["storageClassName: fast", "storageClassName: fast"]);
    let other = pod("n1", "x", &spec(&["z"], &[]));
    for (groups, limits, expected) in [
        (
            vec![("a", 1, x.clone()), ("b", 1, y.clone())],
            vec![limit("n1", 1)],
            "peers a-0,b-0 of a-0,b-0: n1+0; (0) None None",
        ),
        (vec![("a", 1, x.clone()), ("b", 1, y.clone())], vec![limit("n1", 2)], ""),
        (
            vec![("a", 1, x.clone()), ("b", 1, y.clone())],
            vec![limit("n1", 2), other.clone()],
            "peers a-0,b-0 of a-0,b-0: n1+0; (0) None None",
        ),
        (vec![("a", 1, x.clone())], vec![limit("n1", 1), other], "never a-0 n1"),
        // several actors of one claim need it once
        (vec![("a", 2, x.clone())], vec![limit("n1", 1)], ""),
        (vec![("a", 1, x.clone()), ("b", 1, x.clone())], vec![limit("n1", 1)], ""),
        (
            vec![("a", 2, x.clone()), ("b", 2, y)],
            vec![limit("n0", 2), limit("n1", 1)],
            "peers a-0,a-1 of b-0,b-1: n1+0; (0) None None",
        ),
        // rooms differ between nodes
        (
            vec![("a", 3, one()), ("b", 1, x)],
            vec![limit("n0", 1), limit("n1", 3), limit("n2", 9)],
            "peers a-0,a-1,a-2,b-0 of a-0,a-1,a-2,b-0: n0+2 n1+0; (2) None None",
        ),
        (
            vec![("a", 2, two()), ("b", 1, one())],
            vec![limit("n0", 2), limit("n1", 4)],
            "peers a-0,a-1,b-0 of a-0,a-1,b-0: n0+0; (1) None None\npeers a-0,a-1 of a-0,a-1: n0+0; (0) None None\n\
             peers b-0 of a-0,a-1: n0+0; (0) None None",
        ),
        // the default class makes the volumes
        (
            vec![("a", 2, spec(&[], &[""]))],
            vec![limit("n1", 1)],
            "peers a-0,a-1 of a-0,a-1: n1+0; (0) None None",
        ),
    ] {
        let classes = [class("fast", "d", WAITS), class("default", "d", WAITS)];
        let claims = ["x", "y", "z"].map(|name| claim(name, "storageClassName: fast"));
        let documents: Vec<String> = classes.into_iter().chain(claims).chain(limits).collect();
        assert_eq!(rules(&groups, &documents), expected, "{groups:?} {documents:?}");
    }
}

#[test]
fn a_volume_of_an_administrator_serves_one_claim() {
    let asked = "storageClassName: local";
    let (a, b) = (spec(&["a"], &[]), spec(&["b"], &[]));
    let made = || spec(&[], &[asked]);
    let each = || vec![volume("v0", "n0", ""), volume("v1", "n1", ""), volume("v2", "n2", "")];
    let small = "storageClassName: local, resources: {requests: {storage: 1Gi}}";
    let large = "storageClassName: local, resources: {requests: {storage: 20Gi}}";
    let big = |name: &str, node: &str| volume(name, node, "").replace("10Gi", "20Gi");
    for (groups, volumes, expected) in [
        (vec![("a", 2, made())], each(), "peers a-0,a-1 of a-0,a-1: n0+0 n1+0 n2+0; (0) None None"),
        (
            vec![("a", 1, a.clone()), ("b", 1, b.clone())],
            each(),
            "peers a-0,b-0 of a-0,b-0: n0+0 n1+0 n2+0; (0) None None",
        ),
        // a pod that needs two
        (
            vec![("a", 1, spec(&["a", "b"], &[]))],
            vec![
                volume("v0", "n0", ""),
                volume("v1", "n1", ""),
                volume("w1", "n1", ""),
                volume("v2", "n2", ""),
            ],
            "never a-0 n0,n2",
        ),
        // a volume in the network is one, wherever it is used
        (
            vec![("a", 2, made())],
            vec![volume("v", "", "")],
            "peers a-0,a-1 of a-0,a-1: n0,n1,n2+0; (0) None None",
        ),
        (
            vec![("a", 2, made())],
            vec![volume("v", "", ""), volume("v1", "n1", "")],
            "peers a-0,a-1 of a-0,a-1: n0+0 n2+0; (0) None None",
        ),
        // only the large volume satisfies the large claim
        (
            vec![("a", 1, spec(&[], &[small])), ("b", 2, spec(&[], &[large]))],
            vec![volume("v1", "n1", ""), big("w1", "n1")],
            "never a-0 n0,n2\nnever b-0,b-1 n0,n2\npeers a-0,b-0,b-1 of a-0,b-0,b-1: n1+0; (1) None None\n\
             peers b-0,b-1 of b-0,b-1: n1+0; (0) None None",
        ),
        // claims of pods that are decided elsewhere
        (
            vec![("a", 1, a.clone())],
            vec![volume("v0", "n0", ""), volume("v1", "n1", ""), volume("v2", "n2", ""), pod("n1", "x", &b)],
            "never a-0 n1",
        ),
    ] {
        let claims = ["a", "b"].map(|name| claim(name, asked));
        let documents: Vec<String> = [local()].into_iter().chain(claims).chain(volumes).collect();
        assert_eq!(rules(&groups, &documents), expected, "{groups:?} {documents:?}");
    }
}

#[test]
fn actors_of_an_unbound_claim_are_placed_where_one_volume_is() {
    let data = || spec(&["data"], &[]);
    let of_class = "storageClassName: local";
    let two = || vec![volume("v0", "n0", ""), volume("v1", "n1,n2", "")];
    let together = "peers a-0,a-1 of a-0,a-1: n0+0 n1,n2+0; None None (First)";
    for (groups, documents, expected) in [
        (vec![("a", 2, data())], two(), together.to_owned()),
        (vec![("a", 1, data()), ("b", 1, data())], two(), together.replace("a-0,a-1", "a-0,b-0")),
        (vec![("a", 1, data())], two(), String::new()),
        // another pod chooses
        (
            vec![("a", 1, data())],
            [two(), vec![pod("n1", "x", &data())]].concat(),
            "peers a-0 of a-0: n0+0 n1,n2+1; None None (First)".to_owned(),
        ),
        (vec![("a", 2, data())], vec![volume("v0", "n0", ""), volume("v", "", "")], String::new()),
    ] {
        let documents: Vec<String> =
            [local(), claim("data", of_class)].into_iter().chain(documents).collect();
        assert_eq!(rules(&groups, &documents), expected, "{groups:?} {documents:?}");
    }
}

/// An actor that stays keeps its volume, so another one is left for a second actor.
#[test]
fn volumes_of_own_pods_count_for_their_actors() {
    let owner = |kind: &str, name: &str, uid: &str| {
        format!(
            "ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: {kind}, name: {name}, uid: {uid}, controller: true}}]"
        )
    };
    let made = spec(&[], &["storageClassName: local"]);
    let instance = format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: app-a-0, namespace: ns, uid: i, {}}}, spec: \
         {{applicationName: app, actorGroup: a, actor: a-0, template: {{}}}}}}",
        owner("ActorApplication", "app", "own")
    );
    let running = pod("n1", "a", &made)
        .replace("name: other", &format!("name: app-a-0, {}", owner("Instance", "app-a-0", "i")));
    let bound = claim("app-a-0-e0", "storageClassName: local, volumeName: v1");
    let held = volume("v1", "n1", "claimRef: {namespace: ns, name: app-a-0-e0, uid: of-app-a-0-e0}");
    let documents = [local(), instance, running, bound, held, volume("w1", "n1", "")];
    let expected = "never a-0,a-1,a-2 n0,n2\npeers a-0,a-1,a-2 of a-0,a-1,a-2: n1+0; (1) None None";
    assert_eq!(rules(&[("a", 3, made)], &documents), expected);
}

#[test]
fn a_claim_that_names_the_volume_of_another_is_never_bound() {
    let completed = "uid: of-data, annotations: {pv.kubernetes.io/bind-completed: 'yes'}";
    let (all, on_n1) = ("never a-0 n0,n1,n2", "never a-0 n0,n2");
    for (claimed_by, metadata, expected) in [
        ("{namespace: ns, name: other}", "uid: of-data", all),
        ("{namespace: ns, name: data, uid: of-another}", "uid: of-data", all),
        ("{namespace: ns, name: data}", "uid: of-data", on_n1),
        ("{namespace: ns, name: other}", completed, on_n1),
    ] {
        let named =
            claim("data", "storageClassName: local, volumeName: v1").replace("uid: of-data", metadata);
        let documents = [local(), named, volume("v1", "n1", &format!("claimRef: {claimed_by}"))];
        let found = rules(&[("a", 1, spec(&["data"], &[]))], &documents);
        assert_eq!(found, expected, "{claimed_by} {metadata}");
    }
}

fn driver(storage_capacity: bool) -> String {
    format!(
        "{{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {{name: d}}, spec: {{storageCapacity: {storage_capacity}}}}}"
    )
}

#[test]
fn volumes_are_provisioned_where_the_driver_has_capacity() {
    let capacity = |more: &str| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {{name: c, namespace: d}}, {more}}}"
        )
    };
    let of_fast = |more: &str| capacity(&format!("storageClassName: fast, {more}"));
    let on_n1 = "nodeTopology: {matchLabels: {kubernetes.io/hostname: n1}}";
    let (all, sized) =
        ("never a-0 n0,n1,n2", "storageClassName: fast, resources: {requests: {storage: 1Gi}}");
    for (asked, documents, expected) in [
        (sized, vec![], ""),
        (sized, vec![driver(false)], ""),
        (sized, vec![driver(true)], all),
        ("storageClassName: fast", vec![driver(true)], ""),
        (sized, vec![driver(true), of_fast(&format!("capacity: 1Gi, {on_n1}"))], "never a-0 n0,n2"),
        (sized, vec![driver(true), of_fast(&format!("capacity: 1023Mi, {on_n1}"))], all),
        (sized, vec![driver(true), of_fast(&format!("capacity: 9Gi, maximumVolumeSize: 1Mi, {on_n1}"))], all),
        (sized, vec![driver(true), of_fast("capacity: 9Gi, nodeTopology: {}")], ""),
        (sized, vec![driver(true), of_fast("capacity: 9Gi")], all),
        (sized, vec![driver(true), of_fast(on_n1)], all),
        (sized, vec![driver(true), capacity("storageClassName: slow, capacity: 9Gi, nodeTopology: {}")], all),
    ] {
        let documents: Vec<String> =
            [class("fast", "d", WAITS), claim("data", asked)].into_iter().chain(documents).collect();
        assert_eq!(rules(&[("a", 1, spec(&["data"], &[]))], &documents), expected, "{documents:?}");
    }
}

#[test]
fn a_volume_is_provisioned_for_the_selected_node() {
    let selected = "uid: of-data, annotations: {volume.kubernetes.io/selected-node: n1}";
    let sized = "resources: {requests: {storage: 1Gi}}";
    let (on_n1, nowhere) = ("never a-0 n0,n2", "never a-0 n0,n2\nnever a-0 n1");
    for (of_class, documents, expected) in [
        ("fast", vec![], on_n1),
        ("fast", vec![driver(true)], nowhere),
        // an existing volume is no choice any more
        ("local", vec![volume("v1", "n1", "")], nowhere),
    ] {
        let data = claim("data", &format!("storageClassName: {of_class}, {sized}"));
        let data = data.replace("uid: of-data", selected);
        let documents: Vec<String> =
            [class("fast", "d", WAITS), local(), data].into_iter().chain(documents).collect();
        assert_eq!(rules(&[("a", 1, spec(&["data"], &[]))], &documents), expected, "{documents:?}");
    }
}

#[test]
fn the_newest_default_class_counts() {
    let (stable, beta) =
        ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class");
    let fixed = "kubernetes.io/no-provisioner";
    let default = |name: &str, provisioner: &str, annotation: &str, year: u32| {
        let more =
            format!("annotations: {{{annotation}: 'true'}}, creationTimestamp: '{year}-01-01T00:00:00Z'");
        class(name, provisioner, WAITS).replace("annotations: {}", &more)
    };
    for (classes, expected) in [
        ([default("a", fixed, stable, 2020), default("b", "d", stable, 2024)], ""),
        ([default("a", "d", stable, 2020), default("b", fixed, stable, 2024)], "never a-0 n0,n1,n2"),
        ([default("a", "d", stable, 2024), default("b", fixed, stable, 2024)], ""),
        ([default("a", fixed, stable, 2020), default("b", "d", beta, 2024)], ""),
    ] {
        assert_eq!(rules(&[("a", 1, spec(&[], &[""]))], &classes), expected, "{classes:?}");
    }
}
