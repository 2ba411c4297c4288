//! The commands map, evaluate and table on the command line.

#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const GRAPH: &str = "{version: 1, model: work, tasks: [{id: t0, work: 100, vector: 10}, {id: t1, work: 50, vector: 20}], edges: [{from: t0, to: t1, bytes: 1000}]}";
const PLATFORM: &str =
    "{pes: [{kind: x, work: 10, vector: 5}, {kind: y, work: 20, vector: 10}], links: {bandwidth: 100}}";

/// Standard output, or standard error on failure.
fn sim(folder: &Path, arguments: &str) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_cairn-sim"))
        .current_dir(folder)
        .arg("dag")
        .args(arguments.split_whitespace())
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("one object and nothing else")
}

#[test]
fn every_mapper_returns_a_mapping_that_can_be_evaluated() {
    let here = folder(&[
        ("g.yaml", GRAPH),
        ("p.yaml", PLATFORM),
        ("m.json", r#"{"mapping": {"t0": "x 1", "t1": "y-0"}}"#),
    ]);
    let evaluate = |mapping: &str| {
        json(
            &sim(
                here.path(),
                &format!("evaluate --graph g.yaml --platform p.yaml --mapping {mapping} -o json"),
            )
            .unwrap(),
        )
    };
    let priced = evaluate("m.json");
    assert_eq!((&priced["objective"], &priced["makespan"]), (&30.0.into(), &35.0.into()));
    assert_eq!(priced["loads"], serde_json::json!({"x 1": 30.0, "y 1": 5.0}));
    for mapper in ["annealing-improved", "annealing-standard", "kway"] {
        let map = format!("map --graph g.yaml --platform p.yaml --mapper {mapper} --seed 3 -o json");
        let text = sim(here.path(), &map).unwrap();
        assert_eq!(text, sim(here.path(), &map).unwrap());
        std::fs::write(here.path().join("found.json"), &text).unwrap();
        assert_eq!(evaluate("found.json")["objective"], json(&text)["objective"], "{mapper}");
    }
}

/// METIS prints a warning to standard output, from C, when a part gets no vertex.
#[test]
fn library_output_does_not_reach_standard_output() {
    let here = folder(&[
        (
            "g.yaml",
            "{version: 1, model: work, tasks: [{id: a, work: 1}, {id: b, work: 1}, {id: c, work: 1}, {id: d, work: 1}]}",
        ),
        (
            "p.yaml",
            "{pes: [{kind: x, work: 100000}, {kind: y, work: 1}, {kind: z, work: 1}], links: {bandwidth: 100}}",
        ),
    ]);
    let found =
        json(&sim(here.path(), "map --graph g.yaml --platform p.yaml --mapper kway -o json").unwrap());
    assert_eq!(found["mapping"].as_object().unwrap().len(), 4);
}

#[test]
fn a_table_is_built_looked_up_and_replayed() {
    let here = folder(&[("v.csv", "3000,15,300,60\n3090,13,258,67\n1200,6,120,25\n")]);
    sim(here.path(), "generate ten-node --out .").unwrap();
    let build =
        "table build --graph ten-node.yaml --platform platform.yaml --samples 1 --runs 1 --seed 5 --out";
    sim(here.path(), &format!("{build} a.json --threads 1")).unwrap();
    sim(here.path(), &format!("{build} b.json --threads 2")).unwrap();
    let bytes = |name: &str| std::fs::read(here.path().join(name)).unwrap();
    assert_eq!(bytes("a.json"), bytes("b.json"));
    let found = json(&sim(here.path(), "table lookup a.json --vector 3090,13,258,67 -o json").unwrap());
    assert_eq!(found["region"], serde_json::json!([2, 1, 1, 2]));
    std::fs::write(here.path().join("found.json"), found.to_string()).unwrap();
    let evaluate = "evaluate --graph ten-node.yaml --platform platform.yaml --mapping found.json --vector";
    let priced = json(&sim(here.path(), &format!("{evaluate} 3090,13,258,67 -o json")).unwrap());
    assert!(priced["makespan"].as_f64().unwrap() < 50_000.0, "{priced}");
    let replay = "table replay --graph ten-node.yaml --platform platform.yaml --table a.json --profile v.csv --reconfiguration 1000 --stored observed -o json";
    let replayed = json(&sim(here.path(), replay).unwrap());
    assert_eq!(replayed["iterations"].as_array().unwrap().len(), 3);
}

#[test]
fn mapping_errors_name_file_and_path() {
    let here = folder(&[
        ("g.yaml", GRAPH),
        ("p.yaml", PLATFORM),
        ("stranger.json", r#"{"mapping": {"t0": "x 1", "t1": "x 1", "t9": "x 1"}}"#),
        ("nowhere.json", r#"{"mapping": {"t0": "x 1", "t1": "z 1"}}"#),
        ("cut.json", r#"{"mapping": {"t0""#),
        ("twice.json", r#"{"mapping": {"t0": "x 1", "t0": "y 1", "t1": "x 1"}}"#),
        ("odd.json", r#"{"mapping": {"t0": "x 1", "t1": {"type": "y"}}}"#),
        ("v.csv", "1,2,3\n"),
        ("negative.csv", "3000,15,300,-60\n"),
    ]);
    sim(here.path(), "generate ten-node --out .").unwrap();
    let cases = [
        (
            "evaluate --graph g.yaml --platform p.yaml --mapping stranger.json",
            "stranger.json: mapping.t9: no task",
        ),
        (
            "evaluate --graph g.yaml --platform p.yaml --mapping nowhere.json",
            "nowhere.json: mapping.t1: `z 1` is no",
        ),
        ("evaluate --graph g.yaml --platform p.yaml --mapping cut.json", "cut.json: mapping: EOF"),
        (
            "evaluate --graph g.yaml --platform p.yaml --mapping twice.json",
            "twice.json: mapping: `t0` occurs twice",
        ),
        (
            "evaluate --graph g.yaml --platform p.yaml --mapping odd.json",
            "odd.json: mapping.t1: neither the name of a",
        ),
        ("map --graph g.yaml --platform p.yaml --mapper ect", "give --vector"),
        (
            "map --graph g.yaml --platform p.yaml --mapper ect --vector 1,2,3,4",
            "g.yaml: ect supports graphs of model parallel",
        ),
        (
            "map --graph g.yaml --platform p.yaml --mapper bin-packing",
            "g.yaml: task t1 does not fit any processing element",
        ),
        ("table build --graph g.yaml --platform p.yaml --out t.json", "parameters.alpha: absent"),
        ("table lookup g.yaml --vector 1,2,3,4", "g.yaml: "),
        ("generate jacobi --strip 0 --out .", "strip: a vector cannot be cut into 0"),
        ("generate nothing --out .", "unknown graph nothing"),
    ];
    for (arguments, expected) in cases {
        let error = sim(here.path(), arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}
