//! Exchange costs between units whose devices are known.

use std::fmt::Write as _;

use jiff::Timestamp;
use placement::{Assignment, Budget, Criterion, NoPolicy, Snapshot, plan};
use world::{AssembledSnapshot, Index, Objects, Policy, assemble};

use super::cluster::key;

/// The GPUs of the server, two sockets with four each: their NVLink pairs, across the sockets.
const LINKED: [(usize, usize); 4] = [(0, 5), (1, 4), (2, 7), (3, 6)];

/// The bandwidth of each GPU and so of its root port: PCIe 4.0 x16.
const PCIE: u64 = 31_500_000_000;

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
    yaml += "], links: [{source: numa-0, destination: numa-1, kind: Interconnect, relativeLatency: 21}";
    for gpu in 0..8 {
        let numa = gpu / 4;
        write!(
            yaml,
            ", {{source: numa-{numa}, destination: gpu-{gpu}, kind: PCIe, bandwidthBytesPerSecond: {PCIE}}}"
        )
        .unwrap();
    }
    let links = if links.is_empty() { String::new() } else { format!(", {links}") };
    writeln!(yaml, "{links}]}}}}").unwrap();
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
    talking_on(&server(links), policy)
}

fn talking_on(server: &str, policy: &str) -> AssembledSnapshot {
    let groups: Vec<String> =
        (0..4).flat_map(|i| [group(&format!("a{i}"), 1, "gpu"), group(&format!("b{i}"), 1, "gpu")]).collect();
    let channel = |i: usize| format!("{{from: a{i}, to: b{i}, rate: {}/s, pattern: OneToOne}}", i + 1);
    let channels: Vec<String> = (0..4).map(channel).collect();
    world_of(server, &channels.join(", "), &groups.join(", "), policy)
}

fn group(name: &str, replicas: usize, kind: &str) -> String {
    format!(
        "{{name: {name}, replicas: {replicas}, arrivals: 1/s, implementations: [{{kind: {kind}, serviceTime: 1ms, \
         template: {{spec: {{containers: [{{name: c}}]}}}}}}]}}"
    )
}

fn world_of(server: &str, channels: &str, groups: &str, policy: &str) -> AssembledSnapshot {
    let yaml = format!(
        "{server}---\n{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app, namespace: ns}}, \
         spec: {{channels: [{channels}], actors: [{groups}]}}}}\n"
    );
    let mut objects = Objects::default();
    objects.read("test", &yaml).unwrap();
    let policy = Policy::parse("p", policy).unwrap();
    assemble(&Index::of(&objects), &key("app"), &policy, Timestamp::UNIX_EPOCH).unwrap()
}

/// The GPUs of the actors on GPUs, in the order of the actors.
fn gpus(snapshot: &Snapshot, assignment: &Assignment) -> Vec<usize> {
    let gpu = |unit: Option<placement::ix::UnitIx>| {
        let id = &snapshot.file().units[unit.expect("there is a unit for each").at()].id;
        id.strip_prefix("n0/p")?.strip_suffix("-0")?.parse().ok()
    };
    assignment.iter().filter_map(|unit| gpu(*unit)).collect()
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
    assert_eq!(plan.cost.of(Criterion::Communication), 10 * 30);
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
fn costs_of_first(server: &str, policy: &str) -> String {
    let world = talking_on(server, policy);
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
        assert_eq!(costs_of_first(&server(&links), policy), expected, "{policy}");
    }
}

/// Domains of one socket are nearer than 20, where local memory is at 10.
#[test]
fn domains_of_one_socket_are_nearer_than_those_of_two() {
    let back = ", {source: numa-1, destination: numa-0, kind: Interconnect, relativeLatency: 32}";
    for (distance, back, policy, expected) in [
        ("21", "", "{}", "5 6 6 10 10 10 10"),
        ("20", "", "{}", "5 6 6 10 10 10 10"),
        ("12", "", "{}", "5 6 6 8 8 8 8"),
        ("12", back, "{}", "5 6 6 10 10 10 10"),
        ("12", "", "{exchangeCost: {links: {NearNuma: 7}}}", "- - - 7 7 7 7"),
        ("21", "", "{exchangeCost: {links: {NearNuma: 7}}}", "- - - - - - -"),
        // a table without the kind
        ("12", "", "{exchangeCost: {links: {Interconnect: 9}}}", "- - - 9 9 9 9"),
    ] {
        let at = |distance: &str| format!("relativeLatency: {distance}}}");
        let server = server("").replace(&at("21"), &format!("{}{back}", at(distance)));
        assert_eq!(costs_of_first(&server, policy), expected, "{distance}{back} {policy}");
    }
}

/// The costs between the processors and the GPU of a superchip with this link.
fn superchip(link: &str, policy: &str) -> Vec<u64> {
    let yaml = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: n0}}, status: {{allocatable: {{cpu: '72', memory: 480Gi, pods: '110', \
         nvidia.com/gpu: '1', cairn.dev/numa-0: '72'}}}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: n0}}, spec: {{devices: [\
         {{id: numa-0, type: NUMA Domain, numaNode: 0, computeResources: [{{type: Core, count: 72}}]}}, \
         {{id: gpu-0, type: GPU, vendor: nvidia, numaNode: 0}}], links: [\
         {{source: numa-0, destination: gpu-0, kind: {link}, bandwidthBytesPerSecond: 447000000000}}]}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: domains}}, spec: {{kind: cpu, unit: NumaDomain, \
         resource: {{devicePlugin: 'cairn.dev/numa-{{index}}'}}}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: gpus}}, spec: {{kind: gpu, devices: {{vendor: nvidia}}, \
         resource: {{devicePlugin: nvidia.com/gpu}}}}}}\n"
    );
    let groups = [group("a", 1, "cpu"), group("b", 1, "gpu")].join(", ");
    let world = world_of(&yaml, "{from: a, to: b, rate: 1/s, pattern: OneToOne}", &groups, policy);
    world.snapshot.file().exchange_cost.pairs.iter().map(|pair| pair.cost).collect()
}

#[test]
fn the_processors_of_a_superchip_are_nearer_to_its_gpu_than_over_pcie() {
    assert_eq!(superchip("C2C", "{}"), [1], "the default");
    assert_eq!(superchip("C2C", "{exchangeCost: {links: {C2C: 2}}}"), [2]);
    // The table of kinds has the cost of PCIe.
    for (link, policy) in [("C2C", "{exchangeCost: {links: {}}}"), ("PCIe", "{}")] {
        assert_eq!(superchip(link, policy), Vec::<u64>::new(), "{link} {policy}");
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
         `XGMI`, `Xe Link`, `C2C`, `PCIRoot`, `SameNuma`, `NearNuma`, `Interconnect`"
    );
}

/// Two workers that send to actors on the processor, each more than half of what a root port can carry.
fn prefill(objectives: &str, links: &str) -> AssembledSnapshot {
    let cpus = "---\n{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}\n";
    world_of(
        &format!("{}{cpus}", server(links)),
        "{from: prefill, to: decode, rate: 20/s, messageBytes: 1Gi, pattern: OneToOne}",
        &[group("prefill", 2, "gpu"), group("decode", 2, "cpu")].join(", "),
        &format!("{{objectives: [{objectives}]}}"),
    )
}

/// The cost vector with the workers on two GPUs, and the actors that they send to on the processor.
fn vector(snapshot: &Snapshot, gpus: [usize; 2]) -> Vec<i64> {
    let mut gpus = gpus.into_iter();
    let place = |actor: &placement::file::Actor| {
        let unit = if actor.id.contains("prefill") {
            format!("n0/p{}-0", gpus.next().unwrap())
        } else {
            "n0/cpus-0".to_owned()
        };
        snapshot.unit(&unit)
    };
    let assignment: Assignment = snapshot.file().actors.iter().map(place).collect();
    snapshot.cost(&assignment).vector(snapshot)
}

#[test]
fn two_workers_that_send_much_get_different_root_ports() {
    let world = prefill("overload, congestion, [communication, migration]", "");
    let snapshot = &world.snapshot;
    let capacity = PCIE * 30 / (64 << 10);
    let sent = (1 << 30) / (64 << 10) * 20 * 30;
    assert!(sent < capacity && capacity < 2 * sent);
    let both = i64::try_from(2 * sent - capacity).unwrap();
    assert_eq!(vector(snapshot, [0, 1])[1..3], [0, both]);
    assert_eq!(vector(snapshot, [0, 2])[1..3], [0, 0]);
    for seed in 1..=5 {
        let plan = plan(snapshot, &search::Local, &NoPolicy, &Budget::effort(Some(2_000), seed)).unwrap();
        let at = gpus(snapshot, &plan.assignment);
        assert_ne!(at[0] / 2, at[1] / 2, "{at:?}");
    }
    // without the criterion the placements are a tie, and nothing of it is in the snapshot
    let world = prefill("overload, [communication, migration]", "");
    assert_eq!(vector(&world.snapshot, [0, 1]), vector(&world.snapshot, [0, 2]));
    assert_eq!(world.snapshot.file().shared_links, []);
}

#[test]
fn messages_over_links_of_their_own_and_within_a_port_do_not_cross_it() {
    let interconnect =
        "{source: numa-1, destination: numa-0, kind: Interconnect, bandwidthBytesPerSecond: 16000000000}";
    let world = prefill("congestion", &format!("{}, {interconnect}", nvlinks()));
    let links: Vec<String> = world
        .snapshot
        .file()
        .shared_links
        .iter()
        .map(|link| {
            let names = |ids: &[String]| ids.join(" ").replace("n0/p", "").replace("-0", "");
            let to = link.to.as_ref().map_or("all others".to_owned(), |to| names(to));
            let direct: Vec<String> =
                link.direct.iter().map(|(a, b)| names(&[a.clone(), b.clone()])).collect();
            format!(
                "{}: {} to {to} but {}, {}",
                link.id,
                names(&link.units),
                direct.join(", "),
                link.capacity
            )
        })
        .collect();
    insta::assert_snapshot!(links.join("\n"));
}

/// Two servers whose network interfaces have these bandwidths, and two workers that send to actors on a third one.
fn senders(interfaces: [&[u64]; 2]) -> AssembledSnapshot {
    let mut yaml = String::new();
    for (node, bandwidths) in [("n0", interfaces[0]), ("n1", interfaces[1]), ("sink", &[])] {
        let interface = |(position, bandwidth): (usize, &u64)| {
            format!("{{id: nic-{position}, type: NIC, networkBandwidthBytesPerSecond: {bandwidth}}}")
        };
        let devices: Vec<String> = bandwidths.iter().enumerate().map(interface).collect();
        write!(
            yaml,
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {node}, labels: {{kubernetes.io/hostname: {node}}}}}, status: \
             {{allocatable: {{cpu: '64', memory: 64Gi, pods: '110'}}}}}}\n---\n\
             {{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: {node}}}, spec: {{devices: [\
             {{id: numa-0, type: NUMA Domain, numaNode: 0, computeResources: [{{type: Core, count: 64}}]}}, {}]}}}}\n",
            devices.join(", ")
        )
        .unwrap();
    }
    yaml += "---\n{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu}}\n";
    let on = |name: &str, operator: &str| {
        format!(
            "{{name: {name}, replicas: 2, arrivals: 1/s, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{spec: {{\
             affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: \
             [{{key: kubernetes.io/hostname, operator: {operator}, values: [sink]}}]}}]}}}}}}, containers: [{{name: c}}]}}}}}}]}}"
        )
    };
    world_of(
        &yaml,
        "{from: send, to: receive, rate: 1000/s, messageBytes: 1Mi, pattern: OneToOne}",
        &[on("send", "NotIn"), on("receive", "In")].join(", "),
        "{objectives: [congestion, [communication, migration]]}",
    )
}

#[test]
fn workers_that_send_much_do_not_share_the_network_of_a_node() {
    // 1,000 MiB/s each, so that 15 Gbit/s are enough for one and 20 Gbit/s for two
    const ENOUGH_FOR_ONE: u64 = 1_875_000_000;
    let links = |interfaces| {
        let world = senders(interfaces);
        let link =
            |link: &placement::file::SharedLink| (link.id.clone(), link.units.join(" "), link.capacity);
        world.snapshot.file().shared_links.iter().map(link).collect::<Vec<_>>()
    };
    let capacity = |bandwidth: u64| bandwidth * 30 / (64 << 10);
    let of =
        |node: &str, bandwidth| (format!("{node}/network"), format!("{node}/cpus-0"), capacity(bandwidth));
    assert_eq!(links([&[], &[]]), []);
    assert_eq!(
        links([&[ENOUGH_FOR_ONE], &[ENOUGH_FOR_ONE, 1_250_000_000]]),
        [of("n0", ENOUGH_FOR_ONE), of("n1", ENOUGH_FOR_ONE + 1_250_000_000)],
        "which interface carries a message is unknown"
    );
    let nodes = |interfaces| {
        let world = senders(interfaces);
        let plan = plan(&world.snapshot, &search::Local, &NoPolicy, &Budget::effort(Some(2_000), 1)).unwrap();
        let node = |(position, unit): (usize, &Option<placement::ix::UnitIx>)| {
            let file = world.snapshot.file();
            let unit = &file.units[unit.expect("there is room").at()];
            file.actors[position].id.contains("send").then(|| unit.node.clone())
        };
        plan.assignment.iter().enumerate().filter_map(node).collect::<Vec<_>>()
    };
    let mut apart = nodes([&[ENOUGH_FOR_ONE], &[ENOUGH_FOR_ONE]]);
    apart.sort();
    assert_eq!(apart, ["n0", "n1"]);
    assert_eq!(nodes([&[ENOUGH_FOR_ONE / 2], &[2_500_000_000]]), ["n1", "n1"]);
}
