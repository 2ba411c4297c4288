//! Aggregation and reports of runs.

use std::path::Path;

use baselines::bench::{BestKnown, Record, Summary, cost_over_time, gap_by_size, markdown};

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
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/best-known.json");
    Summary::of(records, &BestKnown::read(Path::new(list)).unwrap())
}

#[test]
fn the_median_over_seeds_is_compared_with_the_best_known() {
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
fn a_run_worse_on_a_higher_level_has_no_ratio() {
    let runs = [run("ours", 1, &[0, 3, 1, 1]), run("theirs", 1, &[]), run("none", 1, &[2, 0, 1, 1])];
    let summary = &summaries(&runs)[0];
    assert_eq!(runs.each_ref().map(|run| summary.ratio(run)), [None; 3]);
    assert_eq!(runs.each_ref().map(|run| summary.misses(run)), ["overload 3", "no answer", "unplaced 2"]);
}

#[test]
fn the_ratio_uses_the_first_level_that_differs() {
    let of = |vector: &[i64]| Record { instance: "unknown".into(), ..run("ours", 1, vector) };
    let runs =
        [&[0, 7, 100, 3][..], &[0, 7, 120, 1], &[0, 14, 90, 1], &[0, 7, 100, 6], &[1, 0, 0, 0], &[]].map(of);
    let summary = &summaries(&runs)[0];
    assert_eq!(summary.best, [0, 7, 100, 3]);
    let ratios = runs.each_ref().map(|run| summary.ratio(run));
    assert_eq!(ratios, [Some(1.0), Some(1.2), Some(2.0), Some(2.0), None, None]);
    let gaps = runs.each_ref().map(|run| summary.gap(run));
    assert_eq!(gaps, [Some(0.0), Some(0.0), Some(1.0), Some(0.0), None, None], "plots show overload");
}

#[test]
fn single_seed_results_are_marked_and_short_runs_are_compared_with_long_ones() {
    let of = |budget_seconds, seed, value| Record { budget_seconds, ..run("asp", seed, &[0, 0, value, 300]) };
    let runs = [
        of(5.0, 1, 16_000),
        of(5.0, 2, 15_900),
        of(5.0, 3, 15_950),
        of(60.0, 1, 15_740),
        run("tabu", 1, &[0, 0, 15_700, 300]),
    ];
    let table = markdown(&summaries(&runs), "0123456789ab");
    assert!(table.contains("| P-64x11-s1 | 0 / 15700 / 300\\* | 1.0159 | 1.0000 ¹ |"), "{table}");
    let comparison = "| 1.0133 | P-64x11-s1 | 0 / 15700 / 300\\* | tabu, 5 s | 1.0159 | 1.0025 ¹ | 0 / 16000 / 300, 0 / 15900 / 300, 0 / 15950 / 300 | 0 / 15740 / 300 |";
    assert!(table.contains(comparison), "{table}");
}

#[test]
fn larger_budgets_are_compared_with_smaller_ones_by_seed() {
    let of = |budget_seconds, seed, value| Record { budget_seconds, ..run("asp", seed, &[0, 0, value, 300]) };
    let runs = [
        of(1.0, 1, 17_000),
        of(1.0, 2, 16_000),
        of(2.0, 1, 16_500),
        of(2.0, 2, 16_001),
        of(5.0, 1, 16_500),
        of(5.0, 2, 15_900),
    ];
    let table = markdown(&summaries(&runs), "");
    let line = "| 1 of 4 | P-64x11-s1 | 1 s: 0 / 17000 / 300; 2 s: 0 / 16500 / 300; 5 s: 0 / 16500 / 300 |";
    assert!(table.contains(line), "{table}");
    assert!(
        !markdown(&summaries(&runs[..4]), "").contains("Monotonicity"),
        "two budgets are compared in another table"
    );
}

#[test]
fn overrun_includes_judgement_time() {
    let judged = |seconds: f64, judged: &str| Record {
        wall_seconds: 7.25,
        judged_seconds: seconds,
        judged: judged.to_owned(),
        ..run("asp", 1, &[0, 0, 15_912, 300])
    };
    let late = judged(2.0, "all");
    assert!((late.overshoot_seconds() - 2.25).abs() < 1e-9, "{}", late.overshoot_seconds());
    let table = markdown(&summaries(&[late, Record { seed: 2, ..judged(2.0, "constraints") }]), "");
    assert!(table.contains("| 7.25 | 2.00 | all, constraints | 2.250 |"), "{table}");
}

#[test]
fn ablations_report_gains_and_losses() {
    let of = |strategy: &str, vector: &[i64]| run(strategy, 1, vector);
    let runs = [
        of("asp", &[0, 0, 16_000, 300]),
        of("asp-without-trades", &[0, 0, 17_600, 300]),
        of("asp-without-starts", &[0, 0, 15_840, 300]),
        of("asp-without-proofs", &[0, 0, 16_000, 300]),
        of("asp-without-ejection", &[1, 0, 1_000, 300]),
    ];
    let table = markdown(&summaries(&runs), "");
    for line in [
        "| trades | P-64x11-s1 1.1000 | – |",
        "| starts | – | P-64x11-s1 0.9900 |",
        "| proofs | – | – |",
        "| ejection | P-64x11-s1 unplaced 1 | – |",
    ] {
        assert!(table.contains(line), "{line}: {table}");
    }
}

#[test]
fn earlier_results_are_compared_with_current_ones() {
    let list = std::env::temp_dir().join(format!("reached-{}.json", std::process::id()));
    std::fs::write(&list, r#"[{"instance": "P-64x11-s1", "communication": 15753, "reached": 15765}]"#)
        .unwrap();
    let known = BestKnown::read(&list).unwrap();
    std::fs::remove_file(list).unwrap();
    let of = |vectors: [&[i64]; 3]| {
        let runs: Vec<Record> =
            (1u64..).zip(vectors).map(|(seed, vector)| run("asp", seed, vector)).collect();
        markdown(&Summary::of(&runs, &known), "")
    };
    let table = of([&[0, 0, 16_000, 1], &[0, 0, 15_800, 1], &[0, 0, 15_753, 1]]);
    let line = "| 1.0022 | P-64x11-s1 | 15765 | 0 / 16000 / 1, 0 / 15800 / 1, 0 / 15753 / 1 |";
    assert!(table.contains(line), "{table}");
    let table = of([&[0, 5, 1, 1], &[0, 4, 1, 1], &[0, 0, 15_753, 1]]);
    assert!(table.contains("| overload 4 | P-64x11-s1 | 15765 |"), "{table}");
}

#[test]
fn the_full_table_is_rendered() {
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
fn rows_of_other_commits_are_excluded() {
    let of =
        |commit: &str, seed| Record { commit: commit.to_owned(), ..run("ours", seed, &[0, 0, 15_912, 300]) };
    let records = vec![of("", 1), of("a", 1), of("b", 1), of("a", 2), of("b", 2), of("b", 3)];
    let seeds = |commit: Option<&str>| {
        let kept = Record::of_one_commit(records.clone(), commit);
        kept.iter().map(|record| format!("{}{}", record.commit, record.seed)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seeds(None), "b1 b2 b3");
    assert_eq!(seeds(Some("a")), "a1 a2");
    assert_eq!(seeds(Some("c")), "");
    assert_eq!(seeds(Some("")), "", "a row that says no commit is of none");
    let twice = Record { vector: vec![0, 0, 15_800, 1], ..of("b", 2) };
    let kept = Record::of_one_commit([records.clone(), vec![twice.clone()]].concat(), None);
    assert_eq!(kept.len(), 3, "a run that was made twice counts once");
    assert_eq!(kept[1], twice);
}

#[test]
fn empty_plots_are_valid() {
    for picture in [cost_over_time(&[]), gap_by_size(&[])] {
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
