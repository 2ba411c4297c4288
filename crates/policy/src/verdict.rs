//! What holds of a finished assignment: ground instances of a policy's statements.

use placement::ix::{ActorIx, UnitIx};
use serde::{Deserialize, Serialize};

/// An argument of a ground instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Argument {
    /// An actor.
    #[serde(rename = "a")]
    Actor(ActorIx),
    /// A unit.
    #[serde(rename = "u")]
    Unit(UnitIx),
    /// Any other string.
    #[serde(rename = "t")]
    Text(String),
    /// A number.
    #[serde(rename = "n")]
    Number(i32),
    /// Any other term, as clingo writes it.
    #[serde(rename = "o")]
    Other(String),
}

/// A ground instance of a statement: the statement's position, and the values of its variables.
pub type Instance = (usize, Vec<Argument>);

/// What the policy says of an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Instances of constraints that are broken.
    pub violated: Vec<Instance>,
    /// What is to be paid, for each tuple of weak constraints once.
    pub penalties: Vec<Argument>,
    /// What follows from facts alone and is broken, with the statement that says so, as clingo writes it.
    #[serde(default)]
    pub broken: Vec<(usize, String)>,
    /// What follows from facts alone and cannot be broken: the statement that says so, its word, and what it says.
    #[serde(default)]
    pub concluded: Vec<(usize, String, Vec<Argument>)>,
}
