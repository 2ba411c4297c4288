//! One suite for each manager, run on every back-end that claims the capability; and the frontends on all of them.

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
