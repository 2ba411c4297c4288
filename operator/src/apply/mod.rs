//! Apply: brings Instances and pods in line with the Placement.
//!
//! [`reconcile`] is the entry point: it compares the [`observed`] state with the Placement, creates and deletes Instances and pods,
//! evicts pods that move, and keeps the resources that the application owns.

pub mod device_claims;
pub mod eviction;
pub mod history;
pub mod identity;
pub mod instance_pods;
pub mod move_limits;
pub mod observed;
pub mod owned_resources;
pub mod ownership;
pub mod pods;
pub mod recheck_places;
pub mod reconcile;
pub mod record_moves;
pub mod refusals;
pub mod report;
pub mod revisions;
pub mod rollout;
pub mod way_back;
