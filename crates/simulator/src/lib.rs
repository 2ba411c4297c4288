//! Seeded worlds without a clock, in which the planner that the operator runs can be tried again and again.
//!
//! A [`trace::Trace`] says which task schedules which; a [`config::Config`] says on what units they run. A world
//! ([`world`]) runs the trace window by window and counts what an operator would see. [`experiments`] is the registry of
//! the papers' experiments. The program `cairn-sim` is the command line.

pub mod best_static;
pub mod config;
pub mod dag;
pub mod experiments;
pub mod gamma;
pub mod mean;
pub mod oracle;
pub mod planner;
pub mod platform;
pub mod run;
pub mod strategies;
pub mod trace;
pub mod world;
