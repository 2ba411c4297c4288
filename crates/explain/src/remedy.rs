//! What would make room for actors: the smallest changes of the world after which they have a place, and everybody else too.
//!
//! A set of changes is *sufficient* if with all of them there is a feasible assignment in which the actors asked about and all
//! that have a place have one; it is *smallest* if none of them can be left out and no number in it can be less by one.
//! Sufficient sets are found unit by unit, as what is in the way of the actors there while the others stay, and limit by limit,
//! from the irreducible set that keeps them out; each is then made smaller while others may move. Each is asked of a world in
//! which it was made; where a policy has a program, what it says of that world is derived anew.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use placement::file::Constraint;
use placement::ix::{ActorIx, IxVec, NodeIx, UnitIx};
use placement::{Assignment, LARGEST, Snapshot, State};

use crate::change::{Change, name_of};
use crate::core::{WhyNot, why_not_all};
use crate::limit::{Limit, actors_of, pool_of};
use crate::oracle::ask;
use crate::origin::Origin;
use crate::relax::Question;
use crate::stay::blocks;
use crate::told::open_to_questions;
use crate::verdict::{Effort, Verdict};

/// How many sets of changes are made smaller, those of the fewest changes first.
const MOST_TRIED: usize = 48;
/// How many actors that a rule names are left out of it, one at a time.
const MOST_LEFT_OUT: usize = 8;

/// How many nodes that are proposed at most: each is made in a world of its own, and who needs more does not need to be told how many.
const MOST_NODES: u64 = 256;

/// Of several actors, all limits that keep them out are lifted at once where they are no more than so many.
const MOST_LIFTED: usize = 12;
/// What it takes to write a policy out, in pieces for each unit and actor: about as long as so many looks.
const TO_DERIVE: usize = 20;

/// Changes that together make room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remedy {
    /// All of them are needed.
    pub changes: Vec<Change>,
    /// Whether it is known that nothing smaller of the same kind is enough; else the effort ended first.
    pub is_smallest: bool,
}

impl Remedy {
    /// The changes in plain words.
    pub fn tell(&self, snapshot: &Snapshot) -> String {
        let mut told: Vec<(String, usize)> = Vec::new();
        for text in self.changes.iter().map(|change| change.tell(snapshot)) {
            match told.iter_mut().find(|(known, _)| *known == text) {
                Some((_, times)) => *times += 1,
                None => told.push((text, 1)),
            }
        }
        let word = |(text, times)| if times == 1 { text } else { format!("{text} ({times} times)") };
        let told = told.into_iter().map(word).collect::<Vec<_>>().join(", and ");
        if self.is_smallest { told } else { format!("{told} (less may be enough)") }
    }
}

/// The smallest changes after which actors that have no place in a feasible assignment have one, all at once: one set of each
/// kind, of as few changes as any has. Empty where there is room as things are, and where the effort ends first.
///
/// `snapshot` is what the origin's judge made of the bare world.
pub fn remedies(
    snapshot: &Snapshot,
    origin: Origin,
    whom: &[ActorIx],
    assignment: &Assignment,
    effort: u64,
) -> Vec<Remedy> {
    if whom.is_empty() {
        return Vec::new();
    }
    let snapshot = &open_to_questions(snapshot, origin.bare, origin.judge, assignment);
    let WhyNot::Blocked(core) = why_not_all(snapshot, whom, assignment, effort / 2) else {
        return Vec::new();
    };
    let placed: IxVec<ActorIx, bool> = assignment.iter().map(Option::is_some).collect();
    let question = Question::new(snapshot, whom, &placed);
    let mut search = Search {
        snapshot,
        origin,
        whom,
        asked: question.positions(whom),
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
        // To leave one actor out is less.
        [Change::Without { position }] => !left_out.contains(&name_of(snapshot, *position)),
        _ => true,
    };
    few.into_iter().filter(is_needed).collect()
}

/// What the constraint says that one actor is left out of.
fn left_out(snapshot: &Snapshot, remedy: &Remedy) -> Option<String> {
    match remedy.changes.as_slice() {
        [Change::LeaveOut { position, .. }] => Some(name_of(snapshot, *position)),
        _ => None,
    }
}

/// The numbers in it together.
fn size(remedy: &Remedy) -> u128 {
    remedy.changes.iter().filter_map(Change::more).map(u128::from).sum()
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    origin: Origin<'a>,
    /// Who has no place.
    whom: &'a [ActorIx],
    question: Rc<Question<'a>>,
    placed: IxVec<ActorIx, bool>,
    /// The same actors and the assignment in the question's positions.
    asked: Vec<ActorIx>,
    base: Assignment,
    /// What has been answered.
    known: BTreeMap<Vec<Change>, Option<bool>>,
    effort: Effort,
}

impl Search<'_> {
    /// Sets of changes that may make room, each once, those of the fewest changes first.
    fn candidates(&self, limits: &BTreeSet<Limit>, assignment: &Assignment) -> Vec<Vec<Change>> {
        let mut all: Vec<Vec<Change>> = Vec::new();
        let mut shapes = BTreeSet::new();
        let mut state = State::of(self.snapshot, assignment);
        for &actor in self.whom {
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
        if self.whom.len() > 1 {
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

    /// What lifts all that is in the way if each goes in turn to where `goes` says; none where nothing does. The state, in which
    /// nobody of them has a place, is left as it was.
    fn in_the_way(&self, state: &mut State, goes: impl Fn(&State, ActorIx) -> UnitIx) -> Option<Vec<Change>> {
        let mut changes = Some(Vec::new());
        let mut came = Vec::new();
        for &actor in self.whom {
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

    /// The unit where fewest things are in the way of an actor.
    fn least_in_the_way(&self, state: &State, actor: ActorIx) -> UnitIx {
        let number = |unit: &UnitIx| blocks(self.snapshot, actor, *unit, state).len();
        UnitIx::first(self.snapshot.units()).min_by_key(number).unwrap_or(UnitIx::new(0))
    }

    /// What lifts a limit that is in the way of an actor on a unit; more than enough, where it is a number.
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
            Limit::Slots { unit } => Change::Slots { unit, more: self.snapshot.actors() as u64 },
            Limit::OfUnit { unit, resource } => Change::OfUnit { unit, resource, more: LARGEST },
            Limit::OfNode { node, resource } => Change::OfNode { node, resource, more: LARGEST },
            Limit::Case { .. } => return None,
        })
    }

    /// What lifts a limit for everybody, wherever they are; none for kinds, of which there are several.
    fn lifted_of(&self, limit: Limit) -> Option<Change> {
        if let Limit::Kinds { .. } = limit {
            return None;
        }
        Some(match self.lifted(limit, self.whom[0], UnitIx::new(0))? {
            Change::LeaveOut { position, .. } => Change::Without { position },
            other => other,
        })
    }

    /// Changes of one limit alone, which may make room for somebody who would make way.
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

    /// More nodes of each kind of node, and a unit of each kind that somebody runs on and there is none of.
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
        let missing = self.whom.iter().flat_map(move |&actor| {
            let kinds = snapshot.file().actors[actor.at()].runs_on.keys();
            kinds
                .filter(move |kind| !is_there(kind))
                .map(move |kind| Change::Kind { actor, kind: kind.clone() })
        });
        let more = (self.whom.len() as u64).min(MOST_NODES);
        like.into_values().map(move |like| Change::Nodes { like, more }).chain(missing)
    }

    /// Whether there is room after some changes; none where that is not known.
    fn suffices(&mut self, changes: &[Change]) -> Option<bool> {
        if let Some(known) = self.known.get(changes) {
            return *known;
        }
        let answer = self.ask(changes);
        self.known.insert(changes.to_vec(), answer);
        answer
    }

    fn ask(&mut self, changes: &[Change]) -> Option<bool> {
        // What is broken already, and what a policy says, may be otherwise in a changed world.
        if self.snapshot.rules().is_some() || self.origin.has_program() {
            if self.origin.has_program()
                && !self.effort.spend(TO_DERIVE * self.snapshot.units() * self.snapshot.actors())
            {
                return None;
            }
            let Some(world) = self.origin.with(self.snapshot, changes) else { return Some(false) };
            let question = Question::new(&world, self.whom, &self.placed);
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
            Verdict::Fits(_) => Some(true),
            Verdict::Never => Some(false),
            Verdict::Unknown => None,
        }
    }

    /// The smallest part of a set that suffices; none where it does not.
    fn smallest(&mut self, mut changes: Vec<Change>) -> Option<Remedy> {
        if self.suffices(&changes) != Some(true) {
            if !self.origin.has_program() {
                return None;
            }
            // What is more than enough may be more than a policy allows: one for each may be enough, too.
            let number = self.whom.len() as u64;
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
                // Though something between was not: a policy may say so.
                Some(true) => return self.smallest(less),
                Some(false) => {}
                None => is_smallest = false,
            }
        }
        Some(Remedy { changes, is_smallest })
    }

    /// One of the changes with the least number that is enough beside the others, as `enough` is: doubled until it is, then
    /// halved in between.
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

/// The changes without one of them, or with its number less by one.
fn less(changes: &[Change], position: usize) -> Vec<Change> {
    let mut less = changes.to_vec();
    match less[position].more() {
        Some(more) if more > 1 => less[position] = less[position].with(more - 1),
        _ => drop(less.remove(position)),
    }
    less
}
