//! The marginal cost of one more actor of a group on each unit, updated incrementally.

use std::collections::BTreeMap;

use crate::ix::{ActorIx, EndIx, IxVec, UnitIx};
use crate::problem::channels::{Channel, Channels};

/// Costs in a table of groups and units, at most: 32 MB. A search has several of them.
const MOST_COSTS: usize = 1 << 22;

/// By group and unit: the cost of the group's channels for an actor there, given all other placements.
///
/// In a table, a look-up is O(1), an update one step per unit for each channel of the group. The sum over all pairs is ½ Σ n(a,u) ·
/// n(b,v) · c(a,b,u,v) over groups and units, with n the number of a group on a unit; this is its derivative. Where the table would
/// be too large, groups are many and therefore small: only n is kept, and a look-up visits the units of the peers.
#[derive(Clone, Debug)]
pub struct GroupCosts(Form);

#[derive(Clone, Debug)]
enum Form {
    Table { units: usize, costs: Vec<i64> },
    Counts(IxVec<EndIx, BTreeMap<UnitIx, i64>>),
}

impl GroupCosts {
    /// Whether a table of so many groups and units is small enough.
    pub fn has_table(groups: usize, units: usize) -> bool {
        groups.saturating_mul(units) <= MOST_COSTS
    }

    /// With no actor placed.
    pub fn new(groups: usize, units: usize) -> Self {
        Self(if Self::has_table(groups, units) {
            Form::Table { units, costs: vec![0; groups * units] }
        } else {
            Form::Counts(IxVec::of(BTreeMap::new(), groups))
        })
    }

    /// The marginal cost of an actor of the group, which has these channels, on the unit.
    #[inline]
    pub fn at(
        &self,
        (group, channels): (EndIx, &[Channel]),
        unit: UnitIx,
        exchange_cost: impl Fn(UnitIx, UnitIx) -> i64,
    ) -> i64 {
        match &self.0 {
            Form::Table { units, costs } => costs[group.at() * units + unit.at()],
            Form::Counts(counts) => {
                let of_channel = |channel: &Channel| -> i64 {
                    let apart = counts[channel.peer].iter().filter(|(place, _)| **place != unit);
                    let of_place = |(place, many): (&UnitIx, &i64)| {
                        many * (channel.rate * exchange_cost(*place, unit) + channel.apart)
                    };
                    apart.map(of_place).sum()
                };
                channels.iter().map(of_channel).sum()
            }
        }
    }

    /// Moves actors of a group with these channels between two units, either of which may be none. `add_row` adds a multiple of the
    /// exchange cost to a unit to each unit's number.
    #[inline]
    pub fn follow(
        &mut self,
        (group, channels): (EndIx, &[Channel]),
        many: i64,
        (from, to): (UnitIx, UnitIx),
        add_row: impl Fn(UnitIx, i64, &mut [i64]),
    ) {
        if from == to {
            return;
        }
        match &mut self.0 {
            Form::Table { units, costs } => {
                for channel in channels {
                    let costs = &mut costs[channel.peer.at() * *units..][..*units];
                    follow_channel(channel, many, (from, to), costs, &add_row);
                }
            }
            Form::Counts(counts) => {
                let counts = &mut counts[group];
                for (place, many) in
                    [(from, -many), (to, many)].into_iter().filter(|(at, _)| *at != UnitIx::NONE)
                {
                    let count = counts.entry(place).or_default();
                    *count += many;
                    if *count == 0 {
                        counts.remove(&place);
                    }
                }
            }
        }
    }
}

/// Updates what an actor at the other end of a channel would cost on each unit.
#[inline]
fn follow_channel(
    channel: &Channel,
    many: i64,
    (from, to): (UnitIx, UnitIx),
    costs: &mut [i64],
    add_row: &impl Fn(UnitIx, i64, &mut [i64]),
) {
    let (rate, apart) = (many * channel.rate, many * channel.apart);
    for (place, sign) in [(from, -1), (to, 1)] {
        if place == UnitIx::NONE {
            continue;
        }
        if rate != 0 {
            add_row(place, sign * rate, costs);
        }
        // Not apart on one unit.
        costs[place.at()] -= sign * apart;
    }
    let came = i64::from(from == UnitIx::NONE) - i64::from(to == UnitIx::NONE);
    if came * apart != 0 {
        for cost in costs.iter_mut() {
            *cost += came * apart;
        }
    }
}

/// The cost of an actor's pairs, for constructive heuristics.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSums {
    /// Messages × exchange cost.
    exchanged: GroupCosts,
    /// Drag.
    apart: GroupCosts,
    units: usize,
}

impl ChannelSums {
    /// With no actor placed; `None` if edges represent all channels.
    pub fn new(channels: &Channels, units: usize) -> Option<Self> {
        let costs = || GroupCosts::new(channels.of.len(), units);
        channels.are_whole().then(|| Self { exchanged: costs(), apart: costs(), units })
    }

    /// Moves an actor.
    pub fn follow(
        &mut self,
        channels: &Channels,
        actor: ActorIx,
        from: UnitIx,
        to: UnitIx,
        exchange_cost: impl Fn(UnitIx, UnitIx) -> i64,
    ) {
        let end = channels.end_of.get(actor).copied().unwrap_or(EndIx::NONE);
        if end == EndIx::NONE {
            return;
        }
        let (messages, drags) = parts(channels, end);
        self.exchanged.follow((end, &messages), 1, (from, to), |place, rate, costs| {
            for (unit, cost) in UnitIx::first(costs.len()).zip(costs) {
                *cost += rate * exchange_cost(place, unit);
            }
        });
        self.apart.follow((end, &drags), 1, (from, to), |_, _, _| {});
    }

    /// The cost of an unplaced actor on a unit: messages × exchange cost, and drag.
    pub fn at(
        &self,
        channels: &Channels,
        actor: ActorIx,
        unit: UnitIx,
        exchange_cost: impl Fn(UnitIx, UnitIx) -> i64,
    ) -> (i64, i64) {
        let end = channels.end_of.get(actor).copied().unwrap_or(EndIx::NONE);
        if end == EndIx::NONE {
            return (0, 0);
        }
        // A table needs no channels.
        let has_table = GroupCosts::has_table(channels.of.len(), self.units);
        let (messages, drags) = if has_table { Default::default() } else { parts(channels, end) };
        let exchanged = self.exchanged.at((end, &messages), unit, exchange_cost);
        (exchanged, self.apart.at((end, &drags), unit, |_, _| 0))
    }
}

/// The channels of a group, messages and drags apart.
fn parts(channels: &Channels, end: EndIx) -> (Vec<Channel>, Vec<Channel>) {
    let of = channels.of[end].iter();
    let messages = of.clone().map(|channel| Channel { apart: 0, ..*channel }).collect();
    (messages, of.map(|channel| Channel { rate: 0, ..*channel }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random moves between a few units, and into and out of them: without a table, each group costs as much on each unit.
    #[test]
    fn counts_cost_as_much_as_a_table() {
        const GROUPS: usize = 5;
        const UNITS: usize = 9;
        // Groups of a file with many units.
        let many = MOST_COSTS / GROUPS + 1;
        assert!(GroupCosts::has_table(GROUPS, UNITS) && !GroupCosts::has_table(GROUPS, many));
        let exchange_cost = |a: UnitIx, b: UnitIx| i64::from(a.raw().abs_diff(b.raw()));
        let mut not_zero = 0;
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut channels: IxVec<EndIx, Vec<Channel>> = IxVec::of(Vec::new(), GROUPS);
            for (a, b) in (0..GROUPS).flat_map(|a| (a..GROUPS).map(move |b| (a, b))) {
                if rng.bool() {
                    continue;
                }
                let (rate, apart) = (rng.i64(0..4), rng.i64(0..4));
                let [a, b] = [a, b].map(EndIx::new);
                channels[a].push(Channel { peer: b, rate, apart });
                if a != b {
                    channels[b].push(Channel { peer: a, rate, apart });
                }
            }
            let mut both = [GroupCosts::new(GROUPS, UNITS), GroupCosts::new(GROUPS, many)];
            let mut placed: Vec<(EndIx, UnitIx)> = Vec::new();
            for _ in 0..60 {
                let to = [UnitIx::NONE, UnitIx::new(rng.usize(..UNITS))][rng.usize(..2)];
                let (end, from) = if rng.bool() && !placed.is_empty() {
                    placed.swap_remove(rng.usize(..placed.len()))
                } else {
                    (EndIx::new(rng.usize(..GROUPS)), UnitIx::NONE)
                };
                for costs in &mut both {
                    costs.follow((end, &channels[end]), 1, (from, to), |place, times, row| {
                        let units = UnitIx::first(row.len()).zip(row);
                        units.for_each(|(unit, cost)| *cost += times * exchange_cost(place, unit));
                    });
                }
                placed.extend(Some((end, to)).filter(|_| to != UnitIx::NONE));
                for (end, unit) in
                    EndIx::first(GROUPS).flat_map(|end| UnitIx::first(UNITS).map(move |at| (end, at)))
                {
                    let [table, counts] =
                        both.each_ref().map(|costs| costs.at((end, &channels[end]), unit, exchange_cost));
                    assert_eq!(table, counts, "seed {seed}");
                    not_zero += usize::from(table > 0);
                }
            }
        }
        assert!(not_zero > 10_000, "{not_zero}");
    }
}
