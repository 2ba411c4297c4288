//! Parses terms by precedence of operators.

use super::{Parsed, Parser, THEORY, directive};
use crate::fault::{At, Fault};
use crate::limits::MAX_NESTING;
use crate::syntax::{Term, TermKind};
use crate::token::Token;

/// The maximum width of an interval: clingo expands it to one term per number.
const WIDEST: i64 = 10_000;

impl Parser {
    /// A term; `..` binds weakest.
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.depth += 1;
        let at = self.at();
        if self.depth > MAX_NESTING {
            return Err(too_deep(at));
        }
        let left = self.sum()?;
        let term = if self.eat("..") {
            let right = self.sum()?;
            interval(at, left, right)?
        } else {
            left
        };
        if let Token::Mark(mark @ ("?" | "^" | "&")) = self.peek() {
            return Err(self.fault(format!("`{mark}` works on bits; policies have + - * / \\ and |…|")));
        }
        self.depth -= 1;
        Ok(term)
    }

    fn sum(&mut self) -> Parsed<Term> {
        let mut left = self.product()?;
        while let Token::Mark(operator @ ("+" | "-")) = *self.peek() {
            let at = self.at();
            self.advance();
            left = binary(operator, at, left, self.product()?)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed<Term> {
        let mut left = self.factor()?;
        while let Token::Mark(operator @ ("*" | "/" | "\\")) = *self.peek() {
            let at_operator = self.at();
            self.advance();
            let (at, right) = (self.at(), self.factor()?);
            if operator != "*" && right.is == TermKind::Number(0) {
                return Err(Fault::new(at, "a division by 0; the rule would never hold"));
            }
            left = binary(operator, at_operator, left, right)?;
        }
        if self.is("**") {
            return Err(self.fault("a power passes 32 bits soon; multiply instead"));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Parsed<Term> {
        let at = self.at();
        let is = match self.advance() {
            Token::Number(number) => TermKind::Number(number),
            Token::Text(text) => TermKind::Text(text),
            Token::Variable(name) => TermKind::Variable(name),
            Token::Anonymous => TermKind::Anonymous,
            Token::Name(name) => {
                let terms = if self.eat("(") { self.arguments()? } else { Vec::new() };
                TermKind::Function(name, terms)
            }
            Token::Mark("-") => {
                self.depth += 1;
                if self.depth > MAX_NESTING {
                    return Err(too_deep(at));
                }
                let term = self.factor()?;
                self.depth -= 1;
                if matches!(term.is, TermKind::Function(..) | TermKind::Text(_)) {
                    let problem =
                        format!("`-` before `{term}`: only numbers have an opposite; use another name");
                    return Err(Fault::new(at, problem));
                }
                TermKind::Negative(Box::new(term))
            }
            Token::Mark("|") => {
                let term = self.term()?;
                self.expect("|", "around an absolute value")?;
                TermKind::Absolute(Box::new(term))
            }
            Token::Mark("(") => {
                let first = self.term()?;
                if self.eat(")") {
                    return Ok(Term { at, ..first });
                }
                if self.is(";") {
                    return Err(self.fault("a pool of terms; write one rule for each"));
                }
                self.expect(",", "in a tuple")?;
                let mut terms = vec![first];
                terms.extend(self.arguments()?);
                TermKind::Function(String::new(), terms)
            }
            token => {
                self.next -= usize::from(token != Token::End);
                let problem = match token {
                    Token::Mark("@") => "`@` calls a script, and policies run none; remove it".to_owned(),
                    Token::Mark("~") => "`~` works on bits; policies have + - * / \\ and |…|".to_owned(),
                    Token::Mark("&") => THEORY.to_owned(),
                    Token::Directive(word) if word == "inf" || word == "sup" => {
                        format!("`#{word}` is no term of a policy; compare with a number")
                    }
                    Token::Directive(word) => directive(&word),
                    _ => format!("{} where a term is expected", self.shown()),
                };
                return Err(self.fault(problem));
            }
        };
        Ok(Term { at, is })
    }
}

/// An operation; the first of a chain is the deepest.
fn binary(operator: &'static str, at: At, a: Term, b: Term) -> Parsed<Term> {
    if height(&a).max(height(&b)) >= MAX_NESTING {
        return Err(too_deep(at));
    }
    Ok(Term { at: a.at, is: TermKind::Binary(operator, Box::new(a), Box::new(b)) })
}

fn too_deep(at: At) -> Fault {
    Fault::new(at, format!("more than {MAX_NESTING} terms inside each other; split the rule"))
}

/// The number of terms inside each other.
fn height(term: &Term) -> usize {
    1 + match &term.is {
        TermKind::Function(_, terms) => terms.iter().map(height).max().unwrap_or(0),
        TermKind::Negative(term) | TermKind::Absolute(term) => height(term),
        TermKind::Binary(_, a, b) => height(a).max(height(b)),
        _ => 0,
    }
}

fn interval(at: At, left: Term, right: Term) -> Parsed<Term> {
    let bound = |term: &Term| match &term.is {
        TermKind::Number(number) => Some(i64::from(*number)),
        TermKind::Negative(term) => match term.is {
            TermKind::Number(number) => Some(-i64::from(number)),
            _ => None,
        },
        _ => None,
    };
    let (Some(from), Some(to)) = (bound(&left), bound(&right)) else {
        return Err(Fault::new(at, "an interval between terms; write numbers on both sides of `..`"));
    };
    if to - from >= WIDEST {
        let problem = format!("an interval of {} numbers; at most {WIDEST} are written out", to - from + 1);
        return Err(Fault::new(at, problem));
    }
    Ok(Term { at, is: TermKind::Binary("..", Box::new(left), Box::new(right)) })
}
