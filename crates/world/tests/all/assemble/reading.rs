//! Files and policies.

use world::{Index, Objects, Policy};

use super::cluster::world_of;
use super::pods::{cluster, group};

#[test]
fn kubectl_dumps_are_readable() {
    let list = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: a}}]}\n---\n{apiVersion: v1, kind: NodeList, items: [{metadata: {name: b}}]}";
    let mut objects = Objects::default();
    objects.read("dump", list).unwrap();
    assert_eq!(objects.nodes.len(), 2);
    let message = |text: &str| Objects::default().read("f.yaml", text).unwrap_err().to_string();
    assert_eq!(
        message("a: 1"),
        "f.yaml: document 1: has no `kind`; give whole objects, as `kubectl get -o yaml` prints them"
    );
    assert_eq!(
        message("{apiVersion: cairn.dev/v1alpha1, kind: Actor, metadata: {name: x}}"),
        "f.yaml: document 1, Actor x: `Actor` is not a kind of cairn.dev; correct it"
    );
    assert_eq!(
        message("{apiVersion: cairn.dev/v9, kind: DevicePool, metadata: {name: x}, spec: {kind: gpu}}"),
        "f.yaml: document 1, DevicePool x, apiVersion: `cairn.dev/v9` is not a known version; write cairn.dev/v1alpha1"
    );
    assert_eq!(
        message("{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: {kind: 1}}"),
        "f.yaml: document 1, DevicePool x, spec.kind: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        message("{apiVersion: v1, kind: Node, metadata: {name: a, name: b}}"),
        "f.yaml: document 1: metadata: `name` is given twice; keep one at line 1 column 40"
    );
    // the API server rejects invalid amounts
    for (kind, fields, expected) in [
        (
            "Pod",
            "spec: {containers: [{name: c}, {name: d, resources: {requests: {cpu: 1x}}}]}",
            "spec.containers[1].resources.requests.cpu: `1x`",
        ),
        ("Pod", "spec: {overhead: {memory: ''}, containers: []}", "spec.overhead.memory: ``"),
        ("Node", "status: {allocatable: {cpu: '-1'}}", "status.allocatable.cpu: `-1`"),
    ] {
        assert_eq!(
            message(&format!("{{apiVersion: v1, kind: {kind}, metadata: {{name: x}}, {fields}}}")),
            format!("f.yaml: document 1, {kind} x, {expected} is not a quantity, as in 500m, 2 or 64Mi")
        );
    }
    let list =
        message("{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: x}, spec: [cpu]}");
    let start =
        "f.yaml: document 1, DevicePool x, spec: is a list; give an object, with its fields by name: kind, ";
    assert!(list.starts_with(start), "{list}");
}

#[test]
fn older_versions_are_read_as_the_newest() {
    let claim = "{apiVersion: VERSION, kind: ResourceClaim, metadata: {name: c, namespace: ns}, spec: {devices: {requests: [REQUEST]}}}";
    let template = "{apiVersion: VERSION, kind: ResourceClaimTemplate, metadata: {name: c, namespace: ns}, \
                    spec: {spec: {devices: {requests: [REQUEST]}}}}";
    let exactly = "{name: r, exactly: {deviceClassName: gone, count: 2}}";
    let flat = "{name: r, deviceClassName: gone, count: 2}";
    let several = "{name: r, deviceClassName: '', firstAvailable: [{name: s, deviceClassName: gone}]}";
    for (field, object) in [("resourceClaimName", claim), ("resourceClaimTemplateName", template)] {
        for (version, request) in [
            ("resource.k8s.io/v1", exactly),
            ("resource.k8s.io/v1beta2", exactly),
            ("resource.k8s.io/v1beta1", flat),
            ("resource.k8s.io/v1beta1", several),
        ] {
            let object = object.replace("VERSION", version).replace("REQUEST", request);
            let spec = format!("resourceClaims: [{{name: c, {field}: c}}], containers: [{{name: c}}]");
            let world = world_of(&cluster(&group("a", 1, &spec), &object)).unwrap();
            let reasons: Vec<&str> =
                world.snapshot.file().constraints.iter().filter_map(|it| it.reason()).collect();
            let expected =
                "DeviceClass gone of the resource claims does not exist; create it or correct the name";
            assert_eq!(reasons, [expected], "{object}");
        }
    }
    let slice = "{apiVersion: resource.k8s.io/v1beta1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: n0, \
                 pool: {name: n0, generation: 1, resourceSliceCount: 1}, devices: [{name: a, basic: {capacity: {memory: {value: 1Gi}}}}]}}";
    let mut objects = Objects::default();
    objects.read("slices", slice).unwrap();
    let devices = Index::of(&objects).published_devices("n0");
    assert_eq!(devices.iter().map(|device| device.memory_mib).collect::<Vec<_>>(), [Some(1024)]);
    let class =
        "{apiVersion: storage.k8s.io/v1beta1, kind: StorageClass, metadata: {name: s}, provisioner: p}";
    assert!(Objects::default().read("classes", class).is_ok());
}

#[test]
fn invalid_policies_name_the_line() {
    let message = |text: &str| Policy::parse("p", text).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            message("window: 0s"),
            message("windw: 3s"),
            message("objectives: [overload, overload]"),
            message("objectives: [speed]"),
            message("exchangeCost:\n  otherNode: -1"),
            message("budget: {wall: soon}"),
            message("window: [1"),
            message("leastGainPercent: 101"),
        ]
        .join("\n")
    );
    // Numbers that no snapshot can add up would stop planning under the newest version.
    let largest = "moveCost: {fixed: 1000000000}\nexchangeCost: {otherNode: 1000000, otherKind: 1000000}";
    assert!(Policy::parse("p", largest).is_ok());
    for (text, expected) in [
        ("moveCost: {fixed: 1000000001}", "moveCost.fixed: 1000000001; must be at most 1000000000"),
        ("exchangeCost: {otherZone: 1000001}", "exchangeCost: 1000001; must be at most 1000000"),
        ("exchangeCost: {kinds: {cpu: {gpu: 9000000}}}", "exchangeCost: 9000000; must be at most 1000000"),
    ] {
        assert_eq!(message(text), format!("policy p: policy.yaml, {expected}"));
    }
    assert_eq!(
        message("exchangeCost: {kinds: {cpu: {cpu: 1, cpu: 2}}}"),
        "policy p: policy.yaml line 1 column 29, exchangeCost.kinds.cpu.cpu: `cpu` is given twice; keep one"
    );
    assert_eq!(
        message("budget: [2s]"),
        "policy p: policy.yaml line 1 column 9, budget: invalid type: sequence, expected an object"
    );
    let shortest = "policy p: policy.yaml, window: is shorter than a second; choose a longer one";
    assert_eq!([message("window: 1us"), message("window: 999999us")], [shortest, shortest]);
    assert!(Policy::parse("p", "window: 1s").is_ok());
    let longest = "policy p: policy.yaml, budget.wall: is longer than an hour; choose a shorter one";
    assert_eq!(message("budget: {wall: 3601s}"), longest);
    assert_eq!(
        message("exchangeCost: {kinds: {cpu: {gpu: 5}, gpu: {cpu: 6}}}"),
        "policy p: policy.yaml, exchangeCost.kinds.cpu.gpu: cpu to gpu costs 5, gpu to cpu costs 6; costs are symmetric, give one"
    );
    let large = message("exchangeCost: {otherNode: 9007199254740993}");
    assert!(large.starts_with("policy p: policy.yaml, exchangeCost.otherNode: "), "{large}");
    let memory = |text: &str| Policy::parse("p", &format!("budget: {{memory: {text}}}")).unwrap().memory_mib;
    assert_eq!(["2147483648", "2.147483648e9", "2Gi"].map(memory), [2048; 3]);
    assert_eq!(Policy::parse("p", "moveCost: {bytesPerPoint: 1.5}").err(), None);
    let brackets = format!("objectives: {}", "[".repeat(1 << 20));
    let too_long = "policy p: policy.yaml: has 1048588 bytes; parameters have at most 16384";
    assert_eq!(message(&brackets), too_long);
    assert_eq!(Policy::parse("p", "").unwrap(), Policy::builtin("p"));
    for (text, is_required) in [("", false), ("judge: BestEffort", false), ("judge: Required", true)] {
        assert_eq!(Policy::parse("p", text).unwrap().requires_judge(), is_required, "{text}");
    }
    assert!(
        message("judge: never").contains("expected `Required` or `BestEffort`"),
        "{}",
        message("judge: never")
    );
    assert_eq!(
        message("annoyance: {baseline: 0.5}"),
        "policy p: policy.yaml, annoyance.baseline: `0.5` is not a duration, as in 20ms or 1.5s"
    );
    assert_eq!(
        message("annoyance: {timeLost: {rollbacks: 0us}}"),
        "policy p: policy.yaml, annoyance.timeLost.rollbacks: `0us` is below a nanosecond; choose a longer one"
    );
    assert_eq!(
        message("annoyance: {timeLost: {nullMessages: 2m}}"),
        "policy p: policy.yaml, annoyance.timeLost.nullMessages: `2m` is longer than a minute; choose a shorter one"
    );
    assert!(message("annoyance: {weights: {idle: x}}").contains("annoyance.weights: \"x\" is not a weight"));
    let paper = "annoyance: {baseline: 100us, timeLost: {rollbacks: 100us, nullMessages: 20us}, \
                 weights: {rollbacks: \"1\", nullMessages: \"1\", idle: \"1\"}}";
    assert_eq!(Policy::parse("p", paper).unwrap(), Policy::builtin("p"));
}
