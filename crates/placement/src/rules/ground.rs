//! A policy's rules over placements, grounded for one snapshot: a circuit that every strategy can evaluate.
//!
//! The crate `policy` grounds a policy over the actors and their candidates; the result is a set of [`GroundRule`]s over
//! numbered atoms. [`Rules`] is that set, [`RuleEvaluator`](crate::RuleEvaluator) its value under an assignment, updated move by move: a
//! move visits only what changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::SuspendedLimit;
use crate::ix::{ActorIx, IxVec, UnitIx};

/// `head` holds if the weights of the true literals of the body sum to at least `lower`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroundRule {
    /// The derived atom, from 1.
    pub head: u32,
    /// The bound; for a plain body, the number of literals.
    pub lower: i64,
    /// Literals, negative for negated atoms, each with its positive weight.
    pub body: Vec<(i32, i64)>,
    /// Whether the body is a disjunction, for which further true literals are irrelevant.
    pub any: bool,
}

impl GroundRule {
    /// The sum of all weights, which may exceed what can hold at once.
    pub fn most(&self) -> i128 {
        self.body.iter().map(|(_, weight)| i128::from(*weight)).sum()
    }
}

/// A case of a rule: an atom that must not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroundConstraint {
    /// The atom of the violation.
    pub atom: u32,
    /// The rule that it is a case of, as its author finds it: `policy NAME line 7`.
    pub rule: String,
    /// The rule and the values of its variables, as a sentence.
    pub says: String,
    /// The already violated limit of the file that it represents.
    pub limit: Option<SuspendedLimit>,
}

/// An actor that can take part in grandfathered violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrandfatheredViolation {
    /// The actor.
    pub actor: ActorIx,
    /// The atom that says that it does.
    pub atom: u32,
    /// The violations: the atom of each, and the rule as a sentence.
    pub cases: Vec<(u32, String)>,
}

impl GrandfatheredViolation {
    /// All its atoms.
    pub(crate) fn atoms(&self) -> impl Iterator<Item = u32> {
        self.cases.iter().map(|(atom, _)| *atom).chain([self.atom])
    }
}

/// The rules of a policy for one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub(crate) ground: Vec<GroundRule>,
    /// By actor, sorted: a unit, and the atom of that placement.
    pub(crate) inputs: IxVec<ActorIx, Vec<(UnitIx, u32)>>,
    pub(crate) demands: Vec<GroundConstraint>,
    pub(crate) penalties: Vec<(u32, i64)>,
    /// The actors that can take part in grandfathered violations; empty before the current placement was considered.
    pub(crate) excuses: Option<Vec<GrandfatheredViolation>>,
    /// Cases that the current placement violates, as sentences.
    pub(crate) excusable: Vec<String>,
    /// By atom: the start of its uses in `uses`; one more at the end.
    pub(crate) first_use: Vec<usize>,
    /// A body, and its gain when the atom starts to hold.
    pub(crate) uses: Vec<(u32, i64)>,
    /// By atom: the case that it violates, if any.
    pub(crate) demand_of: Vec<u32>,
    /// By atom: its penalty.
    pub(crate) penalty_of: Vec<i64>,
    /// By atom: the number of grandfathered violations that it counts.
    pub(crate) excuse_of: Vec<i64>,
    /// By body: the case whose violation it measures, if any.
    pub(crate) degree_of: Vec<u32>,
    /// By case: the body that measures its violation, and whether it is violated from below.
    pub(crate) measured_by: Vec<Option<(u32, bool)>>,
}

pub(crate) const NONE: u32 = u32::MAX;

impl Rules {
    /// Takes ground rules; `inputs` are actor, unit and atom of each placement in the rules.
    ///
    /// # Errors
    /// If an atom depends on itself, or a number is out of range.
    pub fn new(
        actors: usize,
        ground: Vec<GroundRule>,
        inputs: &[(ActorIx, UnitIx, u32)],
        demands: Vec<GroundConstraint>,
        penalties: Vec<(u32, i64)>,
    ) -> Result<Self, String> {
        Self::of(actors, ground, inputs, demands, penalties, None)
    }

    /// No rules.
    pub(crate) fn none(actors: usize) -> Self {
        let rules = Self::new(actors, Vec::new(), &[], Vec::new(), Vec::new());
        rules.expect("nothing follows from itself where nothing follows")
    }

    /// Whether there are rules other than already violated limits of the file.
    pub fn are_written(&self) -> bool {
        !self.penalties.is_empty() || self.demands.iter().any(|demand| demand.limit.is_none())
    }

    /// The same for a part of a snapshot, with known atoms for grandfathered violations, each of one actor.
    ///
    /// # Errors
    /// As [`Rules::new`].
    pub fn of_part(
        actors: usize,
        ground: Vec<GroundRule>,
        inputs: &[(ActorIx, UnitIx, u32)],
        demands: Vec<GroundConstraint>,
        penalties: Vec<(u32, i64)>,
        excused: &[u32],
    ) -> Result<Self, String> {
        let excuse = |&atom: &u32| GrandfatheredViolation { actor: ActorIx::new(0), atom, cases: Vec::new() };
        Self::of(actors, ground, inputs, demands, penalties, Some(excused.iter().map(excuse).collect()))
    }

    pub(crate) fn of(
        actors: usize,
        ground: Vec<GroundRule>,
        inputs: &[(ActorIx, UnitIx, u32)],
        demands: Vec<GroundConstraint>,
        penalties: Vec<(u32, i64)>,
        excuses: Option<Vec<GrandfatheredViolation>>,
    ) -> Result<Self, String> {
        let all = Self::indexed(actors, ground, inputs, demands, penalties, excuses)?;
        all.check_order()?;
        // A policy may mention all actors and constrain a few: moves of the others need no evaluation.
        let matters = all.what_matters();
        let inputs: Vec<_> = inputs.iter().copied().filter(|(_, _, atom)| matters[*atom as usize]).collect();
        let outputs: Vec<u32> = all.outputs().collect();
        let Self { mut ground, demands, penalties, excuses, .. } = all;
        // A body whose weights cannot reach the bound never holds.
        let is_reached = |rule: &GroundRule| i128::from(rule.lower) <= rule.most();
        ground.retain(|rule| matters[rule.head as usize] && is_reached(rule));
        let outputs = outputs.into_iter().chain(inputs.iter().map(|(_, _, atom)| *atom)).collect();
        let ground = once(ground, &outputs);
        let mut rules = Self::indexed(actors, ground, &inputs, demands, penalties, excuses)?;
        rules.find_measures();
        Ok(rules)
    }

    /// The rules as given, with all look-ups except the measures.
    fn indexed(
        actors: usize,
        ground: Vec<GroundRule>,
        inputs: &[(ActorIx, UnitIx, u32)],
        demands: Vec<GroundConstraint>,
        penalties: Vec<(u32, i64)>,
        excuses: Option<Vec<GrandfatheredViolation>>,
    ) -> Result<Self, String> {
        let named = ground
            .iter()
            .flat_map(|rule| rule.body.iter().map(|(literal, _)| literal.unsigned_abs()).chain([rule.head]));
        let others = inputs.iter().map(|(_, _, atom)| *atom).chain(penalties.iter().map(|(atom, _)| *atom));
        let of_excuses = excuses.iter().flatten().flat_map(GrandfatheredViolation::atoms);
        let others = others.chain(of_excuses).chain(demands.iter().map(|demand| demand.atom));
        let most = named.chain(others).max().unwrap_or(0);
        let atoms = most as usize + 1;
        if i32::try_from(most).is_err() || ground.len() >= NONE as usize {
            return Err(format!("{atoms} atoms and {} rules are more than can be numbered", ground.len()));
        }
        let mut rules = Self {
            inputs: IxVec::of(Vec::new(), actors),
            demand_of: vec![NONE; atoms],
            penalty_of: vec![0; atoms],
            excuse_of: vec![0; atoms],
            degree_of: vec![NONE; ground.len()],
            measured_by: vec![None; demands.len()],
            ground,
            demands,
            penalties,
            excuses,
            ..Self::default()
        };
        for &(actor, unit, atom) in inputs {
            let known = rules
                .inputs
                .get_mut(actor)
                .ok_or_else(|| format!("there is no actor at position {}", actor.at()))?;
            known.push((unit, atom));
        }
        rules.inputs.iter_mut().for_each(|inputs| inputs.sort_unstable());
        for (position, demand) in rules.demands.iter().enumerate() {
            rules.demand_of[demand.atom as usize] =
                u32::try_from(position).expect("fewer demands than atoms");
        }
        for &(atom, weight) in &rules.penalties {
            rules.penalty_of[atom as usize] += weight;
        }
        for excuse in rules.excuses.iter().flatten() {
            rules.excuse_of[excuse.atom as usize] += 1;
        }
        rules.index_uses();
        Ok(rules)
    }

    /// Atoms that are outputs.
    fn outputs(&self) -> impl Iterator<Item = u32> {
        let demanded = self.demands.iter().map(|demand| demand.atom);
        let paid = self.penalties.iter().map(|(atom, _)| *atom);
        demanded.chain(paid).chain(self.excuses.iter().flatten().flat_map(GrandfatheredViolation::atoms))
    }

    /// By atom: whether an output depends on it.
    fn what_matters(&self) -> Vec<bool> {
        self.below(self.outputs().collect())
    }

    /// The number of atoms.
    pub(crate) fn atoms(&self) -> usize {
        self.demand_of.len()
    }

    /// By atom: whether one of these depends on it, or equals it.
    fn below(&self, mut open: Vec<u32>) -> Vec<bool> {
        let mut concluded_by = vec![Vec::new(); self.demand_of.len()];
        for rule in &self.ground {
            concluded_by[rule.head as usize].push(rule);
        }
        let mut matters = vec![false; self.demand_of.len()];
        while let Some(atom) = open.pop() {
            if !std::mem::replace(&mut matters[atom as usize], true) {
                let bodies = concluded_by[atom as usize].iter().flat_map(|rule| &rule.body);
                open.extend(bodies.map(|(literal, _)| literal.unsigned_abs()));
            }
        }
        matters
    }

    fn index_uses(&mut self) {
        let atoms = self.demand_of.len();
        let mut count = vec![0; atoms + 1];
        let literals = || self.ground.iter().flat_map(|rule| &rule.body);
        literals().for_each(|(literal, _)| count[literal.unsigned_abs() as usize + 1] += 1);
        for atom in 0..atoms {
            count[atom + 1] += count[atom];
        }
        let mut next = count.clone();
        self.uses = vec![(0, 0); count[atoms]];
        for (body, rule) in (0..).zip(&self.ground) {
            for &(literal, weight) in &rule.body {
                let place = &mut next[literal.unsigned_abs() as usize];
                self.uses[*place] = (body, if literal > 0 { weight } else { -weight });
                *place += 1;
            }
        }
        self.first_use = count;
    }

    /// Refuses cycles by topological elimination of atoms.
    fn check_order(&self) -> Result<(), String> {
        let atoms = self.demand_of.len();
        let mut missing: Vec<usize> = self.ground.iter().map(|rule| rule.body.len()).collect();
        let mut bodies = vec![0usize; atoms];
        self.ground.iter().for_each(|rule| bodies[rule.head as usize] += 1);
        let mut done: Vec<usize> = (0..atoms).filter(|atom| bodies[*atom] == 0).collect();
        let mut left: usize = atoms - done.len();
        let settle = |head: u32, bodies: &mut Vec<usize>, done: &mut Vec<usize>, left: &mut usize| {
            bodies[head as usize] -= 1;
            if bodies[head as usize] == 0 {
                done.push(head as usize);
                *left -= 1;
            }
        };
        for rule in self.ground.iter().filter(|rule| rule.body.is_empty()) {
            settle(rule.head, &mut bodies, &mut done, &mut left);
        }
        while let Some(atom) = done.pop() {
            for &(body, _) in &self.uses[self.first_use[atom]..self.first_use[atom + 1]] {
                missing[body as usize] -= 1;
                if missing[body as usize] == 0 {
                    settle(self.ground[body as usize].head, &mut bodies, &mut done, &mut left);
                }
            }
        }
        if left == 0 { Ok(()) } else { Err("the rules conclude something from itself".to_owned()) }
    }

    /// Finds the count or sum that alone decides a case.
    fn find_measures(&mut self) {
        let mut concluded_by = vec![Vec::new(); self.demand_of.len()];
        for (body, rule) in (0..).zip(&self.ground) {
            concluded_by[rule.head as usize].push(body);
        }
        for demand in 0..self.demands.len() {
            let Some((body, too_little)) = self.measure(self.demands[demand].atom, &concluded_by) else {
                continue;
            };
            if self.degree_of[body as usize] == NONE {
                self.measured_by[demand] = Some((body, too_little));
                self.degree_of[body as usize] = u32::try_from(demand).expect("fewer demands than atoms");
            }
        }
    }

    /// The count or sum that an atom is equivalent to, and whether it means that the sum is too small.
    pub(crate) fn measure(&self, mut atom: u32, concluded_by: &[Vec<u32>]) -> Option<(u32, bool)> {
        let mut too_little = false;
        while let [body] = concluded_by[atom as usize][..] {
            let rule = &self.ground[body as usize];
            if let [(literal, weight)] = rule.body[..]
                && rule.lower == weight
            {
                (atom, too_little) = (literal.unsigned_abs(), too_little ^ (literal < 0));
                continue;
            }
            let is_more = i128::from(rule.lower) < rule.most() && !rule.any;
            return is_more.then_some((body, too_little));
        }
        None
    }

    /// The same rules with penalties divided, rounded up or down.
    #[must_use]
    pub fn divided(&self, divisor: i64, up: bool) -> Self {
        let mut rules = self.clone();
        let divide = |weight: &mut i64| {
            let rest = i64::from(up && *weight % divisor > 0);
            *weight = *weight / divisor + rest;
        };
        rules.penalties.iter_mut().for_each(|(_, weight)| divide(weight));
        rules.penalty_of = vec![0; rules.penalty_of.len()];
        for &(atom, weight) in &rules.penalties {
            rules.penalty_of[atom as usize] += weight;
        }
        rules
    }

    /// The ground rules.
    pub fn ground(&self) -> &[GroundRule] {
        &self.ground
    }

    /// The units of an actor in the rules, ascending, each with its atom.
    pub fn inputs(&self, actor: ActorIx) -> &[(UnitIx, u32)] {
        &self.inputs[actor]
    }

    /// The cases, by position.
    pub fn cases(&self) -> &[GroundConstraint] {
        &self.demands
    }

    /// By case: whether a violation is permanent as more actors are placed. Those of limits are: only power is encoded by negated
    /// bits, and it still grows with load.
    pub fn grow(&self) -> Vec<bool> {
        let atoms = self.demand_of.len();
        let mut shrinks = vec![false; atoms];
        let denying = self.ground.iter().filter(|rule| rule.body.iter().any(|(literal, _)| *literal < 0));
        let mut open: Vec<u32> = denying.map(|rule| rule.head).collect();
        while let Some(atom) = open.pop() {
            if !std::mem::replace(&mut shrinks[atom as usize], true) {
                open.extend(self.uses_of(atom).iter().map(|(body, _)| self.ground[*body as usize].head));
            }
        }
        let grows = |demand: &GroundConstraint| demand.limit.is_some() || !shrinks[demand.atom as usize];
        self.demands.iter().map(grows).collect()
    }

    /// By atom: whether one of these cases depends on it.
    pub fn matter_to(&self, demands: impl Iterator<Item = usize>) -> Vec<bool> {
        self.below(demands.map(|demand| self.demands[demand].atom).collect())
    }

    /// The bodies that contain an atom, and the gain of each when it starts to hold.
    pub fn uses_of(&self, atom: u32) -> &[(u32, i64)] {
        let at = atom as usize;
        &self.uses[self.first_use[at]..self.first_use[at + 1]]
    }

    /// The case that an atom violates, by position.
    pub fn demand_at(&self, atom: u32) -> Option<usize> {
        let demand = self.demand_of[atom as usize];
        (demand != NONE).then_some(demand as usize)
    }

    /// The same; `None` for an unknown actor.
    pub fn inputs_of(&self, actor: ActorIx) -> Option<&[(UnitIx, u32)]> {
        self.inputs.get(actor).map(Vec::as_slice)
    }

    /// Atoms with penalties.
    pub fn penalties(&self) -> &[(u32, i64)] {
        &self.penalties
    }

    /// The sum of all penalties, an upper bound.
    pub fn most_penalty(&self) -> i64 {
        self.penalties.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
    }

    /// The atom of a placement, if the rules know it.
    pub fn input(&self, actor: ActorIx, unit: UnitIx) -> Option<u32> {
        let inputs = self.inputs.get(actor)?;
        inputs.binary_search_by_key(&unit, |(unit, _)| *unit).ok().map(|at| inputs[at].1)
    }
}

/// The same rules without duplicates: an atom that is derived by the same single body as another, and is not one of
/// `outputs`, is replaced by it. Ground case by case, a policy repeats the same count many times.
fn once(mut ground: Vec<GroundRule>, outputs: &BTreeSet<u32>) -> Vec<GroundRule> {
    loop {
        let before = ground.len();
        let mut bodies: BTreeMap<u32, usize> = BTreeMap::new();
        for rule in &ground {
            *bodies.entry(rule.head).or_default() += 1;
        }
        let mut first = BTreeMap::new();
        let mut other: BTreeMap<u32, u32> = BTreeMap::new();
        for rule in ground.iter().filter(|rule| bodies[&rule.head] == 1 && !outputs.contains(&rule.head)) {
            let known = *first.entry((rule.lower, rule.any, rule.body.as_slice())).or_insert(rule.head);
            if known != rule.head {
                other.insert(rule.head, known);
            }
        }
        let mut seen = BTreeSet::new();
        let mut left = Vec::with_capacity(ground.len());
        for mut rule in ground.iter().filter(|rule| !other.contains_key(&rule.head)).cloned() {
            for (literal, _) in &mut rule.body {
                if let Some(known) = other.get(&literal.unsigned_abs()) {
                    let known = i32::try_from(*known).expect("it was a literal before");
                    *literal = if *literal > 0 { known } else { -known };
                }
            }
            if seen.insert((rule.head, rule.lower, rule.any, rule.body.clone())) {
                left.push(rule);
            }
        }
        ground = left;
        if ground.len() == before {
            return ground;
        }
    }
}
