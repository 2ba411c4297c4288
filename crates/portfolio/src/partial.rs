//! A policy's rules where most actors stand still: what is settled by them is left out, what is left is a policy for
//! the few that are freed.

use std::collections::BTreeSet;

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, GroundConstraint, GroundRule, Problem, Rules, Snapshot};

/// The rules of a world in the order in which they follow from one another.
pub(crate) struct Circuit<'a> {
    rules: &'a Rules,
    /// Ground rules, each after those that conclude what it rests on.
    order: Vec<usize>,
    /// By atom: how many rules conclude it.
    concluded_by: Vec<usize>,
}

/// What is known of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Holds,
    Fails,
    Open,
}

impl<'a> Circuit<'a> {
    /// None where no policy has a say.
    pub fn new(snapshot: &'a Snapshot) -> Option<Self> {
        let rules = snapshot.rules()?;
        let heads = rules.ground().iter().map(|rule| rule.head);
        let literals = rules.ground().iter().flat_map(|rule| rule.body.iter().map(|(l, _)| l.unsigned_abs()));
        let inputs = ActorIx::first(snapshot.actors())
            .flat_map(|actor| rules.inputs(actor).iter().map(|(_, atom)| *atom));
        let asked = rules
            .cases()
            .iter()
            .map(|demand| demand.atom)
            .chain(rules.penalties().iter().map(|(atom, _)| *atom));
        let asked = asked.chain(rules.excuses().iter().map(|excuse| excuse.atom));
        let atoms =
            heads.chain(literals).chain(inputs).chain(asked).max().map_or(0, |most| most as usize + 1);
        let mut concluded_by = vec![0; atoms];
        let mut used_in = vec![Vec::new(); atoms];
        for (position, rule) in rules.ground().iter().enumerate() {
            concluded_by[rule.head as usize] += 1;
            for (literal, _) in &rule.body {
                used_in[literal.unsigned_abs() as usize].push(position);
            }
        }
        let mut left = concluded_by.clone();
        let mut missing: Vec<usize> = rules.ground().iter().map(|rule| rule.body.len()).collect();
        let mut ready: Vec<usize> = (0..missing.len()).filter(|&rule| missing[rule] == 0).collect();
        let mut settled: Vec<usize> = (0..atoms).filter(|&atom| left[atom] == 0).collect();
        let mut order = Vec::with_capacity(missing.len());
        while !ready.is_empty() || !settled.is_empty() {
            while let Some(atom) = settled.pop() {
                for &rule in &used_in[atom] {
                    missing[rule] -= 1;
                    if missing[rule] == 0 {
                        ready.push(rule);
                    }
                }
            }
            while let Some(rule) = ready.pop() {
                order.push(rule);
                let head = rules.ground()[rule].head as usize;
                left[head] -= 1;
                if left[head] == 0 {
                    settled.push(head);
                }
            }
        }
        Some(Self { rules, order, concluded_by })
    }

    /// The rules for `freed` alone, by their positions in the subproblem, on its `units`; the others are at their
    /// `places`. What is broken whatever the freed do is left out.
    ///
    /// # Errors
    /// As [`Rules::new`].
    pub fn sliced(
        &self,
        places: &Assignment,
        freed: &[ActorIx],
        units: &[UnitIx],
        actors: usize,
    ) -> Result<Rules, String> {
        let (mut values, inputs) = self.inputs(places, freed, units);
        let mut undecided = self.concluded_by.clone();
        let mut is_open = vec![false; values.len()];
        let mut ground = Vec::new();
        for &position in &self.order {
            let rule = &self.rules.ground()[position];
            let head = rule.head as usize;
            undecided[head] -= 1;
            if values[head] != Value::Holds {
                match settle(rule, &values) {
                    Ok(true) => values[head] = Value::Holds,
                    Ok(false) => {}
                    Err(rest) => {
                        is_open[head] = true;
                        ground.push(rest);
                    }
                }
            }
            if undecided[head] == 0 && is_open[head] && values[head] == Value::Fails {
                values[head] = Value::Open;
            }
        }
        ground.retain(|rule: &GroundRule| values[rule.head as usize] == Value::Open);
        let open = |atom: u32| values[atom as usize] == Value::Open;
        let demands: Vec<GroundConstraint> =
            self.rules.cases().iter().filter(|demand| open(demand.atom)).cloned().collect();
        let penalties = self.rules.penalties().iter().copied().filter(|(atom, _)| open(*atom)).collect();
        let excused = self.rules.excuses().iter().map(|excuse| excuse.atom).filter(|atom| open(*atom));
        Rules::of_part(actors, ground, &inputs, demands, penalties, &excused.collect::<Vec<_>>())
    }

    /// What is known before any rule, and the inputs of the freed.
    fn inputs(
        &self,
        places: &Assignment,
        freed: &[ActorIx],
        units: &[UnitIx],
    ) -> (Vec<Value>, Vec<(ActorIx, UnitIx, u32)>) {
        let mut values = vec![Value::Fails; self.concluded_by.len()];
        let mut inputs = Vec::new();
        for (actor, place) in places.enumerate() {
            let known = self.rules.inputs(actor);
            let Ok(position) = freed.binary_search(&actor) else {
                for (_, atom) in known.iter().filter(|(unit, _)| Some(*unit) == *place) {
                    values[*atom as usize] = Value::Holds;
                }
                continue;
            };
            for (unit, atom) in known {
                if let Ok(unit) = units.binary_search(unit) {
                    values[*atom as usize] = Value::Open;
                    inputs.push((ActorIx::new(position), UnitIx::new(unit), *atom));
                }
            }
        }
        (values, inputs)
    }

    /// Actors that can move and that a broken demand rests on, ascending.
    pub fn in_conflict(&self, problem: &Problem, places: &Assignment) -> Vec<ActorIx> {
        let (mut values, _) = self.inputs(places, &[], &[]);
        for &position in &self.order {
            let rule = &self.rules.ground()[position];
            if settle(rule, &values) == Ok(true) {
                values[rule.head as usize] = Value::Holds;
            }
        }
        let holds = |atom: u32| values[atom as usize] == Value::Holds;
        let mut blamed: BTreeSet<u32> =
            self.rules.cases().iter().map(|demand| demand.atom).filter(|atom| holds(*atom)).collect();
        if blamed.is_empty() {
            return Vec::new();
        }
        for rule in self.order.iter().rev().map(|&position| &self.rules.ground()[position]) {
            if blamed.contains(&rule.head) {
                blamed.extend(rule.body.iter().map(|(literal, _)| literal.unsigned_abs()));
            }
        }
        let is_in_conflict = |actor: &ActorIx| {
            let place = places[*actor];
            let here = |(unit, atom): &(UnitIx, u32)| Some(*unit) == place && blamed.contains(atom);
            self.rules.inputs(*actor).iter().any(here)
        };
        problem.movable.iter().copied().filter(is_in_conflict).collect()
    }
}

/// Whether a rule's body holds, or what is left of it where that is open.
fn settle(rule: &GroundRule, values: &[Value]) -> Result<bool, GroundRule> {
    let mut lower = rule.lower;
    let mut body = Vec::new();
    for &(literal, weight) in &rule.body {
        match (values[literal.unsigned_abs() as usize], literal > 0) {
            (Value::Holds, true) | (Value::Fails, false) => lower -= weight,
            (Value::Open, _) => body.push((literal, weight)),
            _ => {}
        }
    }
    let most: i64 = body.iter().map(|(_, weight)| weight).sum();
    if lower <= 0 {
        Ok(true)
    } else if most < lower {
        Ok(false)
    } else {
        Err(GroundRule { head: rule.head, lower, body })
    }
}

#[cfg(test)]
mod tests {
    use placement::Assignment;
    use placement::file::{Actor, RunsOn, SnapshotFile, Unit};

    use super::*;

    const ACTORS: usize = 6;
    const UNITS: usize = 3;

    /// Random rules, each resting on atoms before its own.
    fn rules(rng: &mut fastrand::Rng) -> Rules {
        let atom = |actor: usize, unit: usize| u32::try_from(1 + actor * UNITS + unit).unwrap();
        let of = |actor, unit| (ActorIx::new(actor), UnitIx::new(unit), atom(actor, unit));
        let inputs: Vec<(ActorIx, UnitIx, u32)> =
            (0..ACTORS).flat_map(|actor| (0..UNITS).map(move |unit| of(actor, unit))).collect();
        let first = i32::try_from(ACTORS * UNITS + 1).unwrap();
        let mut ground = Vec::new();
        for head in first..first + 20 {
            for _ in 0..=rng.usize(..2) {
                let literals: BTreeSet<i32> = (0..=rng.usize(..4)).map(|_| rng.i32(1..head)).collect();
                let sign = |atom: i32| if rng.bool() { atom } else { -atom };
                let body: Vec<(i32, i64)> = literals.into_iter().map(sign).zip([1, 2, 3, 1, 2]).collect();
                let total: i64 = body.iter().map(|(_, weight)| weight).sum();
                ground.push(GroundRule { head: head.unsigned_abs(), lower: 1 + rng.i64(0..total), body });
            }
        }
        let demand = |atom: i32| GroundConstraint {
            atom: atom.unsigned_abs(),
            rule: "policy test".to_owned(),
            says: format!("{atom}"),
        };
        let demands = (first + 10..first + 20).map(demand).collect();
        let penalties = (first..first + 10).map(|atom| (atom.unsigned_abs(), i64::from(atom))).collect();
        Rules::new(ACTORS, ground, &inputs, demands, penalties).unwrap()
    }

    fn world() -> Snapshot {
        let unit = |i: usize| Unit {
            id: format!("u{i}"),
            kind: "cpu".into(),
            node: "n".into(),
            capacity: 9,
            ..Unit::default()
        };
        let actor = |i: usize| Actor {
            id: format!("a{i}"),
            runs_on: [("cpu".to_owned(), RunsOn::default())].into(),
            ..Actor::default()
        };
        let mut file = SnapshotFile {
            version: placement::file::VERSION,
            units: (0..UNITS).map(unit).collect(),
            actors: (0..ACTORS).map(actor).collect(),
            ..SnapshotFile::default()
        };
        file.exchange_cost.other_kind = Some(1);
        Snapshot::new(file).unwrap()
    }

    /// What the subproblem says of the freed differs from what the whole says by what they cannot change.
    #[test]
    fn a_slice_of_the_rules_says_what_the_whole_says() {
        let mut blamed = 0;
        for seed in 0..300 {
            let rng = &mut fastrand::Rng::with_seed(seed);
            let snapshot = world().with_rules(Some(rules(rng)));
            let whole = snapshot.rules().unwrap();
            let circuit = Circuit::new(&snapshot).unwrap();
            let place = |rng: &mut fastrand::Rng| {
                Some(UnitIx::new(rng.usize(..UNITS))).filter(|_| rng.usize(..5) > 0)
            };
            let assignment: Assignment = (0..ACTORS).map(|_| place(rng)).collect();
            let freed: BTreeSet<ActorIx> = (0..2).map(|_| ActorIx::new(rng.usize(..ACTORS))).collect();
            let freed: Vec<ActorIx> = freed.into_iter().collect();
            let units: Vec<UnitIx> = UnitIx::first(UNITS).collect();
            let sliced = circuit.sliced(&assignment, &freed, &units, freed.len()).unwrap();
            let mut constant = None;
            for _ in 0..20 {
                let small: Assignment = freed.iter().map(|_| place(rng)).collect();
                let mut wide = assignment.clone();
                freed.iter().zip(&small).for_each(|(actor, &place)| wide[*actor] = place);
                let mut broken = whole.violations(&wide);
                for says in sliced.violations(&small) {
                    let at = broken.iter().position(|known| *known == says);
                    broken.remove(at.unwrap());
                }
                let rest = (broken, whole.penalty(&wide) - sliced.penalty(&small));
                assert_eq!(*constant.get_or_insert(rest.clone()), rest, "seed {seed}");
            }
            let in_conflict = circuit.in_conflict(snapshot.problem(), &assignment);
            assert!(in_conflict.is_empty() || !whole.violations(&assignment).is_empty());
            blamed += usize::from(!in_conflict.is_empty());
        }
        assert!(blamed > 50, "{blamed}");
    }
}
