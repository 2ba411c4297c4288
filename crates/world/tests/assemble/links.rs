//! Exchange costs between units whose devices are known.

use std::fmt::Write as _;

use jiff::Timestamp;
use placement::{Assignment, Budget, NoPolicy, Snapshot, plan};
use world::{AssembledSnapshot, Index, Objects, Policy, assemble};

use crate::cluster::key;

/// The GPUs of the server, two sockets with four each: their NVLink pairs, across the sockets.
const LINKED: [(usize, usize); 4] = [(0, 5), (1, 4), (2, 7), (3, 6)];

/// A node with eight GPUs, each behind a resource of its own, so that it is known which pod gets which; root ports have two GPUs.
fn server(links: &str) -> String {
    let mut yaml = "{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: '64', memory: 64Gi, pods: '110'"
        .to_owned();
    for gpu in 0..8 {
        write!(yaml, ", v{gpu}.com/gpu: '1'").unwrap();
    }
    yaml += "}}}\n---\n{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n0}, spec: {devices: [\
             {id: numa-0, type: NUMA Domain, numaNode: 0}, {id: numa-1, type: NUMA Domain, numaNode: 1}";
    for gpu in 0..8 {
        write!(
            yaml,
            ", {{id: gpu-{gpu}, type: GPU, vendor: v{gpu}, numaNode: {}, pciRootPort: '0000:{}0:01.0'}}",
            gpu / 4,
            gpu / 2
        )
        .unwrap();
    }
    writeln!(yaml, "], links: [{links}]}}}}").unwrap();
    for gpu in 0..8 {
        writeln!(
            yaml,
            "---\n{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: p{gpu}}}, spec: {{kind: gpu, devices: {{vendor: v{gpu}}}, \
             resource: {{devicePlugin: v{gpu}.com/gpu}}}}}}"
        )
        .unwrap();
    }
    yaml
}

fn nvlinks() -> String {
    let link = |(a, b): (usize, usize)| format!("{{source: gpu-{a}, destination: gpu-{b}, kind: NVLink}}");
    LINKED.map(link).join(", ")
}

/// Four pairs of actors that talk, on the server.
fn talking(links: &str, policy: &str) -> AssembledSnapshot {
    let group = |name: String| {
        format!(
            "{{name: {name}, replicas: 1, arrivals: 1/s, implementations: [{{kind: gpu, serviceTime: 1ms, template: {{spec: {{containers: [{{name: c}}]}}}}}}]}}"
        )
    };
    let groups: Vec<String> = (0..4).flat_map(|i| [group(format!("a{i}")), group(format!("b{i}"))]).collect();
    let channel = |i: usize| format!("{{from: a{i}, to: b{i}, rate: {}/s, pattern: OneToOne}}", i + 1);
    let yaml = format!(
        "{}---\n{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app, namespace: ns}}, spec: {{channels: [{}], actors: [{}]}}}}\n",
        server(links),
        (0..4).map(channel).collect::<Vec<_>>().join(", "),
        groups.join(", ")
    );
    let mut objects = Objects::default();
    objects.read("test", &yaml).unwrap();
    let policy = Policy::parse("p", policy).unwrap();
    assemble(&Index::of(&objects), &key("app"), &policy, Timestamp::UNIX_EPOCH).unwrap()
}

/// The unit of each actor by position of its GPU, in the order of the actors.
fn gpus(snapshot: &Snapshot, assignment: &Assignment) -> Vec<usize> {
    let gpu = |unit: Option<placement::ix::UnitIx>| {
        let id = &snapshot.file().units[unit.expect("there is a unit for each").at()].id;
        id.trim_start_matches("n0/p").trim_end_matches("-0").parse().unwrap()
    };
    assignment.iter().map(|unit| gpu(*unit)).collect()
}

#[test]
fn talking_actors_get_linked_gpus() {
    let world = talking(&nvlinks(), "{}");
    let snapshot = &world.snapshot;
    let plan = plan(snapshot, &search::Local, &NoPolicy, &Budget::effort(Some(20_000), 1)).unwrap();
    let names: Vec<&str> = snapshot.file().actors.iter().map(|actor| actor.id.as_str()).collect();
    let at = gpus(snapshot, &plan.assignment);
    for i in 0..4 {
        let place =
            |group: char| at[names.iter().position(|name| *name == format!("ns/app/{group}{i}-0")).unwrap()];
        let (a, b) = (place('a'), place('b'));
        assert!(LINKED.contains(&(a.min(b), a.max(b))), "pair {i}: {a} and {b}");
    }
    // One for each message, which is the least on different units: 1 + 2 + 3 + 4 a second.
    assert_eq!(plan.cost.communication, 10 * 30);
}

#[test]
fn without_costs_of_links_all_placements_are_a_tie() {
    for (links, policy) in
        [(nvlinks(), "{exchangeCost: {links: {}}}"), (nvlinks(), "{exchangeCost: {links: {XGMI: 1}}}")]
    {
        let world = talking(&links, policy);
        let snapshot = &world.snapshot;
        assert!(snapshot.file().exchange_cost.pairs.is_empty(), "{policy}");
        let units = |order: [usize; 8]| -> Assignment {
            order.iter().map(|unit| Some(placement::ix::UnitIx::new(*unit))).collect()
        };
        let [one, other] = [[0, 1, 2, 3, 4, 5, 6, 7], [0, 5, 1, 4, 2, 7, 3, 6]].map(units);
        assert_eq!(snapshot.cost(&one).vector(snapshot), snapshot.cost(&other).vector(snapshot));
    }
}

/// The costs from the first GPU to the others, in their order; `-` where the kinds decide.
fn costs_of_first(links: &str, policy: &str) -> String {
    let world = talking(links, policy);
    let pairs = &world.snapshot.file().exchange_cost.pairs;
    let cost = |gpu: usize| {
        let pair = pairs.iter().find(|pair| pair.a == "n0/p0-0" && pair.b == format!("n0/p{gpu}-0"));
        pair.map_or("-".to_owned(), |pair| pair.cost.to_string())
    };
    (1..8).map(cost).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_cheapest_connection_that_the_policy_prices_counts() {
    let table = [
        // below one root port, in one domain, in another one; NVLink costs what the table of kinds says
        (nvlinks(), "{}", "5 6 6 10 - 10 10"),
        (nvlinks(), "{exchangeCost: {links: {NVLink: 0, Interconnect: 7}}}", "- - - 7 0 7 7"),
        (nvlinks(), "{exchangeCost: {links: {PCIRoot: 2}}}", "2 - - - - - -"),
        // it replaces the surcharge between domains, too
        (nvlinks(), "{exchangeCost: {otherNuma: 4, links: {NVLink: 1, SameNuma: 5}}}", "5 5 5 - 1 - -"),
        (String::new(), "{exchangeCost: {links: {NVLink: 0}}}", "- - - - - - -"),
        // of two links the cheaper; PCIe to a domain joins no devices
        (
            "{source: gpu-2, destination: gpu-0, kind: XGMI}, {source: gpu-0, destination: gpu-2, kind: NVLink}, {source: numa-0, \
             destination: gpu-0, kind: PCIe}"
                .to_owned(),
            "{exchangeCost: {links: {NVLink: 3, XGMI: 2}}}",
            "- 2 - - - - -",
        ),
    ];
    for (links, policy, expected) in table {
        assert_eq!(costs_of_first(&links, policy), expected, "{policy}");
    }
}

#[test]
fn links_are_no_demand_of_the_application() {
    let [with, without] = [nvlinks(), String::new()].map(|links| talking(&links, "{}"));
    assert_ne!(with.digest(), without.digest());
    assert_eq!(with.demand(), without.demand());
}

#[test]
fn an_unknown_kind_of_link_is_refused_by_name() {
    let error = Policy::parse("p", "{exchangeCost: {links: {nvlink: 1}}}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy p: policy.yaml line 1 column 24, exchangeCost.links.?: unknown variant `nvlink`, expected one of `NVLink`, \
         `XGMI`, `Xe Link`, `PCIRoot`, `SameNuma`, `Interconnect`"
    );
}
