//! Seeded discrete-event simulations, free of wall-clock time, that run the operator's planner reproducibly.
//!
//! A [`trace::Trace`] lists which task schedules which; a [`config::Config`] describes the units. The simulations in
//! [`simulation`] run a trace window by window and count what an operator would observe. [`experiments`] registers the
//! papers' experiments. The program `cairn-sim` is the command line.

pub mod best_static;
pub mod config;
pub mod dag;
pub mod experiments;
pub mod load;
pub mod mean;
pub mod oracle;
pub mod planner;
pub mod platform;
pub mod run;
pub mod simulation;
pub mod strategies;
pub mod trace;
