//! HiCR's JSON format, and the subset test.

use hicr::Topology;
use serde_json::{Value, json};

fn read(json: &Value) -> Topology {
    Topology::from_json(json.clone()).expect("a topology")
}

#[test]
fn hicr_output_round_trips() {
    let hwloc = json!({"Devices": [{"Type": "NUMA Domain", "NUMA Domain Id": 1, "Compute Resources": [
        {"Type": "Processing Unit", "Logical Processor Id": 0, "Physical Processor Id": 0, "NUMA Affinity": 1,
         "Caches": [{"Level": 3, "Type": "Unified", "Size (Bytes)": 33_554_432, "Line Size (Bytes)": 64, "Shared": true}]},
        {"Type": "Processing Unit", "Logical Processor Id": 1}],
        "Memory Spaces": [{"Type": "RAM", "Size": 18_348_191_744_u64, "Usage": 0, "Binding Support": 2}]}],
        "Metadata": {"Name": "worker"}});
    let topology = read(&hwloc);
    assert_eq!(topology.to_json(), hwloc);

    // HiCR's OpenCL backend writes the type elsewhere.
    let opencl = json!({"Devices": [{"Type": "", "Device Type": "OpenCL GPU", "Compute Resources": [],
        "Memory Spaces": [{"Type": "OpenCL Device RAM", "Size": 4096}]}]});
    assert_eq!(read(&opencl).devices[0].type_, "OpenCL GPU");
    assert_eq!(read(&json!({})), Topology::default());
}

#[test]
fn errors_contain_the_path() {
    let device = |key: &str, value: Value| {
        let mut device = json!({"Type": "GPU", "Compute Resources": [], "Memory Spaces": []});
        device[key] = value;
        json!({"Devices": [device]})
    };
    let cases = [
        (json!(7), "the topology: must be a JSON object"),
        (json!({"devices": []}), "Devices: the list of devices is required"),
        (json!({"Devices": {}}), "Devices: must be a list"),
        (json!({"Devices": [1]}), "Devices[0]: must be a JSON object"),
        (json!({"Devices": [{}]}), "Devices[0].Type: must be a string"),
        (device("Type", json!("")), "Devices[0].Type: must not be empty"),
        (device("Memory Spaces", json!(null)), "Devices[0].Memory Spaces: must be a list"),
        (device("Compute Resources", json!([{}])), "Devices[0].Compute Resources[0].Type: must be a string"),
        (
            device("Memory Spaces", json!([{"Type": "RAM", "Size": -1}])),
            "Devices[0].Memory Spaces[0].Size: must be an unsigned integer",
        ),
        (
            json!({"Devices": [{"Type": "GPU", "Memory Spaces": []}]}),
            "Devices[0].Compute Resources: a list is required",
        ),
    ];
    for (value, message) in cases {
        assert_eq!(Topology::from_json(value).unwrap_err().to_string(), message);
    }
    assert!(matches!(Topology::read("{"), Err(hicr::Error::Json(_))));
}

/// Parses devices: `GPU:2sm:8,4` is a GPU with two compute resources `sm` and memory spaces of 8 and 4 bytes.
fn devices(line: &str) -> Topology {
    let device = |word: &str| {
        let mut parts = word.split(':');
        let type_ = parts.next().unwrap_or_default();
        let units = parts.next().unwrap_or("");
        let split = units.find(|c: char| !c.is_ascii_digit()).unwrap_or(units.len());
        let count: usize = units[..split].parse().unwrap_or(0);
        let resources: Vec<_> = (0..count).map(|_| json!({"Type": units[split..]})).collect();
        let sizes = parts.next().unwrap_or("").split(',').filter(|size| !size.is_empty());
        let spaces: Vec<_> =
            sizes.map(|size| json!({"Type": "RAM", "Size": size.parse::<u64>().expect("a size")})).collect();
        json!({"Type": type_, "Compute Resources": resources, "Memory Spaces": spaces})
    };
    read(&json!({"Devices": line.split_whitespace().map(device).collect::<Vec<_>>()}))
}

#[test]
fn satisfies_compares_types_counts_and_sizes() {
    let satisfies = |have: &str, want: &str| devices(have).satisfies(&devices(want));
    for (have, want) in [
        ("", ""),
        ("GPU", ""),
        ("GPU NUMA", "NUMA"),
        ("GPU:4sm:8", "GPU:3sm:8"),
        ("GPU:4sm:8,2", "GPU:0sm:1,8"),
        // A greedy assignment would use the large device for the small requirement.
        ("GPU:0sm:16 GPU:0sm:8", "GPU:0sm:4 GPU:0sm:12"),
        ("GPU:0sm:8,8 GPU:0sm:16,1 GPU:2sm:8,8", "GPU:0sm:8 GPU:0sm:8,8 GPU:0sm:9"),
    ] {
        assert!(satisfies(have, want), "{have:?} satisfies {want:?}");
    }
    for (have, want) in [
        ("", "GPU"),
        ("GPU", "GPU GPU"),
        ("NUMA", "GPU"),
        ("GPU:2sm", "GPU:3sm"),
        ("GPU:4sm", "GPU:1core"),
        ("GPU:0sm:8", "GPU:0sm:4,4"),
        ("GPU:0sm:8", "GPU:0sm:9"),
        ("GPU:0sm:8 GPU:0sm:16", "GPU:0sm:12 GPU:0sm:12"),
    ] {
        assert!(!satisfies(have, want), "{have:?} does not satisfy {want:?}");
    }
    let many = |count: u64| {
        read(
            &json!({"Devices": [{"Type": "GPU", "Memory Spaces": [], "Compute Resources": [{"Type": "sm", "Count": count}]}]}),
        )
    };
    assert!(many(5000).satisfies(&many(4999)) && !many(5000).satisfies(&many(5001)));
}

/// Compares with an exhaustive search over small topologies.
#[test]
fn satisfies_finds_an_assignment_if_one_exists() {
    fn any_way(have: &mut Vec<u64>, wants: &[u64]) -> bool {
        let Some((want, rest)) = wants.split_first() else { return true };
        (0..have.len()).any(|index| {
            let device = have.remove(index);
            let found = device & want == *want && any_way(have, rest);
            have.insert(index, device);
            found
        })
    }
    // A device is a set of features, each a type of compute resource.
    let topology = |sets: &[u64]| {
        let device = |set: &u64| {
            let features = (0..4).filter(|bit| set >> bit & 1 == 1);
            let features: Vec<_> = features.map(|bit| json!({"Type": format!("f{bit}")})).collect();
            json!({"Type": "D", "Compute Resources": features, "Memory Spaces": []})
        };
        read(&json!({"Devices": sets.iter().map(device).collect::<Vec<_>>()}))
    };
    let mut rng = fastrand::Rng::with_seed(5);
    let mut answers = [0; 2];
    for _ in 0..2000 {
        let mut have: Vec<u64> = (0..rng.usize(..6)).map(|_| rng.u64(..16)).collect();
        let wants: Vec<u64> = (0..rng.usize(..6)).map(|_| rng.u64(..16) & rng.u64(..16)).collect();
        let expected = any_way(&mut have, &wants);
        assert_eq!(topology(&have).satisfies(&topology(&wants)), expected, "{have:?} satisfies {wants:?}");
        answers[usize::from(expected)] += 1;
    }
    assert!(answers.iter().all(|count| *count > 200), "both happen: {answers:?}");
}

/// The parser never panics, and everything that it accepts round-trips.
#[test]
fn mutated_texts_are_accepted_or_rejected() {
    let good = [
        r#"{"Devices":[{"Type":"GPU","Id":"gpu-0000:3b:00.0","Health":"degraded","NUMA Affinity":0,"Compute Resources":[{"Type":"CUDA Core","Count":6912},{"Type":"Streaming Multiprocessor"}],"Memory Spaces":[{"Type":"Device RAM","Size":1099511627776},{"Type":"Device RAM","Size":0}]},{"Type":"NUMA Domain","NUMA Domain Id":0,"Compute Resources":[{"Type":"Processing Unit","Logical Processor Id":0}],"Memory Spaces":[]}],"Links":[{"Source":"gpu-0000:3b:00.0","Destination":"numa-0","Kind":"PCIe","Relative Latency":10}],"Metadata":null}"#.to_owned(),
        r#"{"Devices":[{"Type":"","Device Type":"OpenCL GPU","Compute Resources":[{"Type":"CU","Count":3}],"Memory Spaces":[{"Type":"RAM","Size":7}]}],"Metadata":null}"#.to_owned(),
    ];
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        "null",
        "-1",
        "1e400",
        "18446744073709551616",
        "\"Type\"",
        "\"Devices\"",
        ",",
        ":",
        "\u{0}",
        "\\ud800",
    ];
    let mut rng = fastrand::Rng::with_seed(7);
    let mut accepted = 0;
    for _ in 0..10_000 {
        let mut text = good[rng.usize(..good.len())].clone().into_bytes();
        for _ in 0..=rng.usize(..3) {
            let at = rng.usize(..text.len());
            match rng.u8(..4) {
                0 => text[at] = rng.u8(..),
                1 => text.truncate(at.max(1)),
                2 => drop(text.splice(at..at, pieces[rng.usize(..pieces.len())].bytes())),
                _ => drop(text.drain(at..(at + rng.usize(1..20)).min(text.len()))),
            }
            if text.is_empty() {
                text.push(b' ');
            }
        }
        if let Ok(topology) = Topology::read(&String::from_utf8_lossy(&text)) {
            accepted += 1;
            assert_eq!(read(&topology.to_json()), topology);
            assert!(topology.satisfies(&topology), "{topology:?}");
        }
    }
    assert!(accepted > 500, "some are still good: {accepted}");
}
