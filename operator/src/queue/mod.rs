//! When work is due.
//!
//! [`workqueue`] runs reconciles, [`triggers`] marks applications that need a new plan, [`retries`] backs off after errors, [`throttle`] limits
//! status writes, and [`solver_slots`] admits searches.

pub mod recheck;
pub mod retries;
pub mod solver_slots;
pub mod throttle;
pub mod triggers;
pub mod uid_tracker;
pub mod workqueue;
