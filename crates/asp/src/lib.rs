//! clingo: a snapshot as facts, the programs of `policies/`, a solver in a process of its own, and the judge.
//!
//! [`Session::ask`] writes a [`Snapshot`](placement::Snapshot) as facts, adds the rules of `policies/`, and has clingo
//! search in a process of its own. Every model that comes back is priced again in exact arithmetic; a difference is an
//! error, and the answer is not used. Numbers that pass 32 bits are made smaller by [`Scale`]. [`ClingoJudge`] says what
//! an administrator's policy thinks of a finished assignment.
//!
//! This is the only crate that links clingo. An executable that uses it calls [`run_child_if_asked`] first in `main`.

mod ask;
mod child;
mod confirm;
mod crowds;
mod engine;
mod facts;
mod judge;
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
pub use judge::ClingoJudge;
pub use process::{Ended, Wanted};
pub use sandbox::Limits;
pub use scale::{Rounding, Scale};
pub use session::{Session, Task, bound};
