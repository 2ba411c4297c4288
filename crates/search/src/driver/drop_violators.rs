//! Who is left out for a policy's rules to be kept, where no placement of all is known that keeps them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Rules, Ruling, Snapshot};

use crate::stop_clock::{Clock, Cut};
use crate::union_find::find_root;

/// Rules that an actor's place is part of, that are followed in the time that it takes anyway to take it out and to put it back.
const USES: usize = 16;

/// Takes out, one after the other, the actor without whom rules of the policy are broken least, as long as that helps. Where `stop` ends
/// that, everybody goes who is in the way when its turn comes.
pub(crate) fn drop_violators(
    snapshot: &Snapshot,
    assignment: Assignment,
    stop: &dyn Fn() -> bool,
) -> Assignment {
    let Some(rules) = snapshot.rules() else { return assignment };
    let ruling = Ruling::of(rules, &assignment);
    if ruling.degree() == 0 {
        return assignment;
    }
    let parts = parts(snapshot, rules, &assignment);
    let mut leaving = Leaving { ruling, assignment, parts };
    if leaving.one_by_one(&mut Clock::new(stop)) == Err(Cut) {
        leaving.in_passing();
    }
    leaving.assignment
}

/// An actor that may be taken out.
#[derive(Clone, Copy)]
struct Member {
    actor: ActorIx,
    unit: UnitIx,
    /// How long it takes to try that.
    work: usize,
}

/// Actors that are taken out, and what rules say of the others.
struct Leaving<'a> {
    ruling: Ruling<'a>,
    assignment: Assignment,
    /// Who may be taken out, ascending: those together whose places have a rule in common, directly or through others. What is gained by
    /// one of a part does not depend on who is there of another.
    parts: Vec<Vec<Member>>,
}

impl Leaving<'_> {
    fn one_by_one(&mut self, clock: &mut Clock) -> Result<(), Cut> {
        clock.look()?;
        // One of each part, who helps most: of equals the first.
        let mut next: BinaryHeap<Reverse<(i64, ActorIx, usize)>> = BinaryHeap::new();
        for part in 0..self.parts.len() {
            next.extend(self.best_of(part, clock)?.map(Reverse));
        }
        while let Some(Reverse((_, actor, part))) = next.pop() {
            if let Ok(at) = self.parts[part].binary_search_by_key(&actor, |member| member.actor) {
                let member = self.parts[part].remove(at);
                self.ruling.take(actor, member.unit);
                self.assignment[actor] = None;
            }
            next.extend(self.best_of(part, clock)?.map(Reverse));
        }
        Ok(())
    }

    /// By how much more rules are broken without the one of a part that helps most, who that is, and the part; none where nobody does.
    fn best_of(&mut self, part: usize, clock: &mut Clock) -> Result<Option<(i64, ActorIx, usize)>, Cut> {
        let before = self.ruling.degree();
        let mut best: Option<(i64, ActorIx, usize)> = None;
        for member in &self.parts[part] {
            clock.after(member.work)?;
            self.ruling.take(member.actor, member.unit);
            let found = (self.ruling.degree() - before, member.actor, part);
            self.ruling.put(member.actor, member.unit);
            if found.0 < 0 && best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Takes out everybody who helps as things are when its turn comes, in one go.
    fn in_passing(&mut self) {
        let mut all: Vec<Member> = self.parts.concat();
        all.sort_unstable_by_key(|member| member.actor);
        for Member { actor, unit, .. } in all {
            let before = self.ruling.degree();
            if before == 0 {
                return;
            }
            self.ruling.take(actor, unit);
            if self.ruling.degree() < before {
                self.assignment[actor] = None;
            } else {
                self.ruling.put(actor, unit);
            }
        }
    }
}

/// Who may be taken out, by what has to do with each other in what must not hold.
fn parts(snapshot: &Snapshot, rules: &Rules, assignment: &Assignment) -> Vec<Vec<Member>> {
    let matters = rules.matter_to(0..rules.cases().len());
    // By atom: another one of its part, in the end the one that stands for all.
    let mut heads: Vec<usize> = (0..matters.len()).collect();
    for rule in rules.ground().iter().filter(|rule| matters[rule.head as usize]) {
        let mut head = find_root(&mut heads, rule.head as usize);
        for (literal, _) in &rule.body {
            let other = find_root(&mut heads, literal.unsigned_abs() as usize);
            let (first, last) = (head.min(other), head.max(other));
            heads[last] = first;
            head = first;
        }
    }
    let mut parts: BTreeMap<usize, Vec<Member>> = BTreeMap::new();
    for (actor, place) in assignment.enumerate().filter(|(actor, _)| !snapshot.is_fixed(*actor)) {
        let Some(unit) = *place else { continue };
        let Some(atom) = rules.input(actor, unit).filter(|atom| matters[*atom as usize]) else { continue };
        let work = 1 + rules.uses_of(atom).len() / USES;
        parts.entry(find_root(&mut heads, atom as usize)).or_default().push(Member { actor, unit, work });
    }
    parts.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use placement::{GroundConstraint, GroundRule};

    use super::*;

    const ACTORS: usize = 9;
    const UNITS: usize = 3;

    /// Some counts, and what must not be of them: more than so many somewhere, or fewer.
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
            let (count, broken) = (next - 1, next);
            let unit = rng.usize(..UNITS);
            let who: Vec<usize> = (0..ACTORS).filter(|_| rng.u32(..3) == 0).collect();
            let sign = if rng.u32(..5) == 0 { -1 } else { 1 };
            let mut body: Vec<(i32, i64)> =
                who.iter().map(|actor| (sign * on(*actor, unit).cast_signed(), rng.i64(1..3))).collect();
            // Sometimes one of the counts before it counts as well.
            if rng.u32(..4) == 0 && count > u32::try_from(ACTORS * UNITS).unwrap() + 1 {
                body.push(((count - 2).cast_signed(), 1));
            }
            let lower = rng.i64(1..4);
            ground.push(GroundRule { head: count, lower, body, any: false });
            let says = if rng.u32(..6) == 0 { -count.cast_signed() } else { count.cast_signed() };
            ground.push(GroundRule { head: broken, lower: 1, body: vec![(says, 1)], any: false });
            if rng.u32(..6) > 0 {
                let rule = "policy p line 1".to_owned();
                demands.push(GroundConstraint { atom: broken, rule, says: broken.to_string(), limit: None });
            }
        }
        Rules::new(ACTORS, ground, &inputs, demands, vec![]).unwrap()
    }

    /// Every actor is tried each time.
    fn by_trying_all(snapshot: &Snapshot, mut assignment: Assignment) -> Assignment {
        let mut ruling = Ruling::of(snapshot.rules().unwrap(), &assignment);
        while ruling.degree() > 0 {
            let mut best: Option<(i64, ActorIx, UnitIx)> = None;
            for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
                let Some(unit) = assignment[actor] else { continue };
                ruling.take(actor, unit);
                let degree = ruling.degree();
                ruling.put(actor, unit);
                if best.is_none_or(|(least, _, _)| degree < least) {
                    best = Some((degree, actor, unit));
                }
            }
            match best {
                Some((degree, actor, unit)) if degree < ruling.degree() => {
                    ruling.take(actor, unit);
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
    fn who_leaves_is_whom_a_look_at_all_finds() {
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

    /// Whenever the clock ends it, nobody comes or moves, less is broken wherever somebody leaves, and it is not asked again.
    #[test]
    fn where_there_is_no_time_whoever_is_in_the_way_leaves_at_once() {
        for seed in 0..500 {
            let (snapshot, places) = random_world(&mut fastrand::Rng::with_seed(seed));
            let asked = Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                true
            };
            let found = drop_violators(&snapshot, places.clone(), &stop);
            assert!(asked.get() <= 1, "seed {seed}");
            let rules = snapshot.rules().unwrap();
            let [before, after] = [&places, &found].map(|places| Ruling::of(rules, places).degree());
            let mut pairs = places.iter().zip(&found);
            assert!(pairs.all(|(before, after)| after.is_none() || after == before), "seed {seed}");
            assert!(after < before || found == places, "seed {seed}");
        }
    }
}
