//! Memory that several threads and processes copy to and from concurrently.
//!
//! This crate contains all `unsafe` code of the runtime behind a safe interface: whatever callers do, copies stay
//! within bounds, racing copies only interleave their bytes, and memory lives as long as it is
//! reachable (`docs/adr/0083-define-racing-copies-with-atomics-and-exclusive-borrows.md`).

mod copy;
mod header;
mod memory;
mod numa;
mod sync;

pub use header::Header;
pub use memory::{Memory, OutOfBounds, Plain, wait_readable};
pub use numa::bind;
