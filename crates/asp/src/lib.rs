//! clingo: a snapshot encoded as facts, the programs of `policies/`, a solver in a process of its own, and the judge.
//!
//! [`Session::ask`] encodes a [`Snapshot`](placement::Snapshot) as facts, adds the rules of `policies/`, and runs clingo in
//! a process of its own. Every model is priced again in exact arithmetic; a difference is an error, and the answer is
//! discarded. Numbers that exceed 32 bits are scaled by [`Scale`]. [`ClingoJudge`] evaluates an administrator's policy on a
//! finished assignment.
//!
//! This is the only crate that links clingo. An executable that uses it calls [`run_child_if_asked`] first in `main`.

mod child;
mod confirm;
mod engine;
mod facts;
mod group_counts;
mod judge;
mod judging_size;
mod policy_client;
mod process;
mod program;
mod ruled;
mod sandbox;
mod scale;
mod session;
mod symmetry;
mod worker;
mod writer;

pub use child::run_child_if_asked;
pub use engine::{Aim, EngineError, Optimum, Outcome, optimum, optimum_approximated};
pub use facts::vector;
pub use judge::{ClingoJudge, TimeLeft};
pub use process::{BoundCommand, JobEnd};
pub use sandbox::Limits;
pub use scale::{Rounding, Scale};
pub use session::{Session, Task, bound};
