//! Pools over devices of `ResourceSlice`s that share a GPU, a name or counters, or that claims cannot tell apart.

use placement::file::Constraint;

use super::cluster::{placement, shown, world_of};
use super::dra::{APPLICATION, CLASS, NODE, claim, class, index, of, pool, running, slice};

/// A slice of `n0` whose devices share counters, such as `g0: {value: '7'}`.
fn with_counters(counters: &str, devices: &[&str]) -> String {
    let shared = format!("sharedCounters: [{{name: gpu, counters: {{{counters}}}}}], devices:");
    slice("n0", 1, devices).replace("devices:", &shared)
}

/// Devices of `n0` in the class of all GPUs.
fn world(devices: &[&str], more: &[String]) -> Vec<String> {
    [&[NODE.to_owned(), class(CLASS), with_counters("g0: {value: '7'}, g1: {value: '7'}", devices)], more]
        .concat()
}

/// The ids of the units, each with why it is cordoned, and the status of the pools.
fn ids(objects: &[String]) -> String {
    let units = world::units(&index(objects), &world::Policy::builtin("p"));
    let id = |unit: &world::Unit| {
        format!("{}{}", unit.id, unit.cordoned.map_or(String::new(), |why| format!(" ({why:?})")))
    };
    let mut lines: Vec<String> = units.values().map(id).collect();
    lines.extend(reports(objects));
    lines.join("\n")
}

/// The status of the pools.
fn reports(objects: &[String]) -> Vec<String> {
    let application = Some(APPLICATION.to_owned()).filter(|it| !objects.contains(it));
    let all: Vec<&str> = objects.iter().chain(&application).map(String::as_str).collect();
    let found = shown(&all.join("\n---\n"));
    found.lines().filter(|line| line.starts_with("pool ")).map(str::to_owned).collect()
}

/// The limits of shared counters: what an actor on each unit counts, and the sum.
pub(super) fn limits(objects: &[String]) -> Vec<String> {
    let world = world_of(&objects.join("\n---\n")).unwrap();
    let limit = |given: &Constraint| match given {
        Constraint::Quota { units: Some(units), max, .. } => {
            let unit = |(id, amount): (&String, &u64)| format!("{}={amount}", id.replace("n0/", ""));
            Some(format!("{} up to {max}", units.iter().map(unit).collect::<Vec<_>>().join(" ")))
        }
        _ => None,
    };
    world.snapshot.file().constraints.iter().filter_map(limit).collect()
}

fn model(model: &str) -> String {
    format!(", selectors: ['device.attributes[\"gpu.example.com\"].model == \"{model}\"']")
}

/// The agent's GPU at an address.
fn topology(health: &str) -> String {
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: n0}}, spec: {{devices: [\
         {{id: 'gpu-0', type: GPU, pciBusId: '0000:01:00.0', uuid: U0, numaNode: 1, health: {health}, \
         memorySpaces: [{{type: RAM, sizeBytes: 1073741824}}]}}]}}}}"
    )
}

#[test]
fn partitions_of_one_gpu_are_units_of_one_or_several_pools() {
    let parts = [
        "a - - pci=0000:01:00.0 serial=A model=x",
        "b - 1Gi pci=0000:01:00.0 serial=B model=x",
        "c - 1Gi pci=0000:01:00.0 serial=C model=y",
    ];
    let given = |more: &[String]| world(&parts, &[&[topology("ok")], more].concat());
    // with the NUMA node of their GPU and without its memory
    insta::assert_snapshot!(of(&given(&[pool("p", "")])));
    let two = [pool("p", &model("x")), pool("q", &model("y"))];
    assert_eq!(ids(&given(&two)), "n0/p-a\nn0/p-b\nn0/q-c");
    // a whole GPU belongs to one pool, whatever its source
    let plugin = pool("q", "").replace("dra: {deviceClassName: gpus}", "devicePlugin: acme.com/gpu");
    let offering = given(std::slice::from_ref(&plugin))
        .join("\n---\n")
        .replace("cpu: '8'", "cpu: '8', acme.com/gpu: '1'");
    assert!(ids(&[offering]).starts_with("n0/q-0"));
    for whole in ["w - - pci=0000:01:00.0", "w - - pci=0000:01:00.0 uuid=U0"] {
        let devices = world(&[whole], &[topology("ok"), pool("p", ""), plugin.clone()]);
        let found = ids(&[devices.join("\n---\n").replace("cpu: '8'", "cpu: '8', acme.com/gpu: '1'")]);
        assert!(found.contains("pool q Overlap") && found.starts_with("n0/p-w\npool"), "{whole}: {found}");
    }
}

/// Places of partitions overlap: a GPU has room for two of three halves, and for none beside a whole GPU that is allocated.
#[test]
fn numbered_units_are_as_many_as_fit_the_shared_counters() {
    let halves =
        ["a 0 - take=g0:3", "b 0 - take=g0:3", "c 0 - take=g0:3", "d 0 - take=g1:3", "e 0 - take=g1:3"];
    let numbers = |devices: &[&str], more: &[String]| -> Vec<String> {
        let found = ids(&world(devices, &[&[pool("p", &model("half"))], more].concat()));
        let units = found.lines().take_while(|line| !line.starts_with("pool "));
        units.map(|line| line.replace("n0/p-", "")).collect()
    };
    let halves: Vec<String> = halves.iter().map(|line| format!("{line} model=half")).collect();
    let halves: Vec<&str> = halves.iter().map(String::as_str).collect();
    assert_eq!(numbers(&halves, &[]), ["0", "1", "2", "3"]);
    assert_eq!(numbers(&halves, &[claim("c", "a", None)]), ["0", "1", "2"]);
    let both = [&halves[..], &["w 0 - take=g0:7 model=whole uuid=W"]].concat();
    assert_eq!(numbers(&both, &[]), ["0", "1", "2", "3"]);
    assert_eq!(numbers(&both, &[claim("c", "w", None)]), ["0", "1"], "the whole GPU is in use");
    let own = [APPLICATION.to_owned(), running("n0/p-7"), claim("c", "a", Some(("i0", "n0/p-7")))];
    assert_eq!(numbers(&both, &own), ["0", "1", "2", "7"], "an actor keeps its number");
    // of several sizes the scheduler may choose the largest first
    let sizes = [&halves[..], &["w 0 - take=g0:7 model=half"]].concat();
    assert_eq!(numbers(&sizes, &[]), ["0", "1", "2"]);
    let pinnable = sizes[..5].iter().copied().chain(["w 0 - take=g0:7 model=half uuid=W"]);
    assert_eq!(numbers(&pinnable.collect::<Vec<_>>(), &[]), ["0", "1", "2"], "it shares counters with them");
    insta::assert_snapshot!(ids(&world(&both, &[pool("p", &model("half")), claim("c", "w", None)])));
}

/// What the scheduler chose for a numbered unit is no choice of the plan, which counts it as used.
#[test]
fn partitions_of_numbered_units_use_counters() {
    let devices = [
        "h0 0 - uuid=A model=h take=g0:3",
        "h1 0 - uuid=B model=h take=g0:3",
        "s 0 - model=s take=g0:2",
        "t 0 - model=s take=g0:2",
    ];
    let pools = [pool("a", &model("h")), pool("b", &model("s")), APPLICATION.to_owned()];
    let idle = world(&devices, &pools);
    let used = [&idle[..], &[running("n0/b-0"), claim("c", "s", Some(("i0", "n0/b-0")))]].concat();
    assert_eq!(limits(&idle), ["a-h0=3 a-h1=3 b-0=2 b-1=2 up to 7"]);
    assert_eq!(limits(&used), ["a-h0=1 a-h1=1 up to 1", "a-h0=3 a-h1=3 b-1=2 up to 5"]);
}

/// Without unique attributes, partitions are numbered in each pool; those of several pools that overlap are never all chosen.
/// Amounts are divided before they are limited to what a snapshot can have.
#[test]
fn counters_may_be_large() {
    for (counter, each, expected) in [
        ("7Ei", "2Ei", "p-a=1 p-b=1 p-c=1 p-d=1 up to 3"),
        ("14Pi", "7Pi", "p-a=1 p-b=1 p-c=1 p-d=1 up to 2"),
        ("1500000000n", "500m", "p-a=1 p-b=1 p-c=1 p-d=1 up to 3"),
    ] {
        let devices = ["a", "b", "c", "d"].map(|name| format!("{name} 0 - uuid={name} take=m:{each}"));
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let many = APPLICATION.replace("{name: a,", "{name: a, replicas: 4,");
        let slice = with_counters(&format!("m: {{value: '{counter}'}}"), &devices);
        assert_eq!(limits(&[NODE.to_owned(), class(CLASS), slice, pool("p", ""), many]), [expected]);
    }
}

#[test]
fn numbered_units_share_counters_with_other_pools() {
    let whole = "w 0 - uuid=W model=w take=g0:7";
    let parts = ["a 0 - model=s take=g0:2", "b 0 - model=s take=g0:2", "c 0 - model=s take=g0:2"];
    let halves = ["h 0 - model=w take=g0:3", "i 0 - model=w take=g0:3"];
    let pools = [pool("a", &model("w")), pool("b", &model("s")), APPLICATION.to_owned()];
    let of = |devices: &[&str], more: &[String]| limits(&world(devices, &[&pools[..], more].concat()));
    let both = [&[whole][..], &parts].concat();
    assert_eq!(of(&parts, &[]), [""; 0], "one pool alone has as many units as fit");
    assert_eq!(of(&both, &[]), ["a-w=7 b-0=2 b-1=2 b-2=2 up to 7"]);
    assert_eq!(of(&[&halves[..], &parts[..2]].concat(), &[]), ["a-0=3 a-1=3 b-0=2 b-1=2 up to 7"]);
    // an actor of another application is decided, and has no device yet
    let other = APPLICATION.replace("name: app,", "name: other,").replace("uid: u0", "uid: u1");
    let decided = placement("other", "{}")
        .replace("cam-0", "a-0")
        .replace("gpus-0", "b-0")
        .replace("pool: gpus", "pool: b");
    assert_eq!(of(&both, &[other, decided]), ["a-w=7 b-0=2 b-1=2 b-2=2 up to 5"]);
}

/// Each partition has a place of its own, or each GPU a counter set of its own.
#[test]
fn shares_of_counters_are_of_all_places_and_gpus() {
    let pools = [pool("a", &model("w")), pool("b", &model("s")), APPLICATION.to_owned()];
    let of = |slice: String| limits(&[&[NODE.to_owned(), class(CLASS), slice], &pools[..]].concat());
    let places =
        ["w 0 - uuid=W model=w take=m0:1 take=m1:1", "a 0 - model=s take=m0:1", "b 0 - model=s take=m1:1"];
    let found = of(with_counters("m0: {value: '1'}, m1: {value: '1'}", &places));
    assert_eq!(found, ["a-w=2 b-0=1 b-1=1 up to 2"]);
    let gpus = [
        "v 0 - uuid=V model=w take=h0:7",
        "w 0 - uuid=W model=w take=g0:7",
        "a 0 - model=s take=g0:3",
        "b 0 - model=s take=g0:3",
        "c 0 - model=s take=h0:3",
        "d 0 - model=s take=h0:3",
    ];
    let second = "{name: other, counters: {g0: {value: '7'}}}, {name: gpu,";
    let slice = with_counters("g0: {value: '7'}", &gpus)
        .replace("{name: gpu,", second)
        .replace("counterSet: gpu, counters: {h0:", "counterSet: other, counters: {g0:");
    assert_eq!(of(slice), ["a-v=7 a-w=7 b-0=3 b-1=3 b-2=3 b-3=3 up to 14"]);
}

#[test]
fn two_pools_have_no_unit_of_one_id() {
    let devices = ["a-0 0 - uuid=A model=x", "0 0 - uuid=B model=y"];
    assert_eq!(
        ids(&world(&devices, &[pool("p", &model("x")), pool("p-a", &model("y"))])),
        "n0/p-a-0\n\
         pool p-a Overlap: n0: pool p already has a unit n0/p-a-0; rename one of the two pools\n\
         pool p-a not ready: Overlap"
    );
}

#[test]
fn devices_that_several_claims_may_share_are_no_units() {
    let devices = ["a 0 - uuid=A shared=true", "b 0 - uuid=B", "c 0 - uuid=C"];
    insta::assert_snapshot!(of(&world(&devices, &[pool("p", "")])));
    let shared = ", selectors: [device.allowMultipleAllocations]";
    let found = ids(&world(&devices, &[pool("p", shared)]));
    assert!(
        found.starts_with("pool p note SharedDevices") && found.ends_with("pool p not ready: Empty"),
        "{found}"
    );
    // claims of numbered units must not get them
    let alike = ["a 0 - uuid=A shared=true", "b 0 -", "c 0 - uuid=C"];
    insta::assert_snapshot!(of(&world(&alike, &[pool("p", "")])));
}

#[test]
fn only_devices_that_cannot_be_told_apart_are_numbered() {
    let devices = [
        "a 0 - uuid=A model=x",
        "b 0 - uuid=B model=x",
        "c 0 - uuid=C model=x",
        "d 1 - uuid=C model=x",
        "e 1 - uuid=A model=y",
    ];
    insta::assert_snapshot!(of(&world(&devices, &[pool("p", &model("x"))])));
    // what another pool selects is no device of this one
    assert_eq!(ids(&world(&[devices[0], devices[4]], &[pool("p", &model("x"))])), "n0/p-a");
    // a number as the name of a device would be the id of two units
    let named = ["0 0 - uuid=A model=x", devices[2], devices[3]];
    assert!(ids(&world(&named, &[pool("p", &model("x"))])).starts_with("n0/p-0\nn0/p-1\nn0/p-2\npool"));
    // actors keep their units while attributes of the devices change
    let runs = |unit: &str, device: &str, devices: &[&str]| {
        let own = [
            APPLICATION.to_owned(),
            running(&format!("n0/{unit}")),
            claim("c", device, Some(("i0", &format!("n0/{unit}")))),
            pool("p", &model("x")),
        ];
        let found = ids(&world(devices, &own));
        let units = found.lines().take_while(|line| !line.starts_with("pool "));
        units.map(|line| line.replace("n0/p-", "")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(runs("p-c", "c", &devices), "0, a, b, c (NotPinnable)");
    assert_eq!(runs("p-1", "c", &devices[..3]), "1, a, b");
}

#[test]
fn degraded_devices_keep_their_actors_and_get_no_new_ones() {
    let devices = ["a 0 - pci=0000:01:00.0", "b 0 - pci=0000:02:00.0"];
    for (health, expected) in [("ok", "n0/p-a\nn0/p-b"), ("degraded", "n0/p-b\npool p Degraded")] {
        let found = ids(&world(&devices, &[topology(health), pool("p", "")]));
        assert!(found.starts_with(expected), "{health}: {found}");
    }
    // the driver that publishes a device answers for it where the agent cannot read its health
    assert_eq!(ids(&world(&devices, &[topology("unknown"), pool("p", "")])), "n0/p-a\nn0/p-b");
    let own = [topology("degraded"), pool("p", ""), APPLICATION.to_owned(), running("n0/p-a")];
    assert!(ids(&world(&devices, &own)).starts_with("n0/p-a (DeviceTainted)\nn0/p-b"));
}

/// A class with the name of an extended resource serves it only on nodes with devices of the class.
#[test]
fn a_class_serves_an_extended_resource_where_it_has_devices() {
    let plugin = pool("p", "").replace("dra: {deviceClassName: gpus}", "devicePlugin: acme.com/gpu");
    let gpus = class(CLASS).replace("spec: {", "spec: {extendedResourceName: acme.com/gpu, ");
    let offering = NODE.replace("cpu: '8'", "cpu: '8', acme.com/gpu: '1'").replace("n0", "n1");
    let topology = topology("ok").replace("name: n0", "name: n1");
    let given = |more: &[String]| [&[NODE.to_owned(), plugin.clone(), gpus.clone()], more].concat();
    let other = slice("n0", 1, &["a 0 -"]).replace("type: {string: gpu}", "type: {string: cpu}");
    let found = |more: &[String]| reports(&given(more)).join("\n");
    let ready = [offering, topology];
    assert_eq!(found(&ready), "", "a node without devices");
    assert_eq!(found(&[&ready[..], &[other]].concat()), "", "a node with devices of other classes");
    // the pool is ready with the other node
    insta::assert_snapshot!(found(&[&ready[..], &[slice("n0", 1, &["a 0 -"])]].concat()));
    insta::assert_snapshot!(found(&[slice("n0", 1, &["a 0 -"])]));
}
