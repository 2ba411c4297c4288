//! What items have to do with each other by channels between whole groups, in the objective's weights.

use std::collections::BTreeMap;

use crate::channels::{Channel, Channels};
use crate::ix::{ActorIx, EndIx, ItemIx, IxVec};

/// Ties of an item, on average, up to which ties are looked at one by one: published worlds have 4 to 5.
const SPARSE: usize = 8;

/// How often what an item would cost is asked for each time that it changes, or more.
const ASKED_FOR_A_CHANGE: usize = 8;

/// Channels between groups that are weighed whole.
#[derive(Clone, Debug)]
pub struct Groups {
    /// By group: its channels.
    pub of: IxVec<EndIx, Vec<Channel>>,
    /// By group: the items that have actors of it, ascending.
    pub items: IxVec<EndIx, Vec<ItemIx>>,
    /// By item: the groups of its actors, ascending, and how many actors of each.
    shares: IxVec<ItemIx, Vec<(EndIx, i64)>>,
    /// By item: what its actors have to do with each other, each pair counted at both ends.
    own: IxVec<ItemIx, Channel>,
}

impl Groups {
    /// Whether channels are to be weighed whole: no edge stands for them, or looking at units takes less than looking at
    /// edges.
    pub(super) fn are_worth_while(channels: &Channels, units: usize) -> bool {
        let members: usize = channels.members.iter().map(Vec::len).sum();
        let ends: usize = channels.of.iter().map(Vec::len).sum();
        let ties = 2 * channels.pairs / members.max(1);
        let for_a_change = units * ends.div_ceil(channels.of.len().max(1));
        channels.are_whole() || ties > SPARSE && ties * ASKED_FOR_A_CHANGE >= for_a_change
    }

    /// The channels with these weights of exchange cost and of being apart.
    pub(super) fn new(
        channels: &Channels,
        members: &IxVec<ItemIx, Vec<ActorIx>>,
        (rate, apart): (i64, i64),
    ) -> Self {
        let weighed = |channel: &Channel| Channel {
            rate: rate * channel.rate,
            apart: apart * channel.apart,
            ..*channel
        };
        let of: IxVec<EndIx, Vec<Channel>> =
            channels.of.iter().map(|of| of.iter().map(weighed).collect()).collect();
        let mut items: IxVec<EndIx, Vec<ItemIx>> = IxVec::of(Vec::new(), of.len());
        let mut shares: IxVec<ItemIx, Vec<(EndIx, i64)>> = IxVec::new();
        for (item, actors) in members.enumerate() {
            let mut counts: BTreeMap<EndIx, i64> = BTreeMap::new();
            let ends = actors.iter().map(|actor| channels.end_of[*actor]);
            ends.filter(|end| *end != EndIx::NONE).for_each(|end| *counts.entry(end).or_default() += 1);
            for end in counts.keys() {
                items[*end].push(item);
            }
            shares.push(counts.into_iter().collect());
        }
        let mut groups = Self { of, items, shares, own: IxVec::new() };
        groups.own = groups.shares.positions().map(|item| groups.between(item, item)).collect();
        groups
    }

    /// The groups of an item's actors, ascending, and how many actors of each.
    #[inline]
    pub fn shares(&self, item: ItemIx) -> &[(EndIx, i64)] {
        &self.shares[item]
    }

    /// What the actors of an item have to do with each other, each pair counted at both ends.
    #[inline]
    pub fn own(&self, item: ItemIx) -> Channel {
        self.own[item]
    }

    /// The channel between two groups.
    #[inline]
    pub fn channel(&self, a: EndIx, b: EndIx) -> Option<&Channel> {
        let of = &self.of[a];
        of.binary_search_by_key(&b, |channel| channel.peer).ok().map(|at| &of[at])
    }

    /// What the actors of two items have to do with each other.
    #[inline]
    pub fn between(&self, a: ItemIx, b: ItemIx) -> Channel {
        let mut sum = Channel::default();
        for (end, many) in &self.shares[a] {
            for (peer, others) in &self.shares[b] {
                if let Some(channel) = self.channel(*end, *peer) {
                    sum.rate += many * others * channel.rate;
                    sum.apart += many * others * channel.apart;
                }
            }
        }
        sum
    }
}
