//! Results as Markdown, ratios to the best known first.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::cells::{INTO_TEXT, best, budgets, held, in_order, outcome, vector};
use super::summary::ratio;
use super::{Cell, Record, Summary, comparisons};

/// One table of ratios per budget, with instances as rows and strategies as columns; then all cells in full.
///
/// All rows are of one commit, which is named if known.
pub fn markdown(summaries: &[Summary], commit: &str) -> String {
    let mut text = String::from("# Plan quality by strategy and instance\n");
    if !commit.is_empty() {
        writeln!(text, "\nCommit `{commit}`; rows of other commits are omitted.").expect(INTO_TEXT);
    }
    text.push_str(
        "\nEach cell is the ratio to the best known value (1 = best known) on the first level of the objective that differs, the median over the \
         seeds (¹: one seed). The level is named where it is not the first one with a best value above 0; where the best value is 0, the level \
         and its value stand alone. Every solution is checked and its cost recomputed by `placement`.\n",
    );
    if summaries
        .iter()
        .flat_map(|summary| &summary.cells)
        .flat_map(|cell| &cell.runs)
        .any(|run| run.by_processor)
    {
        text.push_str("\nBudgets are CPU time: what two cores deliver in that many seconds.\n");
    }
    let strategies = in_order(summaries, |cell| cell.strategy.clone());
    for budget in budgets(summaries) {
        let (names, rules) = (strategies.join(" | "), "---:|".repeat(strategies.len()));
        write!(text, "\n## {budget} s\n\n| instance | best known | {names} |\n|---|---:|{rules}\n")
            .expect(INTO_TEXT);
        for summary in summaries.iter().filter(|s| s.cells.iter().any(|c| same(c.budget_seconds, budget))) {
            write!(text, "| {} | {} |", summary.instance, best(summary)).expect(INTO_TEXT);
            for strategy in &strategies {
                let outcome =
                    summary.cell(strategy, budget).map_or("–".to_owned(), |cell| outcome(summary, cell));
                write!(text, " {outcome} |").expect(INTO_TEXT);
            }
            text.push('\n');
        }
    }
    comparisons::time(&mut text, summaries);
    comparisons::more_time(&mut text, summaries);
    comparisons::before(&mut text, summaries);
    comparisons::parts(&mut text, summaries);
    bounds(&mut text, summaries);
    details(&mut text, summaries);
    text
}

fn same(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq()
}

fn bounds(text: &mut String, summaries: &[Summary]) {
    let bounded: Vec<_> = summaries.iter().filter_map(|s| Some((s, s.bound?, s.deciding_level()?))).collect();
    if bounded.is_empty() {
        return;
    }
    text.push_str("\n## Proven lower bounds\n\n| instance | level | best known | bound | bound / best |\n|---|---|---:|---:|---:|\n");
    for (summary, bound, level) in bounded {
        let (name, key, best) = (&summary.instance, &summary.levels[level], summary.best[level]);
        writeln!(text, "| {name} | {key} | {best} | {bound} | {:.4} |", ratio(bound, best)).expect(INTO_TEXT);
    }
}

fn details(text: &mut String, summaries: &[Summary]) {
    text.push_str(
        "\n## All runs\n\nMedian, best and worst ratio over the seeds; objective of the median run; maximum of wall clock, of its part for the \
         check by clingo, of the overrun, of CPU time (children included) and of memory (the process plus its largest child). What clingo \
         judged of the plans (`judged`).\n\
         \\*: the best known value was found by a run of this table. ✓: proven optimal by every run, and what proved it (`provenBy`).\n\n\
         | ratio | instance | strategy | budget s | seeds | best | worst | objective | unmoved | wall s | check s | judged | overrun s | CPU s | MiB |\n\
         |---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|\n",
    );
    for summary in summaries {
        for cell in &summary.cells {
            let median = cell.median();
            let ends = [&cell.runs[0], &cell.runs[cell.runs.len() - 1]].map(|run| held(summary, run));
            let values = median.problem.clone().unwrap_or_else(|| vector(&median.vector));
            let stay = median.stay.map_or("–".to_owned(), |stay| format!("{:.0} %", stay * 100.0));
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {values} | {stay} | {:.2} | {:.2} | {} | {:.3} | {:.2} | {:.0} |",
                outcome(summary, cell),
                summary.instance,
                cell.strategy,
                cell.budget_seconds,
                seeds(cell),
                ends[0],
                ends[1],
                cell.most(|run| run.wall_seconds),
                cell.most(|run| run.judged_seconds),
                verdicts(cell),
                cell.most(Record::overshoot_seconds),
                cell.most(|run| run.cpu_seconds),
                cell.most(mebibytes),
            )
            .expect(INTO_TEXT);
        }
    }
}

/// What clingo judged of the plans of a cell.
fn verdicts(cell: &Cell) -> String {
    let said: BTreeSet<&str> =
        cell.runs.iter().map(|run| run.judged.as_str()).filter(|said| !said.is_empty()).collect();
    if said.is_empty() { "–".to_owned() } else { said.into_iter().collect::<Vec<_>>().join(", ") }
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
