//! Administrators' policies: a text is parsed, checked against a whitelist, and written out over the facts of a snapshot.
//!
//! What follows from facts alone becomes constraints of the snapshot; what depends on where actors are becomes
//! [`placement::Rules`], a circuit that every strategy evaluates. [`Policy`] is the policy of one snapshot: it derives,
//! and says what clingo has to be asked about a finished assignment. clingo itself is in `asp`, which reads the policy,
//! printed anew from its syntax tree: two readings that must agree. docs/reference/policy-language.md says what a policy may say,
//! docs/adr why it is read here.

mod check;
mod choices;
mod compile;
mod derive;
mod facts;
mod fault;
mod ground;
mod join;
mod parse;
mod program;
mod relation;
mod safety;
mod sets;
mod sink;
mod snapshot;
mod symbols;
mod syntax;
mod term;
mod text;
mod token;
mod verdict;
mod vocabulary;

pub use fault::Fault;
pub use program::Program;
pub use sink::GroundBudget;
pub use snapshot::{Policy, Question, Size};
pub use symbols::{actor, string};
pub use verdict::{Argument, Instance, Verdict};
