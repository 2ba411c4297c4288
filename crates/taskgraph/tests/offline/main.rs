//! Mappers from outside: the worked examples of the papers, brute force, and what must always hold.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]
#![expect(clippy::float_cmp, reason = "what is worked out by hand comes out exactly")]

mod annealing;
mod semi_static;
