//! External baselines behind the placement interface, and programs that compare strategies on instances.
//!
//! [`strategies`] are [`Strategy`](placement::Strategy)s that Cairn's own have to beat: they get the same snapshot, the
//! same budget and the same checker. [`bench`] runs strategies on instances and writes results as JSON lines,
//! Markdown and SVG; [`acceptance`] measures the requirements on search and explanations. The program
//! `bench-placement` is their command line.
//!
//! Neither the operator nor `kubectl-cairn` uses this crate.

pub mod acceptance;
pub mod bench;
pub mod strategies;
