//! `annoyance`: drag of separated pairs.

use super::drags::{DragSum, Drags};

/// Σ drag of annoyance pairs on different units (APO III-C, M3).
pub(super) struct Annoyance;

impl Drags for Annoyance {
    const SUM: DragSum = DragSum {
        of_file: |file| &mut file.annoyance,
        of_channel: Some(|channel| &mut channel.drag),
        of_edge: |edge| edge.annoyance,
        of_pairs: |pairs| pairs.apart,
        most: |amounts| amounts.edges.1,
        fact: "mutual_annoyance",
        program: include_str!("../../../../policies/annoyance.lp"),
    };
}
