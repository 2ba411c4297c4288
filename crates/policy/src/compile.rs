//! Statements prepared for grounding: variables become slots, terms become patterns.

use std::collections::BTreeMap;

use crate::syntax::{Aggregate, Atom, BodyElement, Head, Literal, Sign, Statement, Term, TermKind};
use crate::term::{Refused, Shape, Terms, Value, compute};

/// Values of a statement's variables, by slot.
pub(crate) type Bindings = Vec<Option<Value>>;

/// A term with slots.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Variable(usize),
    Anything,
    Fixed(Value),
    Function(String, Vec<Pattern>),
    Negative(Box<Pattern>),
    Absolute(Box<Pattern>),
    Binary(&'static str, Box<Pattern>, Box<Pattern>),
    Interval(i32, i32),
}

/// A condition of a body.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    Atom(Sign, String, Vec<Pattern>),
    Comparison(Sign, Pattern, &'static str, Pattern),
    ForAll(Box<Goal>, Vec<Goal>),
    Aggregate(AggregateGoal),
}

/// An aggregate with its guards.
#[derive(Clone, Debug)]
pub(crate) struct AggregateGoal {
    pub sign: Sign,
    pub function: &'static str,
    /// Comparisons with the aggregate's value on the left.
    pub guards: Vec<(&'static str, Pattern)>,
    pub elements: Vec<(Vec<Pattern>, Vec<Goal>)>,
}

/// A statement with slots.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub slots: usize,
    pub goals: Vec<Goal>,
    /// By goal: slots that must be bound before it is evaluated and that it does not bind itself.
    pub needs: Vec<Vec<usize>>,
    /// Terms that are derived: those of the head, of a constraint's variables, or of weight and tuple.
    pub head: Vec<Pattern>,
}

/// Compiles a statement.
pub(crate) fn compile(statement: &Statement, terms: &mut Terms) -> Compiled {
    let mut compiler = Compiler { slots: BTreeMap::new(), terms };
    let globals: Vec<usize> = statement.globals().iter().map(|name| compiler.slot(name)).collect();
    let head = match &statement.head {
        Head::Atom(atom) => compiler.patterns(&atom.terms),
        Head::Constraint => globals.iter().map(|slot| Pattern::Variable(*slot)).collect(),
        Head::Weak(weight, tuple) => {
            [weight].into_iter().chain(tuple).map(|term| compiler.pattern(term)).collect()
        }
    };
    let goals: Vec<Goal> = statement.body.iter().map(|part| compiler.body_element(part)).collect();
    let needs = goals.iter().map(|goal| goal.needs(&globals)).collect();
    Compiled { slots: compiler.slots.len(), goals, needs, head }
}

struct Compiler<'a> {
    slots: BTreeMap<String, usize>,
    terms: &'a mut Terms,
}

impl Compiler<'_> {
    fn slot(&mut self, name: &str) -> usize {
        let next = self.slots.len();
        *self.slots.entry(name.to_owned()).or_insert(next)
    }

    fn patterns(&mut self, terms: &[Term]) -> Vec<Pattern> {
        terms.iter().map(|term| self.pattern(term)).collect()
    }

    fn pattern(&mut self, term: &Term) -> Pattern {
        match &term.is {
            TermKind::Number(number) => Pattern::Fixed(Value::Number(*number)),
            TermKind::Text(text) => Pattern::Fixed(self.terms.text(text)),
            TermKind::Variable(name) => Pattern::Variable(self.slot(name)),
            TermKind::Anonymous => Pattern::Anything,
            TermKind::Function(name, terms) if terms.is_empty() => {
                Pattern::Fixed(self.terms.keep(Shape::Constant(name.clone())))
            }
            TermKind::Function(name, terms) => Pattern::Function(name.clone(), self.patterns(terms)),
            TermKind::Negative(term) => Pattern::Negative(Box::new(self.pattern(term))),
            TermKind::Absolute(term) => Pattern::Absolute(Box::new(self.pattern(term))),
            TermKind::Binary("..", from, to) => Pattern::Interval(bound(from), bound(to)),
            TermKind::Binary(operator, a, b) => {
                Pattern::Binary(operator, Box::new(self.pattern(a)), Box::new(self.pattern(b)))
            }
        }
    }

    fn literal(&mut self, literal: &Literal) -> Goal {
        match literal {
            Literal::Atom(sign, Atom { name, terms, .. }) => {
                Goal::Atom(*sign, name.clone(), self.patterns(terms))
            }
            Literal::Comparison(sign, a, operator, b) => {
                Goal::Comparison(*sign, self.pattern(a), operator, self.pattern(b))
            }
        }
    }

    fn literals(&mut self, literals: &[Literal]) -> Vec<Goal> {
        literals.iter().map(|literal| self.literal(literal)).collect()
    }

    fn body_element(&mut self, part: &BodyElement) -> Goal {
        match part {
            BodyElement::Literal(literal) => self.literal(literal),
            BodyElement::Conditional(literal, condition) => {
                Goal::ForAll(Box::new(self.literal(literal)), self.literals(condition))
            }
            BodyElement::Aggregate(aggregate) => Goal::Aggregate(self.aggregate(aggregate)),
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> AggregateGoal {
        let turned = |operator: &'static str| match operator {
            "<" => ">",
            "<=" => ">=",
            ">" => "<",
            ">=" => "<=",
            other => other,
        };
        let left = aggregate.left.iter().map(|(term, operator)| (turned(operator), term));
        let right = aggregate.right.iter().map(|(operator, term)| (*operator, term));
        let guards: Vec<_> = left.chain(right).collect();
        let guards = guards.into_iter().map(|(operator, term)| (operator, self.pattern(term))).collect();
        let elements = aggregate
            .elements
            .iter()
            .map(|(tuple, condition)| (self.patterns(tuple), self.literals(condition)));
        let elements = elements.collect();
        AggregateGoal { sign: aggregate.sign, function: aggregate.function, guards, elements }
    }
}

/// The parser allows only numbers as bounds of an interval.
fn bound(term: &Term) -> i32 {
    match &term.is {
        TermKind::Number(number) => *number,
        TermKind::Negative(term) => -bound(term),
        _ => 0,
    }
}

impl Pattern {
    /// Appends the slots in it.
    pub fn slots(&self, found: &mut Vec<usize>) {
        match self {
            Self::Variable(slot) => found.push(*slot),
            Self::Function(_, patterns) => patterns.iter().for_each(|pattern| pattern.slots(found)),
            Self::Negative(pattern) | Self::Absolute(pattern) => pattern.slots(found),
            Self::Binary(_, a, b) => {
                a.slots(found);
                b.slots(found);
            }
            Self::Anything | Self::Fixed(_) | Self::Interval(..) => {}
        }
    }

    /// Whether its value does not determine its slots: only sums and differences of one unknown can be inverted.
    pub fn is_hard(&self) -> bool {
        let mut slots = Vec::new();
        match self {
            Self::Function(_, patterns) => patterns.iter().any(Pattern::is_hard),
            Self::Negative(pattern) => pattern.is_hard(),
            Self::Binary("+" | "-", a, b) => {
                a.slots(&mut slots);
                let left = !slots.is_empty();
                slots.clear();
                b.slots(&mut slots);
                a.is_hard() || b.is_hard() || (left && !slots.is_empty())
            }
            Self::Binary(_, a, b) => {
                a.slots(&mut slots);
                b.slots(&mut slots);
                !slots.is_empty()
            }
            Self::Absolute(pattern) => {
                pattern.slots(&mut slots);
                !slots.is_empty()
            }
            _ => false,
        }
    }

    /// Whether it contains `_`.
    pub fn has_anything(&self) -> bool {
        match self {
            Self::Anything => true,
            Self::Function(_, patterns) => patterns.iter().any(Pattern::has_anything),
            Self::Negative(pattern) | Self::Absolute(pattern) => pattern.has_anything(),
            Self::Binary(_, a, b) => a.has_anything() || b.has_anything(),
            _ => false,
        }
    }

    /// Appends the slots that are bound by matching it with a value.
    fn gives(&self, found: &mut Vec<usize>) {
        match self {
            Self::Function(_, patterns) => patterns.iter().for_each(|pattern| pattern.gives(found)),
            other if other.is_hard() => {}
            other => other.slots(found),
        }
    }

    /// Whether all its slots are bound.
    pub fn is_known(&self, known: &[bool]) -> bool {
        let mut slots = Vec::new();
        self.slots(&mut slots);
        !self.has_anything() && slots.into_iter().all(|slot| known[slot])
    }

    /// Its value; `None` if a slot is unbound or an operation is undefined.
    pub fn value(&self, bindings: &Bindings, terms: &mut Terms) -> Result<Option<Value>, Refused> {
        Ok(match self {
            Self::Variable(slot) => bindings[*slot],
            Self::Fixed(value) => Some(*value),
            Self::Function(name, patterns) => {
                let mut values = Vec::with_capacity(patterns.len());
                for pattern in patterns {
                    let Some(value) = pattern.value(bindings, terms)? else { return Ok(None) };
                    values.push(value);
                }
                Some(terms.function(name, values)?)
            }
            Self::Negative(pattern) => match pattern.value(bindings, terms)? {
                Some(value) => opposite(value, terms)?,
                None => None,
            },
            Self::Absolute(pattern) => match pattern.value(bindings, terms)? {
                Some(Value::Number(number)) => {
                    Some(Value::Number(number.checked_abs().ok_or(Refused::Overflow)?))
                }
                _ => None,
            },
            Self::Binary(operator, a, b) => match (a.value(bindings, terms)?, b.value(bindings, terms)?) {
                (Some(a), Some(b)) => compute(operator, a, b)?,
                _ => None,
            },
            Self::Anything | Self::Interval(..) => None,
        })
    }

    /// Whether a slot in it is unbound.
    pub fn is_open(&self, bindings: &Bindings) -> bool {
        let mut slots = Vec::new();
        self.slots(&mut slots);
        slots.into_iter().any(|slot| bindings[slot].is_none())
    }

    /// Whether an operation in it is undefined, for every value of `_`; all its slots are bound.
    pub fn is_undefined(&self, bindings: &Bindings, terms: &mut Terms) -> Result<bool, Refused> {
        match self {
            Self::Anything => Ok(false),
            Self::Function(_, patterns) => {
                for pattern in patterns {
                    if pattern.is_undefined(bindings, terms)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Ok(self.value(bindings, terms)?.is_none()),
        }
    }

    /// Whether it can take this value; unbound slots are bound and appended to `given`.
    pub fn matches(
        &self,
        value: Value,
        bindings: &mut Bindings,
        given: &mut Vec<usize>,
        terms: &mut Terms,
    ) -> Result<bool, Refused> {
        for hard in [false, true] {
            if !self.agrees(value, hard, bindings, given, terms)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same for the hard parts, or for all others, which are matched first because they may bind what hard parts need.
    pub fn agrees(
        &self,
        value: Value,
        hard: bool,
        bindings: &mut Bindings,
        given: &mut Vec<usize>,
        terms: &mut Terms,
    ) -> Result<bool, Refused> {
        let is_hard = self.is_hard();
        if is_hard != hard && !(is_hard && matches!(self, Self::Function(..))) {
            return Ok(true);
        }
        match self {
            Self::Anything => Ok(true),
            Self::Fixed(fixed) => Ok(*fixed == value),
            Self::Variable(slot) => Ok(if let Some(known) = bindings[*slot] {
                known == value
            } else {
                bindings[*slot] = Some(value);
                given.push(*slot);
                true
            }),
            Self::Function(name, patterns) => {
                let parts = match terms.shape(value) {
                    Some(Shape::Function(other, parts)) if other == name && parts.len() == patterns.len() => {
                        parts.clone()
                    }
                    _ => return Ok(false),
                };
                for (pattern, part) in patterns.iter().zip(parts) {
                    if !pattern.agrees(part, hard, bindings, given, terms)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Interval(from, to) => {
                Ok(matches!(value, Value::Number(number) if (*from..=*to).contains(&number)))
            }
            _ => {
                if let Some(known) = self.value(bindings, terms)? {
                    return Ok(known == value);
                }
                self.solve(value, bindings, given, terms)
            }
        }
    }

    /// Solves a sum or difference for its one unknown.
    fn solve(
        &self,
        value: Value,
        bindings: &mut Bindings,
        given: &mut Vec<usize>,
        terms: &mut Terms,
    ) -> Result<bool, Refused> {
        let (operator, unknown, known, value) = match self {
            Self::Negative(pattern) => match opposite(value, terms)? {
                Some(value) => return pattern.matches(value, bindings, given, terms),
                None => return Ok(false),
            },
            Self::Binary("+", a, b) => match (a.value(bindings, terms)?, b.value(bindings, terms)?) {
                (Some(known), None) => ("-", b, known, value),
                (None, Some(known)) => ("-", a, known, value),
                _ => return Ok(false),
            },
            Self::Binary("-", a, b) => match (a.value(bindings, terms)?, b.value(bindings, terms)?) {
                (Some(known), None) => ("-", b, value, known),
                (None, Some(known)) => ("+", a, known, value),
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        match compute(operator, value, known)? {
            Some(value) => unknown.matches(value, bindings, given, terms),
            None => Ok(false),
        }
    }
}

/// Appends the slots that no pattern binds when each is matched with a value.
fn missing(patterns: &[Pattern], found: &mut Vec<usize>) {
    let (mut all, mut given) = (Vec::new(), Vec::new());
    for pattern in patterns {
        pattern.slots(&mut all);
        pattern.gives(&mut given);
    }
    found.extend(all.into_iter().filter(|slot| !given.contains(slot)));
}

/// Negates a number. clingo turns `-` before a constant or a function into a term that policies do not have.
fn opposite(value: Value, terms: &Terms) -> Result<Option<Value>, Refused> {
    match terms.shape(value) {
        Some(Shape::Constant(_) | Shape::Function(..)) => Err(Refused::Negation),
        _ => compute("-", Value::Number(0), value),
    }
}

impl Goal {
    /// Appends all slots in it.
    fn slots(&self, found: &mut Vec<usize>) {
        match self {
            Self::Atom(_, _, patterns) => patterns.iter().for_each(|pattern| pattern.slots(found)),
            Self::Comparison(_, a, _, b) => {
                a.slots(found);
                b.slots(found);
            }
            Self::ForAll(goal, condition) => {
                goal.slots(found);
                for goal in condition {
                    goal.slots(found);
                }
            }
            Self::Aggregate(aggregate) => {
                for (tuple, condition) in &aggregate.elements {
                    for pattern in tuple {
                        pattern.slots(found);
                    }
                    for goal in condition {
                        goal.slots(found);
                    }
                }
            }
        }
    }

    /// Slots among `globals` that must be bound before it can be evaluated.
    pub fn needs(&self, globals: &[usize]) -> Vec<usize> {
        let mut slots = Vec::new();
        match self {
            Self::Atom(Sign::Plain, _, patterns) => missing(patterns, &mut slots),
            Self::Comparison(Sign::Plain, a, "=", b) => {
                for side in [a, b] {
                    missing(std::slice::from_ref(side), &mut slots);
                }
            }
            other => other.slots(&mut slots),
        }
        if let Self::Aggregate(aggregate) = self {
            for (operator, pattern) in &aggregate.guards {
                // A positive equation binds its variables to the aggregate's value.
                if *operator == "=" && aggregate.sign == Sign::Plain {
                    missing(std::slice::from_ref(pattern), &mut slots);
                } else {
                    pattern.slots(&mut slots);
                }
            }
        }
        slots.retain(|slot| globals.contains(slot));
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}
