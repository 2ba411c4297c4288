//! Plans against kube-scheduler: what Cairn places binds, and what it leaves out is refused by every node.
//!
//! - [`random`] plans random worlds offline, recreates them on a control plane and compares.
//! - [`large`] compares a large plan with kube-scheduler's own placement.
//! - [`manifests`] runs the installed operator on fixed worlds; [`operator`] checks that it does not evict for a place that is
//!   refused, and [`refused_move`] that a refused move is repeated only after its cause changed.

#![expect(clippy::unwrap_used, reason = "tests")]

mod dra;
mod draw;
mod installed;
mod large;
mod manifests;
mod operator;
mod plan;
#[path = "../product/env/pod_history.rs"]
mod pod_history;
mod pods;
mod random;
mod refused_move;
mod trial;
mod world;

use std::time::Duration;

/// The limit for everything that is waited for, far above the usual time, for busy machines.
pub const TIMEOUT: Duration = Duration::from_mins(3);
