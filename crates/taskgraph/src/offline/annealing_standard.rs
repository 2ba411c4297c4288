//! The mapper `annealing-standard`: simulated annealing as Orsila et al. describe it.

use super::annealing::{Variant, anneal};
use super::work::mapped;
use crate::cost::{Division, WorkModel};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform};

/// From a random start, one random task at a time to another random processing element (Orsila et al., 2006).
///
/// A piece of effort is [`PIECE`](super::PIECE) moves of single tasks, priced. Without an effort the search goes to
/// its end, and small graphs again until a piece is used up; with one, it begins anew until the effort is used up.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnealingStandard {
    /// Algorithm 1 as it is printed: the current mapping changes only when it is the best so far.
    pub literal: bool,
    /// How vectors are divided.
    pub division: Division,
}

impl Mapper for AnnealingStandard {
    fn name(&self) -> &'static str {
        "annealing-standard"
    }

    fn map(&self, graph: &Graph, platform: &Platform, budget: &Budget) -> Result<Mapped, MapError> {
        let model = WorkModel::new(self.name(), graph, platform, self.division)?;
        Ok(mapped(&model, anneal(&model, Variant::Standard, self.literal, budget)))
    }
}
