//! Why a snapshot is refused.

/// The largest number, and the largest sum, that a snapshot may hold: 2^53, exact in every JSON reader.
pub const LARGEST: u64 = 1 << 53;

/// Why a snapshot is refused: where in the file, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct SnapshotError {
    /// The place, as in `units[0].capacity`; `.` is the whole file.
    pub path: String,
    /// What is wrong, and how to fix it.
    pub problem: String,
}

impl SnapshotError {
    pub(crate) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

/// Refuses a number that not every JSON reader represents exactly.
pub(crate) fn fits(path: &dyn Fn() -> String, value: u64) -> Result<(), SnapshotError> {
    if value <= LARGEST {
        return Ok(());
    }
    Err(SnapshotError::new(path(), format!("{value} is above 2^53; use a smaller number or a coarser unit")))
}

/// A number of a checked file as a signed integer.
pub(crate) fn number(given: u64) -> i64 {
    i64::try_from(given).expect("numbers above 2^53 are refused on input")
}
