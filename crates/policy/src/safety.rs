//! Safety: every variable is bound by a positive literal, otherwise a rule would have infinitely many instances.

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::syntax::{BodyElement, Head, Literal, Sign, Statement, Term, TermKind, variables};

/// Finds unbound variables, and `_` where a value is needed.
pub(crate) fn check(statement: &Statement, faults: &mut Vec<Fault>) {
    let head: Vec<&Term> = match &statement.head {
        Head::Atom(atom) => atom.terms.iter().collect(),
        Head::Constraint => Vec::new(),
        Head::Weak(weight, terms) => [weight].into_iter().chain(terms).collect(),
    };
    let outer: Vec<&Term> = statement.body.iter().flat_map(BodyElement::outer_terms).collect();
    let globals: BTreeSet<&str> = variables(outer.iter().chain(&head).copied()).into_iter().collect();
    let bound = bound_by(&statement.body, &globals);
    let mut reported = BTreeSet::new();
    report(head.iter().chain(&outer).copied(), &bound, &mut reported, faults);
    for part in &statement.body {
        match part {
            BodyElement::Literal(_) => {}
            BodyElement::Conditional(literal, condition) => {
                let inner = bound_in(condition, &bound);
                let terms = literal.terms().into_iter().chain(condition.iter().flat_map(Literal::terms));
                report(terms, &inner, &mut reported, faults);
            }
            BodyElement::Aggregate(aggregate) => {
                for (terms, condition) in &aggregate.elements {
                    let inner = bound_in(condition, &bound);
                    let terms = terms.iter().chain(condition.iter().flat_map(Literal::terms));
                    report(terms, &inner, &mut reported, faults);
                }
            }
        }
    }
    needs_values(statement, &head, faults);
}

fn report<'a>(
    terms: impl Iterator<Item = &'a Term>,
    bound: &BTreeSet<&str>,
    reported: &mut BTreeSet<&'a str>,
    faults: &mut Vec<Fault>,
) {
    for term in terms {
        term.walk(&mut |part| {
            if let TermKind::Variable(name) = &part.is
                && !bound.contains(name.as_str())
                && reported.insert(name)
            {
                let problem =
                    format!("{name} gets no value: add an atom without `not` that says what {name} can be");
                faults.push(Fault::new(part.at, problem));
            }
        });
    }
}

/// Variables that the body binds, up to a fixed point: an equation can bind one from another.
fn bound_by<'a>(body: &'a [BodyElement], globals: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut bound = BTreeSet::new();
    loop {
        let before = bound.len();
        for part in body {
            match part {
                BodyElement::Literal(literal) => bind(literal, &mut bound),
                BodyElement::Aggregate(aggregate) if aggregate.sign == Sign::Plain => {
                    let inner: Vec<&Term> = aggregate
                        .elements
                        .iter()
                        .flat_map(|(terms, condition)| {
                            terms.iter().chain(condition.iter().flat_map(Literal::terms))
                        })
                        .collect();
                    let known = variables(inner)
                        .into_iter()
                        .all(|name| !globals.contains(name) || bound.contains(name));
                    let equal =
                        aggregate.left.iter().filter(|(_, operator)| *operator == "=").map(|(term, _)| term);
                    let equal = equal.chain(
                        aggregate.right.iter().filter(|(operator, _)| *operator == "=").map(|(_, t)| t),
                    );
                    for term in equal.filter(|_| known) {
                        solve(term, &mut bound);
                    }
                }
                BodyElement::Conditional(..) | BodyElement::Aggregate(_) => {}
            }
        }
        if bound.len() == before {
            return bound;
        }
    }
}

/// Variables that the other elements of a body bind.
pub(crate) fn bound_without(body: &[BodyElement], position: usize) -> BTreeSet<&str> {
    let mut bound = BTreeSet::new();
    for part in [&body[..position], &body[position + 1..]] {
        bound.extend(bound_by(part, &BTreeSet::new()));
    }
    bound
}

/// The variables that a condition binds in addition to those bound around it.
fn bound_in<'a>(condition: &'a [Literal], outer: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut bound = outer.clone();
    loop {
        let before = bound.len();
        for literal in condition {
            bind(literal, &mut bound);
        }
        if bound.len() == before {
            return bound;
        }
    }
}

fn bind<'a>(literal: &'a Literal, bound: &mut BTreeSet<&'a str>) {
    match literal {
        Literal::Atom(Sign::Plain, atom) => atom.terms.iter().for_each(|term| solve(term, bound)),
        Literal::Comparison(Sign::Plain, a, "=", b) => {
            for (from, to) in [(a, b), (b, a)] {
                if variables([from]).into_iter().all(|name| bound.contains(name)) {
                    solve(to, bound);
                }
            }
        }
        _ => {}
    }
}

/// Binds the variables of a term with a known value, if the solution is unique.
fn solve<'a>(term: &'a Term, bound: &mut BTreeSet<&'a str>) {
    let is_plain = |term: &Term| variables([term]).is_empty();
    match &term.is {
        TermKind::Variable(name) => {
            bound.insert(name);
        }
        TermKind::Function(_, terms) => terms.iter().for_each(|term| solve(term, bound)),
        TermKind::Negative(term) => solve(term, bound),
        TermKind::Binary("+" | "-", a, b) if is_plain(a) || is_plain(b) => {
            solve(a, bound);
            solve(b, bound);
        }
        _ => {}
    }
}

/// Checks that operands of an operation are bound.
fn computed<'a>(term: &'a Term, found: &mut Vec<&'a Term>) {
    match &term.is {
        TermKind::Function(_, terms) => terms.iter().for_each(|term| computed(term, found)),
        TermKind::Negative(_) | TermKind::Absolute(_) | TermKind::Binary(..) => found.push(term),
        _ => {}
    }
}

/// Refuses `_` outside of atoms, where it has no meaning.
fn needs_values(statement: &Statement, head: &[&Term], faults: &mut Vec<Fault>) {
    let mut places = head.to_vec();
    for part in &statement.body {
        for literal in part.literals() {
            match literal {
                Literal::Atom(_, atom) => atom.terms.iter().for_each(|term| computed(term, &mut places)),
                Literal::Comparison(..) => places.extend(literal.terms()),
            }
        }
        if let BodyElement::Aggregate(aggregate) = part {
            places.extend(aggregate.guards());
            places.extend(aggregate.elements.iter().flat_map(|(terms, _)| terms));
        }
    }
    for place in places {
        place.walk(&mut |term| {
            if term.is == TermKind::Anonymous {
                faults.push(Fault::new(term.at, "`_` has no value here; use a variable"));
            }
        });
    }
}
