//! Tests of decisions: why a plan is due, what moves, and the actions that carry it out.

mod actions;
mod commit;
mod due;
mod gain;
mod place_one;
mod start;
mod worlds;
