//! Rules that plans do not model are named, and templates that the kubelet or a `LimitRange` rejects are kept off.

use super::cluster::world_of;
use super::pods::{cluster, group, pod, shown, shown_reasons};
use super::templates::object;
use super::volumes::{CONTAINER, WAITS, beside, claim, class, spec, volume};

/// What is left to the scheduler.
fn left(yaml: &str) -> String {
    world_of(yaml).unwrap().snapshot.file().left_to_scheduler.join("; ")
}

/// What is left to the scheduler of an application of one actor.
fn left_of(spec: &str, documents: &[String]) -> String {
    left(&beside(&[("a", 1, spec.to_owned())], documents))
}

fn namespace(metadata: &str) -> String {
    format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: ns, {metadata}}}}}")
}

#[test]
fn admission_by_labels_and_annotations_of_the_namespace_is_named() {
    let level = |level: &str| namespace(&format!("labels: {{pod-security.kubernetes.io/enforce: {level}}}"));
    let annotated = |name: &str, value: &str| namespace(&format!("annotations: {{{name}: '{value}'}}"));
    let selector = "scheduler.alpha.kubernetes.io/node-selector";
    for (document, expected) in [
        (level("privileged"), ""),
        (level("baseline"), "PodSecurity baseline of the namespace"),
        (level("restricted"), "PodSecurity restricted of the namespace"),
        (
            annotated(selector, "disk=ssd"),
            "the annotation scheduler.alpha.kubernetes.io/node-selector of the namespace",
        ),
        (annotated(selector, ""), ""),
        (
            annotated("openshift.io/node-selector", "disk=ssd"),
            "the annotation openshift.io/node-selector of the namespace",
        ),
        (annotated("scheduler.alpha.kubernetes.io/tolerationsWhitelist", "[]"), ""),
        (
            annotated("scheduler.alpha.kubernetes.io/defaultTolerations", r#"[{"operator": "Exists"}]"#),
            "the annotation scheduler.alpha.kubernetes.io/defaultTolerations of the namespace",
        ),
        (annotated("example.com/other", "x"), ""),
    ] {
        assert_eq!(left_of(CONTAINER, std::slice::from_ref(&document)), expected, "{document}");
    }
}

#[test]
fn quotas_of_instances_and_of_claims_of_ephemeral_volumes_are_named() {
    let quota = |hard: &str| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{hard: {{{hard}}}}}}}"
        )
    };
    let sum = |counted: &str| format!("ResourceQuota q: the sum of {counted}");
    let made = || spec(&[], &["storageClassName: sc"]);
    for (template, counted, expected) in [
        (CONTAINER.to_owned(), "count/instances.cairn.dev", true),
        (CONTAINER.to_owned(), "persistentvolumeclaims", false),
        (made(), "persistentvolumeclaims", true),
        (made(), "count/persistentvolumeclaims", true),
        (made(), "requests.storage", true),
        (made(), "sc.storageclass.storage.k8s.io/requests.storage", true),
        (made(), "sc.storageclass.storage.k8s.io/persistentvolumeclaims", true),
        (made(), "gold.storageclass.storage.k8s.io/requests.storage", false),
        (made(), "services", false),
    ] {
        let documents = [class("sc", "d", WAITS), quota(&format!("{counted}: 9"))];
        let expected = if expected { sum(counted) } else { String::new() };
        assert_eq!(left_of(&template, &documents), expected, "{counted} of {template}");
    }
}

/// A node with a limit on the volumes of the driver `d`.
fn limit(count: u32) -> String {
    format!(
        "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: n1}}, spec: {{drivers: [{{name: d, nodeID: n1, \
         allocatable: {{count: {count}}}}}]}}}}"
    )
}

#[test]
fn volumes_whose_place_or_room_is_unknown_are_named() {
    let made = spec(&[], &["storageClassName: sc"]);
    let attached = "a: volumes still attached to nodes";
    for (documents, expected) in [
        (vec![class("sc", "d", "volumeBindingMode: Immediate")], "a: where the claim of volume e0 is bound"),
        (vec![class("sc", "d", WAITS)], ""),
        (vec![class("sc", "d", WAITS), limit(2)], attached),
        (vec![class("sc", "e", WAITS), limit(2)], ""),
    ] {
        assert_eq!(left_of(&made, &documents), expected, "{documents:?}");
    }
    let bound = |name: &str| {
        let volume =
            volume(&format!("pv-{name}"), "", &format!("csi: {{driver: d, volumeHandle: h-{name}}}"));
        [claim(name, &format!("volumeName: pv-{name}")), volume]
    };
    let bound = ["x", "y", "z"].map(bound).concat();
    let taken = pod("n1", "other", &spec(&["z"], &[]));
    let (x, y, z) = (spec(&["x"], &[]), spec(&["y"], &[]), spec(&["z"], &[]));
    let (two, three) = ([("a", 2, &x), ("b", 2, &y)], [("a", 2, &x), ("b", 2, &y), ("c", 2, &z)]);
    // The volumes of groups `a` and `b` are known together, of three groups only by pairs.
    for (groups, count, taken, is_known) in [
        (&two[..], 1, None, true),
        (&three[..], 2, None, false),
        (&three[..], 3, None, true),
        (&three[..], 3, Some(&taken), true),
        (&three[..], 3, Some(&pod("n1", "other", &made)), false),
    ] {
        let groups: Vec<(&str, u32, String)> =
            groups.iter().map(|(name, replicas, spec)| (*name, *replicas, (*spec).clone())).collect();
        let mut documents = bound.clone();
        documents.extend([class("sc", "d", WAITS), limit(count)]);
        documents.extend(taken.cloned());
        let found = left(&beside(&groups, &documents));
        assert!(found.contains(attached), "{found}");
        let rule = "a: the limit of nodes on volumes of several groups";
        assert_eq!(!found.contains(rule), is_known, "{groups:?} {count} {taken:?}: {found}");
    }
}

#[test]
fn selectors_by_labels_that_templates_do_not_have_are_named() {
    let apart = |expressions: &str| {
        format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: \
             topology.kubernetes.io/zone, labelSelector: {{matchExpressions: [{expressions}]}}}}]}}}}, {CONTAINER}"
        )
    };
    let exists = |key: &str| apart(&format!("{{key: {key}, operator: Exists}}"));
    let one_actor = "a: selectors by the label of a single actor";
    for (key, expected) in [
        ("app", ""),
        ("cairn.dev/actor-group", ""),
        ("cairn.dev/actor", one_actor),
        ("cairn.dev/instance", one_actor),
        ("topology.kubernetes.io/zone", "a: selectors by the zone or region of pods"),
        ("topology.kubernetes.io/region", "a: selectors by the zone or region of pods"),
    ] {
        assert_eq!(left_of(&exists(key), &[]), expected, "{key}");
    }
    let existing = "a: anti-affinity of existing pods by the label of a single actor";
    let with = |app: &str| {
        apart(&format!(
            "{{key: cairn.dev/actor, operator: Exists}}, {{key: app, operator: In, values: [{app}]}}"
        ))
    };
    for (spec, expected) in [
        (exists("app"), ""),
        (exists("cairn.dev/actor"), existing),
        (exists("cairn.dev/instance"), existing),
        (with("a"), existing),
        (with("b"), ""),
    ] {
        assert_eq!(left_of(CONTAINER, &[pod("n0", "x", &spec)]), expected, "{spec}");
    }
}

#[test]
fn nominated_pods_of_other_priorities_are_named() {
    let nominated = |priority: i32| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: w, namespace: ns}}, spec: {{priority: {priority}, {CONTAINER}}}, \
             status: {{phase: Pending, nominatedNodeName: n1}}}}"
        )
    };
    let named = "a: nominated pods of other priorities";
    for (own, nominates, expected) in [
        (0, 0, ""),
        (0, 9, ""),
        (0, -5, ""),
        (1000, 0, named),
        (1000, 1000, ""),
        (-10, -5, named),
        (-3, -5, ""),
    ] {
        let class = object("scheduling.k8s.io/v1", "PriorityClass", "pc", &format!(", value: {own}"));
        let template = format!("priorityClassName: pc, {CONTAINER}");
        assert_eq!(left_of(&template, &[class, nominated(nominates)]), expected, "{own} {nominates}");
    }
}

#[test]
fn taints_that_only_rank_nodes_are_named() {
    for (tolerations, expected) in [
        ("", "a: PreferNoSchedule taints of nodes (not considered)"),
        (
            "tolerations: [{key: other, operator: Exists}], ",
            "a: PreferNoSchedule taints of nodes (not considered)",
        ),
        ("tolerations: [{key: k, operator: Exists}], ", ""),
    ] {
        let yaml = cluster(&group("a", 1, &format!("{tolerations}{CONTAINER}")), "");
        let taint = "spec: {taints: [{key: k, effect: PreferNoSchedule}]}, status: {allocatable";
        assert_eq!(left(&yaml.replacen("status: {allocatable", taint, 1)), expected, "{tolerations}");
    }
}

#[test]
fn templates_for_another_operating_system_are_kept_off() {
    let on = |template: &str| {
        let yaml = cluster(&group("a", 1, template), "");
        yaml.replace("hostname: n1", "hostname: n1, kubernetes.io/os: linux")
    };
    for (system, expected) in [("windows", "never a-0 n1"), ("linux", "")] {
        let template = format!("os: {{name: {system}}}, {CONTAINER}");
        assert_eq!(shown(&on(&template)), expected, "{system}");
    }
    let reason = shown_reasons(&on(&format!("os: {{name: windows}}, {CONTAINER}")));
    assert_eq!(reason, "the template is for windows, the node runs linux");
}

#[test]
fn claims_of_ephemeral_volumes_obey_limit_ranges() {
    for (bounds, expected) in [
        ("min: {storage: 1Gi}, max: {storage: 1Gi}", ""),
        (
            "min: {storage: 2Gi}",
            "LimitRange l: the claim of volume e0 requests less storage than the minimum of 2Gi",
        ),
        (
            "max: {storage: 500Mi}",
            "LimitRange l: the claim of volume e0 requests more storage than the maximum of 500Mi",
        ),
    ] {
        let range = format!(
            "{{apiVersion: v1, kind: LimitRange, metadata: {{name: l, namespace: ns}}, spec: {{limits: [\
             {{type: PersistentVolumeClaim, {bounds}}}]}}}}"
        );
        let made = spec(&[], &["storageClassName: sc, resources: {requests: {storage: 1Gi}}"]);
        let yaml = beside(&[("a", 1, made)], &[class("sc", "d", WAITS), range]);
        assert_eq!(shown_reasons(&yaml), expected, "{bounds}");
    }
}
