//! From a file to a world: read, checked, indexed.

use std::sync::Arc;

use crate::channels::{Channels, MOST_PAIRS};
use crate::check::{check, check_pairs};
use crate::file::SnapshotFile;
use crate::problem::Problem;
use crate::{
    Derived, Lifted, Objectives, Rules, Snapshot, SnapshotError, Strict, channels, constraints, others,
};

impl Snapshot {
    /// Reads a snapshot file.
    ///
    /// # Errors
    /// What is not JSON, has an unknown field, a list for an object, a key that is given twice, a name that does not exist, or a
    /// number out of range.
    pub fn read(json: &str) -> Result<Self, SnapshotError> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let file: SnapshotFile = serde_path_to_error::deserialize(Strict(&mut reader)).map_err(|e| {
            SnapshotError::new(whole_if_empty(&e.path().to_string()), plain(&e.inner().to_string()))
        })?;
        reader.end().map_err(|e| SnapshotError::new(".", e.to_string()))?;
        Self::new(file)
    }

    /// Checks and indexes plain data. Actors that units sum up are listed behind the others, as one for each
    /// unit.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn new(file: SnapshotFile) -> Result<Self, SnapshotError> {
        Self::with_most_pairs(file, MOST_PAIRS)
    }

    /// The same with channels between groups written out as pairs up to so many instead of [`MOST_PAIRS`].
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn with_most_pairs(file: SnapshotFile, most_pairs: usize) -> Result<Self, SnapshotError> {
        Self::made(file, most_pairs, None)
    }

    /// The same world in other numbers. What runs is not asked anew what it breaks: those limits are left to the rules, which
    /// are this world's.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn in_numbers(&self, file: SnapshotFile, rules: Option<Rules>) -> Result<Self, SnapshotError> {
        Ok(Self::made(file, MOST_PAIRS, Some(self.problem.lifted.clone()))?.with_rules(rules))
    }

    /// This world with fewer actors, or with fewer limits, of whose constraints it keeps those at these positions, ascending. What
    /// is broken already is left to this world's rules, which who asks must follow.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn reduced(&self, file: SnapshotFile, kept: &[usize]) -> Result<Self, SnapshotError> {
        Self::made(file, MOST_PAIRS, Some(self.problem.lifted.renumbered(kept)))
    }

    fn made(mut file: SnapshotFile, most_pairs: usize, known: Option<Lifted>) -> Result<Self, SnapshotError> {
        let is_made = known.is_some();
        others::list(&mut file)?;
        let objectives =
            Objectives::of(&file).map_err(|problem| SnapshotError::new("objectives", problem))?;
        channels::check(&file)?;
        let channels = Channels::new(&file, most_pairs);
        check_pairs(&channels, &objectives, most_pairs)?;
        check(&file, &objectives, &channels)?;
        let enter = |file: &SnapshotFile, problem: &mut Problem| {
            constraints::enter(file, problem);
            constraints::lift(known, file, problem);
        };
        let problem = Problem::new(&file, &objectives, channels, enter);
        let written = (!is_made).then(|| constraints::write_out(&file, &problem, false));
        Ok(Self::of(file, objectives, problem, written))
    }

    /// The same world under a policy's rules, or without any, where limits that what runs breaks already speak of every unit,
    /// as if everybody could be there: for questions about what would be without other limits. One that takes too many literals
    /// so speaks of open places alone.
    #[must_use]
    pub fn with_rules_everywhere(mut self, rules: Option<Rules>) -> Self {
        if self.written.as_ref().is_some_and(|written| !written.is_empty()) {
            self.written = Some(Arc::new(constraints::write_out(self.file(), &self.problem, true)));
        }
        self.with_rules(rules)
    }

    /// The same world with what a policy derived from it.
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

/// A field may be called nothing at all: what is wrong with it is wrong with the file.
fn whole_if_empty(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// What serde says, in words for people who do not write Rust.
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
