//! The mapper `annealing-improved`: simulated annealing whose moves shrink with the temperature.

use super::annealing::{Variant, anneal};
use super::work::mapped;
use crate::cost::{Division, WorkModel};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform};

/// From everything on one random processing element, |V|·T/(T0 - Tf) random tasks at a time, then greedily.
///
/// A piece of effort is [`PIECE`](super::PIECE) moves of single tasks, priced, so that equal efforts of both annealers
/// are about equal times. Without an effort the search goes to its end, and small graphs again until a piece is used
/// up; with one, it begins anew until the effort is used up. An annealing that is cut short is followed by its greedy
/// phase too, for a tenth of what was spent at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnealingImproved {
    /// Algorithm 1 as it is printed: the current mapping changes only when it is the best so far.
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
