//! What follows from a policy before any actor is placed.

use crate::Rules;
use crate::file::format::Constraint;

/// What a policy says of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    /// What follows from facts alone.
    pub constraints: Vec<Constraint>,
    /// What depends on where actors are, if anything does.
    pub rules: Option<Rules>,
}
