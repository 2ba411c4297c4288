//! The mapper `annealing-standard`: simulated annealing by Orsila et al.

use super::annealing::{Variant, anneal};
use super::work::mapped;
use crate::cost::{Division, WorkModel};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform};

/// Starts at random and moves one random task at a time to another random processing element (Orsila et al., 2006).
///
/// A unit of effort is [`PIECE`](super::PIECE) evaluated single-task moves. Without an effort limit the search converges,
/// and small graphs restart within the first unit; with a limit it restarts until the effort is used up.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnealingStandard {
    /// Algorithm 1 exactly as printed: the current mapping changes only when it is the best so far.
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
