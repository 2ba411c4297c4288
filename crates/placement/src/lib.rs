//! The model of a placement, and every way to find one that is pure Rust.
//!
//! A [`Snapshot`] is one world: computing units, actors, messages, limits, what runs where now. A [`Strategy`]
//! proposes an [`Assignment`]; [`Snapshot::violations`] judges it; [`cost`](Snapshot::cost) prices it;
//! [`plan()`] joins the three and says what to move and why something has no place.
//!
//! Nothing here does I/O, reads a clock, or draws entropy: the same input, seed and effort give the same plan.

mod bundle;
mod check;
mod constraint;
mod cost;
pub mod file;
mod greedy;
mod index;
mod judge;
mod latency;
mod levels;
mod objectives;
mod plan;
mod power;
mod random;
mod reasons;
mod round_robin;
mod rules;
mod search;
mod snapshot;
mod state;
mod strategy;
mod sums;
mod violations;
mod why;

pub use check::{LARGEST, MOST_ACTORS, MOST_EDGES, SnapshotError};
pub use cost::Cost;
pub use greedy::Greedy;
pub use index::{Edge, Implementation};
pub use judge::{Derived, Judge, JudgeError, Judgement, NoPolicy};
pub use objectives::{Criterion, Objectives};
pub use plan::{Move, Plan, PlanError, Unplaced, plan};
pub use power::PowerCap;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use rules::{Demand, GroundRule, Rules, Ruling};
pub use search::{Local, Search, Terrain, improve};
pub use snapshot::{Assignment, Snapshot};
pub use strategy::{Answer, Budget, SolveError, Stage, StoppedBy, Strategy};
pub use violations::{Rule, Violation};
pub use why::{
    Alternative, Binding, Core, Element, Explanation, Holds, Limit, Outcome, REASONS_EFFORT, Relief,
    Whereabouts, WhyNot,
};

/// Every strategy of this crate, in the order in which they are listed to people.
pub fn strategies() -> Vec<Box<dyn Strategy>> {
    vec![Box::new(Greedy), Box::new(Local), Box::new(RoundRobin), Box::new(Random)]
}
