//! clingo's verdict on a finished assignment: ground instances of a policy's statements.

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

/// The verdict of a policy on an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Violated instances of constraints.
    pub violated: Vec<Instance>,
    /// The weights of violated weak constraints, once per tuple.
    pub penalties: Vec<Argument>,
    /// Violated conclusions from facts: the statement, and the conclusion in clingo's syntax.
    #[serde(default)]
    pub broken: Vec<(usize, String)>,
    /// Conclusions from facts that cannot be violated: the statement, the predicate and its terms.
    #[serde(default)]
    pub concluded: Vec<(usize, String, Vec<Argument>)>,
}
