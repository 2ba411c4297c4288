//! Aggregates: count, sum, minimum and maximum of a set, compared with a bound.

use std::collections::{BTreeMap, HashMap};

use crate::compile::{AggregateGoal, Bindings};
use crate::join::{Join, LiteralTruth, MatchCallback};
use crate::order::Step;
use crate::output::{GroundingStop, literal};
use crate::syntax::Sign;
use crate::term::{Refused, Value};

/// A tuple of the set, and when it belongs to it.
type Member = (Vec<Value>, LiteralTruth);

impl<'w> Join<'w> {
    /// Continues where an aggregate satisfies its guards.
    pub(crate) fn aggregate(
        &mut self,
        aggregate: &AggregateGoal,
        inner: &[Vec<Step>],
        rest: &[Step],
        bindings: &mut Bindings,
        body: &mut Vec<i32>,
        found: MatchCallback<'_, 'w>,
    ) -> Result<(), GroundingStop> {
        let members = self.members(aggregate, inner, bindings)?;
        let (mut literals, mut open, mut never) = (Vec::new(), Vec::new(), false);
        for (operator, pattern) in &aggregate.guards {
            let refused = self.sink.refused();
            match pattern.value(bindings, &mut self.sink.terms).map_err(refused)? {
                Some(bound) => match self.compared(aggregate.function, &members, operator, bound)? {
                    LiteralTruth::Always => {}
                    LiteralTruth::When(literal) => literals.push(literal),
                    LiteralTruth::Never => never = true,
                },
                None if *operator == "=" && pattern.is_open(bindings) => open.push(pattern),
                // An undefined operation: there is no such instance.
                None => return Ok(()),
            }
        }
        let mut holds = if never { LiteralTruth::Never } else { self.all_of(&literals)? };
        if aggregate.sign == Sign::Not {
            holds = holds.not();
        }
        if open.is_empty() || holds == LiteralTruth::Never {
            return self.go_on(holds, rest, bindings, body, &mut *found);
        }
        // The value of an aggregate is certain, or it is an error, so its comparison is certain too.
        let value = self.value(aggregate.function, &members)?;
        self.equal(&open, value, rest, bindings, body, found)
    }

    /// The tuples that can belong to the set, without duplicates.
    fn members(
        &mut self,
        aggregate: &AggregateGoal,
        inner: &[Vec<Step>],
        bindings: &mut Bindings,
    ) -> Result<Vec<Member>, GroundingStop> {
        let mut places: HashMap<Vec<Value>, usize> = HashMap::new();
        let mut cases: Vec<(Vec<Value>, Vec<Vec<i32>>)> = Vec::new();
        for ((tuple, _), condition) in aggregate.elements.iter().zip(inner) {
            self.each(condition, bindings, &mut Vec::new(), &mut |join, bindings, when| {
                for tuple in join.tuples(tuple, bindings)? {
                    join.sink.keep(tuple.len() + when.len() + 1)?;
                    let place = *places.entry(tuple.clone()).or_insert(cases.len());
                    if place == cases.len() {
                        cases.push((tuple, Vec::new()));
                    }
                    cases[place].1.push(when.clone());
                }
                Ok(())
            })?;
        }
        let mut members = Vec::with_capacity(cases.len());
        for (tuple, ways) in cases {
            let mut literals = Vec::new();
            let mut always = false;
            for way in ways {
                match self.all_of(&way)? {
                    LiteralTruth::Always => always = true,
                    LiteralTruth::When(literal) => literals.push(literal),
                    LiteralTruth::Never => {}
                }
            }
            literals.sort_unstable();
            literals.dedup();
            let holds = if always { LiteralTruth::Always } else { self.one_of(&literals)? };
            members.push((tuple, holds));
        }
        Ok(members)
    }

    /// Whether the aggregate's value satisfies a comparison with a bound.
    fn compared(
        &mut self,
        function: &str,
        members: &[Member],
        operator: &str,
        bound: Value,
    ) -> Result<LiteralTruth, GroundingStop> {
        let certain = |holds: bool| if holds { LiteralTruth::Always } else { LiteralTruth::Never };
        let number = match (function, bound) {
            ("min" | "max", _) => return self.extreme(function == "max", members, operator, bound),
            (_, Value::Number(number)) => i64::from(number),
            // Every number comes after `#inf`, and before every other term.
            (_, Value::Least) => return Ok(certain(matches!(operator, ">" | ">=" | "!="))),
            _ => return Ok(certain(matches!(operator, "<" | "<=" | "!="))),
        };
        Ok(match operator {
            ">=" => self.at_least(function, members, number)?,
            ">" => self.at_least(function, members, number + 1)?,
            "<" => self.at_least(function, members, number)?.not(),
            "<=" => self.at_least(function, members, number + 1)?.not(),
            "=" => self.exactly(function, members, number)?,
            _ => self.exactly(function, members, number)?.not(),
        })
    }

    fn exactly(
        &mut self,
        function: &str,
        members: &[Member],
        number: i64,
    ) -> Result<LiteralTruth, GroundingStop> {
        let enough = self.at_least(function, members, number)?;
        let more = self.at_least(function, members, number + 1)?;
        match (enough, more.not()) {
            (LiteralTruth::Never, _) | (_, LiteralTruth::Never) => Ok(LiteralTruth::Never),
            (LiteralTruth::Always, other) | (other, LiteralTruth::Always) => Ok(other),
            (LiteralTruth::When(a), LiteralTruth::When(b)) => self.all_of(&[a, b]),
        }
    }

    /// Whether a count or sum reaches a number: a weighted rule over the uncertain members, with positive weights.
    fn at_least(
        &mut self,
        function: &str,
        members: &[Member],
        number: i64,
    ) -> Result<LiteralTruth, GroundingStop> {
        let mut missing = number;
        let mut weights: BTreeMap<i32, i64> = BTreeMap::new();
        for (tuple, holds) in members {
            let weight = weight(function, tuple);
            match *holds {
                LiteralTruth::Always => missing -= weight,
                LiteralTruth::When(literal) if weight > 0 => *weights.entry(literal).or_default() += weight,
                LiteralTruth::When(literal) if weight < 0 => {
                    // A member that subtracts when it holds adds when it does not.
                    *weights.entry(-literal).or_default() -= weight;
                    missing -= weight;
                }
                _ => {}
            }
        }
        let most: i64 = weights.values().sum();
        if missing <= 0 {
            return Ok(LiteralTruth::Always);
        }
        if missing > most {
            return Ok(LiteralTruth::Never);
        }
        self.sink.keep(weights.len() + 2)?;
        let atom = self.sink.atom();
        self.sink.out.rules.push((atom, missing, weights.into_iter().collect()));
        Ok(LiteralTruth::When(literal(atom)))
    }

    /// The same for a minimum or maximum; that of an empty set is `#sup` or `#inf`.
    fn extreme(
        &mut self,
        largest: bool,
        members: &[Member],
        operator: &str,
        bound: Value,
    ) -> Result<LiteralTruth, GroundingStop> {
        // "maximum >= b" and "minimum <= b" hold if one member satisfies them; the other operators follow.
        let (operator, is_denied) = match (largest, operator) {
            (true, "<") => (">=", true),
            (true, "<=") => (">", true),
            (false, ">") => ("<=", true),
            (false, ">=") => ("<", true),
            (_, "=" | "!=") => {
                let (at_bound, past_bound) = if largest { (">=", ">") } else { ("<=", "<") };
                let reached = self.extreme(largest, members, at_bound, bound)?;
                let passed = self.extreme(largest, members, past_bound, bound)?;
                let equal = match (reached, passed.not()) {
                    (LiteralTruth::Never, _) | (_, LiteralTruth::Never) => LiteralTruth::Never,
                    (LiteralTruth::Always, other) | (other, LiteralTruth::Always) => other,
                    (LiteralTruth::When(a), LiteralTruth::When(b)) => self.all_of(&[a, b])?,
                };
                return Ok(if operator == "=" { equal } else { equal.not() });
            }
            (_, other) => (other, false),
        };
        let mut literals = Vec::new();
        let nothing = if largest { Value::Least } else { Value::Largest };
        let mut always = self.compares(nothing, operator, bound)?;
        for (tuple, holds) in members {
            let Some(first) = tuple.first() else { continue };
            if self.compares(*first, operator, bound)? {
                match holds {
                    LiteralTruth::Always => always = true,
                    LiteralTruth::When(literal) => literals.push(*literal),
                    LiteralTruth::Never => {}
                }
            }
        }
        let holds = if always { LiteralTruth::Always } else { self.one_of(&literals)? };
        Ok(if is_denied { holds.not() } else { holds })
    }

    /// The value of an aggregate that does not depend on placements.
    fn value(&mut self, function: &str, members: &[Member]) -> Result<Value, GroundingStop> {
        if members.iter().any(|(_, holds)| *holds != LiteralTruth::Always) {
            let problem = format!(
                "`= #{function}` over where actors are would stand for every number that can come out; compare it with a bound"
            );
            return Err(GroundingStop::Fault(self.sink.at(), problem));
        }
        match function {
            "min" | "max" => {
                let (mut best, better) = match function {
                    "min" => (Value::Largest, "<"),
                    _ => (Value::Least, ">"),
                };
                for first in members.iter().filter_map(|(tuple, _)| tuple.first()) {
                    if self.compares(*first, better, best)? {
                        best = *first;
                    }
                }
                Ok(best)
            }
            _ => {
                let sum: i64 = members.iter().map(|(tuple, _)| weight(function, tuple)).sum();
                let number = i32::try_from(sum).map_err(|_| self.sink.refused()(Refused::Overflow))?;
                Ok(Value::Number(number))
            }
        }
    }
}

/// The contribution of a tuple; sums ignore terms that are not numbers.
fn weight(function: &str, tuple: &[Value]) -> i64 {
    match (function, tuple.first()) {
        ("count", _) => 1,
        ("sum+", Some(Value::Number(number))) => i64::from(*number).max(0),
        (_, Some(Value::Number(number))) => i64::from(*number),
        _ => 0,
    }
}
