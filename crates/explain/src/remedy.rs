//! What would make room for an actor: the smallest changes of the world after which it has a place, and everybody else too.
//!
//! A set of changes is *sufficient* if with all of them there is a feasible assignment in which the actor and all that have a
//! place have one; it is *smallest* if none of them can be left out and no number in it can be less. Sufficient sets are found
//! unit by unit, as what is in the way of the actor there while the others stay, and limit by limit, from the irreducible set
//! that keeps it out; each is then made smaller while others may move. A policy's rules are kept as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use placement::file::Constraint;
use placement::ix::{ActorIx, IxVec, NodeIx, UnitIx};
use placement::{Assignment, LARGEST, Snapshot, State};

use crate::change::{Change, name_of};
use crate::core::{WhyNot, why_not};
use crate::limit::{Limit, actors_of, pool_of};
use crate::oracle::ask;
use crate::relax::Question;
use crate::stay::blocks;
use crate::verdict::{Effort, Verdict};

/// How many sets of changes are made smaller, those of the fewest changes first.
const MOST_TRIED: usize = 48;
/// How many actors that a rule names are left out of it, one at a time.
const MOST_LEFT_OUT: usize = 8;

/// Changes that together make room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remedy {
    /// All of them are needed.
    pub changes: Vec<Change>,
}

impl Remedy {
    /// The changes in plain words.
    pub fn tell(&self, snapshot: &Snapshot) -> String {
        let told: Vec<String> = self.changes.iter().map(|change| change.tell(snapshot)).collect();
        told.join(", and ")
    }
}

/// The smallest changes after which an actor that has no place in a feasible assignment has one: one set of each kind, of as
/// few changes as any has. Empty where there is room as things are, and where the effort ends first. Where a policy has rules about
/// where actors are, the snapshot is one that is [open to questions](crate::open_to_questions).
pub fn remedies(snapshot: &Snapshot, actor: ActorIx, assignment: &Assignment, effort: u64) -> Vec<Remedy> {
    let WhyNot::Blocked(core) = why_not(snapshot, actor, assignment, effort / 2) else { return Vec::new() };
    let placed: IxVec<ActorIx, bool> = assignment.iter().map(Option::is_some).collect();
    let question = Question::new(snapshot, actor, &placed);
    let mut search = Search {
        snapshot,
        actor,
        who: ActorIx::new(question.actors.partition_point(|other| *other < actor)),
        base: question.actors.iter().map(|&other| assignment[other]).collect(),
        question: Rc::new(question),
        placed,
        effort: Effort { left: effort / 2 },
    };
    let mut found: BTreeMap<Vec<(u8, String)>, Remedy> = BTreeMap::new();
    let limits = core.elements.iter().flat_map(|element| &element.limits).copied().collect();
    for changes in search.candidates(&limits, assignment).into_iter().take(MOST_TRIED) {
        if let Some(changes) = search.smallest(changes) {
            let shape = changes.iter().map(|change| change.shape(snapshot)).collect();
            let remedy = Remedy { changes };
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
    actor: ActorIx,
    question: Rc<Question<'a>>,
    placed: IxVec<ActorIx, bool>,
    /// The actor and the assignment in the question's positions.
    who: ActorIx,
    base: Assignment,
    effort: Effort,
}

impl Search<'_> {
    /// Sets of changes that may make room, each once, those of the fewest changes first.
    fn candidates(&self, limits: &BTreeSet<Limit>, assignment: &Assignment) -> Vec<Vec<Change>> {
        let mut all: Vec<Vec<Change>> = Vec::new();
        let mut shapes = BTreeSet::new();
        let mut state = State::of(self.snapshot, assignment);
        state.take(self.actor);
        for unit in UnitIx::first(self.snapshot.units()) {
            let blocks = blocks(self.snapshot, self.actor, unit, &state);
            let changes: Vec<Change> =
                blocks.iter().filter_map(|block| self.lifted(*block.first()?, unit)).collect();
            let shape: Vec<_> =
                changes.iter().map(|change| (change.shape(self.snapshot), change.more())).collect();
            if changes.len() == blocks.len() && shapes.insert(shape) {
                all.push(changes);
            }
        }
        all.extend(limits.iter().flat_map(|limit| self.one_of(*limit)).map(|change| vec![change]));
        all.extend(self.more_places().map(|change| vec![change]));
        all.sort_by_key(Vec::len);
        let mut seen = BTreeSet::new();
        all.retain(|changes| seen.insert(changes.clone()));
        all
    }

    /// What lifts a limit that is in the way on a unit; more than enough, where it is a number.
    fn lifted(&self, limit: Limit, unit: UnitIx) -> Option<Change> {
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
                _ => Change::LeaveOut { position, actor: self.actor },
            },
            Limit::Slots { unit } => Change::Slots { unit, more: self.snapshot.actors() as u64 },
            Limit::OfUnit { unit, resource } => Change::OfUnit { unit, resource, more: LARGEST },
            Limit::OfNode { node, resource } => Change::OfNode { node, resource, more: LARGEST },
            Limit::Case { .. } => return None,
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
                let whole = self.lifted(limit, UnitIx::new(0));
                let named = actors_of(self.snapshot, &self.snapshot.file().constraints[position]);
                let leave_out = |actor| Change::LeaveOut { position, actor };
                match whole {
                    Some(Change::LeaveOut { .. }) => named
                        .into_iter()
                        .take(MOST_LEFT_OUT)
                        .map(leave_out)
                        .chain([Change::Without { position }])
                        .collect(),
                    other => other.into_iter().collect(),
                }
            }
            other => self.lifted(other, UnitIx::new(0)).into_iter().collect(),
        }
    }

    /// One more node of each kind of node, and a unit of each kind that the actor runs on and there is none of. Rules of a
    /// policy say nothing of places that are not there.
    fn more_places(&self) -> impl Iterator<Item = Change> {
        let snapshot = self.snapshot;
        let units = if snapshot.rules().is_some() { 0 } else { snapshot.units() };
        let mut like: BTreeMap<Vec<String>, NodeIx> = BTreeMap::new();
        let mut pools: BTreeMap<NodeIx, Vec<String>> = BTreeMap::new();
        for unit in UnitIx::first(units) {
            pools.entry(snapshot.node_of(unit)).or_default().push(pool_of(snapshot, unit));
        }
        for (node, mut pools) in pools {
            pools.sort_unstable();
            like.entry(pools).or_insert(node);
        }
        let kinds = snapshot.file().actors[self.actor.at()].runs_on.keys();
        let is_there = |kind: &String| snapshot.file().units.iter().any(|unit| unit.kind == *kind);
        let missing = kinds.filter(|kind| snapshot.rules().is_none() && !is_there(kind));
        let actor = self.actor;
        let missing: Vec<Change> = missing.map(|kind| Change::Kind { actor, kind: kind.clone() }).collect();
        like.into_values().map(|like| Change::Node { like }).chain(missing)
    }

    fn suffices(&mut self, changes: &[Change]) -> bool {
        if self.snapshot.rules().is_some_and(|rules| !rules.are_written()) {
            let Some(world) = self.changed(changes) else { return false };
            let question = Question::new(&world, self.actor, &self.placed);
            return self.has_room(&question, &[]);
        }
        let question = Rc::clone(&self.question);
        self.has_room(&question, changes)
    }

    /// The whole world after some changes, where it is asked anew which limits what runs breaks: one that was raised far
    /// enough is broken no more.
    fn changed(&self, changes: &[Change]) -> Option<Snapshot> {
        let mut file = self.snapshot.file().clone();
        for change in changes {
            change.apply(self.snapshot, &mut file);
        }
        Some(Snapshot::new(file).ok()?.with_rules_everywhere(None))
    }

    fn has_room(&mut self, question: &Question, changes: &[Change]) -> bool {
        let Some(world) = question.with(changes) else { return false };
        let rules = question.rules_without(&BTreeSet::new());
        let most = self.effort.left / 8;
        let (who, base) = (self.who, &self.base);
        let verdict = self.effort.lend(most, |effort| ask(&world, &rules, who, base, effort));
        matches!(verdict, Verdict::Fits(_))
    }

    /// The smallest part of a set that suffices; none where it does not.
    fn smallest(&mut self, mut changes: Vec<Change>) -> Option<Vec<Change>> {
        if !self.suffices(&changes) {
            return None;
        }
        for position in (0..changes.len()).rev() {
            let mut without = changes.clone();
            without.remove(position);
            if self.suffices(&without) {
                changes = without;
            }
        }
        for position in 0..changes.len() {
            let Some(enough) = changes[position].more() else { continue };
            changes[position] = self.least(&changes, position, enough);
        }
        Some(changes)
    }

    /// One of the changes with the least number that is enough beside the others, as `enough` is: doubled until it is, then
    /// halved in between.
    fn least(&mut self, changes: &[Change], position: usize, enough: u64) -> Change {
        let mut tried = changes.to_vec();
        let mut is_enough = |number: u64| {
            tried[position] = changes[position].with(number);
            self.suffices(&tried)
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
