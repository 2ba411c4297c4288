//! The policy's program for clingo: one statement per line, printed from the tree, with every predicate prefixed so that it
//! cannot collide with a built-in rule.

use std::fmt::Write as _;

use crate::program::Program;
use crate::syntax::{Atom, Body, BodyElement, Head, Literal, Statement, Term};
use crate::vocabulary::{Source, published};

/// The prefix of every predicate of a policy.
pub(crate) const PREFIX: &str = "p_";

/// `#show` statements.
const SHOWN: &str = "#show violated/2.\n#show penalty/2.\n#show broken/2.\n";

/// Violations of conclusions from facts; `place(L,U,P)`: unit U is in domain P of level L, `now(A,U)`: A currently runs on U. A
/// pair that currently violates an `apart` or `together` may go on violating it, as with constraints of a file.
const DERIVED: &str = "\
broken(S,forbid(A,U)) :- said(S,forbid(A,U)), movable(A), p_run_on(A,U).
broken(S,pin(A,U)) :- said(S,pin(A,U)), movable(A), p_run_on(A,V), U != V.
pair(S,apart(A,B,L),A,B,L) :- said(S,apart(A,B,L)).
pair(S,together(A,B,L),A,B,L) :- said(S,together(A,B,L)).
open(A,B) :- pair(_,_,A,B,_), movable(A), A != B.
open(A,B) :- pair(_,_,A,B,_), movable(B), A != B.
share(A,B,L) :- pair(_,_,A,B,L), open(A,B), p_run_on(A,U), p_run_on(B,V), place(L,U,P), place(L,V,P).
shared(A,B,L) :- pair(_,_,A,B,L), open(A,B), now(A,U), now(B,V), place(L,U,P), place(L,V,P).
torn(A,B,L) :- pair(_,together(A,B,L),A,B,L), open(A,B), now(A,_), now(B,_), not shared(A,B,L).
broken(S,apart(A,B,L)) :- pair(S,apart(A,B,L),A,B,L), share(A,B,L), not shared(A,B,L).
broken(S,together(A,B,L)) :- pair(S,together(A,B,L),A,B,L), open(A,B), p_run_on(A,_), p_run_on(B,_),
    not share(A,B,L), not torn(A,B,L).
";

/// Conclusions that no assignment can violate, which are compared with what was derived.
const HOW_MUCH: &str = "\
concluded(S,prefer,v(A,U,W)) :- said(S,prefer(A,U,W)).
concluded(S,reserve,v(U,R,Q)) :- said(S,reserve(U,R,Q)).
#show concluded/3.
";

/// Actors without a place; all others have one.
const UNPLACED: &str = "\
placed(A) :- p_run_on(A,_).
p_unplaced(A) :- movable(A), not placed(A).
";

impl Program {
    /// The whole program: every statement on a line of its own, and what is shown.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (position, statement) in self.statements.iter().enumerate() {
            line(position, statement, &mut text);
        }
        for word in ["forbid", "pin", "prefer", "apart", "together", "reserve"] {
            if self.reads.contains(word) {
                let terms = match published(word).map_or(0, |word| word.sorts.len()) {
                    2 => "A,B",
                    _ => "A,B,C",
                };
                writeln!(text, "{PREFIX}{word}({terms}) :- said(_,{word}({terms})).").expect(WRITES);
            }
        }
        if self.reads.contains("unplaced") {
            text.push_str(UNPLACED);
        }
        if self.limits_places() {
            text.push_str(DERIVED);
        }
        if self.says_how_much() {
            text.push_str(HOW_MUCH);
        }
        text + SHOWN
    }

    /// Whether facts alone restrict the units of actors.
    pub(crate) fn limits_places(&self) -> bool {
        self.concludes(&["forbid", "pin", "apart", "together"])
    }

    /// Whether facts alone price a unit for an actor or reserve a quantity.
    pub(crate) fn says_how_much(&self) -> bool {
        self.concludes(&["prefer", "reserve"])
    }

    fn concludes(&self, words: &[&str]) -> bool {
        let is_one = |atom: &Atom| words.contains(&atom.name.as_str());
        self.statements.iter().any(|statement| matches!(&statement.head, Head::Atom(atom) if is_one(atom)))
    }
}

const WRITES: &str = "a string takes any text";

/// One statement with prefixed predicates.
fn line(position: usize, statement: &Statement, text: &mut String) {
    let body: Vec<BodyElement> = statement.body.iter().map(renamed_element).collect();
    let head = match &statement.head {
        Head::Atom(atom) => match published(&atom.name) {
            Some(word) if word.source == Source::Policy => format!("said({position},{atom})"),
            _ => renamed(atom).to_string(),
        },
        Head::Constraint => {
            let globals = statement.globals();
            let bindings =
                if globals.is_empty() { String::new() } else { format!("({})", globals.join(",")) };
            format!("violated({position},v{bindings})")
        }
        Head::Weak(weight, terms) => {
            let terms: Vec<String> = terms.iter().map(Term::to_string).collect();
            let tuple = if terms.is_empty() { String::new() } else { format!("({})", terms.join(",")) };
            format!("penalty({weight},t{tuple})")
        }
    };
    if body.is_empty() {
        writeln!(text, "{head}.").expect(WRITES);
    } else {
        writeln!(text, "{head} :- {}.", Body(&body)).expect(WRITES);
    }
}

fn renamed(atom: &Atom) -> Atom {
    Atom { name: format!("{PREFIX}{}", atom.name), ..atom.clone() }
}

fn renamed_literal(literal: &Literal) -> Literal {
    match literal {
        Literal::Atom(sign, atom) => Literal::Atom(*sign, renamed(atom)),
        comparison @ Literal::Comparison(..) => comparison.clone(),
    }
}

fn renamed_element(part: &BodyElement) -> BodyElement {
    let all = |literals: &[Literal]| literals.iter().map(renamed_literal).collect::<Vec<_>>();
    match part {
        BodyElement::Literal(literal) => BodyElement::Literal(renamed_literal(literal)),
        BodyElement::Conditional(literal, condition) => {
            BodyElement::Conditional(renamed_literal(literal), all(condition))
        }
        BodyElement::Aggregate(aggregate) => {
            let mut aggregate = aggregate.clone();
            for (_, condition) in &mut aggregate.elements {
                *condition = all(condition);
            }
            BodyElement::Aggregate(aggregate)
        }
    }
}
