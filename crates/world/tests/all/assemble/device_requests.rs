//! Devices that the scheduler must allocate: by claims of templates, and by extended resources that a class serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::DeviceClass;
use world::{Index, Objects};

use super::cluster::world_of;
use super::pods::{cluster, group, shown};

pub(super) const BY_TEMPLATE: &str =
    "resourceClaims: [{name: c, resourceClaimTemplateName: one}], containers: [{name: c}]";
const BY_NAME: &str = "resourceClaims: [{name: c, resourceClaimName: one}], containers: [{name: c}]";

pub(super) fn object(kind: &str, name: &str, fields: &str) -> String {
    format!(
        "{{apiVersion: resource.k8s.io/v1, kind: {kind}, metadata: {{name: {name}, namespace: ns}}, {fields}}}\n---\n"
    )
}

pub(super) fn class(fields: &str) -> String {
    object("DeviceClass", "gpu", &format!("spec: {{{fields}}}")).replace(", namespace: ns", "")
}

/// A slice with these devices, for nodes, of this generation of its pool.
pub(super) fn slice(pool: &str, nodes: &str, generation: u32, devices: &str) -> String {
    let spec = format!(
        "spec: {{driver: d.example.com, {nodes}, pool: {{name: {pool}, generation: {generation}, resourceSliceCount: 1}}, \
         devices: [{devices}]}}"
    );
    object("ResourceSlice", &format!("{pool}-{generation}"), &spec).replace(", namespace: ns", "")
}

/// A claim template that requests a device of the class.
pub(super) fn template(request: &str) -> String {
    let requests = format!("[{{name: r, exactly: {{deviceClassName: gpu{request}}}}}]");
    object("ResourceClaimTemplate", "one", &format!("spec: {{spec: {{devices: {{requests: {requests}}}}}}}"))
}

/// A claim of another namespace that holds device `d0` of `n0`.
fn holder(result: &str) -> String {
    let results = format!("[{{request: r, driver: d.example.com, pool: n0, device: d0{result}}}]");
    let status = format!("status: {{allocation: {{devices: {{results: {results}}}}}}}");
    object("ResourceClaim", "held", &format!("spec: {{devices: {{}}}}, {status}"))
        .replace("namespace: ns", "namespace: away")
}

#[test]
fn a_node_needs_enough_free_devices_that_are_selected() {
    let one = slice("n0", "nodeName: n0", 1, "{name: d0}");
    let two = slice("n0", "nodeName: n0", 1, "{name: d0}, {name: d1}");
    let any = class("");
    let selects =
        |expression: &str| class(&format!("selectors: [{{cel: {{expression: \"{expression}\"}}}}]"));
    let selector =
        |expression: &str| template(&format!(", selectors: [{{cel: {{expression: \"{expression}\"}}}}]"));
    let (all, others) = ("never a-0 n0,n1,n2", "never a-0 n1,n2");
    for (documents, expected) in [
        ([&any, &one, &template("")].map(String::as_str).concat(), others),
        ([&any, &one, &template(""), &holder("")].map(String::as_str).concat(), all),
        ([&any, &one, &template(""), &holder(", adminAccess: true")].map(String::as_str).concat(), others),
        ([&any, &one, &template(", adminAccess: true"), &holder("")].map(String::as_str).concat(), others),
        ([&any, &two, &template(""), &holder("")].map(String::as_str).concat(), others),
        ([&any, &one, &template(", count: 2")].map(String::as_str).concat(), all),
        ([&any, &two, &template(", count: 2")].map(String::as_str).concat(), others),
        ([&any, &two, &template(", count: 2"), &holder("")].map(String::as_str).concat(), all),
        ([&any, &one, &template(", allocationMode: All")].map(String::as_str).concat(), others),
        // only an old generation of the pool has a device
        ([&any, &one, &slice("n0", "nodeName: n0", 2, ""), &template("")].map(String::as_str).concat(), all),
        ([&selects("device.driver == 'other'"), &one, &template("")].map(String::as_str).concat(), all),
        (
            [&selects("device.driver == 'd.example.com'"), &one, &template("")].map(String::as_str).concat(),
            others,
        ),
        ([&any, &one, &selector("device.driver == 'other'")].map(String::as_str).concat(), all),
        (
            [&any, &two, &template(", allocationMode: All"), &holder("")].map(String::as_str).concat(),
            "never a-0 n0,n1,n2\nquota a-0 1",
        ),
        // left to the scheduler
        ([&any, &one, &selector("device.gone == 'x'")].map(String::as_str).concat(), others),
    ] {
        assert_eq!(shown(&cluster(&group("a", 1, BY_TEMPLATE), &documents)), expected, "{documents}");
    }
}

#[test]
fn devices_that_are_tainted_too_small_or_withheld_are_not_available() {
    let device =
        "name: d0, capacity: {memory: {value: 80Gi}}, taints: [{key: k, value: v, effect: NoSchedule}]";
    let tainted = slice("n0", "nodeName: n0", 1, &format!("{{{device}}}"));
    let one = slice("n0", "nodeName: n0", 1, &format!("{{{}}}", device.replace("NoSchedule", "None")));
    let tolerates = |toleration: &str| template(&format!(", tolerations: [{{{toleration}}}]"));
    let asks = |amount: &str| template(&format!(", capacity: {{requests: {{{amount}}}}}"));
    let incomplete = one.replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    let twice = slice("n0", "nodeName: n0", 1, "{name: d0}, {name: d0}");
    let (all, others) = ("never a-0 n0,n1,n2", "never a-0 n1,n2");
    for (slices, request, expected) in [
        (&tainted, template(""), all),
        (&tainted, tolerates("key: k, operator: Exists"), others),
        (&tainted, tolerates("key: k, value: v, effect: NoSchedule"), others),
        (&tainted, tolerates("key: k, value: w"), all),
        (&tainted, tolerates("operator: Exists, effect: NoExecute"), all),
        (&one, asks("memory: 40Gi"), others),
        (&one, asks("memory: 100Gi"), all),
        (&one, asks("cores: 1"), all),
        (&incomplete, template(""), all),
        (&twice, template(""), all),
    ] {
        let documents = [class(""), slices.clone(), request].concat();
        assert_eq!(shown(&cluster(&group("a", 1, BY_TEMPLATE), &documents)), expected, "{documents}");
    }
}

#[test]
fn a_claim_that_a_pod_lists_twice_is_allocated_once() {
    let twice = BY_NAME.replace("one}]", "one}, {name: d, resourceClaimName: one}]");
    let request = "{name: r, exactly: {deviceClassName: gpu}}";
    let claim = object("ResourceClaim", "one", &format!("spec: {{devices: {{requests: [{request}]}}}}"));
    let documents = [class(""), slice("n0", "nodeName: n0", 1, "{name: d0}"), claim].concat();
    let [once, twice] = [BY_NAME, &twice].map(|pod| shown(&cluster(&group("a", 1, pod), &documents)));
    assert_eq!(once, twice);
    assert!(once.contains("never a-0 n1,n2"), "{once}");
}

#[test]
fn claims_of_own_pods_take_no_device_away() {
    let owned = "ownerReferences: [{apiVersion: cairn.dev/v1alpha1, controller: true";
    let own = format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: app-a-0, namespace: ns, uid: i, \
         {owned}, kind: ActorApplication, name: app, uid: own}}]}}, \
         spec: {{applicationName: app, actorGroup: a, actor: a-0, template: {{}}}}}}\n---\n\
         {{apiVersion: v1, kind: Pod, metadata: {{name: app-a-0, namespace: ns, uid: p, annotations: {{cairn.dev/unit: n0/cpus-0}}, \
         {owned}, kind: Instance, name: app-a-0, uid: i}}]}}, spec: {{nodeName: n0, containers: [{{name: c}}]}}, \
         status: {{phase: Running}}}}\n---\n"
    );
    let generated = holder("").replace(
        "name: held, namespace: away",
        "name: held, namespace: ns, ownerReferences: [{apiVersion: v1, kind: Pod, name: app-a-0, uid: p, controller: true}]",
    );
    let documents =
        [class(""), slice("n0", "nodeName: n0", 1, "{name: d0}"), template(""), own, generated].concat();
    assert_eq!(shown(&cluster(&group("a", 1, BY_TEMPLATE), &documents)), "never a-0 n1,n2");
}

#[test]
fn actors_share_the_devices_of_a_node_or_of_a_claim() {
    let local = |node: &str, devices: &str| slice(node, &format!("nodeName: {node}"), 1, devices);
    let both = || local("n0", "{name: d0}") + &local("n1", "{name: d0}, {name: d1}");
    let zone = "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}";
    let claim = object(
        "ResourceClaim",
        "one",
        "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}",
    );
    let shared = "\npeers a-0,a-1 of a-0,a-1: n0+0 n1+0; None None (First)";
    for (spec, replicas, slices, never, more) in [
        (BY_TEMPLATE, 2, both(), "n2", "\npeers a-0,a-1 of a-0,a-1: n0+0; (0) None None"),
        (BY_TEMPLATE, 1, both(), "n2", ""),
        // devices that several nodes can use are left to the scheduler
        (BY_TEMPLATE, 2, slice("net", zone, 1, "{name: d0}"), "n2", ""),
        (BY_NAME, 2, both(), "n2", shared),
        (BY_NAME, 1, both(), "n2", ""),
        (BY_NAME, 2, slice("net", zone, 1, "{name: d0}"), "n2", ""),
        (BY_NAME, 2, both() + &slice("net", zone, 1, "{name: d0}"), "n2", ""),
    ] {
        let documents = [&class(""), &template(""), &claim, &slices].map(String::as_str).concat();
        let actors = if replicas == 2 { "a-0,a-1" } else { "a-0" };
        let shown = shown(&cluster(&group("a", replicas, spec), &documents));
        assert_eq!(shown, format!("never {actors} {never}{more}"), "{spec} with {slices}");
    }
}

const RESOURCE: &str = "example.com/gpu";

/// An application that requests the resource; `n0` offers 2 of it, and `n1` has a device.
fn requesting(resource: &str, replicas: u32, class: &str) -> String {
    let spec = format!("containers: [{{name: c, resources: {{limits: {{{resource}: 1}}}}}}]");
    let documents = class.to_owned() + &slice("n1", "nodeName: n1", 1, "{name: d0}");
    let offered = format!("pods: \"10\", {RESOURCE}: \"2\"");
    cluster(&group("a", replicas, &spec), &documents).replacen("pods: \"10\"", &offered, 1)
}

#[test]
fn a_class_serves_an_extended_resource_on_nodes_that_do_not_offer_it() {
    let serving = class(&format!("extendedResourceName: {RESOURCE}"));
    let of_class = "deviceclass.resource.kubernetes.io/gpu";
    let many: Option<u64> = Some(1 << 20);
    let left = "a: the device of a resource claim";
    let one_each = "\npeers a-0,a-1 of a-0,a-1: n1+0; (0) None None";
    for (resource, replicas, class, provided, rules, left) in [
        (RESOURCE, 1, class(""), [Some(2), None, None], "", ""),
        (RESOURCE, 1, serving.clone(), [Some(2), many, many], "never a-0 n2", left),
        (
            RESOURCE,
            2,
            serving.clone(),
            [Some(2), many, many],
            format!("never a-0,a-1 n2{one_each}").as_str(),
            left,
        ),
        (of_class, 1, class(""), [many, many, many], "never a-0 n0,n2", left),
        (of_class, 1, String::new(), [None, None, None], "", ""),
    ] {
        let yaml = requesting(resource, replicas, &class);
        let world = world_of(&yaml).unwrap();
        let file = world.snapshot.file();
        let found: Vec<Option<u64>> =
            file.nodes.iter().map(|node| node.provides.get(resource).copied()).collect();
        assert_eq!(found, provided, "{yaml}");
        assert_eq!(shown(&yaml), rules, "{yaml}");
        assert_eq!(file.left_to_scheduler.join("; "), left, "{yaml}");
    }
}

#[test]
fn pods_start_and_run_on_nodes_where_a_class_serves_their_resource() {
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: other, namespace: ns, uid: p}}, spec: {{nodeName: n1, \
         containers: [{{name: c, resources: {{limits: {{{RESOURCE}: 1}}}}}}]}}}}"
    );
    let mut objects = Objects::default();
    objects.read("test", &format!("{}\n---\n{pod}", requesting(RESOURCE, 1, ""))).unwrap();
    let mut index = Index::of(&objects);
    let asks = BTreeMap::from([(RESOURCE.to_owned(), 1)]);
    let state = |index: &Index| {
        let room = index.room("n1").unwrap();
        (room.fits(&asks, None), room.is_overfull())
    };
    assert_eq!(state(&index), (false, true));
    let text = class(&format!("extendedResourceName: {RESOURCE}"));
    let class: DeviceClass = serde_yaml::from_str(text.trim_end_matches("\n---\n")).unwrap();
    index.put_scheduling(Arc::new(class.clone()));
    assert_eq!(state(&index), (true, false));
    index.remove_scheduling(&class);
    assert_eq!(state(&index), (false, true));
}
