//! Fuzzing: the agent handles ten thousand malformed machine descriptions, whatever hwloc does with them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    sync::Arc,
    thread,
};

use crate::tool::{machines_folder, program};
use crds::NodeTopologySpec;
use serde_json::{Value, json};

const INPUTS: usize = 10_000;

/// Small valid descriptions with random changes, from a fixed seed.
fn inputs() -> Vec<String> {
    let small = [
        "arm",
        "fpga-f1",
        "dangling",
        "grace-hopper",
        "without-cores",
        "virtual-machine",
        "xeon-max",
        "t4-4",
    ];
    let valid = small.map(|name| {
        fs::read_to_string(machines_folder().join(format!("{name}.xml"))).expect("the machine exists")
    });
    let pieces = [
        "<object type=\"PU\"/>",
        "<",
        ">",
        "\"",
        "-1",
        "4294967295",
        "0xffffffff",
        "0x0",
        "</object>",
        "NUMANode",
        "OSDev",
        "<info name=\"PCIBusID\" value=\"\"/>",
        "0xf...f",
        "99999999999999999999",
        "type=\"Machine\"",
        "&amp;",
        "\u{fffd}",
    ];
    let mut rng = fastrand::Rng::with_seed(11);
    let mut change = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=rng.usize(..3) {
            let at = rng.usize(..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            let piece = pieces[rng.usize(..pieces.len())].bytes();
            match rng.u8(..6) {
                0 => bytes[at] = rng.u8(32..127),
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.splice(at..at, piece)),
                3 => drop(bytes.splice(at..(at + piece.len()).min(bytes.len()), piece)),
                4 => drop(bytes.drain(at..(at + rng.usize(1..200)).min(bytes.len()))),
                // Copy a line to another place.
                _ => {
                    let start = bytes[..at].iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
                    let end =
                        bytes[at..].iter().position(|it| *it == b'\n').map_or(bytes.len(), |it| at + it + 1);
                    let line = bytes[start..end].to_vec();
                    let to = rng.usize(..=bytes.len());
                    drop(bytes.splice(to..to, line));
                }
            }
            if bytes.is_empty() {
                bytes.push(b'<');
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    (0..INPUTS).map(|index| change(&valid[index % valid.len()])).collect()
}

/// Sends the inputs from `first` on to one probe process, and returns the responses before it exits.
fn probe(inputs: &Arc<Vec<String>>, first: usize) -> Vec<Value> {
    let mut command = program();
    command.arg("probe-hwloc").env("HWLOC_HIDE_ERRORS", "2");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the program starts");
    let mut to = child.stdin.take().expect("it is piped");
    let inputs = Arc::clone(inputs);
    let writer = thread::spawn(move || {
        for input in &inputs[first..] {
            // The process exits when hwloc crashes; the next one gets the remaining inputs.
            let request = json!({"Xml": input}).to_string();
            if to.write_all(request.as_bytes()).is_err() {
                return;
            }
        }
    });
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let lines = out.lines().map_while(Result::ok);
    let responses = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    child.wait().expect("the process exits");
    writer.join().expect("the writer does not panic");
    responses
}

#[test]
fn ten_thousand_changed_machines_are_parsed_rejected_or_survived() {
    let inputs = Arc::new(inputs());
    let (mut done, mut parsed, mut rejected, mut crashed) = (0, 0, 0, 0);
    while done < inputs.len() {
        let responses = probe(&inputs, done);
        for response in &responses {
            if let Some(found) = response.get("found") {
                let spec: NodeTopologySpec = serde_json::from_value(found.clone()).unwrap();
                assert!(spec.devices.iter().all(|device| !device.id.is_empty()));
                parsed += 1;
            } else {
                let message = response["failed"].as_str().unwrap_or_default();
                assert!(!message.is_empty(), "{response}");
                // hwloc may fail and crash, but Rust code must not panic
                assert!(!message.contains("panicked at"), "{message}");
                rejected += 1;
            }
        }
        done += responses.len();
        if done < inputs.len() {
            crashed += 1;
            done += 1;
        }
    }
    println!("{parsed} parsed, {rejected} rejected, {crashed} crashes of the probe process");
    assert!(parsed > 200 && rejected > 500, "both happen: {parsed} {rejected}");
}

/// hwloc aborts on some malformed inputs, such as NUMA nodes that are not in the order of their numbers.
#[test]
fn a_crash_of_the_probe_process_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    let xml = fs::read_to_string(machines_folder().join("power9.xml")).unwrap();
    let mut lines: Vec<_> = xml.lines().collect();
    let node = |index: &str| {
        xml.lines().position(|line| line.contains(&format!("NUMANode\" os_index=\"{index}\""))).unwrap()
    };
    let (first, second) = (node("252"), node("253"));
    assert_eq!(second - first, 3, "each node has three lines");
    lines[first..first + 6].rotate_left(3);
    fs::write(&path, lines.join("\n")).unwrap();
    let output = program().args(["topology", "--topology-file"]).arg(&path).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "the agent exits normally: {stderr}");
    assert!(
        stderr.contains(
            "machine.xml: the description contradicts itself (an object is missing or listed twice) or is too large: \
             the probe process ended with signal: 6"
        ),
        "{stderr}"
    );
    // the reason of hwloc, which names what it checks
    assert!(stderr.contains("hwloc__check_nodesets: Assertion"), "{stderr}");
}
