//! Graphs, platforms and profiles, by name and seed: those of the papers, and random ones like theirs.

pub mod cedr;
