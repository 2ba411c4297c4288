//! Integration tests of mappers: the papers' worked examples, brute force, and properties.

#![expect(clippy::unwrap_used, reason = "tests and their helpers")]
#![expect(clippy::float_cmp, reason = "worked examples are exact")]

mod annealing;
mod semi_static;
