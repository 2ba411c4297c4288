//! What clingo reads of a policy: every statement on one line of its own, printed from the tree, every predicate under a
//! name that no built-in rule has.

use std::fmt::Write as _;

use crate::program::Program;
use crate::syntax::{Atom, Body, Head, Literal, Part, Statement, Term};
use crate::vocabulary::{Source, published};

/// What stands before every predicate of a policy.
pub(crate) const PREFIX: &str = "p_";

/// Which atoms are shown.
const SHOWN: &str = "#show violated/2.\n#show penalty/2.\n#show broken/2.\n";

/// What an assignment breaks of what follows from facts alone; `place(L,U,P)`: unit U is in place P of level L, `now(A,U)`: A runs
/// on U. Two that what runs breaks an `apart` or `together` with may go on breaking it, as where a file says it.
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

/// What no assignment breaks, and what is held against what was derived of it.
const HOW_MUCH: &str = "\
concluded(S,prefer,v(A,U,W)) :- said(S,prefer(A,U,W)).
concluded(S,reserve,v(U,R,Q)) :- said(S,reserve(U,R,Q)).
#show concluded/3.
";

/// Who has no place; others always have one.
const UNPLACED: &str = "\
placed(A) :- p_run_on(A,_).
p_unplaced(A) :- movable(A), not placed(A).
";

impl Program {
    /// Every statement, one on each line, and what is shown.
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

    /// Whether it says of places, from facts alone, where who may not be.
    pub(crate) fn limits_places(&self) -> bool {
        self.concludes(&["forbid", "pin", "apart", "together"])
    }

    /// Whether it says, from facts alone, what a place is worth to somebody, or what is kept free there.
    pub(crate) fn says_how_much(&self) -> bool {
        self.concludes(&["prefer", "reserve"])
    }

    fn concludes(&self, words: &[&str]) -> bool {
        let is_one = |atom: &Atom| words.contains(&atom.name.as_str());
        self.statements.iter().any(|statement| matches!(&statement.head, Head::Atom(atom) if is_one(atom)))
    }
}

const WRITES: &str = "a string takes any text";

/// One statement, its predicates renamed.
fn line(position: usize, statement: &Statement, text: &mut String) {
    let body: Vec<Part> = statement.body.iter().map(renamed_part).collect();
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

fn renamed_part(part: &Part) -> Part {
    let all = |literals: &[Literal]| literals.iter().map(renamed_literal).collect::<Vec<_>>();
    match part {
        Part::Literal(literal) => Part::Literal(renamed_literal(literal)),
        Part::Conditional(literal, condition) => Part::Conditional(renamed_literal(literal), all(condition)),
        Part::Aggregate(aggregate) => {
            let mut aggregate = aggregate.clone();
            for (_, condition) in &mut aggregate.elements {
                *condition = all(condition);
            }
            Part::Aggregate(aggregate)
        }
    }
}
