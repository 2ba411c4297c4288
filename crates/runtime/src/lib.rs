//! HiCR's model in Rust: a program gets its managers as traits and names no technology.
//!
//! Five managers make everything else: Instances, topologies, memory slots, copies between them, and executions of
//! functions ([`model`]). [`backends`] make the model true inside a process, between processes of a machine, over TCP, on
//! threads and on stacks of their own. [`frontends`] are libraries on the traits alone: channels, data objects, remote calls,
//! tasks, deployment. The model is that of *HiCR, an Abstract Model for Distributed Heterogeneous Programming*
//! (Martin et al.), to whose sections the documentation points as `hicr.txt`.
//!
//! `docs/reference/runtime.md` is the guide: your first HiCR program.

#![allow(clippy::result_large_err, reason = "what was refused is given back with the error")]

pub mod backends;
pub mod frontends;
pub mod model;
mod sync;

pub use hicr;
pub use model::*;

/// The guide's program is compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/runtime.md")]
struct Guide;
