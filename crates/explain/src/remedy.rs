//! Remedies: the smallest changes of a snapshot after which unplaced actors have a place, and all placed ones keep one.
//!
//! A set of changes is *sufficient* if with all of them there is a feasible assignment that places the actors in question and all
//! that have a place. It is *smallest* if no change can be left out and no quantity can be smaller by one. Sufficient sets are
//! found unit by unit, as the obstacles of the actors there while the others stay, and limit by limit, from the irreducible set
//! that keeps them out; each is then reduced while others may move. Each is tested on a snapshot to which it was applied; the
//! program of a policy is derived again on it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use placement::file::Constraint;
use placement::ix::{ActorIx, IxVec, NodeIx, UnitIx};
use placement::{Assignment, LARGEST, Snapshot, State};

use crate::change::{Change, name_of};
use crate::core::{UnplacedCause, explain_unplaced_all};
use crate::feasibility::{Effort, Feasibility};
use crate::limit::{Limit, actors_of, is_claimed, pool_of};
use crate::obstacles_in_place::blocks;
use crate::oracle::ask;
use crate::plan_reasons::with_open_rules;
use crate::question::Question;
use crate::rebuild::Rebuild;

/// The number of sets that are reduced, those with the fewest changes first.
const MOST_TRIED: usize = 48;
/// The number of actors of a rule that are exempted, one at a time.
const MOST_LEFT_OUT: usize = 8;

/// The maximum number of proposed nodes: each is added to a snapshot of its own, and a larger number helps no reader.
const MOST_NODES: u64 = 256;

/// For several actors, all limits that keep them out are lifted at once if there are at most this many.
const MOST_LIFTED: usize = 12;
/// The effort of grounding a policy, in pairs of unit and actor.
const TO_DERIVE: usize = 20;

/// Changes that together make room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remedy {
    /// All of them are needed.
    pub changes: Vec<Change>,
    /// Whether nothing smaller of the same kind is sufficient; otherwise the effort ended first.
    pub is_smallest: bool,
}

impl Remedy {
    /// The changes as a sentence.
    pub fn describe(&self, snapshot: &Snapshot) -> String {
        let mut texts: Vec<(String, usize)> = Vec::new();
        for text in self.changes.iter().map(|change| change.describe(snapshot)) {
            match texts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, times)) => *times += 1,
                None => texts.push((text, 1)),
            }
        }
        let word = |(text, times)| if times == 1 { text } else { format!("{text} ({times} times)") };
        let texts = texts.into_iter().map(word).collect::<Vec<_>>().join(", and ");
        if self.is_smallest { texts } else { format!("{texts} (less may be enough)") }
    }
}

/// The smallest changes after which actors that are unplaced in a feasible assignment have a place, all at once: one set of each
/// kind, with the fewest changes. Empty if there is room already, and if the effort ends first.
///
/// `snapshot` is what the origin's judge made of the bare snapshot.
pub fn remedies(
    snapshot: &Snapshot,
    origin: Rebuild,
    unplaced: &[ActorIx],
    assignment: &Assignment,
    effort: u64,
) -> Vec<Remedy> {
    if unplaced.is_empty() {
        return Vec::new();
    }
    let snapshot = &with_open_rules(snapshot, origin.bare, origin.judge, assignment);
    let UnplacedCause::Blocked(core) = explain_unplaced_all(snapshot, unplaced, assignment, effort / 2)
    else {
        return Vec::new();
    };
    let placed: IxVec<ActorIx, bool> = assignment.iter().map(Option::is_some).collect();
    let question = Question::new(snapshot, unplaced, &placed);
    let mut search = RemedySearch {
        snapshot,
        origin,
        unplaced,
        asked: question.positions(unplaced),
        base: question.actors.iter().map(|&other| assignment[other]).collect(),
        question: Rc::new(question),
        placed,
        known: BTreeMap::new(),
        effort: Effort { left: effort / 2 },
    };
    let mut found: BTreeMap<Vec<(u8, String)>, Remedy> = BTreeMap::new();
    let limits = core.elements.iter().flat_map(|element| &element.limits).copied().collect();
    for changes in search.candidates(&limits, assignment).into_iter().take(MOST_TRIED) {
        if let Some(remedy) = search.smallest(changes) {
            let shape = remedy.changes.iter().map(|change| change.shape(snapshot)).collect();
            let best = found.entry(shape).or_insert_with(|| remedy.clone());
            if size(&remedy) < size(best) {
                *best = remedy;
            }
        }
    }
    let fewest = found.values().map(|remedy| remedy.changes.len()).min().unwrap_or_default();
    let few: Vec<Remedy> = found.into_values().filter(|remedy| remedy.changes.len() == fewest).collect();
    let left_out: BTreeSet<String> = few.iter().filter_map(|remedy| left_out(snapshot, remedy)).collect();
    let is_needed = |remedy: &Remedy| match remedy.changes.as_slice() {
        // Exempting one actor is a smaller change.
        [Change::Without { position }] => !left_out.contains(&name_of(snapshot, *position)),
        _ => true,
    };
    few.into_iter().filter(is_needed).collect()
}

/// The reason of the constraint from which one actor is exempted.
fn left_out(snapshot: &Snapshot, remedy: &Remedy) -> Option<String> {
    match remedy.changes.as_slice() {
        [Change::LeaveOut { position, .. }] => Some(name_of(snapshot, *position)),
        _ => None,
    }
}

/// The sum of the quantities.
fn size(remedy: &Remedy) -> u128 {
    remedy.changes.iter().filter_map(Change::more).map(u128::from).sum()
}

struct RemedySearch<'a> {
    snapshot: &'a Snapshot,
    origin: Rebuild<'a>,
    /// The unplaced actors in question.
    unplaced: &'a [ActorIx],
    question: Rc<Question<'a>>,
    placed: IxVec<ActorIx, bool>,
    /// The same actors, and the assignment, in the question's positions.
    asked: Vec<ActorIx>,
    base: Assignment,
    /// Cached answers.
    known: BTreeMap<Vec<Change>, Option<bool>>,
    effort: Effort,
}

impl RemedySearch<'_> {
    /// Distinct sets of changes that may make room, those with the fewest changes first.
    fn candidates(&self, limits: &BTreeSet<Limit>, assignment: &Assignment) -> Vec<Vec<Change>> {
        let mut all: Vec<Vec<Change>> = Vec::new();
        let mut shapes = BTreeSet::new();
        let mut state = State::of(self.snapshot, assignment);
        for &actor in self.unplaced {
            state.take(actor);
        }
        for unit in UnitIx::first(self.snapshot.units()) {
            let Some(changes) = self.in_the_way(&mut state, |_, _| unit) else { continue };
            let shape: Vec<_> =
                changes.iter().map(|change| (change.shape(self.snapshot), change.more())).collect();
            if shapes.insert(shape) {
                all.push(changes);
            }
        }
        let places: Vec<Change> = self.more_places().collect();
        if self.unplaced.len() > 1 {
            if self.snapshot.units() > 0 {
                all.extend(self.in_the_way(&mut state, |state, actor| self.least_in_the_way(state, actor)));
            }
            let lifted: BTreeSet<Change> = limits.iter().filter_map(|limit| self.lifted_of(*limit)).collect();
            let lifted: Vec<Change> = lifted.into_iter().take(MOST_LIFTED).collect();
            all.extend(places.iter().map(|place| [std::slice::from_ref(place), &lifted].concat()));
            all.push(places.iter().filter(|change| matches!(change, Change::Kind { .. })).cloned().collect());
            all.push(lifted);
        }
        all.extend(limits.iter().flat_map(|limit| self.one_of(*limit)).map(|change| vec![change]));
        all.extend(places.into_iter().map(|change| vec![change]));
        all.sort_by_key(Vec::len);
        let mut seen = BTreeSet::new();
        all.retain(|changes| !changes.is_empty() && seen.insert(changes.clone()));
        all
    }

    /// The changes that lift all obstacles if the actors are placed one after the other on the units of `goes`; `None` if an obstacle
    /// cannot be lifted. The state, in which none of them has a place, is restored.
    fn in_the_way(&self, state: &mut State, goes: impl Fn(&State, ActorIx) -> UnitIx) -> Option<Vec<Change>> {
        let mut changes = Some(Vec::new());
        let mut came = Vec::new();
        for &actor in self.unplaced {
            let unit = goes(state, actor);
            for block in blocks(self.snapshot, actor, unit, state) {
                let change = block.first().and_then(|limit| self.lifted(*limit, actor, unit));
                changes = changes.zip(change).map(|(mut changes, change)| {
                    if !changes.contains(&change) {
                        changes.push(change);
                    }
                    changes
                });
            }
            if self.snapshot.implementation(actor, unit).is_some() {
                state.put(actor, unit);
                came.push(actor);
            }
        }
        for actor in came {
            state.take(actor);
        }
        changes
    }

    /// The unit with the fewest obstacles for an actor.
    fn least_in_the_way(&self, state: &State, actor: ActorIx) -> UnitIx {
        let number = |unit: &UnitIx| blocks(self.snapshot, actor, *unit, state).len();
        UnitIx::first(self.snapshot.units()).min_by_key(number).unwrap_or(UnitIx::new(0))
    }

    /// A change that lifts a limit for an actor on a unit; quantities are more than sufficient.
    fn lifted(&self, limit: Limit, whose: ActorIx, unit: UnitIx) -> Option<Change> {
        Some(match limit {
            Limit::Kinds { actor } => {
                Change::Implementation { actor, kind: self.snapshot.file().units[unit.at()].kind.clone() }
            }
            Limit::Constraint { position } => match &self.snapshot.file().constraints[position] {
                Constraint::Quota { .. } | Constraint::PowerCap { .. } => {
                    Change::Bound { position, more: LARGEST }
                }
                Constraint::Reserve { quantity, .. } => Change::Free { position, more: *quantity },
                Constraint::Pin { .. } => Change::Without { position },
                _ => Change::LeaveOut { position, actor: whose },
            },
            Limit::Slots { unit } if is_claimed(self.snapshot, unit) => return None,
            Limit::Slots { unit } => Change::Slots { unit, more: self.snapshot.actors() as u64 },
            Limit::OfUnit { unit, resource } => Change::OfUnit { unit, resource, more: LARGEST },
            Limit::OfNode { node, resource } => Change::OfNode { node, resource, more: LARGEST },
            Limit::Case { .. } => return None,
        })
    }

    /// A change that lifts a limit for all actors; `None` for kinds, of which there are several.
    fn lifted_of(&self, limit: Limit) -> Option<Change> {
        if let Limit::Kinds { .. } = limit {
            return None;
        }
        Some(match self.lifted(limit, self.unplaced[0], UnitIx::new(0))? {
            Change::LeaveOut { position, .. } => Change::Without { position },
            other => other,
        })
    }

    /// Changes of a single limit, which may make room for an actor that would have to move.
    fn one_of(&self, limit: Limit) -> Vec<Change> {
        match limit {
            Limit::Kinds { actor } => {
                let kinds: BTreeSet<&String> =
                    self.snapshot.file().units.iter().map(|unit| &unit.kind).collect();
                let kinds = kinds.into_iter().cloned();
                kinds.map(|kind| Change::Implementation { actor, kind }).collect()
            }
            Limit::Constraint { position } => {
                let whole = self.lifted_of(limit);
                let named = actors_of(self.snapshot, &self.snapshot.file().constraints[position]);
                let leave_out = |actor| Change::LeaveOut { position, actor };
                match (whole, &self.snapshot.file().constraints[position]) {
                    (Some(Change::Without { .. }), constraint)
                        if !matches!(constraint, Constraint::Pin { .. }) =>
                    {
                        let some = named.into_iter().take(MOST_LEFT_OUT).map(leave_out);
                        some.chain([Change::Without { position }]).collect()
                    }
                    (other, _) => other.into_iter().collect(),
                }
            }
            other => self.lifted_of(other).into_iter().collect(),
        }
    }

    /// More nodes of each kind of node, and a unit of each kind that the actors support and that has none.
    fn more_places(&self) -> impl Iterator<Item = Change> {
        let snapshot = self.snapshot;
        let mut like: BTreeMap<Vec<String>, NodeIx> = BTreeMap::new();
        let mut pools: BTreeMap<NodeIx, Vec<String>> = BTreeMap::new();
        for unit in UnitIx::first(snapshot.units()) {
            pools.entry(snapshot.node_of(unit)).or_default().push(pool_of(snapshot, unit));
        }
        for (node, mut pools) in pools {
            pools.sort_unstable();
            like.entry(pools).or_insert(node);
        }
        let is_there = move |kind: &String| snapshot.file().units.iter().any(|unit| unit.kind == *kind);
        let missing = self.unplaced.iter().flat_map(move |&actor| {
            let kinds = snapshot.file().actors[actor.at()].runs_on.keys();
            kinds
                .filter(move |kind| !is_there(kind))
                .map(move |kind| Change::Kind { actor, kind: kind.clone() })
        });
        let more = (self.unplaced.len() as u64).min(MOST_NODES);
        like.into_values().map(move |like| Change::Nodes { like, more }).chain(missing)
    }

    /// Whether there is room after some changes; `None` if unknown.
    fn suffices(&mut self, changes: &[Change]) -> Option<bool> {
        if let Some(known) = self.known.get(changes) {
            return *known;
        }
        let answer = self.ask(changes);
        self.known.insert(changes.to_vec(), answer);
        answer
    }

    fn ask(&mut self, changes: &[Change]) -> Option<bool> {
        // Grandfathered violations, and what a policy derives, may differ in the changed snapshot.
        if self.snapshot.rules().is_some() || self.origin.has_program() {
            if self.origin.has_program()
                && !self.effort.spend(TO_DERIVE * self.snapshot.units() * self.snapshot.actors())
            {
                return None;
            }
            let Some(world) = self.origin.with(self.snapshot, changes) else { return Some(false) };
            let question = Question::new(&world, self.unplaced, &self.placed);
            return self.has_room(&question, &[]);
        }
        let question = Rc::clone(&self.question);
        self.has_room(&question, changes)
    }

    fn has_room(&mut self, question: &Question, changes: &[Change]) -> Option<bool> {
        let Some(world) = question.with(changes) else { return Some(false) };
        let rules = question.rules_without(&BTreeSet::new());
        let most = self.effort.left / 8;
        let (asked, base) = (&self.asked, &self.base);
        match self.effort.lend(most, |effort| ask(&world, &rules, asked, base, effort)) {
            Feasibility::Fits(_) => Some(true),
            Feasibility::Never => Some(false),
            Feasibility::Unknown => None,
        }
    }

    /// The smallest subset that is sufficient; `None` if the set is not.
    fn smallest(&mut self, mut changes: Vec<Change>) -> Option<Remedy> {
        if self.suffices(&changes) != Some(true) {
            if !self.origin.has_program() {
                return None;
            }
            // More than sufficient may be more than a policy admits: one of each is tried as well.
            let number = self.unplaced.len() as u64;
            changes = changes.iter().map(|change| change.with(number)).collect();
            if self.suffices(&changes) != Some(true) {
                return None;
            }
        }
        for position in (0..changes.len()).rev() {
            let mut without = changes.clone();
            without.remove(position);
            if self.suffices(&without) == Some(true) {
                changes = without;
            }
        }
        for position in 0..changes.len() {
            let Some(enough) = changes[position].more() else { continue };
            changes[position] = self.least(&changes, position, enough);
        }
        let mut is_smallest = true;
        for position in 0..changes.len() {
            let less = less(&changes, position);
            match self.suffices(&less) {
                // Although a quantity in between was not: a policy can cause that.
                Some(true) => return self.smallest(less),
                Some(false) => {}
                None => is_smallest = false,
            }
        }
        Some(Remedy { changes, is_smallest })
    }

    /// The change with the smallest sufficient quantity beside the others, up to `enough`: by doubling, then
    /// bisection.
    fn least(&mut self, changes: &[Change], position: usize, enough: u64) -> Change {
        let mut tried = changes.to_vec();
        let mut is_enough = |number: u64| {
            tried[position] = changes[position].with(number);
            self.suffices(&tried) == Some(true)
        };
        let (mut little, mut much) = (0, 1);
        while much < enough && !is_enough(much) {
            little = much;
            much = much.saturating_mul(2).min(enough);
        }
        while much - little > 1 {
            let middle = little + (much - little) / 2;
            if is_enough(middle) { much = middle } else { little = middle }
        }
        changes[position].with(much)
    }
}

/// The changes without one of them, or with its quantity smaller by one.
fn less(changes: &[Change], position: usize) -> Vec<Change> {
    let mut less = changes.to_vec();
    match less[position].more() {
        Some(more) if more > 1 => less[position] = less[position].with(more - 1),
        _ => drop(less.remove(position)),
    }
    less
}
