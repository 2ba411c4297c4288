//! Edges of items due to channels between whole groups, in the objective's weights.

use std::collections::BTreeMap;

use crate::evaluation::group_costs::GroupCosts;
use crate::ix::{ActorIx, EndIx, ItemIx, IxVec};
use crate::problem::channels::{Channel, Channels};

/// The mean number of edges of an item up to which edges are expanded: published instances have 4 to 5.
const SPARSE: usize = 8;

/// How often an item's cost is queried, at least, for each of its changes.
const ASKED_FOR_A_CHANGE: usize = 8;

/// Group channels that are evaluated without expansion.
#[derive(Clone, Debug)]
pub struct Groups {
    /// By group: its channels.
    pub of: IxVec<EndIx, Vec<Channel>>,
    /// By group: the items with its members, ascending.
    pub items: IxVec<EndIx, Vec<ItemIx>>,
    /// By item: the groups of its actors, ascending, with their numbers.
    shares: IxVec<ItemIx, Vec<(EndIx, i64)>>,
    /// By item: the edges among its own actors, each pair counted at both ends.
    own: IxVec<ItemIx, Channel>,
}

impl Groups {
    /// Whether channels stay unexpanded: there are no edges for them, or visiting units is cheaper than visiting
    /// edges, and the table of costs is small enough.
    pub(super) fn are_worth_while(channels: &Channels, units: usize) -> bool {
        let members: usize = channels.members.iter().map(Vec::len).sum();
        let ends: usize = channels.of.iter().map(Vec::len).sum();
        let ties = 2 * channels.pairs / members.max(1);
        let for_a_change = units * ends.div_ceil(channels.of.len().max(1));
        let is_cheaper = ties > SPARSE && ties * ASKED_FOR_A_CHANGE >= for_a_change;
        channels.are_whole() || is_cheaper && GroupCosts::has_table(channels.of.len(), units)
    }

    /// The channels with these weights of exchange cost and separation.
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

    /// The groups of an item's actors, ascending, with their numbers.
    #[inline]
    pub fn shares(&self, item: ItemIx) -> &[(EndIx, i64)] {
        &self.shares[item]
    }

    /// The edges among the actors of an item, each pair counted at both ends.
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

    /// The total edge between two items.
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
