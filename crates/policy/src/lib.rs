//! The policy language of administrators: parses a text, checks it, and grounds it over the facts of a snapshot.
//!
//! Conclusions from facts alone become constraints of the snapshot. Rules that depend on placements become
//! [`placement::Rules`], a circuit that every strategy evaluates. [`Policy`] is the policy of one snapshot: it derives
//! constraints and builds the question that clingo answers about a finished assignment. clingo is linked by `asp` alone; it
//! reads the policy as printed from our syntax tree, so two independent implementations must agree. docs/reference/policy-language.md is the
//! language reference.

mod aggregates;
mod check;
mod compile;
mod components;
mod derive;
mod domains;
mod effort;
mod facts;
mod fault;
mod ground;
mod join;
mod limits;
mod order;
mod output;
mod parse;
mod program;
mod relation;
mod safety;
mod snapshot;
mod symbols;
mod syntax;
mod term;
mod text;
mod token;
mod verdict;
mod vocabulary;

pub use fault::Fault;
pub use output::GroundBudget;
pub use program::Program;
pub use snapshot::{GroundSize, Policy, Question};
pub use symbols::{actor, string};
pub use verdict::{Argument, Instance, Verdict};
