//! Generators of graphs, platforms and profiles by name and seed: the papers' own, and similar random ones.

pub mod annealing;
pub mod cedr;
pub mod published;
pub mod semi_static;
