//! Enumerates the ways in which a body holds, with goals ordered so that each has the bindings that it needs.

use crate::compile::{Bindings, Goal, Pattern};
use crate::effort::work;
use crate::limits::extra_steps;
use crate::order::{Relations, Step};
use crate::output::{GroundingStop, Sink, literal};
use crate::relation::{Relation, Truth};
use crate::syntax::Sign;
use crate::term::Value;

/// Whether a literal holds: in every assignment, in none, or if an atom of the circuit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralTruth {
    Always,
    Never,
    When(i32),
}

impl LiteralTruth {
    /// The negation.
    pub fn not(self) -> Self {
        match self {
            Self::Always => Self::Never,
            Self::Never => Self::Always,
            Self::When(literal) => Self::When(-literal),
        }
    }
}

/// Called for each way in which a body holds, with the bindings and the literals that depend on placements.
pub(crate) type MatchCallback<'f, 'w> =
    &'f mut dyn FnMut(&mut Join<'w>, &mut Bindings, &mut Vec<i32>) -> Result<(), GroundingStop>;

/// A join over relations that do not change meanwhile.
pub(crate) struct Join<'w> {
    pub relations: &'w Relations,
    pub sink: &'w mut Sink,
}

impl<'w> Join<'w> {
    /// Enumerates all bindings that satisfy the steps.
    pub fn each(
        &mut self,
        steps: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
        found: MatchCallback<'_, 'w>,
    ) -> Result<(), GroundingStop> {
        let Some((step, rest)) = steps.split_first() else { return found(self, bindings, body) };
        self.sink.steps(step.steps)?;
        match step.goal {
            Goal::Atom(Sign::Plain, name, patterns) => {
                self.atom((name, patterns), (step.mask, step.steps), rest, bindings, body, &mut *found)
            }
            Goal::Atom(sign, name, patterns) => {
                let holds = self.literal(*sign, name, patterns, bindings)?;
                self.go_on(holds, rest, bindings, body, &mut *found)
            }
            Goal::Comparison(sign, a, operator, b) => {
                self.comparison((*sign, a, operator, b), rest, bindings, body, &mut *found)
            }
            Goal::ForAll(goal, _) => {
                let depth = body.len();
                let holds = self.for_all(goal, &step.inner[0], bindings, body)?;
                if holds {
                    self.each(rest, bindings, body, &mut *found)?;
                }
                body.truncate(depth);
                Ok(())
            }
            Goal::Aggregate(set) => self.aggregate(set, &step.inner, rest, bindings, body, &mut *found),
        }
    }

    /// Continues with one more literal, if it can hold.
    pub fn go_on(
        &mut self,
        holds: LiteralTruth,
        rest: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
        found: MatchCallback<'_, 'w>,
    ) -> Result<(), GroundingStop> {
        match holds {
            LiteralTruth::Never => Ok(()),
            LiteralTruth::Always => self.each(rest, bindings, body, &mut *found),
            LiteralTruth::When(literal) => {
                body.push(literal);
                let done = self.each(rest, bindings, body, &mut *found);
                body.pop();
                done
            }
        }
    }

    fn atom(
        &mut self,
        (name, patterns): (&str, &[Pattern]),
        (mask, steps): (u64, u64),
        rest: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
        found: MatchCallback<'_, 'w>,
    ) -> Result<(), GroundingStop> {
        let relations = self.relations;
        let Some(relation) = relations.get(&(name.to_owned(), patterns.len())) else { return Ok(()) };
        let mut key = Vec::with_capacity(patterns.len());
        for (position, pattern) in patterns.iter().enumerate() {
            if mask & (1 << position) != 0 {
                let refused = self.sink.refused();
                match pattern.value(bindings, &mut self.sink.terms).map_err(refused)? {
                    Some(value) => key.push(value),
                    // An undefined operation: the atom matches nothing.
                    None => return Ok(()),
                }
            }
        }
        let mut given = Vec::new();
        for &place in relation.with(mask, &key) {
            self.sink.steps(steps)?;
            if self.fits(relation.tuple(place), patterns, mask, bindings, &mut given)? {
                let holds = match relation.truth(place) {
                    Truth::Certain => LiteralTruth::Always,
                    Truth::Possible(atom) => LiteralTruth::When(literal(atom)),
                };
                self.go_on(holds, rest, bindings, body, &mut *found)?;
            }
            given.drain(..).for_each(|slot| bindings[slot] = None);
        }
        Ok(())
    }

    /// Whether the terms outside of `mask` match a tuple; patterns that bind values are matched first.
    fn fits(
        &mut self,
        tuple: &[Value],
        patterns: &[Pattern],
        mask: u64,
        bindings: &mut Bindings,
        given: &mut Vec<usize>,
    ) -> Result<bool, GroundingStop> {
        let refused = self.sink.refused();
        for hard in [false, true] {
            let open = patterns.iter().zip(tuple).enumerate();
            for (_, (pattern, value)) in open.filter(|(position, _)| mask & (1 << position) == 0) {
                let agrees = pattern.agrees(*value, hard, bindings, given, &mut self.sink.terms);
                if !agrees.map_err(&refused)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether an atom under `not` holds; `_` in it matches any term.
    pub fn literal(
        &mut self,
        sign: Sign,
        name: &str,
        patterns: &[Pattern],
        bindings: &mut Bindings,
    ) -> Result<LiteralTruth, GroundingStop> {
        let (relations, refused) = (self.relations, self.sink.refused());
        let mut tuple = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let terms = &mut self.sink.terms;
            if let Some(value) = pattern.value(bindings, terms).map_err(&refused)? {
                tuple.push(value);
            } else if pattern.is_undefined(bindings, terms).map_err(&refused)? {
                // clingo drops the whole instance, whatever the sign.
                return Ok(LiteralTruth::Never);
            }
        }
        let holds = match relations.get(&(name.to_owned(), patterns.len())) {
            None => LiteralTruth::Never,
            Some(relation) if tuple.len() < patterns.len() => self.any_of(relation, patterns, bindings)?,
            Some(relation) => match relation.find(&tuple).map(|place| relation.truth(place)) {
                None => LiteralTruth::Never,
                Some(Truth::Certain) => LiteralTruth::Always,
                Some(Truth::Possible(atom)) => LiteralTruth::When(literal(atom)),
            },
        };
        Ok(if sign == Sign::Not { holds.not() } else { holds })
    }

    /// Whether any tuple matches; a new atom if that depends on several.
    fn any_of(
        &mut self,
        relation: &Relation,
        patterns: &[Pattern],
        bindings: &mut Bindings,
    ) -> Result<LiteralTruth, GroundingStop> {
        let (mut given, mut possible) = (Vec::new(), Vec::new());
        let steps = 1 + extra_steps(work(patterns));
        for place in 0..u32::try_from(relation.len()).unwrap_or(u32::MAX) {
            self.sink.steps(steps)?;
            let fits = self.fits(relation.tuple(place), patterns, 0, bindings, &mut given)?;
            given.drain(..).for_each(|slot| bindings[slot] = None);
            match relation.truth(place) {
                Truth::Certain if fits => return Ok(LiteralTruth::Always),
                Truth::Possible(atom) if fits => possible.push(literal(atom)),
                _ => {}
            }
        }
        self.one_of(&possible)
    }

    /// Whether at least one of some literals holds.
    pub fn one_of(&mut self, literals: &[i32]) -> Result<LiteralTruth, GroundingStop> {
        match literals {
            [] => Ok(LiteralTruth::Never),
            [one] => Ok(LiteralTruth::When(*one)),
            many => {
                self.sink.keep(many.len() + 2)?;
                let atom = self.sink.atom();
                self.sink.out.rules.push((atom, 1, many.iter().map(|literal| (*literal, 1)).collect()));
                self.sink.out.alternatives.insert(atom);
                Ok(LiteralTruth::When(literal(atom)))
            }
        }
    }

    /// Whether all of some literals hold.
    pub fn all_of(&mut self, literals: &[i32]) -> Result<LiteralTruth, GroundingStop> {
        match literals {
            [] => Ok(LiteralTruth::Always),
            [one] => Ok(LiteralTruth::When(*one)),
            many => {
                self.sink.keep(many.len() + 2)?;
                let atom = self.sink.atom();
                self.sink.rule(atom, many.to_vec());
                Ok(LiteralTruth::When(literal(atom)))
            }
        }
    }

    fn comparison(
        &mut self,
        (sign, a, operator, b): (Sign, &Pattern, &str, &Pattern),
        rest: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
        found: MatchCallback<'_, 'w>,
    ) -> Result<(), GroundingStop> {
        if let (Sign::Plain, "=") = (sign, operator) {
            for (one, other) in [(a, b), (b, a)] {
                if let Pattern::Interval(from, to) = one {
                    let steps = 1 + extra_steps(work(std::slice::from_ref(other)));
                    for number in *from..=*to {
                        self.sink.steps(steps)?;
                        self.equal(&[other], Value::Number(number), rest, bindings, body, &mut *found)?;
                    }
                    return Ok(());
                }
            }
        }
        let refused = self.sink.refused();
        let x = a.value(bindings, &mut self.sink.terms).map_err(&refused)?;
        let y = b.value(bindings, &mut self.sink.terms).map_err(&refused)?;
        match (x, y) {
            (Some(x), Some(y)) => {
                let holds = self.compares(x, operator, y)? != (sign == Sign::Not);
                if holds { self.each(rest, bindings, body, &mut *found) } else { Ok(()) }
            }
            (Some(value), None) if operator == "=" && sign == Sign::Plain => {
                self.equal(&[b], value, rest, bindings, body, &mut *found)
            }
            (None, Some(value)) if operator == "=" && sign == Sign::Plain => {
                self.equal(&[a], value, rest, bindings, body, &mut *found)
            }
            _ => Ok(()),
        }
    }

    /// Continues if all patterns match a value.
    pub fn equal(
        &mut self,
        patterns: &[&Pattern],
        value: Value,
        rest: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
        found: MatchCallback<'_, 'w>,
    ) -> Result<(), GroundingStop> {
        let (refused, mut given, mut equal) = (self.sink.refused(), Vec::new(), true);
        for pattern in patterns {
            let terms = &mut self.sink.terms;
            equal = equal && pattern.matches(value, bindings, &mut given, terms).map_err(&refused)?;
        }
        if equal {
            self.each(rest, bindings, body, &mut *found)?;
        }
        for slot in given {
            bindings[slot] = None;
        }
        Ok(())
    }

    /// Whether a goal holds for every instance of a condition; appends its literals to the body.
    fn for_all(
        &mut self,
        goal: &Goal,
        condition: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
    ) -> Result<bool, GroundingStop> {
        let mut cases: Vec<(LiteralTruth, Vec<i32>)> = Vec::new();
        let steps = extra_steps(goal.work());
        self.each(condition, bindings, &mut Vec::new(), &mut |join, bindings, when| {
            join.sink.steps(steps)?;
            let holds = join.simple(goal, bindings)?;
            join.sink.keep(when.len() + 1)?;
            cases.push((holds, when.clone()));
            Ok(())
        })?;
        for (holds, mut when) in cases {
            match (holds, when.is_empty()) {
                (LiteralTruth::Always, _) => {}
                (LiteralTruth::Never, true) => return Ok(false),
                (LiteralTruth::When(literal), true) => body.push(literal),
                (holds, false) => {
                    // It is violated wherever the condition holds and the goal does not.
                    if let LiteralTruth::When(literal) = holds {
                        when.push(-literal);
                    }
                    match self.all_of(&when)? {
                        LiteralTruth::When(broken) => body.push(-broken),
                        LiteralTruth::Always => return Ok(false),
                        LiteralTruth::Never => {}
                    }
                }
            }
        }
        Ok(true)
    }

    /// Whether a ground literal holds.
    fn simple(&mut self, goal: &Goal, bindings: &mut Bindings) -> Result<LiteralTruth, GroundingStop> {
        match goal {
            Goal::Atom(sign, name, patterns) => self.literal(*sign, name, patterns, bindings),
            Goal::Comparison(sign, a, operator, b) => {
                let refused = self.sink.refused();
                let x = a.value(bindings, &mut self.sink.terms).map_err(&refused)?;
                let y = b.value(bindings, &mut self.sink.terms).map_err(&refused)?;
                let (Some(x), Some(y)) = (x, y) else { return Ok(LiteralTruth::Never) };
                let holds = self.compares(x, operator, y)? != (*sign == Sign::Not);
                Ok(if holds { LiteralTruth::Always } else { LiteralTruth::Never })
            }
            Goal::ForAll(..) | Goal::Aggregate(_) => {
                unreachable!("the parser lets only literals have a condition")
            }
        }
    }

    /// Whether two values satisfy a comparison; large terms count as several steps.
    pub fn compares(&mut self, a: Value, operator: &str, b: Value) -> Result<bool, GroundingStop> {
        self.sink.steps(self.sink.terms.steps_to_compare(a, b))?;
        Ok(satisfies(self.sink.terms.compare(a, b), operator))
    }

    /// The tuples of a head: one, or one for each value of its intervals.
    pub fn tuples(
        &mut self,
        patterns: &[Pattern],
        bindings: &Bindings,
    ) -> Result<Vec<Vec<Value>>, GroundingStop> {
        let refused = self.sink.refused();
        self.sink.steps(extra_steps(work(patterns)))?;
        let mut tuples = vec![Vec::with_capacity(patterns.len())];
        for pattern in patterns {
            if let Pattern::Interval(from, to) = pattern {
                // Counted first: two intervals make up to 10^8 tuples.
                let width = (i64::from(*to) - i64::from(*from) + 1).max(0);
                self.sink.keep(tuples.len().saturating_mul(usize::try_from(width).unwrap_or(usize::MAX)))?;
                let wider = |tuple: Vec<Value>| {
                    (*from..=*to).map(move |number| {
                        let mut tuple = tuple.clone();
                        tuple.push(Value::Number(number));
                        tuple
                    })
                };
                tuples = tuples.into_iter().flat_map(wider).collect();
                continue;
            }
            match pattern.value(bindings, &mut self.sink.terms).map_err(&refused)? {
                Some(value) => tuples.iter_mut().for_each(|tuple| tuple.push(value)),
                // An undefined operation: there is no such instance.
                None => return Ok(Vec::new()),
            }
        }
        Ok(tuples)
    }
}

/// Whether an ordering satisfies a comparison operator.
fn satisfies(order: std::cmp::Ordering, operator: &str) -> bool {
    match operator {
        "=" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}
