//! Snapshots of small clusters.
#![expect(clippy::unwrap_used, reason = "a failing read fails the test")]

mod cluster;
mod demand;
mod devices;
mod dra;
mod links;
mod measured;
mod nodes;
mod placements;
mod pods;
mod quotas;
mod reading;
mod templates;
