//! Test suites per manager on every back-end with the capability, and the frontends on all back-ends.

#![expect(clippy::unwrap_used, reason = "a test")]

mod capabilities;
mod communication;
mod compute;
mod frontends;
mod hosts;
mod instances;
mod losses;
mod memory;
mod misuses;
mod programs;
mod properties;
mod ranks;
mod tasks;
