//! Neighbourhoods: single moves and swaps, compound moves, ejection, and load balancing.

pub(crate) mod compound;
pub(crate) mod ejection;
pub(crate) mod load_balancing;
pub(crate) mod proposal;
pub(crate) mod rejections;
