//! The syntax tree of a policy, and its text for clingo. clingo reads what is printed from the tree, never the original
//! text, so that both readers see the same program.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::fault::At;
use crate::symbols::string;

/// A term with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub at: At,
    pub is: TermKind,
}

/// The variants of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TermKind {
    Number(i32),
    Text(String),
    Variable(String),
    Anonymous,
    /// A constant, or a function of terms; a tuple has no name.
    Function(String, Vec<Term>),
    Negative(Box<Term>),
    Absolute(Box<Term>),
    /// `+ - * / \`, or `..`.
    Binary(&'static str, Box<Term>, Box<Term>),
}

/// A predicate of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Atom {
    pub at: At,
    pub name: String,
    pub terms: Vec<Term>,
}

/// The number of `not` before a literal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sign {
    #[default]
    Plain,
    Not,
    NotNot,
}

/// An atom or a comparison, possibly negated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Atom(Sign, Atom),
    Comparison(Sign, Term, &'static str, Term),
}

/// An element of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyElement {
    Literal(Literal),
    /// The literal must hold wherever the condition does.
    Conditional(Literal, Vec<Literal>),
    Aggregate(Aggregate),
}

/// An aggregate with its guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aggregate {
    pub at: At,
    pub sign: Sign,
    pub left: Option<(Term, &'static str)>,
    /// `count`, `sum`, `sum+`, `min` or `max`.
    pub function: &'static str,
    pub elements: Vec<(Vec<Term>, Vec<Literal>)>,
    pub right: Option<(&'static str, Term)>,
}

/// The head of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Atom(Atom),
    /// A constraint: the body must not hold.
    Constraint,
    /// A penalty, paid once for each tuple.
    Weak(Term, Vec<Term>),
}

/// A rule, a constraint or a weak constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub at: At,
    pub head: Head,
    pub body: Vec<BodyElement>,
}

/// Names of variables in the order of their first occurrence.
pub(crate) fn variables<'a>(terms: impl IntoIterator<Item = &'a Term>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for term in terms {
        term.walk(&mut |part| {
            if let TermKind::Variable(name) = &part.is
                && !found.contains(&name.as_str())
            {
                found.push(name);
            }
        });
    }
    found
}

impl Term {
    /// Visits the term and all terms in it, from left to right.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Term)) {
        visit(self);
        match &self.is {
            TermKind::Function(_, terms) => terms.iter().for_each(|term| term.walk(visit)),
            TermKind::Negative(term) | TermKind::Absolute(term) => term.walk(visit),
            TermKind::Binary(_, a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            _ => {}
        }
    }
}

impl Literal {
    /// The atom and its sign, unless it is a comparison.
    pub fn atom(&self) -> Option<(Sign, &Atom)> {
        match self {
            Self::Atom(sign, atom) => Some((*sign, atom)),
            Self::Comparison(..) => None,
        }
    }

    /// Its outermost terms.
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Atom(_, atom) => atom.terms.iter().collect(),
            Self::Comparison(_, a, _, b) => vec![a, b],
        }
    }
}

impl Aggregate {
    /// The terms that it is compared with.
    pub fn guards(&self) -> impl Iterator<Item = &Term> {
        self.left.iter().map(|(term, _)| term).chain(self.right.iter().map(|(_, term)| term))
    }
}

impl BodyElement {
    /// Every literal in it.
    pub fn literals(&self) -> Vec<&Literal> {
        match self {
            Self::Literal(literal) => vec![literal],
            Self::Conditional(literal, condition) => [literal].into_iter().chain(condition).collect(),
            Self::Aggregate(aggregate) => {
                aggregate.elements.iter().flat_map(|(_, condition)| condition).collect()
            }
        }
    }

    /// The terms whose variables are global to the statement, not local to an aggregate.
    pub fn outer_terms(&self) -> Vec<&Term> {
        match self {
            Self::Literal(literal) => literal.terms(),
            Self::Conditional(..) => Vec::new(),
            Self::Aggregate(aggregate) => aggregate.guards().collect(),
        }
    }
}

impl Statement {
    /// Global variables, in the order of their first occurrence.
    pub fn globals(&self) -> Vec<&str> {
        variables(self.body.iter().flat_map(BodyElement::outer_terms))
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: &[T], between: &str) -> fmt::Result {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            f.write_str(between)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.is {
            TermKind::Number(number) => write!(f, "{number}"),
            TermKind::Text(text) => f.write_str(&string(text)),
            TermKind::Variable(name) => f.write_str(name),
            TermKind::Anonymous => f.write_char('_'),
            TermKind::Function(name, terms) if terms.is_empty() && !name.is_empty() => f.write_str(name),
            TermKind::Function(name, terms) => {
                write!(f, "{name}(")?;
                list(f, terms, ",")?;
                // A tuple of one term is distinguished from brackets by its comma.
                f.write_str(if name.is_empty() && terms.len() == 1 { ",)" } else { ")" })
            }
            TermKind::Negative(term) => write!(f, "(-{term})"),
            TermKind::Absolute(term) => write!(f, "|{term}|"),
            TermKind::Binary(operator, a, b) => write!(f, "({a}{operator}{b})"),
        }
    }
}

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.terms.is_empty() {
            return Ok(());
        }
        f.write_char('(')?;
        list(f, &self.terms, ",")?;
        f.write_char(')')
    }
}

impl Display for Sign {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "",
            Self::Not => "not ",
            Self::NotNot => "not not ",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Atom(sign, atom) => write!(f, "{sign}{atom}"),
            Self::Comparison(sign, a, operator, b) => write!(f, "{sign}{a}{operator}{b}"),
        }
    }
}

impl Display for BodyElement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Conditional(literal, condition) => {
                write!(f, "{literal}:")?;
                list(f, condition, ",")
            }
            Self::Aggregate(aggregate) => aggregate.fmt(f),
        }
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.sign.fmt(f)?;
        if let Some((term, operator)) = &self.left {
            write!(f, "{term}{operator}")?;
        }
        write!(f, "#{} {{ ", self.function)?;
        for (position, (terms, condition)) in self.elements.iter().enumerate() {
            f.write_str(if position > 0 { "; " } else { "" })?;
            list(f, terms, ",")?;
            f.write_str(":")?;
            list(f, condition, ",")?;
        }
        f.write_str(" }")?;
        self.right.iter().try_for_each(|(operator, term)| write!(f, "{operator}{term}"))
    }
}

/// The elements of a body; `;` is valid after a condition too.
pub(crate) struct Body<'a>(pub &'a [BodyElement]);

impl Display for Body<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        list(f, self.0, "; ")
    }
}
