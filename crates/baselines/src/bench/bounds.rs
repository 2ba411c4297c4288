//! Proven lower bounds compared with the best known values.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::summary::ratio;

/// The bounds of one instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    /// The measured commit.
    pub commit: String,
    /// The instance's name.
    pub instance: String,
    /// Time limit in seconds of wall clock.
    pub budget_seconds: f64,
    /// Elapsed seconds of wall clock.
    pub wall_seconds: f64,
    /// Levels with a bound: key, best known value, bound.
    pub levels: Vec<(String, i64, i64)>,
}

impl Bounds {
    /// The table of a commit's rows, the ratio first.
    pub fn markdown(rows: &[Self], commit: &str) -> String {
        let mut text = String::new();
        if !commit.is_empty() {
            write!(
                text,
                "# Proven lower bounds\n\nLower bounds from `bench-placement bound`, deterministic, against the best known values. Commit `{commit}`.\n\n"
            )
            .expect(INTO_TEXT);
        }
        text.push_str("| bound / best | instance | level | best known | bound | wall s | budget s |\n");
        text.push_str("|---:|---|---|---:|---:|---:|---:|\n");
        for row in rows.iter().filter(|row| row.commit == commit) {
            for (level, best, bound) in &row.levels {
                let share = ratio(*bound, *best);
                let Self { instance, wall_seconds, budget_seconds, .. } = row;
                writeln!(
                    text,
                    "| {share:.4} | {instance} | {level} | {best} | {bound} | {wall_seconds:.2} | {budget_seconds} |"
                )
                .expect(INTO_TEXT);
            }
        }
        text
    }
}

const INTO_TEXT: &str = "writing into a string does not fail";
