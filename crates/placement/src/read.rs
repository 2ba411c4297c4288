//! From a file to a world: read, checked, indexed.

use crate::channels::{Channels, MOST_PAIRS};
use crate::check::{check, check_pairs};
use crate::file::SnapshotFile;
use crate::problem::Problem;
use crate::{Derived, Objectives, Snapshot, SnapshotError, channels, constraints, others};

impl Snapshot {
    /// Reads a snapshot file.
    ///
    /// # Errors
    /// What is not JSON, has an unknown field, a name that does not exist, or a number out of range.
    pub fn read(json: &str) -> Result<Self, SnapshotError> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let file: SnapshotFile = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
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
    pub fn with_most_pairs(mut file: SnapshotFile, most_pairs: usize) -> Result<Self, SnapshotError> {
        others::list(&mut file)?;
        let objectives =
            Objectives::of(&file).map_err(|problem| SnapshotError::new("objectives", problem))?;
        channels::check(&file)?;
        let channels = Channels::new(&file, most_pairs);
        check_pairs(&channels, &objectives, most_pairs)?;
        check(&file, &objectives)?;
        let problem = Problem::new(&file, &objectives, channels, constraints::enter);
        Ok(Self::of(file, objectives, problem))
    }

    /// The same world with what a policy derived from it.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn with_derived(&self, derived: Derived) -> Result<Self, SnapshotError> {
        let mut file = self.file().clone();
        file.constraints.extend(derived.constraints);
        Ok(Self::new(file)?.with_rules(derived.rules))
    }
}

/// A field may be called nothing at all: what is wrong with it is wrong with the file.
fn whole_if_empty(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// What serde says, in words for people who do not write Rust.
fn plain(message: &str) -> String {
    [("expected u64", "expected a whole number from 0 to 2^53"), ("expected a sequence", "expected a list")]
        .iter()
        .fold(message.to_owned(), |message, (theirs, ours)| message.replace(theirs, ours))
}
