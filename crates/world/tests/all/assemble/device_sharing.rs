//! Devices that requests, pods, units and applications compete for.

use super::cluster::placement;
use super::device_requests::{BY_TEMPLATE, class, object, slice, template};
use super::dra::{self, APPLICATION, CLASS, NODE, pool};
use super::dra_partitions::limits;
use super::pods::{cluster, group, shown};

/// A claim template with these requests.
fn requests(requests: &str) -> String {
    object(
        "ResourceClaimTemplate",
        "one",
        &format!("spec: {{spec: {{devices: {{requests: [{requests}]}}}}}}"),
    )
}

/// A request for devices of the class.
fn exactly(name: &str, more: &str) -> String {
    format!("{{name: {name}, exactly: {{deviceClassName: gpu{more}}}}}")
}

fn selects(model: &str) -> String {
    format!(
        ", selectors: [{{cel: {{expression: \"device.attributes['d.example.com'].model == '{model}'\"}}}}]"
    )
}

/// Devices of `n0` by their models.
fn devices(models: &str) -> String {
    let device = |(at, model)| format!("{{name: d{at}, attributes: {{model: {{string: {model}}}}}}}");
    let devices: Vec<String> = models.split_whitespace().enumerate().map(device).collect();
    slice("n0", "nodeName: n0", 1, &devices.join(", "))
}

#[test]
fn requests_of_a_pod_and_of_pods_are_added() {
    let two = requests(&format!("{}, {}", exactly("x", ""), exactly("y", "")));
    let any_and_h = requests(&format!("{}, {}", exactly("x", ""), exactly("y", &selects("h"))));
    let first = format!(
        "{{name: x, firstAvailable: [{{name: h, deviceClassName: gpu{}}}, {{name: t, deviceClassName: gpu{}}}]}}",
        selects("h"),
        selects("t")
    );
    let many = "h ".repeat(40);
    for (models, template, replicas, on_n0, more) in [
        ("h", &two, 1, "never a-0 n0\n", ""),
        ("h h", &two, 1, "", ""),
        ("h h h", &two, 2, "", "\npeers a-0,a-1 of a-0,a-1: n0+0; (0) None None"),
        // the only device of both
        ("h", &any_and_h, 1, "never a-0 n0\n", ""),
        ("h t", &any_and_h, 1, "", ""),
        // one of each alternative
        ("h t", &requests(&first), 3, "", "\npeers a-0,a-1,a-2 of a-0,a-1,a-2: n0+0; (1) None None"),
        // all devices of a node
        ("h h h", &template(", allocationMode: All"), 2, "", "\nquota a-0,a-1 3"),
        ("h h h", &template(", allocationMode: All"), 1, "", ""),
        (&many, &template(", count: 32"), 1, "", ""),
        (&many, &template(", count: 33"), 1, "never a-0 n0\n", ""),
    ] {
        let actors: Vec<String> = (0..replicas).map(|at| format!("a-{at}")).collect();
        let documents = [class(""), template.clone(), devices(models)].concat();
        let found = shown(&cluster(&group("a", replicas, BY_TEMPLATE), &documents));
        let expected = format!("{on_n0}never {} n1,n2{more}", actors.join(","));
        assert_eq!(found, expected, "{models}: {template}");
    }
}

#[test]
fn a_claim_of_several_pods_takes_all_of_its_devices() {
    let claim = |name: &str| {
        let requests = exactly("r", ", count: 2");
        object("ResourceClaim", name, &format!("spec: {{devices: {{requests: [{requests}]}}}}"))
    };
    let documents = [class(""), template(""), claim("one"), claim("two"), devices("h h h")].concat();
    let both = "resourceClaims: [{name: c, resourceClaimTemplateName: one}, {name: d, resourceClaimName: two}], \
                containers: [{name: c}]";
    assert_eq!(
        shown(&cluster(&group("a", 2, both), &documents)),
        "never a-0,a-1 n1,n2\npeers a-0,a-1 of a-0,a-1: n0+0; (0) None None"
    );
    let named = |name: &str| {
        format!("resourceClaims: [{{name: c, resourceClaimName: {name}}}], containers: [{{name: c}}]")
    };
    let groups = [group("a", 1, &named("one")), group("b", 1, &named("two"))].join(", ");
    assert_eq!(
        shown(&cluster(&groups, &documents)),
        "never a-0,b-0 n1,n2\npeers a-0,b-0 of a-0,b-0: n0+0; (0) None None"
    );
}

/// A template of a claim on a device of the pool's class.
const TEMPLATE: &str = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one, namespace: ns}, \
    spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpus}}]}}}}";

const CPUS: &str =
    "{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}";

#[test]
fn units_and_claims_share_the_devices_of_a_node() {
    let claiming = "spec: {resourceClaims: [{name: c, resourceClaimTemplateName: one}], containers:";
    let both =
        APPLICATION.replace("spec: {containers:", claiming).replace("{name: a,", "{name: a, replicas: 2,");
    let beside = APPLICATION.replace(
        "spec: {actors: [",
        &format!(
            "spec: {{actors: [{{name: b, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{{claiming} [{{name: c}}]}}}}}}]}}, "
        ),
    );
    let named = ["a 0 - uuid=A", "b 0 - uuid=B"];
    for (application, devices, expected) in [
        // an actor needs the device of its unit and one more
        (&both, &named[..], &["p-a=2 p-b=2 up to 2"][..]),
        (&both, &["a 0 -", "b 0 -"], &["p-0=2 p-1=2 up to 2"]),
        (&beside, &named[..1], &["cpus-0=1 p-a=1 up to 1"]),
        (&beside, &named, &[]),
    ] {
        let world = [
            NODE.to_owned(),
            dra::class(CLASS),
            dra::slice("n0", 1, devices),
            pool("p", ""),
            CPUS.to_owned(),
            TEMPLATE.to_owned(),
            application.clone(),
        ];
        assert_eq!(limits(&world), expected, "{devices:?}");
    }
}

/// Actors of another application that are decided and have no pods.
#[test]
fn decided_places_of_other_applications_take_devices_away() {
    let claiming = |app: &str, uid: &str| {
        format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: {app}, namespace: ns, uid: {uid}}}, \
             spec: {{actors: [{}]}}}}\n---\n",
            group("a", 1, BY_TEMPLATE)
        )
    };
    let decided = placement("other", "{}")
        .replace("cam-0", "a-0")
        .replace("gpus-0", "cpus-0")
        .replace("pool: gpus", "pool: cpus")
        .replace(
            "namespace: ns}",
            "namespace: ns, ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: u1, \
             controller: true}]}",
        );
    for (models, expected) in [("h", "never a-0 n1,n2\nnever a-0 n0"), ("h h", "never a-0 n1,n2")] {
        let documents =
            [class(""), template(""), devices(models), claiming("other", "u1"), decided.clone()].concat();
        assert_eq!(shown(&cluster(&group("a", 1, BY_TEMPLATE), &documents)), expected, "{models}");
    }
}
