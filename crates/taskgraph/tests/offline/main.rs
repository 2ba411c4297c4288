//! Mappers from outside: the worked examples of the papers, brute force, and what must always hold.

mod annealing;
mod semi_static;
