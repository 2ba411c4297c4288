//! Graphs, platforms and profiles, by name and seed: those of the papers, and random ones like theirs.

pub mod annealing;
pub mod cedr;
pub mod published;
pub mod semi_static;
