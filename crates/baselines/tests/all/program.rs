//! Smallest runs of `bench-placement`.

use std::path::Path;
use std::process::{Command, Output};

use baselines::bench::Record;

use crate::instance;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-placement")).args(arguments).output().unwrap()
}

fn run(out: &Path, more: &[&str]) -> Output {
    let (out, best) = (out.to_str().unwrap(), instance("best-known.json"));
    let fixed = ["run", "--out", out, "--best", best.to_str().unwrap(), "--commit", "here"];
    bench(&[&fixed, more].concat())
}

fn records(out: &Path) -> Vec<Record> {
    let lines = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All tags are closed in order.
fn assert_is_xml(text: &str) {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in {text}");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "in {text}");
}

#[test]
fn a_small_run_writes_records_a_table_and_two_plots() {
    let out = tempfile::tempdir().unwrap();
    let (small, larger) = (instance("P-8x4-s1.json"), instance("P-32x8-s1.json.gz"));
    let what = ["--instances", small.to_str().unwrap(), larger.to_str().unwrap()];
    let how = ["--strategies", "asp,greedy,metis", "--budgets", "0.3", "--seeds", "1,2"];
    let done = run(out.path(), &[&what[..], &how[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let records = records(out.path());
    assert_eq!(records.len(), 2 * 3 * 2);
    for record in &records {
        assert_eq!(record.problem, None, "{record:?}");
        assert_eq!(record.levels, ["unplaced", "overload", "communication", "annoyance"]);
        assert!(record.wall_seconds > 0.0 && record.cpu_seconds > 0.0 && record.peak_memory_mib > 0);
    }
    let proven = |record: &&Record| record.strategy == "asp" && record.instance == "P-8x4-s1";
    assert!(records.iter().filter(proven).all(|r| r.optimal && r.vector == [0, 0, 3884, 77]));

    let table = std::fs::read_to_string(out.path().join("results.md")).unwrap();
    assert!(table.contains("| instance | best known | asp | greedy | metis |"), "{table}");
    assert!(table.contains("| P-8x4-s1 | 0 / 3884 / 77 | 1.0000 ✓ branch-and-bound |"), "{table}");
    for picture in ["cost-over-time.svg", "gap-by-size.svg"] {
        let text = std::fs::read_to_string(out.path().join(picture)).unwrap();
        assert_is_xml(&text);
        assert!(text.contains("<polyline") && text.contains("metis"), "{text}");
    }
}

#[test]
fn existing_results_are_kept_and_reported() {
    let out = tempfile::tempdir().unwrap();
    let small = instance("P-8x4-s1.json");
    let what = ["--instances", small.to_str().unwrap(), "--budgets", "1", "--seeds", "1", "--strategies"];
    for strategy in ["greedy", "metis"] {
        assert!(run(out.path(), &[&what[..], &[strategy]].concat()).status.success());
    }
    assert_eq!(records(out.path()).len(), 2);
    let table = std::fs::read_to_string(out.path().join("results.md")).unwrap();
    assert!(table.contains("| greedy | metis |") && table.contains("Commit `here`"), "{table}");
    // Existing rows are not run again; a row of another commit does not count.
    let lines = out.path().join("results.jsonl");
    let elsewhere =
        std::fs::read_to_string(&lines).unwrap().replace("\"here\"", "\"there\"").replace("metis", "local");
    std::fs::write(&lines, std::fs::read_to_string(&lines).unwrap() + &elsewhere).unwrap();
    assert!(run(out.path(), &[&what[..], &["greedy,metis,local", "--resume"]].concat()).status.success());
    let of_here = records(out.path()).into_iter().filter(|record| record.commit == "here");
    assert_eq!(of_here.map(|record| record.strategy).collect::<Vec<_>>(), ["greedy", "metis", "local"]);
    // Budgets of another kind do not count.
    let by_processor = run(out.path(), &[&what[..], &["greedy", "--processor"]].concat());
    let said = String::from_utf8(by_processor.stderr).unwrap();
    assert!(!by_processor.status.success() && said.contains("folders of their own"), "{said}");
}

#[test]
fn bounds_are_printed_with_the_best_known_values() {
    let (small, best) = (instance("P-16x5-s1.json"), instance("best-known.json"));
    let best = best.to_str().unwrap();
    let done = bench(&["bound", "--instances", small.to_str().unwrap(), "--best", best, "--seconds", "20"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("| P-16x5-s1 | communication | 6537 |"), "{text}");
    let out = tempfile::tempdir().unwrap();
    let kept = ["--out", out.path().to_str().unwrap(), "--commit", "here", "--resume", "--seconds", "20"];
    for _ in 0..2 {
        let what = ["bound", "--instances", small.to_str().unwrap(), "--best", best];
        let done = bench(&[&what[..], &kept[..]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let lines = std::fs::read_to_string(out.path().join("bounds.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let table = std::fs::read_to_string(out.path().join("bounds.md")).unwrap();
    assert!(table.contains("Commit `here`") && table.contains("| communication | 6537 |"), "{table}");
}

#[test]
fn missing_files_and_strategies_are_named() {
    let out = tempfile::tempdir().unwrap();
    let small = instance("P-8x4-s1.json");
    let done = run(out.path(), &["--instances", small.to_str().unwrap(), "--strategies", "magic"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("unknown strategy `magic`; use one of asp, "), "{said}");
    let done = run(out.path(), &["--instances", small.to_str().unwrap(), "--only", "Q-"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("no instance has such a name"), "{said}");
}

#[test]
fn requirements_are_measured_and_written_as_a_table() {
    let out = tempfile::tempdir().unwrap();
    let acceptance = |more: &[&str]| {
        bench(&[&["acceptance", "--commit", "here", "--out", out.path().to_str().unwrap()], more].concat())
    };
    let done = acceptance(&["--runs", "3", "--only", "impossible"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let table = std::fs::read_to_string(out.path().join("acceptance.md")).unwrap();
    assert!(table.contains("Commit `here`"), "{table}");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.contains("infeasibility: "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let (right, all) = rows[0][0].split_once(" of ").unwrap();
    assert_eq!(right, all, "{table}");
    assert!(all.parse::<usize>().unwrap() >= 6, "{table}");
    assert!(rows[1][3].contains("1000 units of pool gpus"), "{table}");
    let unknown = acceptance(&["--only", "impossible,fast"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        said.contains("unknown measurement `fast`; use one of start, proofs, shortage, same, impossible"),
        "{said}"
    );
}
