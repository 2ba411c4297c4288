//! Results as Markdown, the ratio to the best known first.

use std::fmt::Write;

use super::summary::ratio;
use super::{Cell, Record, Summary};

/// Whose runs are ours, and the budgets that are held against each other.
const OURS: &str = "asp";
const SHORT: f64 = 5.0;
const LONG: f64 = 60.0;

/// One table of ratios per budget, instances down and strategies across; then every cell in full.
///
/// The rows are of one commit, which is named where it is known.
pub fn markdown(summaries: &[Summary], commit: &str) -> String {
    let mut text = String::from("# Placement: strategies on instances\n");
    if !commit.is_empty() {
        writeln!(text, "\nCommit `{commit}`; rows of other commits are left out.").expect(INTO_TEXT);
    }
    text.push_str(
        "\nThe ratio is the value of the first level that differs from the best known, over the best known's; 1 is the best known. \
         Where that level is not the first whose best value is not 0, its name stands beside; where the best is 0 there, the \
         level and its value alone. Each number is the median of the seeds; ¹ is of one seed, which says nothing of others. Every \
         answer was checked and priced by `placement`.\n",
    );
    if summaries
        .iter()
        .flat_map(|summary| &summary.cells)
        .flat_map(|cell| &cell.runs)
        .any(|run| run.by_processor)
    {
        text.push_str("\nBudgets are processor time: as much as two processors have in so many seconds.\n");
    }
    let strategies = in_order(summaries, |cell| cell.strategy.clone());
    for budget in budgets(summaries) {
        let (names, rules) = (strategies.join(" | "), "---:|".repeat(strategies.len()));
        write!(text, "\n## {budget} s\n\n| instance | best known | {names} |\n|---|---:|{rules}\n")
            .expect(INTO_TEXT);
        for summary in summaries.iter().filter(|s| s.cells.iter().any(|c| same(c.budget_seconds, budget))) {
            write!(text, "| {} | {} |", summary.instance, best(summary)).expect(INTO_TEXT);
            for strategy in &strategies {
                let told =
                    summary.cell(strategy, budget).map_or("–".to_owned(), |cell| told(summary, cell));
                write!(text, " {told} |").expect(INTO_TEXT);
            }
            text.push('\n');
        }
    }
    beside(&mut text, summaries);
    bounds(&mut text, summaries);
    details(&mut text, summaries);
    text
}

/// Strategies or anything else of the cells, each once, as they come.
pub(super) fn in_order<T: PartialEq>(summaries: &[Summary], of: impl Fn(&Cell) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for item in summaries.iter().flat_map(|summary| &summary.cells).map(of) {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// The budgets of all cells, ascending.
pub(super) fn budgets(summaries: &[Summary]) -> Vec<f64> {
    let mut all: Vec<f64> =
        summaries.iter().flat_map(|summary| &summary.cells).map(|c| c.budget_seconds).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

fn same(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq()
}

/// The best vector without the number of unplaced actors where that is 0.
fn best(summary: &Summary) -> String {
    let star = if summary.beaten { "\\*" } else { "" };
    format!("{}{star}", vector(&summary.best))
}

fn vector(values: &[i64]) -> String {
    let told = if values.first() == Some(&0) { &values[1..] } else { values };
    told.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ")
}

fn told(summary: &Summary, cell: &Cell) -> String {
    let proven = if cell.runs.iter().all(|run| run.optimal) { " ✓" } else { "" };
    let alone = if cell.runs.len() == 1 { " ¹" } else { "" };
    format!("{}{proven}{alone}", held(summary, cell.median()))
}

/// A run's ratio, with its level where that is not the one that is expected; where there is none, why.
fn held(summary: &Summary, run: &Record) -> String {
    let Some(ratio) = summary.ratio(run) else { return summary.misses(run) };
    match summary.differing_level(run).filter(|level| Some(*level) != summary.deciding_level()) {
        Some(level) => format!("{ratio:.4} {}", summary.levels[level]),
        None => format!("{ratio:.4}"),
    }
}

/// Our short runs beside our long ones, and what is known of any method.
fn beside(text: &mut String, summaries: &[Summary]) {
    let both = |summary: &&Summary| [SHORT, LONG].iter().all(|budget| summary.cell(OURS, *budget).is_some());
    let shown: Vec<&Summary> = summaries.iter().filter(both).collect();
    if shown.is_empty() {
        return;
    }
    writeln!(
        text,
        "\n## {SHORT} s beside {LONG} s\n\nThe median of `{OURS}` in {SHORT} s over that in {LONG} s, on the first level that differs; beside it \
         what is best known of any method, and whose it is.\n\n\
         | {SHORT} s / {LONG} s | instance | best known | found by | {SHORT} s | {LONG} s |\n|---:|---|---:|---|---:|---:|"
    )
    .expect(INTO_TEXT);
    for summary in shown {
        let [short, long] = [SHORT, LONG].map(|budget| summary.cell(OURS, budget).expect("both are there"));
        let pair = Summary { best: long.median().vector.clone(), ..summary.clone() };
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            held(&pair, short.median()),
            summary.instance,
            best(summary),
            summary.found_by(),
            told(summary, short),
            told(summary, long),
        )
        .expect(INTO_TEXT);
    }
}

fn bounds(text: &mut String, summaries: &[Summary]) {
    let bounded: Vec<_> = summaries.iter().filter_map(|s| Some((s, s.bound?, s.deciding_level()?))).collect();
    if bounded.is_empty() {
        return;
    }
    text.push_str("\n## Proven bounds\n\n| instance | level | best known | bound | bound / best |\n|---|---|---:|---:|---:|\n");
    for (summary, bound, level) in bounded {
        let (name, key, best) = (&summary.instance, &summary.levels[level], summary.best[level]);
        writeln!(text, "| {name} | {key} | {best} | {bound} | {:.4} |", ratio(bound, best)).expect(INTO_TEXT);
    }
}

fn details(text: &mut String, summaries: &[Summary]) {
    text.push_str(
        "\n## In full\n\nMedian, best and worst ratio over the seeds; the median run's values; the largest wall clock, \
         excess over the budget, processor time (children included) and memory (the process and its largest child).\n\
         A \\* marks a best value that a run of this table found. ✓: proven by every run.\n\n\
         | ratio | instance | strategy | budget s | seeds | best | worst | values | stay | wall s | over s | cpu s | MiB |\n\
         |---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for summary in summaries {
        for cell in &summary.cells {
            let median = cell.median();
            let ends = [&cell.runs[0], &cell.runs[cell.runs.len() - 1]].map(|run| held(summary, run));
            let values = median.problem.clone().unwrap_or_else(|| vector(&median.vector));
            let stay = median.stay.map_or("–".to_owned(), |stay| format!("{:.0} %", stay * 100.0));
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {values} | {stay} | {:.2} | {:.3} | {:.2} | {:.0} |",
                told(summary, cell),
                summary.instance,
                cell.strategy,
                cell.budget_seconds,
                seeds(cell),
                ends[0],
                ends[1],
                cell.most(|run| run.wall_seconds),
                cell.most(Record::overshoot_seconds),
                cell.most(|run| run.cpu_seconds),
                cell.most(mebibytes),
            )
            .expect(INTO_TEXT);
        }
    }
}

/// The seeds of a cell, ascending.
fn seeds(cell: &Cell) -> String {
    let mut seeds: Vec<u64> = cell.runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "memory in MiB is far below 2^52")]
fn mebibytes(run: &Record) -> f64 {
    run.peak_memory_mib as f64
}

const INTO_TEXT: &str = "writing into a string does not fail";
