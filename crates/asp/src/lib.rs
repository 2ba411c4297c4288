//! Answer Set Programming behind the placement seam: facts, programs, budgets, the sandboxed solver.
//!
//! [`Asp`] is a [`Strategy`](placement::Strategy). It writes a [`Snapshot`](placement::Snapshot) as facts, adds the
//! rules of `policies/`, and has clingo search in a process of its own. Every model that comes back is priced again in
//! exact arithmetic; a difference is an error, and the answer is not used. Small worlds are proven as a whole; large ones
//! are improved by the native search of `placement` and, part by part, by clingo.
//!
//! This is the only crate that links clingo. An executable that uses [`Asp::new`] calls [`run_child_if_asked`] first in
//! `main`.

mod child;
mod criteria;
mod engine;
mod facts;
mod neighbourhood;
mod partial;
mod parting;
mod policy;
mod process;
mod program;
mod room;
mod rounds;
mod ruled;
mod scale;
mod search;
mod slice;
mod strategy;
mod symbols;
mod twins;
mod whole;

pub use child::{Limits, run_child_if_asked};
pub use engine::{EngineError, Optimum, optimum, optimum_approximated};
pub use policy::{ClingoJudge, Fault, GroundBudget, Program, Size};
pub use strategy::Asp;
