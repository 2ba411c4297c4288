//! Memory that several threads, and several processes, copy from and to at the same time.
//!
//! Here is the only `unsafe` code of the runtime. Everything that leaves this crate is safe: whatever its callers do,
//! a copy stays inside its bounds, racing copies mix their bytes and do nothing else, and memory lives as long as
//! anybody can reach it. `docs/adr/0083-define-racing-copies-with-atomics-and-exclusive-borrows.md` says how.

mod copy;
mod header;
mod memory;
mod numa;
mod sync;

pub use header::Header;
pub use memory::{Memory, OutOfBounds, Plain, comes_within};
pub use numa::bind;
