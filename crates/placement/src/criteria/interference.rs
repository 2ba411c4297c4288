//! `interference`: drag of pairs that share a unit.

use super::drags::{DragSum, Drags};

/// Σ drag of interference pairs that share a unit.
pub(super) struct Interference;

impl Drags for Interference {
    const SUM: DragSum = DragSum {
        of_file: |file| &mut file.interference,
        of_channel: None,
        of_edge: |edge| edge.interference,
        of_pairs: |pairs| pairs.together,
        most: |amounts| amounts.edges.2,
        fact: "interferes",
        program: include_str!("../../../../policies/interference.lp"),
    };
}
