//! Why an actor is unplaced: an irreducible set of limits and rules that leave it no place.
//!
//! The definition is in docs/concepts/explanations.md. The set is found by `QuickXplain` (Junker, "Preferred Explanations and
//! Relaxations for Over-Constrained Problems", AAAI 2004); then each member is dropped once more to verify that it is
//! necessary.

use std::collections::{BTreeMap, BTreeSet};

use crate::feasibility::{Effort, Feasibility};
use crate::limit::{Limit, LimitGroup, actors_of, elements};
use crate::obstacles_in_place;
use crate::oracle::ask;
use crate::question::Question;
use placement::ix::{ActorIx, IxVec, NodeIx, UnitIx};
use placement::{Assignment, ReasonScope, Snapshot};

/// How often a group is narrowed to an equivalent subset.
const MOST_NARROWINGS: usize = 40;

/// An irreducible reason why an actor is unplaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Position of the actor.
    pub actor: ActorIx,
    /// The set, with limits of the actor itself first. Empty if there is no unit at all.
    pub elements: Vec<LimitGroup>,
    /// The question that was answered.
    pub holds: ReasonScope,
    /// Whether the actor has a place if any one of them is dropped. Always true if the other actors stay.
    pub irreducible: bool,
}

/// Why an actor is unplaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnplacedCause {
    /// Limits and rules leave it no place.
    Blocked(Core),
    /// There is a place: the new units of the actor, and of those that would have to move.
    Room(Vec<(ActorIx, UnitIx)>),
}

/// Explains why an actor is unplaced in a feasible assignment.
///
/// `effort` bounds the proof, in visited pairs of actor and unit. The answer depends on nothing else.
pub fn explain_unplaced(
    snapshot: &Snapshot,
    actor: ActorIx,
    assignment: &Assignment,
    effort: u64,
) -> UnplacedCause {
    explain_unplaced_all(snapshot, &[actor], assignment, effort)
}

/// The same for several actors that must all have a place at once. A set of limits is reported for the first of them.
pub(crate) fn explain_unplaced_all(
    snapshot: &Snapshot,
    unplaced: &[ActorIx],
    assignment: &Assignment,
    effort: u64,
) -> UnplacedCause {
    let mut effort = Effort { left: effort };
    let mut diagnosis = Diagnosis::new(snapshot, unplaced, assignment);
    match diagnosis.first(&mut effort) {
        Feasibility::Fits(found) => UnplacedCause::Room(diagnosis.changes(&found)),
        Feasibility::Never => match diagnosis.reduce(&mut effort) {
            Some(core) => UnplacedCause::Blocked(core),
            None => UnplacedCause::Blocked(blocked_in_place(snapshot, unplaced, assignment)),
        },
        Feasibility::Unknown => UnplacedCause::Blocked(blocked_in_place(snapshot, unplaced, assignment)),
    }
}

/// One question, with cached answers.
struct Diagnosis<'a> {
    snapshot: &'a Snapshot,
    /// The unplaced actors in question, ascending, at least one.
    unplaced: &'a [ActorIx],
    assignment: &'a Assignment,
    question: Question<'a>,
    elements: Vec<LimitGroup>,
    /// The same actors, and the assignment, in the question's positions.
    asked: Vec<ActorIx>,
    base: Assignment,
    /// Answers by the set of limits that was kept.
    known: BTreeMap<BTreeSet<Limit>, Option<bool>>,
}

impl<'a> Diagnosis<'a> {
    fn new(snapshot: &'a Snapshot, unplaced: &'a [ActorIx], assignment: &'a Assignment) -> Self {
        let placed: IxVec<ActorIx, bool> = assignment.iter().map(Option::is_some).collect();
        let question = Question::new(snapshot, unplaced, &placed);
        Self {
            snapshot,
            unplaced,
            assignment,
            elements: elements(snapshot, unplaced, &placed),
            asked: question.positions(unplaced),
            base: question.actors.iter().map(|&other| assignment[other]).collect(),
            question,
            known: BTreeMap::new(),
        }
    }

    fn first(&mut self, effort: &mut Effort) -> Feasibility {
        let most = effort.left / 4;
        effort.lend(most, |effort| self.ask(&BTreeSet::new(), effort))
    }

    fn ask(&self, dropped: &BTreeSet<Limit>, effort: &mut Effort) -> Feasibility {
        let (world, rules) = (self.question.without(dropped), self.question.rules_without(dropped));
        ask(&world, &rules, &self.asked, &self.base, effort)
    }

    /// The actors whose unit differs from the current assignment.
    fn changes(&self, found: &Assignment) -> Vec<(ActorIx, UnitIx)> {
        let actors = self.question.actors.iter().zip(found);
        actors
            .filter_map(|(&a, place)| Some((a, (*place)?)).filter(|_| self.assignment[a] != *place))
            .collect()
    }

    /// Whether the actor has a place if only these groups are kept; `None` if unknown.
    fn has_place(&mut self, kept: &[LimitGroup], effort: &mut Effort) -> Option<bool> {
        let kept: BTreeSet<Limit> = kept.iter().flat_map(|element| element.limits.iter().copied()).collect();
        if let Some(known) = self.known.get(&kept) {
            return *known;
        }
        let all = self.elements.iter().flat_map(|element| &element.limits);
        let dropped: BTreeSet<Limit> = all.copied().filter(|limit| !kept.contains(limit)).collect();
        let most = effort.left / 8;
        let verdict = effort.lend(most, |effort| self.ask(&dropped, effort));
        let answer = match verdict {
            Feasibility::Fits(_) => Some(true),
            Feasibility::Never => Some(false),
            Feasibility::Unknown => None,
        };
        self.known.insert(kept, answer);
        answer
    }

    /// An irreducible subset of all groups; `None` if the effort ended before anything was certain.
    fn reduce(&mut self, effort: &mut Effort) -> Option<Core> {
        let all = self.elements.clone();
        let mut found = self.halve(&[], false, &all, effort);
        if self.has_place(&found, effort) != Some(false) {
            found = all;
        }
        let mut irreducible = true;
        let mut position = found.len();
        while position > 0 {
            position -= 1;
            let mut without = found.clone();
            without.remove(position);
            match self.has_place(&without, effort) {
                Some(false) => found = without,
                Some(true) => {}
                None => irreducible = false,
            }
        }
        // Of a set with possibly redundant members, the certain subset is more informative.
        if !irreducible && found.len() > 12 {
            return None;
        }
        self.narrow(&mut found, effort);
        Some(Core { actor: self.unplaced[0], elements: found, holds: ReasonScope::Always, irreducible })
    }

    /// The subset of `rest` that is needed in addition to `kept`; `grew` is whether `kept` changed since the last question.
    fn halve(
        &mut self,
        kept: &[LimitGroup],
        grew: bool,
        rest: &[LimitGroup],
        effort: &mut Effort,
    ) -> Vec<LimitGroup> {
        if grew && self.has_place(kept, effort) == Some(false) {
            return Vec::new();
        }
        if rest.len() <= 1 {
            // With nothing kept and one group left, whether it is needed is decided by later questions.
            return rest.to_vec();
        }
        let (one, two) = rest.split_at(rest.len() / 2);
        let with_one = [kept, one].concat();
        let of_two = self.halve(&with_one, true, two, effort);
        let with_two = [kept, &of_two].concat();
        let of_one = self.halve(&with_two, !of_two.is_empty(), one, effort);
        [of_one, of_two].concat()
    }

    /// Narrows large groups to sufficient subsets. The set stays irreducible: dropping a group is as before, and a smaller group was
    /// verified to leave no place.
    fn narrow(&mut self, found: &mut [LimitGroup], effort: &mut Effort) {
        let mut left = MOST_NARROWINGS;
        let own = self.own_part(found);
        self.try_part(found, &own, &mut left, effort);
        let near = self.near_part(found);
        self.try_part(found, &near, &mut left, effort);
        for position in 0..found.len() {
            while found[position].limits.len() > 1 {
                let limits = &found[position].limits;
                let (one, two) = limits.split_at(limits.len() / 2);
                let (one, two) = (one.to_vec(), two.to_vec());
                let narrower = |limits: Vec<Limit>| {
                    let mut part = found.to_vec();
                    part[position] = LimitGroup { limits };
                    part
                };
                let (one, two) = (narrower(one), narrower(two));
                if !self.try_part(found, &one, &mut left, effort)
                    && !self.try_part(found, &two, &mut left, effort)
                {
                    break;
                }
            }
        }
    }

    /// The policy cases that the actor would violate while all other actors stay.
    fn near_part(&self, found: &[LimitGroup]) -> Vec<LimitGroup> {
        let near: BTreeSet<usize> = self
            .unplaced
            .iter()
            .flat_map(|&actor| obstacles_in_place::cases(self.snapshot, actor, self.assignment))
            .collect();
        let is_near = |limit: &Limit| !matches!(limit, Limit::Case { demand } if !near.contains(demand));
        narrowed(found, is_near)
    }

    /// Accepts the subset if it leaves no place either.
    fn try_part(
        &mut self,
        found: &mut [LimitGroup],
        part: &[LimitGroup],
        left: &mut usize,
        effort: &mut Effort,
    ) -> bool {
        if *left == 0 || part == found {
            return false;
        }
        *left -= 1;
        let is_enough = self.has_place(part, effort) == Some(false);
        if is_enough {
            found.clone_from_slice(part);
        }
        is_enough
    }

    /// Of each group the limits of the actors themselves: rules that name them, and limits of their candidates under these.
    fn own_part(&self, found: &[LimitGroup]) -> Vec<LimitGroup> {
        let kept: BTreeSet<Limit> = found.iter().flat_map(|element| element.limits.iter().copied()).collect();
        let is_rule = |limit: &Limit| matches!(limit, Limit::Kinds { .. } | Limit::Constraint { .. });
        let all = self.elements.iter().flat_map(|element| &element.limits);
        let dropped = all.copied().filter(|limit| !(is_rule(limit) && kept.contains(limit))).collect();
        let world = self.question.without(&dropped);
        let units: BTreeSet<UnitIx> =
            self.asked.iter().flat_map(|&actor| world.candidates(actor)).copied().collect();
        let nodes: BTreeSet<NodeIx> = units.iter().map(|&unit| self.snapshot.node_of(unit)).collect();
        let concerns = |limit: &Limit| match *limit {
            Limit::Kinds { .. } | Limit::Case { .. } => true,
            Limit::Slots { unit } | Limit::OfUnit { unit, .. } => units.contains(&unit),
            Limit::OfNode { node, .. } => nodes.contains(&node),
            Limit::Constraint { position } => {
                let named = actors_of(self.snapshot, &self.snapshot.file().constraints[position]);
                self.unplaced.iter().any(|actor| named.contains(actor))
            }
        };
        narrowed(found, concerns)
    }
}

/// Filters each group; one without a match stays as it is.
fn narrowed(found: &[LimitGroup], wanted: impl Fn(&Limit) -> bool) -> Vec<LimitGroup> {
    let of = |element: &LimitGroup| {
        let limits: Vec<Limit> = element.limits.iter().copied().filter(|limit| wanted(limit)).collect();
        if limits.is_empty() { element.clone() } else { LimitGroup { limits } }
    };
    found.iter().map(of).collect()
}

/// Why there is no place while all other actors stay.
fn blocked_in_place(snapshot: &Snapshot, unplaced: &[ActorIx], assignment: &Assignment) -> Core {
    let elements =
        unplaced.iter().flat_map(|&actor| obstacles_in_place::core(snapshot, actor, assignment)).collect();
    Core {
        actor: unplaced[0],
        elements,
        holds: ReasonScope::WhereOthersAre,
        irreducible: unplaced.len() == 1,
    }
}
