//! `busiest`: the busiest unit, including what its actors send.

use std::collections::{BTreeMap, BTreeSet};

use super::encoding::sum_of_bits;
use super::{
    Amounts, CriterionClass, Encoding, Facts, FileSums, IncrementalTerm, Measure, Placed, SUMS_FIT, Step, add,
};
use crate::evaluation::counts::Counts;
use crate::file::format::SnapshotFile;
use crate::ix::{ActorIx, IxVec, SetIx, UnitIx};
use crate::problem::channels;
use crate::problem::room::Rooms;
use crate::{Edge, Problem, Snapshot};

/// The largest load of a unit, including its actors' messages to other units at their exchange costs, in
/// thousandths of the unit's capacity, rounded up.
pub(super) struct Busiest;

impl Measure for Busiest {
    fn class(&self) -> CriterionClass {
        CriterionClass::NonAdditive
    }

    fn value(&self, placed: &Placed) -> i64 {
        let problem = placed.snapshot.problem();
        let assignment = placed.assignment;
        let mut busy = placed.load.clone();
        for (actor, edges) in problem.edges.enumerate() {
            let Some(here) = assignment[actor] else { continue };
            let sent =
                edges.iter().filter_map(|edge| Some(sending(problem, edge, here, assignment[edge.peer]?)));
            busy[here] = add(busy[here], sent.fold(0, add));
        }
        let full = placed.units().map(|(unit, _)| placed.snapshot.fullness(unit, busy[unit]));
        full.max().unwrap_or(0)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let most = i128::from(amounts.work) + amounts.edges.0 * amounts.message;
        let capacities = amounts.snapshot.problem().capacity.iter().map(|capacity| i128::from(*capacity));
        capacities.map(|capacity| (most * 1000 + capacity - 1) / capacity).max().unwrap_or(0)
    }

    fn largest(&self, file: &SnapshotFile, sums: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let smallest = file.units.iter().map(|unit| unit.capacity).min().unwrap_or(1);
        let messages = file.messages.iter().filter(|message| message.from != message.to);
        let messages: u128 = messages.map(|message| u128::from(message.count)).sum();
        let messages = messages.saturating_add(channels::sums(file).0);
        let most = messages.saturating_mul(sums.message).saturating_add(sums.work);
        Some(("units", "busiest", most.saturating_mul(1000).div_ceil(u128::from(smallest.max(1)))))
    }

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(Busy {
            place: IxVec::of(None, snapshot.actors()),
            to_do: IxVec::of(0, snapshot.units()),
            full: Counts::of(snapshot.units()),
        }))
    }

    fn symmetry_key(&self, snapshot: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        let problem = snapshot.problem();
        vec![
            Some(problem.capacity[unit]),
            Some(rooms.work[unit].left),
            Some(fixed_sends(problem).get(&unit).copied().unwrap_or(0)),
        ]
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let (problem, sends) = (world.problem(), fixed_sends(world.problem()));
        let relevant_units = relevant_units(world);
        facts.exchange_costs = true;
        for &unit in &relevant_units {
            let fixed = world.rooms.fixed_load(problem, unit) + sends.get(&unit).copied().unwrap_or(0);
            facts.weighed.insert(unit);
            facts.say("busy", [unit.into(), problem.capacity[unit].into(), (1000 * fixed).into()]);
        }
        for (actor, edge) in world.open_edges() {
            let back = edge.rate - edge.sent;
            for (from, to, count) in [(actor, edge.peer, edge.sent), (edge.peer, actor, back)] {
                if count > 0 {
                    facts.say("sent", [from.into(), to.into(), count.into()]);
                    facts.say("link", [actor.into(), edge.peer.into()]);
                }
            }
        }
        facts.bits("busy_bit", &[], peak(world, &relevant_units));
    }

    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        sum_of_bits(peak(world, &relevant_units(world)))
    }

    fn most_work(&self, world: &Encoding) -> i64 {
        let (problem, relevant_units) = (world.problem(), relevant_units(world));
        let bits = sum_of_bits(peak(world, &relevant_units));
        let messages = most_sent(world).saturating_mul(2);
        let work = relevant_units.iter().map(|&unit| {
            let busy = world.rooms.most_load(problem, unit).saturating_add(messages);
            busy.saturating_mul(1000).saturating_add(problem.capacity[unit].saturating_mul(bits))
        });
        work.max().unwrap_or(0)
    }

    fn counts_exchange(&self) -> bool {
        true
    }

    fn adds_messages_to_work(&self) -> bool {
        true
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/busiest.lp")
    }
}

/// The cost of an actor's messages on `here` to the other end of an edge.
fn sending(problem: &Problem, edge: &Edge, here: UnitIx, there: UnitIx) -> i64 {
    let price = if here == there { 0 } else { problem.exchange_cost(here, there) };
    edge.sent.checked_mul(price).expect(SUMS_FIT)
}

/// By unit: the cost of messages from its fixed actors to other fixed actors.
fn fixed_sends(problem: &Problem) -> BTreeMap<UnitIx, i64> {
    let mut sends = BTreeMap::new();
    let home = |actor: ActorIx| problem.current[actor].filter(|_| problem.fixed[actor]);
    for (actor, edges) in problem.edges.enumerate() {
        let Some(here) = home(actor) else { continue };
        let there = edges.iter().filter_map(|edge| Some((edge, home(edge.peer)?)));
        let sum = there.map(|(edge, there)| sending(problem, edge, here, there)).fold(0, add);
        *sends.entry(here).or_default() += sum;
    }
    sends
}

/// The units that the program needs: those whose load can change, and the busiest of the others.
fn relevant_units(world: &Encoding) -> Vec<UnitIx> {
    let problem = world.problem();
    // A movable actor counts on all candidates, a fixed one on its unit. Messages count even without work.
    let ends = world.open_edges().flat_map(|(actor, edge)| [actor, edge.peer]);
    let sets: BTreeSet<SetIx> = ends.map(|actor| problem.candidate_set[actor]).collect();
    let homes: BTreeSet<UnitIx> =
        sets.iter().flat_map(|set| &problem.candidate_sets[*set]).copied().collect();
    let (open, others): (Vec<UnitIx>, Vec<UnitIx>) = problem.capacity.positions().partition(|unit| {
        let hosts = world.rooms.work[*unit].wanted > 0 && world.can_host(*unit);
        hosts || homes.contains(unit) && world.can_hold(*unit)
    });
    let sends = fixed_sends(problem);
    let busy = |unit: &UnitIx| {
        let fixed = world.rooms.fixed_load(problem, *unit) + sends.get(unit).copied().unwrap_or(0);
        world.snapshot.fullness(*unit, fixed)
    };
    let most = others.into_iter().max_by_key(busy);
    open.into_iter().chain(most).collect()
}

/// The maximum cost of all messages together.
fn most_sent(world: &Encoding) -> i64 {
    let problem = world.problem();
    let sent = problem.edges.iter().flatten().map(|edge| edge.sent.saturating_mul(world.most_message()));
    sent.fold(0, i64::saturating_add)
}

fn peak(world: &Encoding, relevant_units: &[UnitIx]) -> i64 {
    let (problem, sent) = (world.problem(), most_sent(world));
    let most = |unit: UnitIx| world.rooms.most_load(problem, unit).saturating_add(sent);
    relevant_units.iter().map(|&unit| world.snapshot.fullness(unit, most(unit))).max().unwrap_or(0)
}

/// Placements, the load of every unit, and the number of units with each load, in thousandths of capacity.
#[derive(Clone)]
struct Busy {
    place: IxVec<ActorIx, Option<UnitIx>>,
    to_do: IxVec<UnitIx, i64>,
    full: Counts,
}

impl Busy {
    /// By unit, the change of its load by a step.
    fn changes(&self, problem: &Problem, step: &Step) -> BTreeMap<UnitIx, i64> {
        let mut changes = BTreeMap::from([(step.unit, step.load.1 - step.load.0)]);
        for edge in &problem.edges[step.actor] {
            let Some(there) = self.place[edge.peer].filter(|there| *there != step.unit) else { continue };
            let price = problem.exchange_cost(step.unit, there) * step.sign();
            *changes.entry(step.unit).or_default() += edge.sent * price;
            *changes.entry(there).or_default() += (edge.rate - edge.sent) * price;
        }
        changes.retain(|_, change| *change != 0);
        changes
    }

    /// The unit's load before and after a change, in thousandths of capacity.
    fn of(&self, snapshot: &Snapshot, unit: UnitIx, change: i64) -> (i64, i64) {
        let full = |busy| snapshot.fullness(unit, busy);
        (full(self.to_do[unit]), full(self.to_do[unit] + change))
    }
}

impl IncrementalTerm for Busy {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        for (unit, change) in self.changes(snapshot.problem(), step) {
            let (before, after) = self.of(snapshot, unit, change);
            self.full.change(before, after);
            self.to_do[unit] += change;
        }
        self.place[step.actor] = step.comes.then_some(step.unit);
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.full.most()
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let changes = self.changes(snapshot.problem(), step);
        self.full.most_with(changes.into_iter().map(|(unit, change)| self.of(snapshot, unit, change)))
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}
