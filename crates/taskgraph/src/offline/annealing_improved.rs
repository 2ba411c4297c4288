//! The mapper `annealing-improved`: simulated annealing whose moves shrink with the temperature.

use super::annealing::{Variant, anneal};
use super::work::mapped;
use crate::cost::{Division, WorkModel};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform};

/// Starts on one random processing element, moves |V|·T/(T0 - Tf) random tasks at a time, then greedily.
///
/// A unit of effort is [`PIECE`](super::PIECE) evaluated single-task moves, so that equal efforts of both annealers
/// take about equal times. Without an effort limit the search converges, and small graphs restart within the first unit;
/// with a limit it restarts until the effort is used up. An interrupted annealing is followed by its greedy phase too,
/// for at most a tenth of the effort used.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnealingImproved {
    /// Algorithm 1 exactly as printed: the current mapping changes only when it is the best so far.
    pub literal: bool,
    /// How vectors are divided.
    pub division: Division,
}

impl Mapper for AnnealingImproved {
    fn name(&self) -> &'static str {
        "annealing-improved"
    }

    fn map(&self, graph: &Graph, platform: &Platform, budget: &Budget) -> Result<Mapped, MapError> {
        let model = WorkModel::new(self.name(), graph, platform, self.division)?;
        Ok(mapped(&model, anneal(&model, Variant::Improved, self.literal, budget)))
    }
}
