//! Grandfathering: violations that what runs now already has.
//!
//! A case that the current placement violates is tolerated for the actors that take part now, as long as no actor joins and the
//! violation does not grow; each of these actors counts once, above every level, so that the violation is repaired if possible.
//! This meaning is itself expressed by ground rules, which every strategy, clingo and explanations follow like a policy's.

use std::collections::{BTreeMap, BTreeSet};

use crate::ix::{ActorIx, IxVec, UnitIx};
use crate::rules::evaluator::RuleEvaluator;
use crate::rules::ground::{GrandfatheredViolation, GroundConstraint, GroundRule, Rules};
use crate::{Assignment, SuspendedLimit};

/// The placements of actors in the rules: actor and atom.
type Members = BTreeMap<ActorIx, Vec<(UnitIx, u32)>>;

impl Rules {
    /// The same rules with violations of `current` grandfathered.
    ///
    /// # Errors
    /// If that needs more atoms than can be numbered.
    pub(crate) fn excusing(self, fixed: &IxVec<ActorIx, bool>, current: &Assignment) -> Result<Self, String> {
        if self.excuses.is_some() {
            return Ok(self);
        }
        let alone: Assignment =
            current.enumerate().map(|(actor, place)| place.filter(|_| fixed[actor])).collect();
        let unplaced = Assignment::of(None, current.len());
        let [unplaced, alone, now] =
            [&unplaced, &alone, current].map(|places| RuleEvaluator::of(&self, places));
        let always: BTreeSet<usize> = unplaced.broken().collect();
        let open: BTreeSet<usize> =
            alone.broken().chain(now.broken()).filter(|demand| !always.contains(demand)).collect();
        if open.is_empty() {
            return Ok(Self { excuses: Some(Vec::new()), ..self });
        }
        let grows = self.grow();
        let mut written = ExcusedCircuit::new(&self, fixed);
        let mut sentences = Vec::new();
        for demand in open {
            written.write(demand, &now, grows[demand], current);
            sentences.push(self.demands[demand].says.clone());
        }
        written.finish(sentences)
    }

    /// The actors in grandfathered violations of a feasible assignment, each with the violated rules as sentences.
    pub fn excused(&self, assignment: &Assignment) -> Vec<(ActorIx, Vec<String>)> {
        let evaluator = RuleEvaluator::of(self, assignment);
        let of_actor = |excuse: &GrandfatheredViolation| {
            let cases = excuse.cases.iter().filter(|(atom, _)| evaluator.holds(*atom));
            let says: Vec<String> = cases.map(|(_, says)| says.clone()).collect();
            (!says.is_empty()).then_some((excuse.actor, says))
        };
        self.excuses().iter().filter_map(of_actor).collect()
    }

    /// The number of actors in grandfathered violations.
    pub(crate) fn excused_count(&self, assignment: &Assignment) -> i64 {
        if self.excuses().is_empty() { 0 } else { RuleEvaluator::of(self, assignment).excused() }
    }

    /// The actors that can take part in a grandfathered violation.
    pub fn excuses(&self) -> &[GrandfatheredViolation] {
        self.excuses.as_deref().unwrap_or_default()
    }

    /// The cases that only refuse an aggravation, as sentences.
    pub fn excusable(&self) -> &[String] {
        &self.excusable
    }
}

/// Collects rules.
struct ExcusedCircuit<'a> {
    rules: &'a Rules,
    fixed: &'a IxVec<ActorIx, bool>,
    /// By atom: the bodies that derive it.
    concluded_by: Vec<Vec<u32>>,
    /// By atom: the placement that it stands for.
    input_of: BTreeMap<u32, (ActorIx, UnitIx)>,
    ground: Vec<GroundRule>,
    /// By case: whether it is replaced.
    gone: BTreeSet<usize>,
    demands: Vec<GroundConstraint>,
    cases: BTreeMap<ActorIx, Vec<(u32, String)>>,
    next: u32,
}

impl<'a> ExcusedCircuit<'a> {
    fn new(rules: &'a Rules, fixed: &'a IxVec<ActorIx, bool>) -> Self {
        let mut concluded_by = vec![Vec::new(); rules.atoms()];
        for (body, rule) in (0..).zip(&rules.ground) {
            concluded_by[rule.head as usize].push(body);
        }
        let of_actor = |(actor, inputs): (ActorIx, &Vec<(UnitIx, u32)>)| {
            inputs.iter().map(move |&(unit, atom)| (atom, (actor, unit))).collect::<Vec<_>>()
        };
        Self {
            rules,
            fixed,
            concluded_by,
            input_of: rules.inputs.enumerate().flat_map(of_actor).collect(),
            ground: rules.ground.clone(),
            gone: BTreeSet::new(),
            demands: Vec::new(),
            cases: BTreeMap::new(),
            next: u32::try_from(rules.atoms()).unwrap_or(u32::MAX),
        }
    }

    /// The replacement of a case that is already violated.
    fn write(&mut self, demand: usize, now: &RuleEvaluator, grows: bool, current: &Assignment) {
        self.gone.insert(demand);
        let rules = self.rules;
        let GroundConstraint { atom, says, limit, .. } = &rules.demands[demand];
        let broken = *atom;
        if let Some(SuspendedLimit::Breach(_, actor)) = limit {
            self.cases.entry(*actor).or_default().push((broken, says.clone()));
            return;
        }
        let members = self.members(broken);
        if members.is_empty() {
            return;
        }
        let all: Vec<u32> = members.values().flatten().map(|(_, atom)| *atom).collect();
        if !now.holds(broken) {
            // Fixed actors violate it, and a movable one prevents that: any participant is refused.
            let atom = self.both(broken, &all);
            return self.demand(demand, atom);
        }
        let is_now = |actor: &ActorIx, places: &[(UnitIx, u32)]| {
            current[*actor].is_some_and(|here| places.iter().any(|(unit, _)| *unit == here))
        };
        let (here, coming): (Members, Members) =
            members.into_iter().partition(|(actor, places)| is_now(actor, places));
        let coming: Vec<u32> = coming.values().flatten().map(|(_, atom)| *atom).collect();
        if !coming.is_empty() {
            let atom = self.both(broken, &coming);
            self.demand(demand, atom);
        }
        if let Some(worse) = self.worse(demand, now) {
            // If more can only aggravate it, a movable actor takes part wherever it is worse than now.
            let atom = if grows { worse } else { self.both(worse, &all) };
            self.demand(demand, atom);
        }
        for (actor, places) in here {
            let atom = self.both(broken, &places.iter().map(|(_, atom)| *atom).collect::<Vec<_>>());
            self.cases.entry(actor).or_default().push((atom, says.clone()));
        }
    }

    /// Placements of movable actors on which an atom depends.
    fn members(&self, atom: u32) -> Members {
        let (mut seen, mut open) = (BTreeSet::from([atom]), vec![atom]);
        let mut members = Members::new();
        while let Some(atom) = open.pop() {
            if let Some(&(actor, unit)) = self.input_of.get(&atom).filter(|(actor, _)| !self.fixed[*actor]) {
                members.entry(actor).or_default().push((unit, atom));
            }
            for body in &self.concluded_by[atom as usize] {
                let parts = self.rules.ground[*body as usize].body.iter();
                open.extend(parts.map(|(part, _)| part.unsigned_abs()).filter(|part| seen.insert(*part)));
            }
        }
        members
    }

    /// An atom that holds if the violation of a case is larger than now; `None` if that is impossible.
    fn worse(&mut self, demand: usize, now: &RuleEvaluator) -> Option<u32> {
        let (body, too_little) = self.rules.measure(self.rules.demands[demand].atom, &self.concluded_by)?;
        let rules = self.rules;
        let (rule, sum) = (&rules.ground[body as usize], now.sum(body));
        // Larger: above the current sum, or below it.
        let needed = if too_little { sum } else { sum + 1 };
        if (too_little && needed <= 0) || (!too_little && i128::from(needed) > rule.most()) {
            return None;
        }
        debug_assert!(too_little == (sum < rule.lower), "the demand is broken now");
        let reached = self.rule(needed, rule.body.clone());
        Some(if too_little { self.rule(1, vec![(-literal(reached), 1)]) } else { reached })
    }

    /// An atom that holds if one atom does and one of some others.
    fn both(&mut self, one: u32, any: &[u32]) -> u32 {
        let many = i64::try_from(any.len()).expect("a count of atoms is small");
        let parts = any.iter().map(|atom| (literal(*atom), 1));
        self.rule(many + 1, std::iter::once((literal(one), many)).chain(parts).collect())
    }

    fn rule(&mut self, lower: i64, body: Vec<(i32, i64)>) -> u32 {
        let head = self.next;
        self.next = self.next.saturating_add(1);
        self.ground.push(GroundRule { head, lower, body, any: false });
        head
    }

    fn demand(&mut self, demand: usize, atom: u32) {
        self.demands.push(GroundConstraint { atom, ..self.rules.demands[demand].clone() });
    }

    fn finish(mut self, excusable: Vec<String>) -> Result<Rules, String> {
        let mut excuses = Vec::new();
        for (actor, cases) in std::mem::take(&mut self.cases) {
            let any = cases.iter().map(|(atom, _)| (literal(*atom), 1)).collect();
            excuses.push(GrandfatheredViolation { actor, atom: self.rule(1, any), cases });
        }
        let kept = self.rules.demands.iter().enumerate().filter(|(demand, _)| !self.gone.contains(demand));
        let demands = kept.map(|(_, demand)| demand.clone()).chain(self.demands).collect();
        let inputs: Vec<(ActorIx, UnitIx, u32)> =
            self.input_of.iter().map(|(atom, (actor, unit))| (*actor, *unit, *atom)).collect();
        let (actors, penalties) = (self.rules.inputs.len(), self.rules.penalties.clone());
        let rules = Rules::of(actors, self.ground, &inputs, demands, penalties, Some(excuses))?;
        Ok(Rules { excusable, ..rules })
    }
}

fn literal(atom: u32) -> i32 {
    i32::try_from(atom).expect("atoms are numbered far below 2^31")
}
