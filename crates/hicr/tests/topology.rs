//! HiCR's JSON and its question whether one topology has what another asks for.

use hicr::Topology;
use serde_json::{Value, json};

fn read(json: &Value) -> Topology {
    Topology::from_json(json.clone()).expect("it is a topology")
}

#[test]
fn what_hicr_writes_is_read_and_written_again_as_it_was() {
    let hwloc = json!({"Devices": [{"Type": "NUMA Domain", "NUMA Domain Id": 1, "Compute Resources": [
        {"Type": "Processing Unit", "Logical Processor Id": 0, "Physical Processor Id": 0, "NUMA Affinity": 1,
         "Caches": [{"Level": 3, "Type": "Unified", "Size (Bytes)": 33_554_432, "Line Size (Bytes)": 64, "Shared": true}]},
        {"Type": "Processing Unit", "Logical Processor Id": 1}],
        "Memory Spaces": [{"Type": "RAM", "Size": 18_348_191_744_u64, "Usage": 0, "Binding Support": 2}]}],
        "Metadata": {"Name": "worker"}});
    let topology = read(&hwloc);
    assert_eq!(topology.to_json(), hwloc);

    // Its OpenCL back-end writes the type elsewhere.
    let opencl = json!({"Devices": [{"Type": "", "Device Type": "OpenCL GPU", "Compute Resources": [],
        "Memory Spaces": [{"Type": "OpenCL Device RAM", "Size": 4096}]}]});
    assert_eq!(read(&opencl).devices[0].type_, "OpenCL GPU");
    assert_eq!(read(&json!({})), Topology::default());
}

#[test]
fn what_is_no_topology_is_refused_with_its_place() {
    let device = |key: &str, value: Value| {
        let mut device = json!({"Type": "GPU", "Compute Resources": [], "Memory Spaces": []});
        device[key] = value;
        json!({"Devices": [device]})
    };
    let cases = [
        (json!(7), "the topology: not a JSON object"),
        (json!({"devices": []}), "Devices: missing; it must be the list of the devices"),
        (json!({"Devices": {}}), "Devices: not a list"),
        (json!({"Devices": [1]}), "Devices[0]: not a JSON object"),
        (json!({"Devices": [{}]}), "Devices[0].Type: missing, or not a text"),
        (device("Type", json!("")), "Devices[0].Type: empty; it must say what the device is"),
        (device("Memory Spaces", json!(null)), "Devices[0].Memory Spaces: not a list"),
        (
            device("Compute Resources", json!([{}])),
            "Devices[0].Compute Resources[0].Type: missing, or not a text",
        ),
        (
            device("Memory Spaces", json!([{"Type": "RAM", "Size": -1}])),
            "Devices[0].Memory Spaces[0].Size: missing, or not an unsigned number",
        ),
        (
            json!({"Devices": [{"Type": "GPU", "Memory Spaces": []}]}),
            "Devices[0].Compute Resources: missing; it must be a list",
        ),
    ];
    for (value, words) in cases {
        assert_eq!(Topology::from_json(value).unwrap_err().to_string(), words);
    }
    assert!(matches!(Topology::read("{"), Err(hicr::Error::Json(_))));
}

/// Devices in a line: `GPU:2sm:8,4` is a GPU with two `sm` and memories of 8 and 4.
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
fn one_topology_has_what_another_asks_for() {
    let has = |have: &str, want: &str| devices(have).has(&devices(want));
    for (have, want) in [
        ("", ""),
        ("GPU", ""),
        ("GPU NUMA", "NUMA"),
        ("GPU:4sm:8", "GPU:3sm:8"),
        ("GPU:4sm:8,2", "GPU:0sm:1,8"),
        // The first that fits would take the large one for the small template, and leave nothing for the large template.
        ("GPU:0sm:16 GPU:0sm:8", "GPU:0sm:4 GPU:0sm:12"),
        ("GPU:0sm:8,8 GPU:0sm:16,1 GPU:2sm:8,8", "GPU:0sm:8 GPU:0sm:8,8 GPU:0sm:9"),
    ] {
        assert!(has(have, want), "{have:?} has {want:?}");
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
        assert!(!has(have, want), "{have:?} has not {want:?}");
    }
    let many = |count: u64| {
        read(
            &json!({"Devices": [{"Type": "GPU", "Memory Spaces": [], "Compute Resources": [{"Type": "sm", "Count": count}]}]}),
        )
    };
    assert!(many(5000).has(&many(4999)) && !many(5000).has(&many(5001)));
}

/// Against all ways of assigning devices, over small topologies.
#[test]
fn an_assignment_is_found_if_there_is_one() {
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
        assert_eq!(topology(&have).has(&topology(&wants)), expected, "{have:?} has {wants:?}");
        answers[usize::from(expected)] += 1;
    }
    assert!(answers.iter().all(|count| *count > 200), "both happen: {answers:?}");
}

/// No bytes make the reader panic, and what it takes it writes again.
#[test]
fn ten_thousand_changed_texts_are_read_or_refused() {
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
    let mut taken = 0;
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
            taken += 1;
            assert_eq!(read(&topology.to_json()), topology);
            assert!(topology.has(&topology), "{topology:?}");
        }
    }
    assert!(taken > 500, "some are still good: {taken}");
}
