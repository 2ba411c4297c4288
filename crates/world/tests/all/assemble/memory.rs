//! The unit of memory in a snapshot.

use world::quantity;

use super::cluster::{changed, world_of};

/// The base with two groups of one actor each on CPUs, which request so much memory, and so much on the first node.
fn requesting(memory: [&str; 2], node: &str) -> String {
    let group = |name: &str, memory: &str| {
        format!(
            "{{name: {name}, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{spec: {{containers: [{{name: c, \
             resources: {{requests: {{memory: {memory}}}}}}}]}}}}}}]}}, "
        )
    };
    let groups = group("a", memory[0]) + &group("b", memory[1]);
    let yaml = changed("{actors: [", &format!("{{actors: [{groups}"), "");
    let cam = yaml.find("{name: cam").unwrap();
    let yaml = format!("{}]}}}}", yaml[..cam].trim_end().trim_end_matches(','));
    yaml.replacen("memory: 8Gi", &format!("memory: {node}"), 1)
}

/// The name of the resource, what the actors request, and what the node provides.
fn memory(yaml: &str) -> (String, Vec<u64>, u64) {
    let world = world_of(yaml).unwrap();
    let file = world.snapshot.file();
    let of = |amounts: &std::collections::BTreeMap<String, u64>| {
        let mut found = amounts.iter().filter(|(name, _)| name.starts_with("memory"));
        let (name, amount) = found.next().unwrap();
        assert!(found.next().is_none(), "{amounts:?}");
        (name.clone(), *amount)
    };
    let (name, provided) = of(&file.nodes.iter().find(|node| node.id == "n0").unwrap().provides);
    let requested = file.actors.iter().map(|actor| of(&actor.runs_on["cpu"].node_requires));
    let requested = requested.map(|(of_actor, amount)| {
        assert_eq!(of_actor, name);
        amount
    });
    (name.clone(), requested.collect(), provided)
}

#[test]
fn memory_is_in_mebibytes_where_that_is_exact() {
    for (requests, node, expected) in [
        (["1Gi", "512Mi"], "4G", ("memoryMiB", [1024, 512], 3814)),
        (["1G", "512Mi"], "4G", ("memoryBytes", [1_000_000_000, 512 << 20], 4_000_000_000)),
        (["100m", "1"], "1Ki", ("memoryBytes", [1, 1], 1024)),
        // above 2^40 bytes MiB are exact enough
        (["2T", "1"], "9T", ("memoryMiB", [1_907_349, 1], 8_583_068)),
    ] {
        let (name, requested, provided) = memory(&requesting(requests, node));
        assert_eq!(
            (&*name, &*requested, provided),
            (expected.0, &expected.1[..], expected.2),
            "{requests:?}"
        );
    }
}

#[test]
fn actors_fit_exactly_if_the_scheduler_fits_their_pods() {
    let amounts = ["1G", "1Gi", "500M", "512Mi", "976562500", "1e9", "0.5G", "1048577"];
    let nodes = ["2G", "2Gi", "1500M", "1536Mi", "1953125000", "1000000000", "2097153", "2097154"];
    let pairs = amounts.iter().flat_map(|one| amounts.iter().map(move |other| (*one, *other)));
    for ((one, other), node) in pairs.flat_map(|pair| nodes.iter().map(move |node| (pair, *node))) {
        let exact = |text: &str| quantity(text).unwrap();
        let (_, requested, provided) = memory(&requesting([one, other], node));
        let fits = requested.iter().sum::<u64>() <= provided;
        assert_eq!(fits, exact(one) + exact(other) <= exact(node), "{one} and {other} on {node}");
    }
}

#[test]
fn digests_of_the_demand_count_mebibytes() {
    let demand = |memory: &str| world_of(&requesting([memory, "1Mi"], "4G")).unwrap().demand();
    assert_ne!(demand("1000000000"), demand("1Gi"));
    assert_ne!(demand("1G"), demand("2G"));
    assert!(demand("1G").starts_with("v2:"));
}
