//! Unplaces actors until a placement keeps a policy's rules, where no placement of all actors is known that does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, RuleEvaluator, Rules, Snapshot};

use crate::stop_clock::{Expired, StopClock};
use crate::union_find::find_root;

/// Rules that are updated in the time that an actor's removal and return take anyway.
const RULES_PER_STEP: usize = 16;

/// Unplaces, one after the other, the actor whose removal reduces the violation most, as long as one helps. Where `stop`
/// ends that, it unplaces every actor that helps in one pass.
pub(crate) fn drop_violators(
    snapshot: &Snapshot,
    assignment: Assignment,
    stop: &dyn Fn() -> bool,
) -> Assignment {
    let Some(rules) = snapshot.rules() else { return assignment };
    let evaluator = RuleEvaluator::of(rules, &assignment);
    if evaluator.degree() == 0 {
        return assignment;
    }
    let components = components(snapshot, rules, &assignment);
    let mut removal = Removal { evaluator, assignment, components };
    if removal.greedily(&mut StopClock::new(stop)) == Err(Expired) {
        removal.in_one_pass();
    }
    removal.assignment
}

/// An actor that may be unplaced.
#[derive(Clone, Copy)]
struct Candidate {
    actor: ActorIx,
    unit: UnitIx,
    /// Work of trying that.
    work: usize,
}

/// Actors that are unplaced, and the rules over the others.
struct Removal<'a> {
    evaluator: RuleEvaluator<'a>,
    assignment: Assignment,
    /// Actors that may be unplaced, ascending, in components whose rules are connected. The gain within one component
    /// does not depend on another.
    components: Vec<Vec<Candidate>>,
}

impl Removal<'_> {
    fn greedily(&mut self, clock: &mut StopClock) -> Result<(), Expired> {
        clock.check()?;
        // The most helpful actor of each component; of equal ones the first.
        let mut next: BinaryHeap<Reverse<(i64, ActorIx, usize)>> = BinaryHeap::new();
        for component in 0..self.components.len() {
            next.extend(self.best_of(component, clock)?.map(Reverse));
        }
        while let Some(Reverse((_, actor, component))) = next.pop() {
            if let Ok(at) =
                self.components[component].binary_search_by_key(&actor, |candidate| candidate.actor)
            {
                let candidate = self.components[component].remove(at);
                self.evaluator.take(actor, candidate.unit);
                self.assignment[actor] = None;
            }
            next.extend(self.best_of(component, clock)?.map(Reverse));
        }
        Ok(())
    }

    /// The change of the violation without the most helpful actor of a component; `None` where none helps.
    fn best_of(
        &mut self,
        component: usize,
        clock: &mut StopClock,
    ) -> Result<Option<(i64, ActorIx, usize)>, Expired> {
        let before = self.evaluator.degree();
        let mut best: Option<(i64, ActorIx, usize)> = None;
        for candidate in &self.components[component] {
            clock.spend(candidate.work)?;
            self.evaluator.take(candidate.actor, candidate.unit);
            let found = (self.evaluator.degree() - before, candidate.actor, component);
            self.evaluator.put(candidate.actor, candidate.unit);
            if found.0 < 0 && best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Unplaces every actor that helps at its turn, in one pass.
    fn in_one_pass(&mut self) {
        let mut all: Vec<Candidate> = self.components.concat();
        all.sort_unstable_by_key(|candidate| candidate.actor);
        for Candidate { actor, unit, .. } in all {
            let before = self.evaluator.degree();
            if before == 0 {
                return;
            }
            self.evaluator.take(actor, unit);
            if self.evaluator.degree() < before {
                self.assignment[actor] = None;
            } else {
                self.evaluator.put(actor, unit);
            }
        }
    }
}

/// The actors that may be unplaced, by connected component of the violated rules.
fn components(snapshot: &Snapshot, rules: &Rules, assignment: &Assignment) -> Vec<Vec<Candidate>> {
    let is_relevant = rules.matter_to(0..rules.cases().len());
    // Union-find over atoms.
    let mut parents: Vec<usize> = (0..is_relevant.len()).collect();
    for rule in rules.ground().iter().filter(|rule| is_relevant[rule.head as usize]) {
        let mut head = find_root(&mut parents, rule.head as usize);
        for (literal, _) in &rule.body {
            let other = find_root(&mut parents, literal.unsigned_abs() as usize);
            let (first, last) = (head.min(other), head.max(other));
            parents[last] = first;
            head = first;
        }
    }
    let mut components: BTreeMap<usize, Vec<Candidate>> = BTreeMap::new();
    for (actor, place) in assignment.enumerate().filter(|(actor, _)| !snapshot.is_fixed(*actor)) {
        let Some(unit) = *place else { continue };
        let Some(atom) = rules.input(actor, unit).filter(|atom| is_relevant[*atom as usize]) else {
            continue;
        };
        let work = 1 + rules.uses_of(atom).len() / RULES_PER_STEP;
        components.entry(find_root(&mut parents, atom as usize)).or_default().push(Candidate {
            actor,
            unit,
            work,
        });
    }
    components.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use placement::{GroundConstraint, GroundRule};

    use super::*;

    const ACTORS: usize = 9;
    const UNITS: usize = 3;

    /// Random counts with upper and lower bounds.
    fn random_rules(rng: &mut fastrand::Rng) -> Rules {
        let on = |actor: usize, unit: usize| u32::try_from(1 + actor * UNITS + unit).unwrap();
        let inputs: Vec<_> = (0..ACTORS)
            .flat_map(|actor| (0..UNITS).map(move |unit| (actor, unit)))
            .map(|(actor, unit)| (ActorIx::new(actor), UnitIx::new(unit), on(actor, unit)))
            .collect();
        let mut next = u32::try_from(ACTORS * UNITS).unwrap();
        let (mut ground, mut demands) = (Vec::new(), Vec::new());
        for _ in 0..rng.usize(1..9) {
            next += 2;
            let (count, violation) = (next - 1, next);
            let unit = rng.usize(..UNITS);
            let members: Vec<usize> = (0..ACTORS).filter(|_| rng.u32(..3) == 0).collect();
            let sign = if rng.u32(..5) == 0 { -1 } else { 1 };
            let mut body: Vec<(i32, i64)> =
                members.iter().map(|actor| (sign * on(*actor, unit).cast_signed(), rng.i64(1..3))).collect();
            // Some counts include the one before.
            if rng.u32(..4) == 0 && count > u32::try_from(ACTORS * UNITS).unwrap() + 1 {
                body.push(((count - 2).cast_signed(), 1));
            }
            let lower = rng.i64(1..4);
            ground.push(GroundRule { head: count, lower, body, any: false });
            let says = if rng.u32(..6) == 0 { -count.cast_signed() } else { count.cast_signed() };
            ground.push(GroundRule { head: violation, lower: 1, body: vec![(says, 1)], any: false });
            if rng.u32(..6) > 0 {
                let rule = "policy p line 1".to_owned();
                demands.push(GroundConstraint {
                    atom: violation,
                    rule,
                    says: violation.to_string(),
                    limit: None,
                });
            }
        }
        Rules::new(ACTORS, ground, &inputs, demands, vec![]).unwrap()
    }

    /// Reference: tries every actor each time.
    fn by_trying_all(snapshot: &Snapshot, mut assignment: Assignment) -> Assignment {
        let mut evaluator = RuleEvaluator::of(snapshot.rules().unwrap(), &assignment);
        while evaluator.degree() > 0 {
            let mut best: Option<(i64, ActorIx, UnitIx)> = None;
            for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
                let Some(unit) = assignment[actor] else { continue };
                evaluator.take(actor, unit);
                let degree = evaluator.degree();
                evaluator.put(actor, unit);
                if best.is_none_or(|(least, _, _)| degree < least) {
                    best = Some((degree, actor, unit));
                }
            }
            match best {
                Some((degree, actor, unit)) if degree < evaluator.degree() => {
                    evaluator.take(actor, unit);
                    assignment[actor] = None;
                }
                _ => break,
            }
        }
        assignment
    }

    fn random_world(rng: &mut fastrand::Rng) -> (Snapshot, Assignment) {
        let actors: Vec<String> = (0..ACTORS).map(|actor| format!("a{actor}:cpu=1")).collect();
        let actors = format!("{}:at=u0,fixed", actors.join(" "));
        let snapshot = testkit::line::world("u0:cpu:9 u1:cpu:9 u2:cpu:9", &actors, "");
        let snapshot = snapshot.with_rules(Some(random_rules(rng)));
        let place = |actor: usize| match rng.usize(..=UNITS) {
            _ if actor + 1 == ACTORS => Some(UnitIx::new(0)),
            UNITS => None,
            unit => Some(UnitIx::new(unit)),
        };
        let places = (0..ACTORS).map(place).collect();
        (snapshot, places)
    }

    #[test]
    fn removals_equal_those_of_exhaustive_greedy() {
        let (mut left, mut several) = (0, 0);
        for seed in 0..3000 {
            let (snapshot, places) = random_world(&mut fastrand::Rng::with_seed(seed));
            let expected = by_trying_all(&snapshot, places.clone());
            let found = drop_violators(&snapshot, places.clone(), &|| false);
            assert_eq!(found, expected, "seed {seed}");
            let gone = places.iter().zip(&found).filter(|(before, after)| before != after).count();
            left += usize::from(gone > 0);
            several += usize::from(gone > 1);
        }
        assert!(left > 300 && several > 100, "{left} {several}");
    }

    /// Whenever the clock ends it: no actor is added or moved, each removal reduces the violation, and the clock is
    /// checked once.
    #[test]
    fn without_time_violators_are_dropped_in_one_pass() {
        for seed in 0..500 {
            let (snapshot, places) = random_world(&mut fastrand::Rng::with_seed(seed));
            let checks = Cell::new(0);
            let stop = || {
                checks.set(checks.get() + 1);
                true
            };
            let found = drop_violators(&snapshot, places.clone(), &stop);
            assert!(checks.get() <= 1, "seed {seed}");
            let rules = snapshot.rules().unwrap();
            let [before, after] = [&places, &found].map(|places| RuleEvaluator::of(rules, places).degree());
            let mut pairs = places.iter().zip(&found);
            assert!(pairs.all(|(before, after)| after.is_none() || after == before), "seed {seed}");
            assert!(after < before || found == places, "seed {seed}");
        }
    }
}
