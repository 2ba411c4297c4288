//! What is held against each other in the report: little time and much, before and now, with a part of the search and without.

use std::fmt::Write;

use super::cells::{INTO_TEXT, best, budgets, held, in_order, told, vector};
use super::summary::ratio;
use super::{Cell, Summary};

/// Whose runs are ours, what those without a part of it are called, and the budgets that are held against each other.
const OURS: &str = "asp";
const WITHOUT: &str = "asp-without-";
const SHORT: f64 = 5.0;
const LONG: f64 = 60.0;

/// From where on a difference is told.
const TOLD: f64 = 0.01;

/// Our short runs beside our long ones, and what is known of any method.
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
            told(summary, short),
            told(summary, long),
            found(short),
            found(long),
        )
        .expect(INTO_TEXT);
    }
}

/// What each seed finds with ever more time, where there are more than two budgets.
///
/// "Worse" are answers of more time that are worse than one of less, by the same seed.
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

/// Our short runs beside what had been reached when the search was to become general.
pub(super) fn before(text: &mut String, summaries: &[Summary]) {
    let mut rows = Vec::new();
    for summary in summaries {
        let (Some(then), Some(level)) = (summary.reached, summary.deciding_level()) else { continue };
        let Some(cell) = summary.cell(OURS, SHORT) else { continue };
        // Without a placement of all, or with more of what comes above, there is no ratio to be had.
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

/// What the search finds without one of its parts over what it finds with it, where that differs.
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
            TOLD * 100.0
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
                // Where there is no ratio, one of the two has less: no answer, or more on a level where the best is 0.
                let worse = without.median().vector.is_empty() || without.median().vector > pair.best;
                match pair.ratio(without.median()) {
                    Some(ratio) if (ratio - 1.0).abs() < TOLD => {}
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

/// The median of a cell over that of another.
fn over(summary: &Summary, cell: &Cell, other: &Cell) -> String {
    held(&against(summary, other), cell.median())
}

/// The same instance with the median of a cell as its best.
fn against(summary: &Summary, cell: &Cell) -> Summary {
    Summary { best: cell.median().vector.clone(), ..summary.clone() }
}

/// What each run of a cell found, by its seed.
fn found(cell: &Cell) -> String {
    let mut runs: Vec<_> = cell.runs.iter().collect();
    runs.sort_by_key(|run| run.seed);
    let told = |vector: &[i64]| if vector.is_empty() { "–".to_owned() } else { self::vector(vector) };
    runs.iter().map(|run| told(&run.vector)).collect::<Vec<_>>().join(", ")
}
