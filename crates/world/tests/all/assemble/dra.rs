//! Pools over the devices of `ResourceSlice`s.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crds::DevicePool;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use world::{Index, Objects, Policy, Unit};

use super::cluster::shown;

pub(super) const CLASS: &str =
    "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].type == 'gpu'";

/// A device in words: `name numa memory [word=value …]`, where `-` is nothing. Of the words, `taint=EFFECT`, `pci=ADDRESS`,
/// `take=COUNTER:AMOUNT` and `shared=BOOL` are special; others are attributes.
fn device(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, numa, memory) = (words[0], words[1], words[2]);
    let mut attributes = "type: {string: gpu}".to_owned();
    let (mut taints, mut taken, mut shared) = (String::new(), String::new(), "false");
    if numa != "-" {
        write!(attributes, ", numaNode: {{int: {numa}}}").unwrap();
    }
    for (key, value) in words[3..].iter().map(|word| word.split_once('=').unwrap()) {
        match key {
            "taint" => write!(taints, "{{key: k, effect: {value}}}, ").unwrap(),
            "pci" => {
                write!(attributes, ", 'resource.kubernetes.io/pciBusID': {{string: '{value}'}}").unwrap();
            }
            "take" => {
                let (counter, amount) = value.split_once(':').unwrap();
                write!(taken, "{counter}: {{value: '{amount}'}}, ").unwrap();
            }
            "shared" => shared = value,
            _ => write!(attributes, ", {key}: {{string: '{value}'}}").unwrap(),
        }
    }
    let capacity =
        if memory == "-" { String::new() } else { format!(", capacity: {{memory: {{value: {memory}}}}}") };
    let consumes = if taken.is_empty() {
        String::new()
    } else {
        format!(", consumesCounters: [{{counterSet: gpu, counters: {{{taken}}}}}]")
    };
    format!(
        "{{name: '{name}', allowMultipleAllocations: {shared}, attributes: {{{attributes}}}{capacity}, taints: [{taints}]{consumes}}}"
    )
}

pub(super) fn slice(node: &str, generation: i64, devices: &[&str]) -> String {
    let devices: Vec<String> = devices.iter().map(|line| device(line)).collect();
    format!(
        "{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {node}-slice}}, spec: {{driver: gpu.example.com, \
         nodeName: {node}, pool: {{name: {node}, generation: {generation}, resourceSliceCount: 1}}, devices: [{}]}}}}",
        devices.join(", ")
    )
}

/// A claim of a device; `of` is the uid of an Instance and its unit.
pub(super) fn claim(name: &str, device: &str, of: Option<(&str, &str)>) -> String {
    let own = of.map_or(String::new(), |(uid, unit)| {
        format!(
            ", annotations: {{cairn.dev/unit: {unit}}}, ownerReferences: [{{apiVersion: cairn.dev/v1alpha1, kind: Instance, \
             name: app-a-0, uid: {uid}, controller: true}}]"
        )
    });
    format!(
        "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: {name}, namespace: ns{own}}}, spec: {{devices: {{}}}}, \
         status: {{allocation: {{devices: {{results: [{{driver: gpu.example.com, pool: n0, device: {device}, request: r}}]}}}}}}}}"
    )
}

pub(super) fn class(expression: &str) -> String {
    format!(
        "{{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: gpus}}, spec: {{selectors: [{{cel: {{expression: \"{expression}\"}}}}]}}}}"
    )
}

pub(super) fn pool(name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: {name}}}, spec: {{kind: gpu, resource: {{dra: {{deviceClassName: gpus{more}}}}}}}}}"
    )
}

pub(super) const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: '8', memory: 8Gi, pods: '110'}}}";

/// An actor that runs on a unit of `n0`.
pub(super) fn running(unit: &str) -> String {
    let owner = |kind: &str, name: &str, uid: &str| {
        format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: {kind}, name: {name}, uid: {uid}, controller: true}}"
        )
    };
    [
        format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: app-a-0, namespace: ns, uid: i0, ownerReferences: [{}]}}, \
             spec: {{applicationName: app, origin: Spec, actorGroup: a, actor: a-0}}}}",
            owner("ActorApplication", "app", "u0")
        ),
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: app-a-0, namespace: ns, uid: p0, annotations: {{cairn.dev/unit: {unit}}}, \
             ownerReferences: [{}]}}, spec: {{nodeName: n0, containers: []}}, status: {{phase: Running}}}}",
            owner("Instance", "app-a-0", "i0")
        ),
    ]
    .join("\n---\n")
}

pub(super) const APPLICATION: &str = "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: app, namespace: ns, uid: u0}, \
    spec: {actors: [{name: a, implementations: [{kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}}";

pub(super) fn index(objects: &[String]) -> Index {
    let mut all = Objects::default();
    all.read("test", &objects.join("\n---\n")).unwrap();
    Index::of(&all)
}

fn line(unit: &Unit) -> String {
    let claim = unit.claim.as_ref().unwrap();
    let memory = unit.memory_mib.map_or("-".to_owned(), |memory| format!("{memory} MiB"));
    let cordoned = unit.cordoned.map_or(String::new(), |why| format!(" ({why:?})"));
    format!(
        "{} {} {memory} by {}{cordoned}",
        unit.id,
        unit.numa.as_deref().unwrap_or("-"),
        claim.selectors.last().map_or("-", String::as_str)
    )
}

/// The units, and the status of the pools.
pub(super) fn of(objects: &[String]) -> String {
    let units = world::units(&index(objects), &Policy::builtin("p"));
    let mut lines: Vec<String> = units.values().map(line).collect();
    let yaml = [objects, &[APPLICATION.to_owned()]].concat().join("\n---\n");
    lines.extend(shown(&yaml).lines().filter(|line| line.starts_with("pool ")).map(str::to_owned));
    lines.join("\n")
}

#[test]
fn a_unit_is_one_device_of_a_slice() {
    let devices = [
        "gpu-0 0 80Gi uuid=U0 model=H100",
        "gpu-1 1 80Gi uuid=U1 model=A100",
        "gpu-2 1 - uuid=U2 model=H100",
    ];
    let world =
        |pools: &[String]| [&[NODE.to_owned(), class(CLASS), slice("n0", 1, &devices)], pools].concat();
    insta::assert_snapshot!(of(&world(&[pool("p", "")])));
    let models =
        |model: &str| format!(", selectors: ['device.attributes[\"gpu.example.com\"].model == \"{model}\"']");
    insta::assert_snapshot!(of(&world(&[pool("a", &models("A100")), pool("h", &models("H100"))])));
    let large = ", selectors: ['\"memory\" in device.capacity[\"gpu.example.com\"] && \
                 device.capacity[\"gpu.example.com\"].memory.isGreaterThan(quantity(\"40Gi\"))']";
    insta::assert_snapshot!(of(&world(&[pool("p", large)])));
    insta::assert_snapshot!(of(&world(&[pool("p", ", pinBy: gpu.example.com/uuid"), pool("q", "")])));
}

#[test]
fn taints_and_claims_take_units_away() {
    let devices = [
        "a 0 80Gi pci=0000:01:00.0",
        "b 0 80Gi pci=0000:02:00.0 taint=NoSchedule",
        "c 1 80Gi pci=0000:03:00.0 taint=NoExecute",
        "d 1 80Gi pci=0000:04:00.0 taint=None",
    ];
    let world = [NODE.to_owned(), class(CLASS), slice("n0", 1, &devices), pool("p", "")];
    insta::assert_snapshot!(of(&world));
    let foreign = [&world[..], &[claim("c", "a", None)]].concat();
    insta::assert_snapshot!("a claim of others", of(&foreign));
    // the device of a running actor
    let own = |device: &str, of: &str| {
        let more = [
            APPLICATION.to_owned(),
            running(&format!("n0/p-{device}")),
            claim("c", device, Some(("i0", of))),
        ];
        let units = world::units(&index(&[&world[..], &more].concat()), &Policy::builtin("p"));
        units.values().map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(own("a", "n0/p-a"));
    insta::assert_snapshot!(own("b", "n0/p-b"));
    insta::assert_snapshot!(own("a", "n0/p-d"));
}

/// kube-scheduler allocates no device of a pool that is incomplete or invalid; devices of several nodes are no units.
#[test]
fn devices_that_the_scheduler_does_not_allocate_are_reported() {
    let given = |slices: &[String]| [&[NODE.to_owned(), class(CLASS), pool("p", "")], slices].concat();
    let whole = slice("n0", 1, &["a 0 80Gi uuid=U0"]);
    let half = slice("n0", 2, &["b 0 80Gi uuid=U1"])
        .replace("n0-slice", "n0-half")
        .replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    let incomplete = "pool p note IncompletePool: n0: pool n0 of gpu.example.com is incomplete: 1 of 2 slices of generation 2; \
                      running actors stay and no new ones are placed";
    let half_only = format!("{incomplete}\npool p not ready: Empty");
    for (slices, expected) in [
        (vec![half.clone()], half_only.as_str()),
        (vec![whole.clone(), half.clone()], &half_only),
        (
            vec![slice("n0", 1, &["a 0 - take=g0:1"])],
            "pool p Degraded: n0: pool n0 of gpu.example.com is invalid: counter set gpu not found; kube-scheduler allocates none of \
             its devices, correct the driver\npool p not ready: Degraded",
        ),
        (
            vec![whole.replace("nodeName: n0", "allNodes: true")],
            "pool p note MultiNodeDevices: gpu.example.com/n0/a is of several nodes (allNodes or nodeSelector) and cannot be used as \
             units\npool p not ready: Empty",
        ),
    ] {
        assert_eq!(of(&given(&slices)), expected);
    }
    let own = [APPLICATION.to_owned(), running("n0/p-a"), claim("c", "a", Some(("i0", "n0/p-a")))];
    let found = world::units(&index(&given(&[&[whole, half], &own[..]].concat())), &Policy::builtin("p"));
    let found: Vec<_> = found.values().map(|unit| format!("{} {:?}", unit.id, unit.cordoned)).collect();
    assert_eq!(found, ["n0/p-a Some(DeviceWithheld)"]);
}

#[test]
fn devices_that_cannot_be_told_apart_are_numbered_units() {
    let devices = ["a 0 80Gi", "b 0 40Gi", "c 1 80Gi taint=NoSchedule"];
    let world = [NODE.to_owned(), class(CLASS), slice("n0", 1, &devices), pool("p", "")];
    insta::assert_snapshot!(of(&world));
    let foreign = [&world[..], &[claim("c", "a", None)]].concat();
    insta::assert_snapshot!(of(&foreign));
}

#[test]
fn classes_and_selectors_are_checked() {
    let devices = ["a 0 80Gi uuid=U0"];
    let world = |more: &[String]| [&[NODE.to_owned(), slice("n0", 1, &devices)], more].concat();
    let table = [
        ("no class", world(&[pool("p", "")])),
        ("the class is no CEL", world(&[class("device.driver ="), pool("p", "")])),
        ("the class is no truth value", world(&[class("device.driver"), pool("p", "")])),
        ("an unknown attribute", world(&[class("device.attributes['x'].y == 1"), pool("p", "")])),
        ("the pool is no CEL", world(&[class(CLASS), pool("p", ", selectors: ['1 +']")])),
    ];
    let all: Vec<String> = table.iter().map(|(what, world)| format!("{what}:\n{}", of(world))).collect();
    insta::assert_snapshot!(all.join("\n"));
    let mut objects = Objects::default();
    objects.read("test", &[NODE, &pool("p", "")].join("\n---\n")).unwrap();
    let mut index = Index::of(&objects);
    index.set_served::<ResourceSlice>(false);
    let reports = world::pools(&index, &Policy::builtin("p"));
    insta::assert_snapshot!(format!("{:?}", reports["p"].0.main_problem()));
}

#[test]
fn running_actors_stay_while_their_class_is_missing_and_leave_after_the_grace_period() {
    let devices = ["a 0 80Gi uuid=U0", "b 0 80Gi uuid=U1"];
    let world = [
        NODE.to_owned(),
        class(CLASS),
        slice("n0", 1, &devices),
        pool("p", ""),
        APPLICATION.to_owned(),
        running("n0/p-a"),
        claim("c", "a", Some(("i0", "n0/p-a"))),
    ];
    let mut index = index(&world);
    index.set_grace_period(Duration::from_mins(1));
    let units = |index: &Index| {
        let units: BTreeMap<String, Unit> = world::units(index, &Policy::builtin("p"));
        units.values().map(|unit| format!("{} {:?}", unit.id, unit.cordoned)).collect::<Vec<_>>().join(", ")
    };
    let read = |text: &str| -> serde_json::Value { serde_yaml::from_str(text).unwrap() };
    let gpus: DeviceClass = serde_json::from_value(read(&class(CLASS))).unwrap();
    index.remove_scheduling(&gpus);
    assert_eq!(units(&index), "n0/p-a Some(UnknownPool)");
    index.put_scheduling(Arc::new(gpus));
    assert_eq!(units(&index), "n0/p-a None, n0/p-b None");
    let slice_of = |devices: &[&str]| {
        Arc::new(serde_json::from_value::<ResourceSlice>(read(&slice("n0", 2, devices))).unwrap())
    };
    index.put_scheduling(slice_of(&devices[1..]));
    assert_eq!(units(&index), "n0/p-a Some(Withdrawn), n0/p-b None", "the device vanished");
    index.put_scheduling(slice_of(&devices));
    assert_eq!(units(&index), "n0/p-a None, n0/p-b None", "and came back");
    index.put_scheduling(slice_of(&["a 0 80Gi uuid=U0 taint=NoExecute", "b 0 80Gi uuid=U1"]));
    assert_eq!(units(&index), "n0/p-a Some(Withdrawn), n0/p-b None");
    let later = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(61);
    assert_eq!(index.advance(later), ["n0"]);
    index.expire_units("n0");
    assert_eq!(units(&index), "n0/p-b None");
    // claims of others
    let taken: ResourceClaim = serde_json::from_value(read(&claim("other", "b", None))).unwrap();
    index.put_scheduling(Arc::new(taken.clone()));
    assert_eq!(units(&index), "");
    index.remove_scheduling(&taken);
    assert_eq!(units(&index), "n0/p-b None");
}

/// An older CRD drops `resource.dra` of a pool, and an older API server serves no slices.
#[test]
fn running_actors_stay_while_their_pool_or_the_api_is_older() {
    let pool_of =
        |text: &str| Arc::new(serde_yaml::from_str::<DevicePool>(text).expect("the pool can be read"));
    let (whole, dropped) = (pool("p", ""), pool("p", "").replace("dra: {deviceClassName: gpus}", ""));
    let world = [
        NODE.to_owned(),
        class(CLASS),
        slice("n0", 1, &["a 0 80Gi uuid=U0", "b 0 80Gi uuid=U1"]),
        whole.clone(),
        APPLICATION.to_owned(),
        running("n0/p-a"),
        claim("c", "a", Some(("i0", "n0/p-a"))),
    ];
    let mut index = index(&world);
    index.set_grace_period(Duration::from_mins(1));
    let policy = Policy::builtin("p");
    let units = |index: &Index| {
        let units = world::units(index, &policy);
        units.values().map(|unit| format!("{} {:?}", unit.id, unit.cordoned)).collect::<Vec<_>>().join(", ")
    };
    let problem = |index: &Index| {
        let report = &world::pools(index, &policy)["p"].0;
        report.main_problem().map(|(type_, problem)| format!("{type_}: {problem}"))
    };
    let mut now = jiff::Timestamp::UNIX_EPOCH;
    let mut stays = |index: &mut Index, expected: &str| {
        now += jiff::SignedDuration::from_secs(61);
        assert_eq!(index.advance(now), Vec::<String>::new());
        assert_eq!(units(index), "n0/p-a Some(UnknownPool)");
        let problem = problem(index).unwrap();
        assert!(problem.starts_with(expected), "{problem}");
    };
    index.put_pool(pool_of(&dropped));
    stays(
        &mut index,
        "Invalid: spec.resource has neither devicePlugin nor dra: the CRDs are older than the pool",
    );
    index.put_pool(pool_of(&whole));
    assert_eq!((units(&index).as_str(), problem(&index)), ("n0/p-a None, n0/p-b None", None));
    index.set_served::<ResourceSlice>(false);
    stays(&mut index, "Unsupported: the API server does not serve resource.k8s.io/v1");
    index.set_served::<ResourceSlice>(true);
    assert_eq!((units(&index).as_str(), problem(&index)), ("n0/p-a None, n0/p-b None", None));
}

/// Before the pod runs it is refused; a running one stays.
#[test]
fn a_claim_that_was_allocated_another_device_is_a_refusal() {
    for (phase, device, expected) in [
        ("Pending", "a", None),
        (
            "Pending",
            "b",
            Some("ResourceClaim c was allocated gpu.example.com/n0/b, not gpu.example.com/n0/a"),
        ),
        ("Running", "b", None),
    ] {
        let world = [
            NODE.to_owned(),
            class(CLASS),
            slice("n0", 1, &["a 0 80Gi uuid=U0", "b 0 80Gi uuid=U1"]),
            pool("p", ""),
            APPLICATION.to_owned(),
            running("n0/p-a").replace("phase: Running", &format!("phase: {phase}")),
            claim("c", device, Some(("i0", "n0/p-a"))),
        ];
        let mut all = Objects::default();
        all.read("test", &world.join("\n---\n")).unwrap();
        let index = Index::of(&all);
        let units = world::units(&index, &Policy::builtin("p"));
        let seen = world::observed_state(&index, &all.applications[0], &units);
        let pod = seen.instances["a-0"].pod.as_ref().unwrap();
        assert_eq!(pod.refusal.as_deref(), expected, "{phase} {device}");
        let wrong = index.misallocated(&all.instances[0], &units["n0/p-a"]);
        assert_eq!(wrong.is_some(), device == "b", "{phase} {device}");
    }
}

#[test]
fn a_node_whose_devices_others_hold_leaves_its_pool_ready() {
    let second = |text: String| text.replace("n0", "n1");
    let world = [
        NODE.to_owned(),
        second(NODE.to_owned()),
        class(CLASS),
        slice("n0", 1, &["a 0 80Gi uuid=U0"]),
        second(slice("n0", 1, &["b 0 80Gi uuid=U1"])),
        pool("p", ""),
        claim("c", "a", None),
    ];
    let report = |objects: &[String]| world::pools(&index(objects), &Policy::builtin("p"))["p"].0.clone();
    let found = report(&world);
    assert_eq!((found.units, found.healthy, found.is_ready()), (2, 1, true), "{found:?}");
    assert_eq!(found.problems.len(), 0, "{found:?}");
    let all = report(&[&world[..], &[claim("d", "b", None).replace("pool: n0", "pool: n1")]].concat());
    assert_eq!((all.units, all.healthy, all.main_problem().is_some()), (2, 0, false), "{all:?}");
}

/// No API server has compiled the selectors of pools.
#[test]
fn a_selector_that_cannot_be_evaluated_makes_only_its_pool_invalid() {
    let nested = (0..15).fold("true".to_owned(), |inner, _| format!("[0,0,0,0,0,0,0,0,0,0].all(a, {inner})"));
    let devices = ["a 0 80Gi uuid=U0"];
    for (selector, problem) in [
        (
            "A{} == A{}",
            "has a struct, which is not supported; compare attributes with numbers, strings and lists",
        ),
        (
            nested.as_str(),
            "is too expensive: it may take more than 100000 steps for one device; use smaller lists and fewer nested macros",
        ),
    ] {
        let bad = pool("bad", &format!(", selectors: ['{selector}']"));
        let found = of(&[NODE.to_owned(), class(CLASS), slice("n0", 1, &devices), bad, pool("good", "")]);
        assert!(found.contains("n0/good-a "), "{found}");
        let line =
            format!("pool bad Invalid: spec.resource.dra.selectors: `{selector}` {problem}; correct it");
        assert!(found.contains(&line), "{found}");
        assert!(!found.contains("pool good not ready"), "{found}");
    }
}
