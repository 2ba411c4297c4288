//! Where an item might want to go, and whom it might want to be with: drawn at random.

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

use crate::model::Model;

/// Of 256 draws: with fewer than these an item goes where somebody is whom it is tied to, or near to that.
const THERE: u32 = 96;
const NEAR: u32 = 192;

impl Model<'_> {
    /// A unit for an item: mostly where somebody is whom it is tied to, or another one of that node; else any.
    #[inline]
    pub fn drawn_target(
        &self,
        place: &IxVec<ItemIx, UnitIx>,
        item: ItemIx,
        rng: &mut fastrand::Rng,
    ) -> UnitIx {
        let draw = rng.u32(..256);
        if draw < NEAR
            && let Some(peer) = self.drawn_peer(item, draw, rng)
        {
            let at = place[peer];
            if at != NOWHERE {
                if draw < THERE {
                    return at;
                }
                let near = &self.units_of_node[self.node_of[at]];
                return near[rng.usize(..near.len())];
            }
        }
        let candidates = self.candidates(item);
        candidates[rng.usize(..candidates.len())]
    }

    /// Somebody whom an item is tied to, each as likely as the others; by a channel between groups half of the time where there are
    /// such, as an odd or even `draw` says.
    #[inline]
    pub fn drawn_peer(&self, item: ItemIx, draw: u32, rng: &mut fastrand::Rng) -> Option<ItemIx> {
        let ties = self.ties(item);
        if ties.is_empty() || draw.is_multiple_of(2) && self.has_groups(item) {
            return self.drawn_of_groups(item, rng);
        }
        Some(ties[rng.usize(..ties.len())].peer)
    }

    fn drawn_of_groups(&self, item: ItemIx, rng: &mut fastrand::Rng) -> Option<ItemIx> {
        let groups = self.groups.as_ref()?;
        let (end, _) = one_of(groups.shares(item), rng)?;
        let channel = one_of(&groups.of[*end], rng)?;
        one_of(&groups.items[channel.peer], rng).copied()
    }

    /// Whether an item has channels between groups that no tie stands for.
    #[inline]
    pub fn has_groups(&self, item: ItemIx) -> bool {
        self.groups.as_ref().is_some_and(|groups| !groups.shares(item).is_empty())
    }
}

fn one_of<'a, T>(of: &'a [T], rng: &mut fastrand::Rng) -> Option<&'a T> {
    (!of.is_empty()).then(|| &of[rng.usize(..of.len())])
}
