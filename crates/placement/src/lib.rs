//! The placement model on which search, proofs and explanations are built; it does not search.
//!
//! A [`Snapshot`] has computing units, actors, messages, limits, and current placements. A [`Strategy`]
//! proposes an [`Assignment`]; [`Snapshot::violations`] checks it; [`cost`](Snapshot::cost) prices it;
//! [`plan()`] combines the three and lists the moves.
//!
//! The crate does no I/O and reads neither clock nor entropy: equal input, seed and effort give equal plans.

mod assignment;
pub mod channels;
mod check;
mod checked;
mod checker;
mod checker_index;
mod common_factor;
mod constraint;
pub mod constraints;
mod cost;
mod counts;
pub mod criteria;
mod criterion;
mod derived;
mod error;
mod excused_circuit;
pub mod file;
pub mod group_costs;
pub mod ix;
mod judge;
mod levels;
mod names;
mod objectives;
mod others;
mod paths;
mod plan;
mod power;
pub mod problem;
mod read;
pub mod room;
mod rule_circuit;
mod rule_evaluator;
mod rules;
mod snapshot;
mod state;
mod strategy;
mod strict;
mod sums;
mod suspended_limits;
mod symmetry;
mod tally;
pub mod weighted;

pub use assignment::Assignment;
pub use channels::MOST_PAIRS;
pub use check::{MOST_ACTORS, MOST_EDGES};
pub use checked::{Rule, Violation};
pub use cost::Cost;
pub use counts::Counts;
pub use criterion::Criterion;
pub use derived::Derived;
pub use error::{LARGEST, SnapshotError};
pub use judge::{Judge, JudgeError, Judged, Judgement, NoPolicy};
pub use objectives::Objectives;
pub use plan::{Excused, Holds, Move, Plan, PlanError, Unplaced, plan};
pub use problem::{Edge, Implementation, PowerCap, Problem};
pub use rule_evaluator::RuleEvaluator;
pub use rules::{GrandfatheredViolation, GroundConstraint, GroundRule, Rules};
pub use snapshot::Snapshot;
pub use state::State;
pub use strategy::{Answer, Budget, FoundBy, ProvenBy, SolveError, Stage, StoppedBy, Strategy};
pub use strict::Strict;
pub use suspended_limits::{SuspendedLimit, SuspendedLimits};
pub use symmetry::symmetry_classes;
