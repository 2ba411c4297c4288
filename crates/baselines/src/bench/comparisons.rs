//! Comparisons of the report: short and long budgets, earlier and current results, ablations of the search.

use std::fmt::Write;

use super::cells::{INTO_TEXT, best, budgets, held, in_order, outcome, vector};
use super::summary::ratio;
use super::{Cell, Summary};

/// Names of our strategy and of its ablations, and the budgets to compare.
const OURS: &str = "asp";
const WITHOUT: &str = "asp-without-";
const SHORT: f64 = 5.0;
const LONG: f64 = 60.0;

/// Threshold above which a difference is reported.
const NOTABLE: f64 = 0.01;

/// Our short runs compared with our long ones and with the best known.
pub(super) fn time(text: &mut String, summaries: &[Summary]) {
    let both = |summary: &&Summary| [SHORT, LONG].iter().all(|budget| summary.cell(OURS, *budget).is_some());
    let shown: Vec<&Summary> = summaries.iter().filter(both).collect();
    if shown.is_empty() {
        return;
    }
    writeln!(
        text,
        "\n## Anytime: {SHORT} s against {LONG} s\n\nMedian of `{OURS}` in {SHORT} s ÷ median in {LONG} s, on the first level that differs; the best known value of any \
         method and its source; then the objective of each seed.\n\n\
         | {SHORT} s / {LONG} s | instance | best known | found by | {SHORT} s | {LONG} s | each seed, {SHORT} s | each seed, {LONG} s |\n\
         |---:|---|---:|---|---:|---:|---|---|"
    )
    .expect(INTO_TEXT);
    for summary in shown {
        let [short, long] = [SHORT, LONG].map(|budget| summary.cell(OURS, budget).expect("both are there"));
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            over(summary, short, long),
            summary.instance,
            best(summary),
            summary.found_by(),
            outcome(summary, short),
            outcome(summary, long),
            found(short),
            found(long),
        )
        .expect(INTO_TEXT);
    }
}

/// Results by seed over growing budgets, if there are more than two.
///
/// "Worse" counts answers with a larger budget that are worse than one with a smaller budget and the same seed.
pub(super) fn more_time(text: &mut String, summaries: &[Summary]) {
    let mut rows = String::new();
    for summary in summaries {
        let mut cells: Vec<&Cell> = summary.cells.iter().filter(|cell| cell.strategy == OURS).collect();
        cells.sort_by(|a, b| a.budget_seconds.total_cmp(&b.budget_seconds));
        if cells.len() < 3 {
            continue;
        }
        let (mut worse, mut pairs) = (0, 0);
        for (place, longer) in cells.iter().enumerate() {
            for run in &longer.runs {
                let of_seed = |cell: &&Cell| {
                    cell.runs.iter().find(|other| other.seed == run.seed).map(|other| other.vector.clone())
                };
                let shorter = cells[..place].iter().filter_map(of_seed).filter(|vector| !vector.is_empty());
                if let Some(best) = shorter.min() {
                    pairs += 1;
                    worse += usize::from(run.vector.is_empty() || run.vector > best);
                }
            }
        }
        let each =
            cells.iter().map(|cell| format!("{} s: {}", cell.budget_seconds, vector(&cell.median().vector)));
        let each = each.collect::<Vec<_>>().join("; ");
        writeln!(rows, "| {worse} of {pairs} | {} | {each} |", summary.instance).expect(INTO_TEXT);
    }
    if !rows.is_empty() {
        write!(
            text,
            "\n## Monotonicity in the budget\n\nRuns of `{OURS}` that are worse than a run of the same seed with a smaller budget, of all comparable runs; then the medians.\n\n\
             | worse | instance | median by budget |\n|---:|---|---|\n{rows}"
        )
        .expect(INTO_TEXT);
    }
}

/// Our short runs compared with the earlier results in the list of best values.
pub(super) fn before(text: &mut String, summaries: &[Summary]) {
    let mut rows = Vec::new();
    for summary in summaries {
        let (Some(then), Some(level)) = (summary.reached, summary.deciding_level()) else { continue };
        let Some(cell) = summary.cell(OURS, SHORT) else { continue };
        // Without a complete placement, or with a worse higher level, no ratio exists.
        let held = match cell.median().vector.get(level) {
            Some(now) if summary.differing_level(cell.median()).is_none_or(|differs| differs >= level) => {
                format!("{:.4}", ratio(*now, then))
            }
            _ => summary.misses(cell.median()),
        };
        rows.push(format!("| {held} | {} | {then} | {} |", summary.instance, found(cell)));
    }
    if rows.is_empty() {
        return;
    }
    rows.sort();
    writeln!(
        text,
        "\n## Regression against recorded values\n\nMedian of `{OURS}` in {SHORT} s ÷ the value that was recorded before the search was generalised (`reached` in the \
         list of best values).\n\n| ratio | instance | recorded | each seed, {SHORT} s |\n|---:|---|---:|---|\n{}",
        rows.join("\n")
    )
    .expect(INTO_TEXT);
}

/// Ablations: results without one component of the search relative to those with it, if they differ.
pub(super) fn parts(text: &mut String, summaries: &[Summary]) {
    let strategies = in_order(summaries, |cell| cell.strategy.clone());
    let parts: Vec<&str> = strategies.iter().filter_map(|name| name.strip_prefix(WITHOUT)).collect();
    if parts.is_empty() {
        return;
    }
    for budget in budgets(summaries) {
        writeln!(
            text,
            "\n## Ablation in {budget} s\n\nMedian without a component ÷ median of `{OURS}`, on the first level that differs, for instances where the \
             difference is {} % or more.\n\n| component | worse without it on | better without it on |\n|---|---|---|",
            NOTABLE * 100.0
        )
        .expect(INTO_TEXT);
        for part in &parts {
            let [mut earns, mut costs] = [Vec::new(), Vec::new()];
            for summary in summaries {
                let cell = |strategy: &str| summary.cell(strategy, budget);
                let (Some(with), Some(without)) = (cell(OURS), cell(&format!("{WITHOUT}{part}"))) else {
                    continue;
                };
                let pair = against(summary, with);
                let line = format!("{} {}", summary.instance, held(&pair, without.median()));
                // Without a ratio, one of the two is worse: no answer, or a higher value on a level whose best is 0.
                let worse = without.median().vector.is_empty() || without.median().vector > pair.best;
                match pair.ratio(without.median()) {
                    Some(ratio) if (ratio - 1.0).abs() < NOTABLE => {}
                    Some(ratio) if ratio > 1.0 => earns.push(line),
                    None if worse => earns.push(line),
                    Some(_) | None => costs.push(line),
                }
            }
            let [earns, costs] =
                [earns, costs].map(|lines| if lines.is_empty() { "–".to_owned() } else { lines.join(", ") });
            writeln!(text, "| {part} | {earns} | {costs} |").expect(INTO_TEXT);
        }
    }
}

/// Ratio of the medians of two cells.
fn over(summary: &Summary, cell: &Cell, other: &Cell) -> String {
    held(&against(summary, other), cell.median())
}

/// The same instance with the median of a cell as its best value.
fn against(summary: &Summary, cell: &Cell) -> Summary {
    Summary { best: cell.median().vector.clone(), ..summary.clone() }
}

/// The result of each run of a cell, by seed.
fn found(cell: &Cell) -> String {
    let mut runs: Vec<_> = cell.runs.iter().collect();
    runs.sort_by_key(|run| run.seed);
    let outcome = |vector: &[i64]| if vector.is_empty() { "–".to_owned() } else { self::vector(vector) };
    runs.iter().map(|run| outcome(&run.vector)).collect::<Vec<_>>().join(", ")
}
