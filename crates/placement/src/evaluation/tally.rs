//! Counts of group members per location, and the cost of group channels from these counts.

use std::collections::BTreeMap;

use crate::criteria::PairSums;
use crate::ix::{ActorIx, IxVec, KindIx, NodeIx, PlaceIx, UnitIx};
use crate::{Assignment, Problem};

/// The locations of a group's actors.
#[derive(Clone, Default)]
struct MemberCounts {
    all: i64,
    kinds: BTreeMap<KindIx, i64>,
    units: BTreeMap<UnitIx, i64>,
    numas: BTreeMap<PlaceIx, i64>,
    nodes: BTreeMap<NodeIx, i64>,
    zones: BTreeMap<PlaceIx, i64>,
    zones_of_nodes: BTreeMap<(NodeIx, PlaceIx), i64>,
}

impl MemberCounts {
    fn count(&mut self, problem: &Problem, unit: UnitIx) {
        let (node, zone) = (problem.unit_node[unit], problem.unit_zone[unit]);
        self.all += 1;
        *self.kinds.entry(problem.unit_kind[unit]).or_default() += 1;
        *self.units.entry(unit).or_default() += 1;
        *self.numas.entry(problem.unit_numa[unit]).or_default() += 1;
        *self.nodes.entry(node).or_default() += 1;
        *self.zones.entry(zone).or_default() += 1;
        *self.zones_of_nodes.entry((node, zone)).or_default() += 1;
    }

    fn on(&self, unit: UnitIx) -> i64 {
        self.units.get(&unit).copied().unwrap_or(0)
    }
}

/// The number of pairs that share a location, given the counts.
fn sharing<K: Ord>(one: &BTreeMap<K, i64>, other: &BTreeMap<K, i64>) -> i64 {
    one.iter().filter_map(|(place, here)| Some(here * other.get(place)?)).sum()
}

/// The number of ordered pairs of actors of two groups on different units.
fn apart(one: &MemberCounts, other: &MemberCounts) -> i64 {
    one.all * other.all - sharing(&one.units, &other.units)
}

/// Σ exchange cost over ordered pairs of actors of two groups, each of which sends at least one message, so that the sum is
/// bounded.
///
/// A cost is a sum over kinds and over differing domains ([`Problem::class_cost`]), so pairs are counted by what they share
/// rather than one by one; costs of single pairs of units are added.
fn exchanged(problem: &Problem, one: &MemberCounts, other: &MemberCounts) -> i64 {
    let both = one.all * other.all;
    let [numas, nodes, zones] = [
        sharing(&one.numas, &other.numas),
        sharing(&one.nodes, &other.nodes),
        sharing(&one.zones, &other.zones),
    ];
    let in_zones_of_nodes = sharing(&one.zones_of_nodes, &other.zones_of_nodes);
    let of_kinds = |(a, here): (&KindIx, &i64)| -> i64 {
        other.kinds.iter().map(|(b, there)| here * there * problem.kind_cost(*a, *b)).sum()
    };
    let on_one_unit = one.units.iter().map(|(unit, here)| {
        let kind = problem.unit_kind[*unit];
        here * other.on(*unit) * problem.kind_cost(kind, kind)
    });
    let added = problem.added_costs();
    let of_classes = one.kinds.iter().map(of_kinds).sum::<i64>() - on_one_unit.sum::<i64>()
        + added.numa * (nodes - numas)
        + added.node * (both - nodes)
        + added.zone * (both - nodes - zones + in_zones_of_nodes);
    let of_pairs = problem.pair_costs().map(|(a, b, cost)| {
        let pairs = one.on(a) * other.on(b) + one.on(b) * other.on(a);
        pairs * (cost - problem.class_cost(a, b))
    });
    of_classes + of_pairs.sum::<i64>()
}

/// The cost of group channels that no edge represents, for the actors that count.
pub(crate) fn channel_sums(
    problem: &Problem,
    assignment: &Assignment,
    counts: impl Fn(ActorIx) -> bool,
) -> PairSums {
    let channels = &problem.channels;
    let mut sums = PairSums::default();
    if channels.is_written_out {
        return sums;
    }
    let mut tallies = IxVec::of(MemberCounts::default(), channels.of.len());
    for (actor, place) in assignment.enumerate().filter(|(actor, _)| counts(*actor)) {
        if let (Some(tally), Some(unit)) = (tallies.get_mut(channels.end_of[actor]), *place) {
            tally.count(problem, unit);
        }
    }
    for (end, of) in channels.of.enumerate() {
        for channel in of.iter().filter(|channel| channel.peer >= end) {
            let (one, other) = (&tallies[end], &tallies[channel.peer]);
            // Within a group each pair occurs in both orders.
            let met = if channel.peer == end { 2 } else { 1 };
            sums.apart += channel.apart * (apart(one, other) / met);
            if channel.rate > 0 {
                sums.exchanged += channel.rate * (exchanged(problem, one, other) / met);
            }
        }
    }
    sums
}
