//! Commit: revalidates a finished plan against the latest snapshot and writes it as a Placement.
//!
//! Plans are made concurrently and committed one at a time, under [`locks`].

pub mod attempts;
pub mod decision;
pub mod elective;
pub mod locks;
pub mod revalidate;
pub mod slow;
pub mod write;
