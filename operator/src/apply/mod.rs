//! Apply: brings Instances and pods in line with the Placement.
//!
//! [`reconcile`] is the entry point: it compares the [`observed`] state with the Placement, creates and deletes Instances and
//! [`pods`], evicts pods that move, records the [`moves`], and keeps the resources that the application owns ([`owned`]).

pub mod moves;
pub mod observed;
pub mod owned;
pub mod pods;
pub mod recheck_places;
pub mod reconcile;
pub mod refusals;
pub mod report;
pub mod rollout;
