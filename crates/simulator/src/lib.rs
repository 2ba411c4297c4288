//! Seeded worlds without a clock, in which the planner that the operator runs can be tried again and again.
//!
//! [`experiments`] is the registry of the papers' experiments. The program `cairn-sim` is the command line.

pub mod dag;
pub mod experiments;
