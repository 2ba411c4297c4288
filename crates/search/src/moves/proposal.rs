//! Random proposals: a target unit for an item, and a peer for it to be with.

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

use crate::model::Model;

/// Of 256 draws: below the first the target is a peer's unit, below the second a unit of the peer's node.
const SAME_UNIT: u32 = 96;
const SAME_NODE: u32 = 192;

impl Model<'_> {
    /// A target for an item: mostly the unit of a peer, or another unit of that node; otherwise any candidate.
    #[inline]
    pub fn proposed_target(
        &self,
        place: &IxVec<ItemIx, UnitIx>,
        item: ItemIx,
        rng: &mut fastrand::Rng,
    ) -> UnitIx {
        let draw = rng.u32(..256);
        if draw < SAME_NODE
            && let Some(peer) = self.proposed_peer(item, draw, rng)
        {
            let at = place[peer];
            if at != NOWHERE {
                if draw < SAME_UNIT {
                    return at;
                }
                let near = &self.units_of_node[self.node_of[at]];
                return near[rng.usize(..near.len())];
            }
        }
        let candidates = self.candidates(item);
        candidates[rng.usize(..candidates.len())]
    }

    /// A random peer of an item, uniformly. Where it has channels between groups, half of the draws follow one, as the
    /// parity of `draw` decides.
    #[inline]
    pub fn proposed_peer(&self, item: ItemIx, draw: u32, rng: &mut fastrand::Rng) -> Option<ItemIx> {
        let ties = self.ties(item);
        if ties.is_empty() || draw.is_multiple_of(2) && self.has_groups(item) {
            return self.proposed_group_peer(item, rng);
        }
        Some(ties[rng.usize(..ties.len())].peer)
    }

    fn proposed_group_peer(&self, item: ItemIx, rng: &mut fastrand::Rng) -> Option<ItemIx> {
        let groups = self.groups.as_ref()?;
        let (end, _) = pick(groups.shares(item), rng)?;
        let channel = pick(&groups.of[*end], rng)?;
        pick(&groups.items[channel.peer], rng).copied()
    }

    /// Whether an item has channels between groups that no tie represents.
    #[inline]
    pub fn has_groups(&self, item: ItemIx) -> bool {
        self.groups.as_ref().is_some_and(|groups| !groups.shares(item).is_empty())
    }
}

fn pick<'a, T>(of: &'a [T], rng: &mut fastrand::Rng) -> Option<&'a T> {
    (!of.is_empty()).then(|| &of[rng.usize(..of.len())])
}
