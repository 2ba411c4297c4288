//! The placement model on which search, proofs and explanations are built; it does not search.
//!
//! A [`Snapshot`] has computing units, actors, messages, limits, and current placements. A [`Strategy`]
//! proposes an [`Assignment`]; [`Snapshot::violations`] checks it; [`cost`](Snapshot::cost) prices it;
//! [`plan()`] combines the three and lists the moves.
//!
//! The crate does no I/O and reads neither clock nor entropy: equal input, seed and effort give equal plans.

mod assessment;
mod assignment;
mod checker;
pub mod constraints;
pub mod criteria;
mod criterion;
mod derived;
mod error;
mod evaluation;
pub mod file;
mod idle_moves;
pub mod ix;
mod judge;
mod plan;
pub mod problem;
mod rules;
mod shortened;
mod snapshot;
mod strategy;
pub mod weighted;

pub use assignment::Assignment;
pub use checker::checked::{Rule, Violation};
pub use criterion::Criterion;
pub use derived::Derived;
pub use error::{LARGEST, SnapshotError};
pub use evaluation::cost::Cost;
pub use evaluation::counts::Counts;
pub use evaluation::group_costs;
pub use evaluation::objectives::Objectives;
pub use evaluation::state::State;
pub use file::strict::Strict;
pub use file::validation::{MOST_ACTORS, MOST_EDGES};
pub use judge::{Judge, JudgeError, Judged, Judgement, NoPolicy};
pub use plan::{GrandfatheredActor, Move, Plan, PlanError, ReasonScope, Unplaced, plan};
pub use problem::channels::MOST_PAIRS;
pub use problem::symmetry::symmetry_classes;
pub use problem::{Edge, Implementation, PowerDomains, Problem};
pub use problem::{channels, room};
pub use rules::evaluator::RuleEvaluator;
pub use rules::ground::{GrandfatheredViolation, GroundConstraint, GroundRule, Rules};
pub use rules::suspended_limits::{SuspendedLimit, SuspendedLimits};
pub use shortened::shortened;
pub use snapshot::Snapshot;
pub use strategy::{Answer, Budget, FoundBy, ProvenBy, SolveError, Stage, StoppedBy, Strategy};
