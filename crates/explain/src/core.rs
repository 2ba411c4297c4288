//! Why an actor has no place: an irreducible set of limits and rules that leave it none.
//!
//! The definition is in docs/concepts/explanations.md. The set is found by halving (`QuickXplain`: Junker, "Preferred Explanations and
//! Relaxations for Over-Constrained Problems", AAAI 2004), and then each member is dropped once more to see that
//! without it there is a place.

use std::collections::{BTreeMap, BTreeSet};

use crate::limit::{Element, Limit, actors_of, elements};
use crate::oracle::ask;
use crate::relax::Question;
use crate::stay;
use crate::verdict::{Effort, Verdict};
use placement::ix::{ActorIx, IxVec, NodeIx, UnitIx};
use placement::{Assignment, Holds, Snapshot};

/// How often an element is narrowed to a part of it that says the same.
const MOST_NARROWINGS: usize = 40;

/// What keeps an actor out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Position of the actor.
    pub actor: ActorIx,
    /// The set; what is said of the actor itself comes first. Empty when there is no unit at all.
    pub elements: Vec<Element>,
    /// What was asked.
    pub holds: Holds,
    /// Whether without any one of them, the others kept, the actor has a place. Always so where others stay.
    pub irreducible: bool,
}

/// Why an actor has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// Limits and rules leave it none.
    Blocked(Core),
    /// They would leave it one; who would have to be where for that: the actor, and those that would move.
    Room(Vec<(ActorIx, UnitIx)>),
}

/// Why an actor that has no place in a feasible assignment has none.
///
/// `effort` bounds the proof: a piece is one actor looked at on one unit. The answer depends on nothing else.
pub fn why_not(snapshot: &Snapshot, actor: ActorIx, assignment: &Assignment, effort: u64) -> WhyNot {
    why_not_all(snapshot, &[actor], assignment, effort)
}

/// The same of several actors, that must all have a place at once. A set of limits is told as of the first of them.
pub(crate) fn why_not_all(
    snapshot: &Snapshot,
    whom: &[ActorIx],
    assignment: &Assignment,
    effort: u64,
) -> WhyNot {
    let mut effort = Effort { left: effort };
    let mut inquiry = Inquiry::new(snapshot, whom, assignment);
    match inquiry.first(&mut effort) {
        Verdict::Fits(found) => WhyNot::Room(inquiry.changes(&found)),
        Verdict::Never => match inquiry.reduce(&mut effort) {
            Some(core) => WhyNot::Blocked(core),
            None => WhyNot::Blocked(beside_those_that_stay(snapshot, whom, assignment)),
        },
        Verdict::Unknown => WhyNot::Blocked(beside_those_that_stay(snapshot, whom, assignment)),
    }
}

/// One question, with what has been answered already.
struct Inquiry<'a> {
    snapshot: &'a Snapshot,
    /// Who has no place, ascending, at least one.
    whom: &'a [ActorIx],
    assignment: &'a Assignment,
    question: Question<'a>,
    elements: Vec<Element>,
    /// The same actors and the assignment in the question's positions.
    asked: Vec<ActorIx>,
    base: Assignment,
    /// By the limits that were kept.
    known: BTreeMap<BTreeSet<Limit>, Option<bool>>,
}

impl<'a> Inquiry<'a> {
    fn new(snapshot: &'a Snapshot, whom: &'a [ActorIx], assignment: &'a Assignment) -> Self {
        let placed: IxVec<ActorIx, bool> = assignment.iter().map(Option::is_some).collect();
        let question = Question::new(snapshot, whom, &placed);
        Self {
            snapshot,
            whom,
            assignment,
            elements: elements(snapshot, whom, &placed),
            asked: question.positions(whom),
            base: question.actors.iter().map(|&other| assignment[other]).collect(),
            question,
            known: BTreeMap::new(),
        }
    }

    fn first(&mut self, effort: &mut Effort) -> Verdict {
        let most = effort.left / 4;
        effort.lend(most, |effort| self.ask(&BTreeSet::new(), effort))
    }

    fn ask(&self, dropped: &BTreeSet<Limit>, effort: &mut Effort) -> Verdict {
        let (world, rules) = (self.question.without(dropped), self.question.rules_without(dropped));
        ask(&world, &rules, &self.asked, &self.base, effort)
    }

    /// Who is elsewhere in it.
    fn changes(&self, found: &Assignment) -> Vec<(ActorIx, UnitIx)> {
        let actors = self.question.actors.iter().zip(found);
        actors
            .filter_map(|(&a, place)| Some((a, (*place)?)).filter(|_| self.assignment[a] != *place))
            .collect()
    }

    /// Whether the actor has a place when only these elements are kept; `None` where that is not known.
    fn has_place(&mut self, kept: &[Element], effort: &mut Effort) -> Option<bool> {
        let kept: BTreeSet<Limit> = kept.iter().flat_map(|element| element.limits.iter().copied()).collect();
        if let Some(known) = self.known.get(&kept) {
            return *known;
        }
        let all = self.elements.iter().flat_map(|element| &element.limits);
        let dropped: BTreeSet<Limit> = all.copied().filter(|limit| !kept.contains(limit)).collect();
        let most = effort.left / 8;
        let verdict = effort.lend(most, |effort| self.ask(&dropped, effort));
        let answer = match verdict {
            Verdict::Fits(_) => Some(true),
            Verdict::Never => Some(false),
            Verdict::Unknown => None,
        };
        self.known.insert(kept, answer);
        answer
    }

    /// An irreducible part of all elements; `None` when the effort ended before anything was certain.
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
        // Of a set that may hold much that is not needed, the part that is certain says more.
        if !irreducible && found.len() > 12 {
            return None;
        }
        self.narrow(&mut found, effort);
        Some(Core { actor: self.whom[0], elements: found, holds: Holds::Always, irreducible })
    }

    /// The part of `rest` that is needed beside `kept`; `grew` says whether `kept` grew since it was last asked about.
    fn halve(&mut self, kept: &[Element], grew: bool, rest: &[Element], effort: &mut Effort) -> Vec<Element> {
        if grew && self.has_place(kept, effort) == Some(false) {
            return Vec::new();
        }
        if rest.len() <= 1 {
            // With nothing kept and one element left it may still be needed or not; what follows will tell.
            return rest.to_vec();
        }
        let (one, two) = rest.split_at(rest.len() / 2);
        let with_one = [kept, one].concat();
        let of_two = self.halve(&with_one, true, two, effort);
        let with_two = [kept, &of_two].concat();
        let of_one = self.halve(&with_two, !of_two.is_empty(), one, effort);
        [of_one, of_two].concat()
    }

    /// Narrows elements of many limits to those that are enough: the set stays irreducible, because a world without
    /// an element is the same as before, and one with less of it has no place if asked so.
    fn narrow(&mut self, found: &mut [Element], effort: &mut Effort) {
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
                    part[position] = Element { limits };
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

    /// Of the policy's rules the cases that the actor would break beside the others as they are.
    fn near_part(&self, found: &[Element]) -> Vec<Element> {
        let near: BTreeSet<usize> =
            self.whom.iter().flat_map(|&actor| stay::cases(self.snapshot, actor, self.assignment)).collect();
        let is_near = |limit: &Limit| !matches!(limit, Limit::Case { demand } if !near.contains(demand));
        narrowed(found, is_near)
    }

    /// Takes the part if it says the same.
    fn try_part(
        &mut self,
        found: &mut [Element],
        part: &[Element],
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

    /// Of each element what concerns the actors themselves: rules that name them, limits of where they could be by these.
    fn own_part(&self, found: &[Element]) -> Vec<Element> {
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
                self.whom.iter().any(|actor| named.contains(actor))
            }
        };
        narrowed(found, concerns)
    }
}

/// Of each element what is wanted; one that has nothing of that stays as it is.
fn narrowed(found: &[Element], wanted: impl Fn(&Limit) -> bool) -> Vec<Element> {
    let of = |element: &Element| {
        let limits: Vec<Limit> = element.limits.iter().copied().filter(|limit| wanted(limit)).collect();
        if limits.is_empty() { element.clone() } else { Element { limits } }
    };
    found.iter().map(of).collect()
}

/// Why there is no place while everybody else stays.
fn beside_those_that_stay(snapshot: &Snapshot, whom: &[ActorIx], assignment: &Assignment) -> Core {
    let elements = whom.iter().flat_map(|&actor| stay::core(snapshot, actor, assignment)).collect();
    Core { actor: whom[0], elements, holds: Holds::WhereOthersAre, irreducible: whom.len() == 1 }
}
