//! Tests of the index, of units, and of snapshots assembled from small clusters.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

mod assemble;
mod grace;
mod index;
mod measured;
mod noise;
mod ownership;
mod places;
mod pod_requests;
mod refusals;
mod requests;
mod scene;
mod surveillance;
mod unplanned;
