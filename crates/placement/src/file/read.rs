//! Reads a snapshot: parses, checks, indexes.

use std::sync::Arc;

use crate::file::constraint_fields::FieldError;
use crate::file::foreign_actors;
use crate::file::format::SnapshotFile;
use crate::file::node_zones;
use crate::file::validation::{check, check_pairs};
use crate::problem::channels::{Channels, MOST_PAIRS};
use crate::problem::dense::Problem;
use crate::{
    Derived, Objectives, Rules, Snapshot, SnapshotError, Strict, SuspendedLimits, channels, constraints,
};

impl Snapshot {
    /// Reads a snapshot file.
    ///
    /// # Errors
    /// Invalid JSON, an unknown field, a list in place of an object, a duplicate key, an unknown name, or a
    /// number out of range.
    pub fn read(json: &str) -> Result<Self, SnapshotError> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let file: SnapshotFile = serde_path_to_error::deserialize(Strict(&mut reader)).map_err(|e| {
            let (path, problem) = FieldError::locate(&e.path().to_string(), &e.inner().to_string());
            SnapshotError::new(whole_if_empty(&path), plain(&problem))
        })?;
        reader.end().map_err(|e| SnapshotError::new(".", e.to_string()))?;
        Self::new(file)
    }

    /// Checks and indexes plain data. Foreign actors that are only listed in total become one actor for each
    /// unit.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn new(file: SnapshotFile) -> Result<Self, SnapshotError> {
        Self::with_most_pairs(file, MOST_PAIRS)
    }

    /// The same with a limit on expanded pairs of group channels other than [`MOST_PAIRS`].
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn with_most_pairs(file: SnapshotFile, most_pairs: usize) -> Result<Self, SnapshotError> {
        Self::made(file, most_pairs, None)
    }

    /// The same snapshot with scaled numbers. Violations of the current placement are not determined again: the suspended limits are
    /// those of this snapshot's rules.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn in_numbers(&self, file: SnapshotFile, rules: Option<Rules>) -> Result<Self, SnapshotError> {
        Ok(Self::made(file, MOST_PAIRS, Some(self.problem.suspended_limits.clone()))?.with_rules(rules))
    }

    /// This snapshot with fewer actors, or with only the constraints at these positions, ascending. Limits that are already violated
    /// are left to this snapshot's rules, which the caller must follow.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn reduced(&self, file: SnapshotFile, kept: &[usize]) -> Result<Self, SnapshotError> {
        Self::made(file, MOST_PAIRS, Some(self.problem.suspended_limits.renumbered(kept)))
    }

    fn made(
        mut file: SnapshotFile,
        most_pairs: usize,
        known: Option<SuspendedLimits>,
    ) -> Result<Self, SnapshotError> {
        let is_made = known.is_some();
        foreign_actors::list(&mut file)?;
        node_zones::fill(&mut file);
        let objectives =
            Objectives::of(&file).map_err(|problem| SnapshotError::new("objectives", problem))?;
        channels::check(&file)?;
        let channels = Channels::new(&file, most_pairs);
        check_pairs(&channels, &objectives, most_pairs)?;
        check(&file, &objectives, &channels)?;
        let enter = |file: &SnapshotFile, problem: &mut Problem| {
            constraints::add_to_problem(file, problem);
            constraints::suspend(known, file, problem);
        };
        let problem = Problem::new(&file, &objectives, channels, enter);
        let written = (!is_made).then(|| constraints::suspended_rules(&file, &problem, false));
        Ok(Self::of(file, objectives, problem, written))
    }

    /// The same snapshot with a policy's rules, or none, in which suspended limits cover every unit, as if every actor could be placed
    /// there: for questions about dropped limits. A limit that would take too many literals covers candidates only.
    #[must_use]
    pub fn with_rules_everywhere(mut self, rules: Option<Rules>) -> Self {
        if self.written.as_ref().is_some_and(|written| !written.is_empty()) {
            self.written = Some(Arc::new(constraints::suspended_rules(self.file(), &self.problem, true)));
        }
        self.with_rules(rules)
    }

    /// The same snapshot with what a policy derived from it.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn with_derived(&self, derived: Derived) -> Result<Self, SnapshotError> {
        let (mut file, count) = (self.file().clone(), derived.constraints.len());
        file.constraints.extend(derived.constraints);
        let mut widened = Self::new(file)?.with_rules(derived.rules);
        widened.derived = self.derived + count;
        Ok(widened)
    }
}

/// A field name may be empty: the problem is then reported for the whole file.
fn whole_if_empty(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// A serde error as a sentence for readers who do not know Rust.
fn plain(message: &str) -> String {
    let twice = message.strip_prefix("duplicate field ").and_then(|rest| rest.split_once(" at line "));
    let message = twice
        .map_or(message.to_owned(), |(field, at)| format!("{field} is given twice; keep one at line {at}"));
    [
        ("expected u64", "expected a whole number from 0 to 2^53"),
        ("expected a sequence", "expected a list"),
        ("invalid type: sequence", "invalid type: list"),
    ]
    .iter()
    .fold(message, |message, (theirs, ours)| message.replace(theirs, ours))
}
