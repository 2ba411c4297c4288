//! Proven lower bounds beside the best values that are known.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::summary::ratio;

/// What was proven of one instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bounds {
    /// The commit that was measured.
    pub commit: String,
    /// The instance's name.
    pub instance: String,
    /// Wall clock that was given, in seconds.
    pub budget_seconds: f64,
    /// Wall clock that was taken, in seconds.
    pub wall_seconds: f64,
    /// Levels with a bound: the key, the best value that is known, the bound.
    pub levels: Vec<(String, i64, i64)>,
}

impl Bounds {
    /// The table of rows of one commit, the ratio first.
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
