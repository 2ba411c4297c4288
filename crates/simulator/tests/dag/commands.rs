//! `cairn-sim dag …` on the command line.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::example::DIAMOND;

fn cairn_sim(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cairn-sim"))
        .current_dir(folder)
        .args(line.split_whitespace())
        .output()
        .expect("the program starts")
}

/// The JSON output of a command that must succeed.
fn json(folder: &Path, line: &str) -> Value {
    let output = cairn_sim(folder, line);
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object and nothing else")
}

/// The error output of a command that must fail.
fn refused(folder: &Path, line: &str) -> String {
    let output = cairn_sim(folder, line);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

const PLATFORM: &str = "pes: [{kind: cpu, count: 2}, {kind: fft}]\ncosts: zcu102\n";
const WORKLOAD: &str = "dags: [{file: diamond.yaml, instances: 2, periodMicroseconds: 5}]\n";
const RUN: &str = "dag run --platform p.yaml --workload w.yaml --scheduler ETF";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("p.yaml", PLATFORM), ("w.yaml", WORKLOAD), ("diamond.yaml", DIAMOND)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn a_workload_run_writes_log_and_chart() {
    let folder = folder();
    let found = json(folder.path(), &format!("{RUN} -o json --log log.jsonl --gantt chart.svg"));
    let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec![
        "applications",
        "tasks",
        "executionNs",
        "cumulativeNs",
        "overheadNs",
        "dispatchNs",
        "endToEndNs",
        "rounds",
        "looks",
        "busyNs",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!((&found["overheadNs"], &found["endToEndNs"]), (&Value::from(10_550), &Value::from(271_765)));
    let busy: Vec<&str> = found["busyNs"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(busy, ["Core 1", "Core 2", "FFT 1"]);
    let log = std::fs::read_to_string(folder.path().join("log.jsonl")).unwrap();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    // Dispatched after 3 evaluations and the assignment, at 6,255; then the dispatch overhead.
    let expected = serde_json::json!({"instance": 1, "frame": 0, "task": "A", "pe": "Core 1", "ready": 5000, "start": 62_255, "end": 72_255});
    assert_eq!((first, log.lines().count()), (expected, 8));
    let chart = std::fs::read_to_string(folder.path().join("chart.svg")).unwrap();
    assert_eq!(chart.matches("<title>").count(), 8);
}

#[test]
fn graphs_are_generated_checked_and_converted() {
    let folder = folder();
    for (kind, tasks, edges) in [
        ("pulse-doppler", 1027, 1408),
        ("wifi-tx", 93, 92),
        ("radar-correlator", 7, 7),
        ("temporal-mitigation", 11, 15),
    ] {
        assert!(cairn_sim(folder.path(), &format!("dag generate {kind} --out made")).status.success());
        let facts = json(folder.path(), &format!("dag check made/{kind}.json -o json"));
        assert_eq!((&facts["tasks"], &facts["edges"]), (&Value::from(tasks), &Value::from(edges)));
    }
    let levels = json(folder.path(), "dag check made/pulse-doppler.json -o json")["levels"].clone();
    assert_eq!(levels, serde_json::json!([1, 256, 128, 128, 1, 128, 128, 128, 128, 1]));
    let converted = cairn_sim(folder.path(), "dag convert diamond.yaml --to cedr");
    std::fs::write(folder.path().join("diamond.json"), &converted.stdout).unwrap();
    let back = cairn_sim(folder.path(), "dag convert diamond.json --to yaml");
    std::fs::write(folder.path().join("back.yaml"), &back.stdout).unwrap();
    let again = cairn_sim(folder.path(), "dag convert back.yaml --to cedr");
    assert_eq!(again.stdout, converted.stdout);
}

#[test]
fn input_errors_name_file_place_and_remedy() {
    let folder = folder();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("p2.yaml", "pes: [{kind: fft}]");
    let only_fft = refused(folder.path(), "dag run --platform p2.yaml --workload w.yaml --scheduler ETF");
    assert!(only_fft.contains("diamond.yaml: task A: runs on cpu only"), "{only_fft}");
    put("w.yaml", "dags: [{file: gone.yaml}]");
    assert!(
        refused(folder.path(), RUN).contains("gone.yaml: No such file"),
        "{}",
        refused(folder.path(), RUN)
    );
    put("w.yaml", "dags: [{file: diamond.yaml, instances: 0}]");
    assert!(
        refused(folder.path(), RUN).contains("w.yaml: dags[0].instances: 0 instances; write a number from 1")
    );
    put("w.yaml", "dags: [{file: diamond.yaml, period: 1}]");
    assert!(refused(folder.path(), RUN).contains("dags[0].period"), "{}", refused(folder.path(), RUN));
    put("w.yaml", "dags: [{file: diamond.yaml, instances: 1000000, periodMicroseconds: 1e10}]");
    assert!(refused(folder.path(), RUN).contains("may run for more than 36 years"));
    put("broken.json", "{\"AppName\": \"x\", \"Variables\": {");
    assert!(refused(folder.path(), "dag check broken.json").contains("broken.json: "));
    let unknown = refused(folder.path(), "dag generate fast --out .");
    assert!(unknown.contains("unknown graph fast"), "{unknown}");
}

#[test]
fn experiment_pages_name_the_given_commit() {
    let folder = folder();
    let output = cairn_sim(folder.path(), "experiment cedr-streaming --quiet --commit 1cd6545 --out pages");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(folder.path().join("pages/streaming.md")).expect("a page");
    let last =
        "Made at 1cd6545 by `make bench`, which runs `cairn-sim experiment cedr-streaming --out pages`.";
    assert_eq!(page.lines().last(), Some(last));
}
