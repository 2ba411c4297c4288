//! The hardware of the node that the agent runs on: who is asked, how, and what becomes of the answers.
//!
//! hwloc says what is there; drivers say more of their devices; [`merge`] makes one topology of it, in which each board
//! is there once; [`fit`] makes it one that the API server takes. None of it can end the agent: what runs foreign
//! code is asked in a [`child`] process.

pub mod changes;
pub mod child;
pub mod fit;
pub mod hwloc;
pub mod merge;
#[allow(dead_code, reason = "what is read of devices and what tells it meet here")]
pub mod reading;

/// The hidden subcommand that looks with hwloc.
pub const PROBE_HWLOC: &str = "probe-hwloc";
