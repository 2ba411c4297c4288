//! Static checks of a parsed policy: known predicates with the right terms, safe variables, and no cycle through negation
//! or placements.

use std::collections::{BTreeMap, BTreeSet};

use crate::components::components;
use crate::fault::Fault;
use crate::limits::MAX_FAULTS;
use crate::safety;
use crate::syntax::{Atom, BodyElement, Head, Literal, Sign, Statement, Term, TermKind, variables};
use crate::vocabulary::{CONCLUSIONS, LEVELS, Sort, Source, nearest, published};

/// The maximum arity of a predicate.
const WIDEST: usize = 32;

/// A predicate: its name and its arity.
pub(crate) type Predicate<'a> = (&'a str, usize);

/// All faults of a program, ordered by position.
pub(crate) fn faults(statements: &[Statement]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let defined: BTreeSet<Predicate> = statements.iter().filter_map(Statement::concludes).collect();
    for statement in statements {
        if faults.len() >= MAX_FAULTS {
            break;
        }
        check_head(statement, &mut faults);
        for literal in statement.body.iter().flat_map(BodyElement::literals) {
            if let Some((_, atom)) = literal.atom() {
                check_read(atom, &defined, &mut faults);
            }
        }
        check_shapes(statement, &mut faults);
        check_sorts(statement, &mut faults);
        safety::check(statement, &mut faults);
    }
    if faults.is_empty() {
        check_cycles(statements, &mut faults);
    }
    faults.sort_by_key(|fault| fault.at);
    faults.dedup();
    faults
}

/// Predicates that depend on where actors are placed.
pub(crate) fn placed(statements: &[Statement]) -> BTreeSet<Predicate<'_>> {
    let mut users: BTreeMap<Predicate, Vec<Predicate>> = BTreeMap::new();
    for statement in statements {
        if let Some(head) = statement.concludes() {
            statement.reads().for_each(|(_, atom)| users.entry(atom.predicate()).or_default().push(head));
        }
    }
    let (mut placed, mut next) = (BTreeSet::new(), vec![("run_on", 2), ("unplaced", 1)]);
    while let Some(predicate) = next.pop() {
        if placed.insert(predicate) {
            next.extend(users.get(&predicate).into_iter().flatten());
        }
    }
    placed
}

impl Atom {
    /// Its name and arity.
    pub fn predicate(&self) -> Predicate<'_> {
        (&self.name, self.terms.len())
    }
}

impl Statement {
    /// The predicate in the head of a rule.
    pub fn concludes(&self) -> Option<Predicate<'_>> {
        match &self.head {
            Head::Atom(atom) => Some(atom.predicate()),
            _ => None,
        }
    }

    /// Every atom in the body, and whether the head can stop holding when that atom starts to hold: under `not`, in a
    /// condition, or in an aggregate.
    pub fn reads(&self) -> impl Iterator<Item = (bool, &Atom)> {
        self.body.iter().flat_map(|part| {
            let inside = !matches!(part, BodyElement::Literal(_));
            let atoms = part.literals().into_iter().filter_map(Literal::atom);
            atoms.map(move |(sign, atom)| (inside || sign != Sign::Plain, atom))
        })
    }
}

fn check_head(statement: &Statement, faults: &mut Vec<Fault>) {
    match &statement.head {
        Head::Atom(atom) => {
            let Some(word) = published(&atom.name) else { return };
            let problem = match word.source {
                Source::Fact => format!(
                    "`{}` comes from the snapshot, a policy reads it; choose another name for what you conclude",
                    atom.name
                ),
                Source::Placement => format!(
                    "`{}` is what the search decides; write `pin`, `forbid`, or a constraint, `:- body.`",
                    atom.name
                ),
                Source::Policy if atom.terms.len() != word.sorts.len() => arity(atom, word.form),
                Source::Policy => return,
            };
            faults.push(Fault::new(atom.at, problem));
        }
        Head::Weak(Term { at, is: TermKind::Negative(_) }, _) => {
            faults.push(Fault::new(
                *at,
                "a penalty below 0; turn the condition round, nothing is better than 0",
            ));
        }
        Head::Weak(Term { at, is: TermKind::Text(_) | TermKind::Function(..) }, _) => {
            faults.push(Fault::new(*at, "a weight is a number, or a variable that is one"));
        }
        Head::Weak(..) | Head::Constraint => {}
    }
}

/// Checks arities, and intervals in positions where they have no meaning.
fn check_shapes(statement: &Statement, faults: &mut Vec<Fault>) {
    let head: Vec<&Term> = match &statement.head {
        Head::Atom(atom) => {
            check_width(atom, faults);
            atom.terms.iter().collect()
        }
        Head::Constraint => Vec::new(),
        Head::Weak(weight, tuple) => [weight].into_iter().chain(tuple).collect(),
    };
    let is_atom = matches!(statement.head, Head::Atom(_));
    for term in head {
        check_intervals(term, is_atom, faults);
    }
    for part in &statement.body {
        for literal in part.literals() {
            if let Some((_, atom)) = literal.atom() {
                check_width(atom, faults);
            }
            let may = matches!(literal, Literal::Comparison(Sign::Plain, _, "=", _));
            literal.terms().into_iter().for_each(|term| check_intervals(term, may, faults));
        }
        if let BodyElement::Aggregate(aggregate) = part {
            let tuples = aggregate.elements.iter().flat_map(|(tuple, _)| tuple);
            aggregate.guards().chain(tuples).for_each(|term| check_intervals(term, false, faults));
        }
    }
}

fn check_width(atom: &Atom, faults: &mut Vec<Fault>) {
    if atom.terms.len() > WIDEST {
        let problem =
            format!("`{}` has {}; a predicate has at most {WIDEST}", atom.name, count(atom.terms.len()));
        faults.push(Fault::new(atom.at, problem));
    }
}

/// Refuses intervals inside a term, and an interval as the term itself unless `may_be`.
fn check_intervals(term: &Term, may_be: bool, faults: &mut Vec<Fault>) {
    term.walk(&mut |part| {
        if matches!(part.is, TermKind::Binary("..", ..)) && !(may_be && std::ptr::eq(part, term)) {
            faults.push(Fault::new(part.at, "an interval here; give its numbers a name, as in `X = 1..3`"));
        }
    });
}

fn arity(atom: &Atom, form: &str) -> String {
    format!("`{}` has {} here; it is {form}", atom.name, count(atom.terms.len()))
}

fn count(terms: usize) -> String {
    match terms {
        0 => "no terms".to_owned(),
        1 => "1 term".to_owned(),
        more => format!("{more} terms"),
    }
}

fn check_read(atom: &Atom, defined: &BTreeSet<Predicate>, faults: &mut Vec<Fault>) {
    if let Some(word) = published(&atom.name) {
        if atom.terms.len() != word.sorts.len() {
            faults.push(Fault::new(atom.at, arity(atom, word.form)));
        }
        return;
    }
    if defined.contains(&atom.predicate()) {
        return;
    }
    let name = &atom.name;
    let problem = if let Some((_, instead)) = CONCLUSIONS.iter().find(|(known, _)| known == name) {
        format!("`{name}` cannot be read: {instead}")
    } else if let Some((_, other)) = defined.iter().find(|(known, _)| known == name) {
        format!(
            "`{name}` has {} here and {} where it is defined; make them equal",
            count(atom.terms.len()),
            count(*other)
        )
    } else {
        let words = crate::vocabulary::WORDS.iter().map(|word| word.name);
        let meant = nearest(name, words.chain(defined.iter().map(|(name, _)| *name)));
        let hint = meant.map_or_else(
            || "define it by a rule, or remove it".to_owned(),
            |meant| format!("did you mean `{meant}`?"),
        );
        format!("nothing defines `{name}` with {}, so it never holds; {hint}", count(atom.terms.len()))
    };
    faults.push(Fault::new(atom.at, problem));
}

/// Terms that can never match the sort of their position, and variables that are used with two sorts.
fn check_sorts(statement: &Statement, faults: &mut Vec<Fault>) {
    let mut sorts: BTreeMap<&str, Sort> = BTreeMap::new();
    let head = match &statement.head {
        Head::Atom(atom) => Some(atom),
        _ => None,
    };
    let literals: Vec<&Literal> = statement.body.iter().flat_map(BodyElement::literals).collect();
    let read = literals.iter().filter_map(|literal| literal.atom()).map(|(_, atom)| atom);
    for atom in read.chain(head) {
        let Some(word) = published(&atom.name).filter(|word| word.sorts.len() == atom.terms.len()) else {
            continue;
        };
        for (term, sort) in atom.terms.iter().zip(word.sorts) {
            if let Some(problem) = never_matches(term, *sort) {
                faults.push(Fault::new(term.at, format!("{problem} in {}", word.form)));
            }
            let TermKind::Variable(name) = &term.is else { continue };
            let known = *sorts.entry(name).or_insert(*sort);
            if known != *sort {
                let problem = format!(
                    "{name} is {} here and {} elsewhere: the two never match",
                    described(*sort),
                    described(known)
                );
                faults.push(Fault::new(term.at, problem));
            }
        }
    }
    for literal in literals {
        let Literal::Comparison(_, a, _, b) = literal else { continue };
        for (variable, other) in [(a, b), (b, a)] {
            if let TermKind::Variable(name) = &variable.is
                && let Some(sort) = sorts.get(name.as_str())
                && let Some(problem) = never_matches(other, *sort)
            {
                faults.push(Fault::new(other.at, format!("{problem}, and {name} is {}", described(*sort))));
            }
        }
    }
}

fn described(sort: Sort) -> &'static str {
    match sort {
        Sort::Actor => "an actor",
        Sort::Name => "a name",
        Sort::Number => "a number",
        Sort::Level => "a level",
    }
}

/// Why a term can never match a position of this sort.
fn never_matches(term: &Term, sort: Sort) -> Option<String> {
    let says = |what: &str| Some(format!("{what} never matches"));
    match (&term.is, sort) {
        (TermKind::Variable(_) | TermKind::Anonymous, _)
        | (TermKind::Text(_), Sort::Name)
        | (
            TermKind::Number(_) | TermKind::Negative(_) | TermKind::Absolute(_) | TermKind::Binary(..),
            Sort::Number,
        ) => None,
        (TermKind::Function(name, terms), Sort::Level)
            if terms.is_empty() && LEVELS.contains(&name.as_str()) =>
        {
            None
        }
        (_, Sort::Level) => {
            Some(format!("`{term}` is no level; write unit, numa, node or zone, without quotes,"))
        }
        (TermKind::Function(name, terms), Sort::Actor) if name == "a" && terms.len() == 3 => {
            let name = terms.iter().find_map(|term| never_matches(term, Sort::Name));
            name.map(|problem| {
                format!("{problem} in the name of an actor, a(\"namespace\",\"application\",\"actor\"),")
            })
        }
        // Snapshots that were not made from a cluster may name actors differently.
        (TermKind::Text(text), Sort::Actor) if text.split('/').count() != 3 => None,
        (TermKind::Text(text), Sort::Actor) => {
            let parts: Vec<String> = text.split('/').map(crate::symbols::string).collect();
            Some(format!("the string `{term}` never matches an actor; write a({})", parts.join(",")))
        }
        (_, Sort::Actor) => {
            says(&format!("`{term}` is no actor, write a(\"namespace\",\"application\",\"actor\"): it"))
        }
        (TermKind::Function(name, terms), Sort::Name) if terms.is_empty() => {
            Some(format!("the constant `{name}` never matches a name; write \"{name}\""))
        }
        (_, Sort::Name) => says(&format!("`{term}` is no name, names are strings: it")),
        (_, Sort::Number) => says(&format!("`{term}` is no number: it")),
    }
}

/// Refuses programs with more than one model or without a finite grounding: cycles through `not` or an aggregate, cycles
/// over placements, and derived constraints that depend on placements.
fn check_cycles(statements: &[Statement], faults: &mut Vec<Fault>) {
    let placed = placed(statements);
    let mut uses: BTreeMap<Predicate, BTreeSet<Predicate>> = BTreeMap::new();
    for statement in statements {
        if let Some(head) = statement.concludes() {
            uses.entry(head).or_default().extend(statement.reads().map(|(_, atom)| atom.predicate()));
        }
    }
    let cycles = cycles(&uses);
    // The head uses what its statement reads, so that reaches the head if both are in one component.
    let reaches = |from: Predicate, head: Predicate| {
        cycles.get(&from).is_some_and(|cycle| cycles.get(&head) == Some(cycle))
    };
    for statement in statements {
        check_sets(statement, &placed, faults);
        let Some(head) = statement.concludes() else { continue };
        let is_word = published(head.0).is_some();
        for (inside, atom) in statement.reads() {
            let problem = if is_word && placed.contains(&atom.predicate()) {
                format!(
                    "`{}` must follow from facts, and `{}` depends on where actors are; write a constraint, `:- body.`",
                    head.0, atom.name
                )
            } else if !(inside || placed.contains(&head)) || !reaches(atom.predicate(), head) {
                continue;
            } else if inside {
                format!(
                    "`{}` rests on itself through `not`, a condition or a set, which leaves open what holds; break the \
                     cycle",
                    head.0
                )
            } else {
                format!("`{}` rests on itself and on where actors are; write it without the cycle", head.0)
            };
            faults.push(Fault::new(atom.at, problem));
        }
    }
}

/// By predicate that is concluded: its strongly connected component.
fn cycles<'a>(uses: &BTreeMap<Predicate<'a>, BTreeSet<Predicate<'a>>>) -> BTreeMap<Predicate<'a>, usize> {
    let concluded: Vec<Predicate> = uses.keys().copied().collect();
    let place = |used: &Predicate| concluded.binary_search(used).ok();
    let edges: Vec<Vec<usize>> = uses.values().map(|used| used.iter().filter_map(place).collect()).collect();
    let components = components(&edges).into_iter().enumerate();
    components
        .flat_map(|(component, members)| members.into_iter().map(move |member| (member, component)))
        .map(|(member, component)| (concluded[member], component))
        .collect()
}

/// Refuses a variable that would range over every value of an aggregate over placements.
fn check_sets(statement: &Statement, placed: &BTreeSet<Predicate>, faults: &mut Vec<Fault>) {
    for (position, part) in statement.body.iter().enumerate() {
        let BodyElement::Aggregate(aggregate) = part else { continue };
        let mut read = part.literals().into_iter().filter_map(Literal::atom);
        if !read.any(|(_, atom)| placed.contains(&atom.predicate())) {
            continue;
        }
        let known = safety::bound_without(&statement.body, position);
        let equal = aggregate.left.iter().map(|(term, operator)| (operator, term));
        let equal = equal.chain(aggregate.right.iter().map(|(operator, term)| (operator, term)));
        for (_, term) in equal.filter(|(operator, _)| **operator == "=") {
            if let Some(name) = variables([term]).into_iter().find(|name| !known.contains(name)) {
                let problem = format!(
                    "{name} would be every number that the set can come to, which depends on where actors are; compare the \
                     set with a bound, as in `#{} {{ … }} > 3`",
                    aggregate.function
                );
                faults.push(Fault::new(term.at, problem));
            }
        }
    }
}
