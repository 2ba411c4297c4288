//! Moves of running actors: how many at once, how failed ones go back, and the record of each with its outcome.

pub mod history;
pub mod limits;
pub mod record;
pub(super) mod revert;
