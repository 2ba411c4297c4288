//! `congestion`: messages above the capacity of links that units share.

use super::encoding::sum_of_bits;
use super::{
    Amounts, CriterionClass, Encoding, Facts, FileSums, IncrementalTerm, Measure, Placed, Step, add,
};
use crate::file::format::SnapshotFile;
use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::problem::channels;
use crate::problem::room::Rooms;
use crate::problem::shared_links::{Lane, SharedLinks};
use crate::{Assignment, Problem, Snapshot};

/// Σ over both directions of all shared links: messages above the capacity.
pub(super) struct Congestion;

impl Measure for Congestion {
    fn class(&self) -> CriterionClass {
        CriterionClass::NonAdditive
    }

    fn value(&self, placed: &Placed) -> i64 {
        let links = &placed.snapshot.problem().shared_links;
        let mut counts = vec![false; links.lanes()];
        let traffic = traffic(placed.snapshot, placed.assignment, |lane, from, to| {
            counts[lane] |= placed.counts(from) || placed.counts(to);
        });
        let counted = traffic.iter().enumerate().filter(|(lane, _)| counts[*lane]);
        counted.map(|(lane, traffic)| above(links, lane, *traffic)).fold(0, add)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let links = &amounts.snapshot.problem().shared_links;
        let behind = |unit| links.sides(unit).map_or(0, |sides| sides.behind.len());
        let most = UnitIx::first(amounts.snapshot.units()).map(behind).max().unwrap_or(0);
        amounts.edges.0 * 2 * i128::from(count(most))
    }

    fn largest(&self, file: &SnapshotFile, _: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let messages = file.messages.iter().filter(|message| message.from != message.to);
        let messages: u128 = messages.map(|message| u128::from(message.count)).sum();
        let most = messages.saturating_add(channels::sums(file).0).saturating_mul(2 * most_of_unit(file));
        Some(("messages", "congestion", most))
    }

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(Traffic {
            place: IxVec::of(None, snapshot.actors()),
            on: vec![0; snapshot.problem().shared_links.lanes()],
            above: 0,
        }))
    }

    // Units on the same sides of the same links, unless some of their messages take another way.
    fn symmetry_key(&self, snapshot: &Snapshot, _: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        let Some(sides) = snapshot.problem().shared_links.sides(unit) else { return Vec::new() };
        let of = |links: &[usize]| links.iter().map(|link| Some(count(*link))).collect::<Vec<_>>();
        let own = sides.has_direct.then(|| i64::from(unit.raw()));
        [of(&sides.behind), vec![None], of(&sides.before), vec![None, own]].concat()
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let problem = world.problem();
        let links = problem.shared_links.links();
        let lanes = binding_lanes(world);
        let mut last = None;
        for &BindingLane { lane, left, peak } in &lanes {
            let (position, link) = (count(lane / 2), &links[lane / 2]);
            facts.say("lane", [position.into(), count(lane % 2).into(), left.into()]);
            facts.bits("over_bit", &[position.into(), count(lane % 2).into()], peak);
            if last.replace(lane / 2) == Some(lane / 2) {
                continue;
            }
            for &unit in link.units.iter().filter(|unit| world.can_hold(**unit)) {
                facts.say("behind", [position.into(), unit.into()]);
            }
            for &unit in link.to.iter().flatten().filter(|unit| world.can_hold(**unit)) {
                facts.say("before", [position.into(), unit.into()]);
            }
            if link.to.is_none() {
                facts.say("before_all", [position.into()]);
            }
            let is_held = |pair: &&(UnitIx, UnitIx)| world.can_hold(pair.0) && world.can_hold(pair.1);
            for &(unit, other) in link.direct.iter().filter(is_held) {
                facts.say("bypass", [position.into(), unit.into(), other.into()]);
            }
        }
        if lanes.is_empty() {
            return;
        }
        for (actor, edge) in world.open_edges() {
            for (from, to, count) in
                [(actor, edge.peer, edge.sent), (edge.peer, actor, edge.rate - edge.sent)]
            {
                if count > 0 {
                    facts.say("sent", [from.into(), to.into(), count.into()]);
                }
            }
        }
    }

    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        let lanes = binding_lanes(world);
        let bits = lanes.iter().map(|lane| sum_of_bits(lane.peak)).fold(0, i64::saturating_add);
        let limit = |lane: &BindingLane| {
            let all = lane.peak.saturating_add(lane.left.saturating_abs().saturating_mul(2));
            all.saturating_add(sum_of_bits(lane.peak))
        };
        lanes.iter().map(limit).fold(bits, i64::max)
    }

    fn counts_messages(&self) -> bool {
        true
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/congestion.lp")
    }
}

/// One direction of a shared link that carries more messages than its capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CongestedLink<'a> {
    /// The id of the link.
    pub id: &'a str,
    /// Whether the messages are sent to its units, otherwise by them.
    pub to_its_units: bool,
    /// Messages per window.
    pub messages: i64,
    /// Messages per window that it can carry.
    pub capacity: i64,
}

/// The congested directions of shared links, whether or not a level names `congestion`.
pub fn congested_links<'a>(snapshot: &'a Snapshot, assignment: &Assignment) -> Vec<CongestedLink<'a>> {
    let links = &snapshot.problem().shared_links;
    let traffic = traffic(snapshot, assignment, |_, _, _| {});
    let congested =
        traffic.into_iter().enumerate().filter(|(lane, messages)| *messages > links.capacity(*lane));
    let link = |(lane, messages): (Lane, i64)| CongestedLink {
        id: &snapshot.file().shared_links[lane / 2].id,
        to_its_units: lane % 2 == 1,
        messages,
        capacity: links.capacity(lane),
    };
    congested.map(link).collect()
}

/// By lane: the messages on it. `visit` is called for each pair of sender and receiver on each lane.
fn traffic(
    snapshot: &Snapshot,
    assignment: &Assignment,
    mut visit: impl FnMut(Lane, ActorIx, ActorIx),
) -> Vec<i64> {
    let problem = snapshot.problem();
    let links = &problem.shared_links;
    let mut traffic = vec![0; links.lanes()];
    for_each_message(problem, |from, to, count| {
        let (Some(here), Some(there)) = (assignment[from], assignment[to]) else { return };
        for lane in links.crossed(here, there) {
            traffic[lane] = add(traffic[lane], count);
            visit(lane, from, to);
        }
    });
    traffic
}

fn above(links: &SharedLinks, lane: Lane, traffic: i64) -> i64 {
    (traffic - links.capacity(lane)).max(0)
}

/// The largest number of links that a unit of an unchecked file is behind.
fn most_of_unit(file: &SnapshotFile) -> u128 {
    let mut of_unit = std::collections::BTreeMap::<&str, u128>::new();
    for unit in file.shared_links.iter().flat_map(|link| &link.units) {
        *of_unit.entry(unit).or_default() += 1;
    }
    of_unit.into_values().max().unwrap_or(0)
}

/// Visits the messages of both directions of each pair of actors: sender, receiver and count.
fn for_each_message(problem: &Problem, mut visit: impl FnMut(ActorIx, ActorIx, i64)) {
    for (actor, edges) in problem.edges.enumerate() {
        for edge in edges.iter().filter(|edge| edge.sent > 0) {
            visit(actor, edge.peer, edge.sent);
        }
    }
}

fn count(of: usize) -> i64 {
    i64::try_from(of).expect("a count of links is small")
}

/// A lane whose capacity can be exceeded.
struct BindingLane {
    lane: Lane,
    /// The capacity less the messages between fixed actors; may be negative.
    left: i64,
    /// The largest number of messages above the capacity.
    peak: i64,
}

fn binding_lanes(world: &Encoding) -> Vec<BindingLane> {
    let problem = world.problem();
    let links = &problem.shared_links;
    if links.is_empty() {
        return Vec::new();
    }
    let mut fixed = vec![0_i64; links.lanes()];
    let mut open = 0_i64;
    for_each_message(problem, |from, to, count| match (problem.fixed_at(from), problem.fixed_at(to)) {
        (Some(here), Some(there)) => {
            links.crossed(here, there).for_each(|lane| fixed[lane] = fixed[lane].saturating_add(count));
        }
        _ => open = open.saturating_add(count),
    });
    let lanes = (0..links.lanes()).map(|lane| {
        let left = links.capacity(lane) - fixed[lane];
        BindingLane { lane, left, peak: open.saturating_sub(left) }
    });
    lanes.filter(|lane| lane.peak > 0).collect()
}

/// Placements, and the messages on each lane.
#[derive(Clone)]
struct Traffic {
    place: IxVec<ActorIx, Option<UnitIx>>,
    on: Vec<i64>,
    /// Σ messages above the capacity.
    above: i64,
}

impl Traffic {
    /// The lanes whose messages a step changes, with the change; a lane may occur several times.
    fn changes(&self, problem: &Problem, step: &Step) -> Vec<(Lane, i64)> {
        let links = &problem.shared_links;
        let mut changes = Vec::new();
        if links.is_empty() {
            return changes;
        }
        for edge in problem.edges[step.actor].iter().filter(|edge| edge.rate > 0) {
            let Some(there) = self.place[edge.peer].filter(|there| *there != step.unit) else { continue };
            let back = edge.rate - edge.sent;
            changes.extend(links.crossed(step.unit, there).map(|lane| (lane, edge.sent * step.sign())));
            changes.extend(links.crossed(there, step.unit).map(|lane| (lane, back * step.sign())));
        }
        changes.sort_unstable_by_key(|(lane, _)| *lane);
        changes.dedup_by(|next, sum| {
            let is_same = next.0 == sum.0;
            sum.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        changes
    }

    /// The change of the sum by changes of lanes.
    fn more(&self, links: &SharedLinks, changes: &[(Lane, i64)]) -> i64 {
        let of = |&(lane, change): &(Lane, i64)| {
            above(links, lane, self.on[lane] + change) - above(links, lane, self.on[lane])
        };
        changes.iter().map(of).sum()
    }
}

impl IncrementalTerm for Traffic {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let problem = snapshot.problem();
        let changes = self.changes(problem, step);
        self.above += self.more(&problem.shared_links, &changes);
        for (lane, change) in changes {
            self.on[lane] += change;
        }
        self.place[step.actor] = step.comes.then_some(step.unit);
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.above
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let problem = snapshot.problem();
        self.above + self.more(&problem.shared_links, &self.changes(problem, step))
    }

    fn concerns(&self, snapshot: &Snapshot, actor: ActorIx) -> bool {
        let problem = snapshot.problem();
        !problem.shared_links.is_empty() && problem.edges[actor].iter().any(|edge| edge.rate > 0)
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}
