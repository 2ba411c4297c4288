//! The model of a placement: everything that a search, a proof and an explanation stand on; it searches nothing.
//!
//! A [`Snapshot`] is one world: computing units, actors, messages, limits, what runs where now. A [`Strategy`]
//! proposes an [`Assignment`]; [`Snapshot::violations`] judges it; [`cost`](Snapshot::cost) prices it;
//! [`plan()`] joins the three and says what to move.
//!
//! Nothing here does I/O, reads a clock, or draws entropy: the same input, seed and effort give the same plan.

mod check;
mod checker;
mod constraint;
mod cost;
pub mod criteria;
pub mod file;
pub mod ix;
mod judge;
mod levels;
mod objectives;
mod plan;
mod power;
pub mod problem;
pub mod room;
mod rules;
mod snapshot;
mod state;
mod strategy;
mod sums;
mod symmetry;
pub mod weighted;

pub use check::{LARGEST, MOST_ACTORS, MOST_EDGES, SnapshotError};
pub use checker::{Rule, Violation};
pub use cost::Cost;
pub use criteria::Criterion;
pub use judge::{Derived, Judge, JudgeError, Judgement, NoPolicy};
pub use objectives::Objectives;
pub use plan::{Holds, Move, Plan, PlanError, Unplaced, plan};
pub use power::PowerCap;
pub use problem::{Edge, Implementation, Problem};
pub use rules::{Demand, GroundRule, Rules, Ruling};
pub use snapshot::{Assignment, Snapshot};
pub use state::{Counts, State};
pub use strategy::{Answer, Budget, SolveError, Stage, StoppedBy, Strategy};
pub use symmetry::symmetry_classes;
