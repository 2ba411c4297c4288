//! Errors about invalid files name file, place, problem and remedy; exit status 1.

use std::path::Path;
use std::process::Command;

const UNITS: &str = "units: [{kind: cpu, count: 2, speed: 1}]
taskMilliseconds: 0.1
undoMilliseconds: 0.01
communicationMilliseconds: 0.02
exchangeFactors: {cpu: {cpu: 1}}
sameUnitFactor: 0.5
windowMilliseconds: 20
replanEveryWindows: 2
";
const HEADER: &str = "src_ts,src_id,dst_ts,dst_id\n";

/// The error output for these files, without the folder.
fn said(folder: &Path, units: &str, rows: &str) -> String {
    let (config, trace) = (folder.join("units.yaml"), folder.join("t.csv"));
    std::fs::write(&config, units).unwrap();
    std::fs::write(&trace, format!("{HEADER}{rows}")).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_cairn-sim"));
    let output = program.arg("run").arg("--config").arg(config).arg("--trace").arg(trace).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap().trim_end().replace(&format!("{}/", folder.display()), "")
}

#[test]
fn trace_errors_name_file_line_and_remedy() {
    let cases = [
        (
            "2,0,3,0\n1,0,2,0\n",
            "line 3: src_ts 1 of actor 0 follows 2; sort the rows of each actor by src_ts",
        ),
        (
            "1,0,2,0\n2,0,3,7\n",
            "line 3: actor 7 is unknown: it is the src_id of no row; give it rows of its own or correct dst_id",
        ),
        ("1,2,2,2\n", "line 1: actor 0 is missing; actors are numbered from 0 without gaps"),
        ("1,0,2,0\n-2,0,3,0\n", "line 3: src_ts is -2; logical times are numbers of at least 0"),
        ("1,0,NaN,0\n", "line 2: dst_ts is NaN; logical times are numbers of at least 0"),
        ("2,0,1,0\n", "line 2: dst_ts 1 is before src_ts 2; a task is sent into its future"),
        (
            "1,0,2,0\n2,0,3",
            "line 3: 3 fields in \"2,0,3\"; a row has four, src_ts,src_id,dst_ts,dst_id (is the line cut off?)",
        ),
        ("", "line 1: the trace is empty; write rows below the header src_ts,src_id,dst_ts,dst_id"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (rows, expected) in cases {
        assert_eq!(said(folder.path(), UNITS, rows), format!("error: t.csv: {expected}"), "{rows:?}");
    }
}

#[test]
fn configuration_errors_name_file_field_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("speed: 1", "speed: -1", "units.yaml: units[0].speed: -1; give a number above 0"),
        ("{cpu: {cpu: 1}}", "{}", "units.yaml: exchangeFactors: the factor between cpu and cpu is missing"),
        ("replanEveryWindows: 2", "replanEveryWindows: 2\ncap: 3", "units.yaml: cap: unknown field `cap`"),
        (
            "replanEveryWindows: 2",
            "replanEveryWindows: 2\nactors: [{actors: [5], runsOn: [cpu]}]",
            "actors[0]: actor 5 does not exist; the trace has 1",
        ),
        (
            "replanEveryWindows: 2",
            "replanEveryWindows: 2\nstart: [0, 1]",
            "the initial assignment has 2 units for 1 actors; name one unit per actor",
        ),
    ];
    for (from, to, expected) in cases {
        let said = said(folder.path(), &UNITS.replace(from, to), "1,0,2,0\n2,0,3,0\n");
        assert!(said.starts_with(&format!("error: {expected}")), "{said}");
    }
}
