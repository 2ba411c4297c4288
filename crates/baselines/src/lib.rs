//! Baselines from elsewhere behind the placement seam, and what compares strategies on instances.
//!
//! [`strategies`] are [`Strategy`](placement::Strategy)s that Cairn's own have to beat: they get the same snapshot, the
//! same budget and the same checker. [`bench`] runs strategies on instances and writes what came out as JSON lines,
//! Markdown and SVG; [`acceptance`] measures what is asked of the search and of its reasons. The program
//! `bench-placement` is their command line.
//!
//! Neither the operator nor `kubectl-cairn` uses this crate.

pub mod acceptance;
pub mod bench;
pub mod strategies;
