//! The graph of ten nodes: Tables 3, 4 and 5; and mapping times.

use std::fmt::Write as _;
use std::time::Instant;

use taskgraph::Budget;
use taskgraph::cost::{ParallelModel, Vector};
use taskgraph::generate::published::{PROFILE_A, PROFILE_B, Row, Run, TABLE_3, TABLE_4, TABLE_5};
use taskgraph::generate::semi_static::{Shape, platform, shaped, ten_node};
use taskgraph::offline::{Settings, ect, evolve, makespan};
use taskgraph::table::online::{Iteration, Stored, worthwhile};
use taskgraph::table::{Build, build_region};

use super::super::claims::{Claim, claims};
use super::super::setting::{Failure, Setting};
use super::scenario::{RECONFIGURATION, Scenario, Scheme, sum};

/// Totals in the paper: On-Off, ECT, the online genetic algorithm, ideal; and its tables.
const PAPER: [(&str, [f64; 4], &[Row; 21]); 2] = [
    ("A", [1_115_545.0, 1_668_705.0, 1_097_004.0, 1_065_040.0], &TABLE_3),
    ("B", [995_987.0, 1_447_666.0, 947_704.0, 830_460.0], &TABLE_5),
];

/// Tables 3 to 5.
pub fn example(setting: &Setting) -> Result<(), Failure> {
    let (graph, platform) = (ten_node(), platform());
    let build = Build { seed: 1, ..Build::default() };
    let mut scenario = Scenario::new(&graph, &platform, build, Scheme::Samples)?;
    let mut text = String::from(
        "# Ten-node graph (Tables 3 to 5)\n\n| profile | On-Off ÷ GA on-line | paper | ECT ÷ On-Off | paper | On-Off ÷ ideal | paper | remaps On-Off, ECT | paper |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut totals = String::from(
        "\n| profile | On-Off | paper | On-Off, observed | ECT | paper | GA on-line | paper | ideal | paper |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut csv =
        String::from("profile,iteration,on_off,stored,remapped,ect,estimated,ect_remapped,genetic,ideal\n");
    for ((name, paper, rows), profile) in PAPER.into_iter().zip([PROFILE_A, PROFILE_B]) {
        let profile = profile.map(Vector::new);
        let table = scenario.on_off(&profile, RECONFIGURATION, Stored::Table)?;
        let observed = scenario.on_off(&profile, RECONFIGURATION, Stored::Observed)?;
        let quick = scenario.ect(&profile, RECONFIGURATION)?;
        let (online, ideal) = scenario.genetic(&profile, &Settings::default(), 1)?;
        let (ga, best) = (sum(&online), sum(&ideal));
        writeln!(
            text,
            "| {name} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {}, {} | {}, {} |",
            table.total / ga,
            paper[0] / paper[2],
            quick.total / table.total,
            paper[1] / paper[0],
            table.total / best,
            paper[0] / paper[3],
            table.remaps,
            quick.remaps,
            rows.iter().filter(|row| row.on_off.remapped).count(),
            rows.iter().filter(|row| row.ect.remapped).count(),
        )?;
        writeln!(
            totals,
            "| {name} | {:.0} | {} | {:.0} | {:.0} | {} | {ga:.0} | {} | {best:.0} | {} |",
            table.total, paper[0], observed.total, quick.total, paper[1], paper[2], paper[3],
        )?;
        for (number, (ours, theirs)) in table.iterations.iter().zip(&quick.iterations).enumerate() {
            let times = number.checked_sub(1).map(|at| (online[at], ideal[at]));
            let (genetic, ideal) =
                times.map_or_else(Default::default, |(a, b)| (a.to_string(), b.to_string()));
            writeln!(csv, "{name},{number},{},{},{genetic},{ideal}", row(ours), row(theirs))?;
        }
        if setting.progress {
            eprintln!("profile {name}");
        }
    }
    text += &totals;
    let mut repeated = Vec::from(table_4()?);
    repeated.extend(decisions());
    text += &claims(&repeated);
    setting.write("semi-static-example.csv", &csv)?;
    setting.write("semi-static-example.md", &text)
}

fn row(iteration: &Iteration) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    format!("{},{},{}", number(iteration.time), number(iteration.stored), iteration.remapped)
}

/// Deviation of our times and messages from Table 4.
fn table_4() -> Result<[Claim<'static>; 2], Failure> {
    let graph = ten_node();
    let model = ParallelModel::new("table", &graph, &platform(), &Vector::new(PROFILE_A[5]))?;
    let (mut times, mut messages, mut furthest) = (0, 0, 0.0_f64);
    for (tasks, printed) in TABLE_4 {
        for (task, (kind, processors, time)) in tasks.into_iter().enumerate() {
            let apart = (model.time(task, kind, processors) - time).abs();
            furthest = furthest.max(apart);
            times += usize::from(apart <= 1.0);
        }
        for ((at, edge), time) in graph.edges().iter().enumerate().zip(printed) {
            let apart = (model.message(at, tasks[edge.from].0, tasks[edge.to].0) - time).abs();
            furthest = furthest.max(apart);
            messages += usize::from(apart <= 1.0);
        }
    }
    Ok([
        ("times of Table 4, within one unit", "40", format!("{times}; largest deviation {furthest:.2}")),
        ("messages of Table 4, within one unit", "48", format!("{messages}")),
    ])
}

/// How many decisions of Tables 3 and 5 follow from the printed times by the rule, and how many of their totals are the
/// sums of their rows.
fn decisions() -> [Claim<'static>; 2] {
    let runs: [fn(&Row) -> Run; 2] = [|row| row.on_off, |row| row.ect];
    let (mut repeated, mut sums) = (0, 0);
    for (_, totals, rows) in PAPER {
        for (run, printed) in runs.into_iter().zip(totals) {
            // The mapping is always taken before the first iteration, and no decision follows the last.
            let decided = rows[1..rows.len() - 1].iter().map(run);
            repeated += decided
                .filter(|run| worthwhile(run.stored, RECONFIGURATION, run.time) == run.remapped)
                .count();
            let total = rows.iter().map(run);
            let total: f64 =
                total.map(|run| run.time + if run.remapped { RECONFIGURATION } else { 0.0 }).sum();
            sums += usize::from((total - printed).abs() < 0.5);
        }
    }
    [
        ("decisions of Tables 3 and 5 reproduced", "76", repeated.to_string()),
        ("totals of Tables 3 and 5 equal to the sum of their rows", "4", sums.to_string()),
    ]
}

/// Section 5.8.
pub fn time(setting: &Setting) -> Result<(), Failure> {
    let platform = platform();
    let mut text = String::from(
        "# Mapping time (5.8)\n\nWall clock.\n\n| tasks | ECT, ms | one run of the GA, ms | a table entry (100 runs), s |\n|---|---|---|---|\n",
    );
    for size in [10, 50, 100] {
        let graph = shaped(Shape::Random, size, 1)?;
        let model = ParallelModel::new("table", &graph, &platform, &Vector::new(PROFILE_A[0]))?;
        let began = Instant::now();
        for _ in 0..100 {
            std::hint::black_box(makespan(&model, &ect(&model)));
        }
        let quick = began.elapsed().as_secs_f64() * 10.0;
        let began = Instant::now();
        evolve(&model, &Settings { runs: 1, ..Settings::default() }, &[], &Budget::effort(None, 1));
        let run = began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        build_region(&graph, &platform, &Build::default(), [1; 4])?;
        let entry = began.elapsed().as_secs_f64();
        writeln!(text, "| {size} | {quick:.3} | {run:.1} | {entry:.2} |")?;
    }
    text += "\nIn the paper, 100 tasks: ECT 500 ms, a table entry about 10 minutes.\n";
    setting.write("semi-static-time.md", &text)
}

#[cfg(test)]
mod tests {
    use super::{decisions, table_4};

    #[test]
    fn the_papers_tables_are_reproduced() {
        for (claim, paper, ours) in table_4().expect("the graph has a model").into_iter().chain(decisions()) {
            assert_eq!(ours.split(';').next(), Some(paper), "{claim}");
        }
    }
}
