//! What runs are put together to.

use baselines::bench::{BestKnown, Record, Summary, cost_over_time, gap_by_size, markdown};

use crate::instance;

fn run(strategy: &str, seed: u64, vector: &[i64]) -> Record {
    Record {
        instance: "P-64x11-s1".into(),
        actors: 64,
        units: 11,
        strategy: strategy.into(),
        budget_seconds: 5.0,
        seed,
        levels: ["unplaced", "overload", "communication", "annoyance"].map(str::to_owned).into(),
        vector: vector.into(),
        wall_seconds: 5.25,
        cpu_seconds: 5.0,
        peak_memory_mib: 20,
        problem: vector.is_empty().then(|| "it found nothing".to_owned()),
        ..Record::default()
    }
}

fn summaries(records: &[Record]) -> Vec<Summary> {
    Summary::of(records, &BestKnown::read(&instance("best-known.json")).unwrap())
}

#[test]
fn the_median_of_the_seeds_is_held_against_the_best_known() {
    let values = [15_754, 15_912, 17_329];
    let runs: Vec<Record> =
        (1u64..).zip(values).map(|(seed, value)| run("ours", seed, &[0, 0, value, 1])).collect();
    let summary = &summaries(&runs)[0];
    assert_eq!(summary.best, [0, 0, 15_754, 1], "a run with less annoyance beats the list");
    assert!(summary.beaten);
    let cell = summary.cell("ours", 5.0).unwrap();
    assert_eq!(cell.median().vector[2], 15_912);
    let ratio = summary.ratio(cell.median()).unwrap();
    assert!((ratio - 15_912.0 / 15_754.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn a_run_that_is_worse_above_has_no_ratio() {
    let runs = [run("ours", 1, &[0, 3, 1, 1]), run("theirs", 1, &[]), run("nobody", 1, &[2, 0, 1, 1])];
    let summary = &summaries(&runs)[0];
    assert_eq!(runs.each_ref().map(|run| summary.ratio(run)), [None; 3]);
    assert_eq!(runs.each_ref().map(|run| summary.misses(run)), ["overload 3", "no answer", "unplaced 2"]);
}

#[test]
fn the_table_says_it_all() {
    let mut ours = run("ours", 1, &[0, 0, 15_912, 300]);
    ours.bound.insert("communication".into(), 15_062);
    let records = [
        ours,
        run("ours", 2, &[0, 0, 15_754, 334]),
        run("theirs", 1, &[0, 7, 14_000, 300]),
        run("none", 1, &[]),
    ];
    insta::assert_snapshot!(markdown(&summaries(&records), "0123456789ab"));
}

#[test]
fn rows_of_another_commit_are_never_mixed_in() {
    let of =
        |commit: &str, seed| Record { commit: commit.to_owned(), ..run("ours", seed, &[0, 0, 15_912, 300]) };
    let records = vec![of("", 1), of("a", 1), of("b", 1), of("a", 2), of("b", 2), of("b", 3)];
    let seeds = |commit: Option<&str>| {
        let kept = Record::of_one_commit(records.clone(), commit);
        kept.iter().map(|record| format!("{}{}", record.commit, record.seed)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seeds(None), "b1 b2 b3");
    assert_eq!(seeds(Some("a")), "a1 a2");
    assert_eq!(seeds(Some("")), "1");
    assert_eq!(seeds(Some("c")), "");
}

#[test]
fn pictures_of_nothing_are_pictures() {
    for picture in [cost_over_time(&[]), gap_by_size(&[])] {
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
