//! HiCR's model in Rust: programs use managers as traits and are independent of the technology.
//!
//! Five managers create everything else: Instances, topologies, memory slots, copies between them, and executions of
//! functions ([`model`]). [`backends`] implement them within a process, between processes of a machine, over TCP, and on
//! threads or coroutines. [`frontends`] are libraries on the traits alone: channels, data objects, remote calls,
//! tasks, deployment. The model is that of *HiCR, an Abstract Model for Distributed Heterogeneous Programming*
//! (Martin et al.), whose sections are cited as `hicr.txt`.
//!
//! `docs/reference/runtime.md` is the guide: your first HiCR program.

#![allow(clippy::result_large_err, reason = "errors return the rejected value")]

pub mod backends;
pub mod frontends;
pub mod model;
mod sync;

pub use hicr;
pub use model::*;

/// Compiles and runs the guide's program as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/runtime.md")]
struct Guide;
