//! Tables of the measurements: ratios first, each with its commit.

use std::fmt::Write as _;

use crate::{All, Measured, chart::Bar};

/// The location of a number in a program's output.
#[derive(Clone, Copy)]
enum Reading {
    /// Before the last such unit in the first line that contains these words.
    Before { row: &'static str, line: &'static str, unit: &'static str },
    /// In the table of ping-pong: by bytes and column.
    Column { row: &'static str, bytes: usize, column: usize },
}
use Reading::{Before, Column};

impl Reading {
    fn row(self) -> &'static str {
        let (Before { row, .. } | Column { row, .. }) = self;
        row
    }

    fn of(self, all: &All) -> Option<f64> {
        let output = &all.get(self.row())?.output;
        match self {
            Before { line, unit, .. } => {
                let line = output.iter().find(|output| output.contains(line))?;
                line[..line.rfind(unit)?].rsplit([' ', '(']).next()?.parse().ok()
            }
            Column { bytes, column, .. } => {
                let mut lines = output.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
                let bytes = bytes.to_string();
                lines.find(|line| line.first() == Some(&bytes.as_str()))?.get(column)?.parse().ok()
            }
        }
    }
}

/// A target ratio: numerator and denominator.
struct Ratio {
    what: &'static str,
    wanted: &'static str,
    ours: Reading,
    beside: Reading,
}

const fn median(row: &'static str, line: &'static str) -> Reading {
    Before { row, line, unit: " us" }
}

const fn one_byte(row: &'static str) -> Reading {
    Column { row, bytes: 1, column: 2 }
}

const fn points(row: &'static str) -> Reading {
    Before { row, line: "Instances of", unit: " G points/s" }
}

const fn seconds(row: &'static str) -> Reading {
    Before { row, line: "Instances of", unit: " s, " }
}

const fn copying(row: &'static str) -> Reading {
    Before { row, line: "copying the grid", unit: " G points/s" }
}

const fn task(line: &'static str) -> Reading {
    Before { row: "fibonacci", line, unit: " ms" }
}

const fn images(line: &'static str) -> Reading {
    Before { row: "inference", line, unit: " images a second" }
}

const fn ratio(what: &'static str, wanted: &'static str, ours: Reading, beside: Reading) -> Ratio {
    Ratio { what, wanted, ours, beside }
}

const RATIOS: [Ratio; 17] = [
    ratio(
        "1 byte inside a process, µs ÷ `rtrb`",
        "≤ 2",
        one_byte("ping-pong-inside"),
        median("ping-pong-inside", "rtrb"),
    ),
    ratio(
        "1 byte inside a process, µs ÷ `crossbeam`",
        "",
        one_byte("ping-pong-inside"),
        median("ping-pong-inside", "crossbeam"),
    ),
    ratio(
        "1 byte between processes, µs ÷ Open MPI two-sided",
        "≤ 1",
        one_byte("ping-pong-processes"),
        median("ping-pong-mpi", "two-sided 1 bytes"),
    ),
    ratio(
        "1 byte between processes, µs ÷ Open MPI one-sided",
        "≤ 0.2",
        one_byte("ping-pong-processes"),
        median("ping-pong-mpi", "one-sided 1 bytes"),
    ),
    ratio(
        "1 byte between processes, µs ÷ `iceoryx2`",
        "",
        one_byte("ping-pong-processes"),
        median("ping-pong-iceoryx2", ", 1 bytes"),
    ),
    ratio(
        "1 byte over TCP, µs ÷ blocking TCP",
        "≤ 1.5",
        one_byte("ping-pong-tcp"),
        median("ping-pong-tcp", "blocking TCP"),
    ),
    ratio("Jacobi, 7 points, G points/s ÷ copying the grid", "≥ 0.7", points("jacobi"), copying("jacobi")),
    ratio(
        "Jacobi, 13 points, G points/s ÷ copying the grid",
        "≥ 0.7",
        points("jacobi-far"),
        copying("jacobi-far"),
    ),
    ratio("Jacobi, 7 points, s, 2 processes ÷ 1", "≤ 1.15", seconds("jacobi-2"), seconds("jacobi-1")),
    ratio(
        "Jacobi, 13 points, s, 2 processes ÷ 1",
        "≤ 1.15",
        seconds("jacobi-far-2"),
        seconds("jacobi-far-1"),
    ),
    ratio("Fibonacci, ms, coroutines ÷ threads", "≤ 0.167", task("coroutines "), task("threads ")),
    ratio("Fibonacci, ms, coroutines ÷ `tokio::spawn`", "", task("coroutines "), task("tokio ")),
    ratio(
        "Fibonacci, ms, tracing on ÷ off",
        "≤ 1.15",
        Before { row: "fibonacci-trace", line: "with one", unit: " ms, " },
        Before { row: "fibonacci-trace", line: "without a trace", unit: " ms, with" },
    ),
    ratio(
        "Jacobi, 7 points, s, tracing on ÷ off",
        "≤ 1.01",
        Before { row: "jacobi-trace", line: "with a trace", unit: " and " },
        Before { row: "jacobi-trace", line: "with a trace", unit: " s)" },
    ),
    ratio(
        "Jacobi, 13 points, s, tracing on ÷ off",
        "≤ 1.01",
        Before { row: "jacobi-far-trace", line: "with a trace", unit: " and " },
        Before { row: "jacobi-far-trace", line: "with a trace", unit: " s)" },
    ),
    ratio("Inference, images/s, threads ÷ plain code", "≥ 0.95", images("threads "), images("plain code ")),
    ratio(
        "Inference, images/s, coroutines ÷ plain code",
        "≥ 0.95",
        images("coroutines "),
        images("plain code "),
    ),
];

/// A run of Jacobi's method: its title, its row, and the growth of points divided by that of processors, relative to the
/// first of its group.
type Scaled = (&'static str, &'static str, f64);

/// Strong scaling: the same cube on more workers, relative to the first.
const STRONG: [Scaled; 6] = [
    ("1 process of 1", "jacobi-1-1", 1.0),
    ("1 of 2", "jacobi-1", 2.0),
    ("2 of 1", "jacobi-2", 2.0),
    ("2 of 1, tcp", "jacobi-tcp-2", 2.0),
    ("4 of 1 *", "jacobi-4", 2.0),
    ("8 of 1 *", "jacobi-8", 2.0),
];
const STRONG_FAR: [Scaled; 6] = [
    ("1 process of 1", "jacobi-far-1-1", 1.0),
    ("1 of 2", "jacobi-far-1", 2.0),
    ("2 of 1", "jacobi-far-2", 2.0),
    ("2 of 1, tcp", "jacobi-far-tcp-2", 2.0),
    ("4 of 1 *", "jacobi-far-4", 2.0),
    ("8 of 1 *", "jacobi-far-8", 2.0),
];
const SPLITS: [Scaled; 5] = [
    ("2x1x1", "jacobi-2", 1.0),
    ("1x2x1", "jacobi-2-y", 1.0),
    ("1x1x2", "jacobi-2-z", 1.0),
    ("1x2x2 *", "jacobi-4-yz", 1.0),
    ("2x2x2 *", "jacobi-8-xyz", 1.0),
];
const SPLITS_FAR: [Scaled; 5] = [
    ("2x1x1", "jacobi-far-2", 1.0),
    ("1x2x1", "jacobi-far-2-y", 1.0),
    ("1x1x2", "jacobi-far-2-z", 1.0),
    ("1x2x2 *", "jacobi-far-4-yz", 1.0),
    ("2x2x2 *", "jacobi-far-8-xyz", 1.0),
];
/// Weak scaling: the same number of points per worker.
const WEAK: [Scaled; 3] = [
    ("256³, 1 process of 1", "jacobi-1-1", 1.0),
    ("322³, 2 of 1", "jacobi-weak-2", 2.0),
    ("406³, 4 of 1 *", "jacobi-weak-4", 2.0),
];
const WEAK_FAR: [Scaled; 3] = [
    ("256³, 1 process of 1", "jacobi-far-1-1", 1.0),
    ("322³, 2 of 1", "jacobi-far-weak-2", 2.0),
    ("406³, 4 of 1 *", "jacobi-far-weak-4", 2.0),
];

/// The bars: points per second and processor, relative to the first.
const SCALING: [(&str, &[Scaled]); 6] = [
    ("strong, 256³, 7 points", &STRONG),
    ("strong, 256³, 13 points", &STRONG_FAR),
    ("weak, 7 points", &WEAK),
    ("weak, 13 points", &WEAK_FAR),
    ("splits, 7 points", &SPLITS),
    ("splits, 13 points", &SPLITS_FAR),
];

/// The measured efficiencies, by group.
pub fn scaling(all: &All) -> Vec<(&'static str, Vec<Bar>)> {
    let group = |scaled: &[Scaled]| {
        let first = points(scaled.first()?.1).of(all)?;
        let bars = scaled.iter().filter_map(|(name, row, processors)| {
            Some(Bar { name, value: points(row).of(all)? / first / processors })
        });
        Some(bars.collect())
    };
    SCALING.iter().filter_map(|(title, scaled)| Some((*title, group(scaled)?))).collect()
}

/// All tables and program outputs, without rows that were not measured.
pub fn page(all: &All, list: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let mut page = "# Runtime benchmarks\n\nMade by `make bench-runtime`, which runs the commands of \
                    `crates/runtime/examples/bench.list`. Each row names its commit and the load average; above the thread count of the \
                    program, the machine was shared.\n"
        .to_owned();
    page += "\n## Ratios to baselines\n\n| measured against baseline | ratio | target | measured | baseline | commit |\n|---|---|---|---|---|---|\n";
    for Ratio { what, wanted, ours, beside } in &RATIOS {
        let (Some(one), Some(other)) = (ours.of(all), beside.of(all)) else { continue };
        let commits = commits(all, &[ours.row(), beside.row()]);
        let _ = writeln!(page, "| {what} | {:.3} | {wanted} | {one} | {other} | {commits} |", one / other);
    }
    page += &sizes(all);
    page += "\n## Jacobi: strong and weak scaling, domain splits\n\n![efficiencies](scaling.svg)\n\nEfficiency: points per second \
             and core ÷ those of the first row of the group. *: workers share two cores and count as two.\n\n\
             | setting: processes of workers | efficiency | G points/s | s | split | commit |\n|---|---|---|---|---|---|\n";
    for (title, scaled) in SCALING {
        let first = scaled.first().and_then(|first| points(first.1).of(all));
        for (name, row, processors) in scaled {
            let (Some(first), Some(rate), Some(seconds)) = (first, points(row).of(all), seconds(row).of(all))
            else {
                continue;
            };
            let split =
                all[*row].output.iter().find_map(|line| line.split("split ").nth(1)?.split(' ').next());
            let _ = writeln!(
                page,
                "| {title}: {name} | {:.2} | {rate} | {seconds} | {} | {} |",
                rate / first / processors,
                split.unwrap_or_default(),
                commits(all, &[row])
            );
        }
    }
    page += "\n## Program output\n";
    for (name, command) in list {
        let Some(Measured { commit, processors, load, output, .. }) = all.get(name) else { continue };
        let _ = write!(
            page,
            "\n### {name}\n\n    {command}\n\nAt {commit}, {processors} cores, load {} before and {} after.\n\n```\n{}\n```\n",
            load[0],
            load[1],
            output.join("\n")
        );
    }
    page
}

/// Ping-pong by size, with its baselines.
fn sizes(all: &All) -> String {
    let mut table = "\n## Ping-pong by message size ÷ plain copies, best runs\n\n| bytes | in process, one thread | two threads | \
                     between processes, one thread | two threads | TCP ÷ blocking TCP |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let columns = [
        (["ping-pong-inside", "ping-pong-inside-large"], 7),
        (["ping-pong-inside", "ping-pong-inside-large"], 9),
        (["ping-pong-processes", "ping-pong-processes-large"], 7),
        (["ping-pong-processes", "ping-pong-processes-large"], 9),
        (["ping-pong-tcp", "ping-pong-tcp-large"], 7),
    ];
    for power in 19..=30 {
        let cells = columns.map(|(rows, column)| {
            rows.into_iter().find_map(|row| Column { row, bytes: 1 << power, column }.of(all))
        });
        if cells.iter().any(Option::is_some) {
            let cells = cells.map(|cell| cell.map_or_else(String::new, |cell| format!("{cell:.2}")));
            let size = if power < 20 { "512 KiB".to_owned() } else { format!("{} MiB", 1 << (power - 20)) };
            let _ = writeln!(table, "| {size} | {} |", cells.join(" | "));
        }
    }
    let commits = commits(all, &columns.map(|(rows, _)| rows).concat());
    if commits.is_empty() {
        return String::new();
    }
    let _ = writeln!(table, "\nAt {commits}.");
    table
}

/// The distinct commits and loads of these measurements.
fn commits(all: &All, rows: &[&str]) -> String {
    let label = |row: &Measured| format!("{} (load {:.0})", row.commit, row.load[0]);
    let mut commits: Vec<String> = rows.iter().filter_map(|row| all.get(*row).map(label)).collect();
    commits.dedup();
    commits.join(", ")
}
