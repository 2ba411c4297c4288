//! The marginal cost of one more actor of a group on each unit, updated incrementally.

use crate::ix::{ActorIx, EndIx, UnitIx};
use crate::problem::channels::{Channel, Channels};

/// By group and unit: the cost of the group's channels for an actor there, given all other placements.
///
/// A look-up is O(1), an update one step per unit for each channel of the group. The sum over all pairs is ½ Σ n(a,u) ·
/// n(b,v) · c(a,b,u,v) over groups and units, with n the number of a group on a unit; this is its derivative.
#[derive(Clone, Debug)]
pub struct GroupCosts {
    units: usize,
    costs: Vec<i64>,
}

impl GroupCosts {
    /// With no actor placed.
    pub fn new(groups: usize, units: usize) -> Self {
        Self { units, costs: vec![0; groups * units] }
    }

    /// The marginal cost of an actor of the group on the unit.
    #[inline]
    pub fn at(&self, group: EndIx, unit: UnitIx) -> i64 {
        self.costs[group.at() * self.units + unit.at()]
    }

    /// Moves actors of a group with these channels between two units, either of which may be none. `add_row` adds a multiple of the
    /// exchange cost to a unit to each unit's number.
    #[inline]
    pub fn follow(
        &mut self,
        channels: &[Channel],
        many: i64,
        from: UnitIx,
        to: UnitIx,
        add_row: impl Fn(UnitIx, i64, &mut [i64]),
    ) {
        if from == to {
            return;
        }
        for channel in channels {
            let costs = &mut self.costs[channel.peer.at() * self.units..][..self.units];
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
    }
}

/// The cost of an actor's pairs, for constructive heuristics.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSums {
    /// Messages × exchange cost.
    exchanged: GroupCosts,
    /// Drag.
    apart: GroupCosts,
}

impl ChannelSums {
    /// With no actor placed; `None` if edges represent all channels.
    pub fn new(channels: &Channels, units: usize) -> Option<Self> {
        let costs = || GroupCosts::new(channels.of.len(), units);
        channels.are_whole().then(|| Self { exchanged: costs(), apart: costs() })
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
        let of = channels.of_actor(actor);
        let messages: Vec<Channel> = of.iter().map(|channel| Channel { apart: 0, ..*channel }).collect();
        let drags: Vec<Channel> = of.iter().map(|channel| Channel { rate: 0, ..*channel }).collect();
        self.exchanged.follow(&messages, 1, from, to, |place, rate, costs| {
            for (unit, cost) in UnitIx::first(costs.len()).zip(costs) {
                *cost += rate * exchange_cost(place, unit);
            }
        });
        self.apart.follow(&drags, 1, from, to, |_, _, _| {});
    }

    /// The cost of an unplaced actor on a unit: messages × exchange cost, and drag.
    pub fn at(&self, channels: &Channels, actor: ActorIx, unit: UnitIx) -> (i64, i64) {
        let end = channels.end_of.get(actor).copied().unwrap_or(EndIx::NONE);
        if end == EndIx::NONE { (0, 0) } else { (self.exchanged.at(end, unit), self.apart.at(end, unit)) }
    }
}
