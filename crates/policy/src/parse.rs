//! Parses tokens into statements. Constructs outside of the policy language are refused by name, with an alternative; after
//! a fault the parser resumes after the next full stop, so that one run reports all faults.

use crate::fault::{At, Fault};
use crate::limits::{MAX_ELEMENTS, MAX_FAULTS, MAX_TOKENS};
use crate::syntax::{Aggregate, Atom, BodyElement, Head, Literal, Sign, Statement, Term, TermKind};
use crate::token::{Token, tokens};

mod terms;

const COMPARISONS: [&str; 8] = ["=", "==", "!=", "<>", "<", "<=", ">", ">="];

/// Parses a program; faults are ordered by position.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>, Vec<Fault>> {
    let tokens = tokens(text).map_err(|fault| vec![fault])?;
    let mut parser = Parser { tokens, next: 0, depth: 0 };
    let (mut statements, mut faults) = (Vec::new(), Vec::new());
    while *parser.peek() != Token::End {
        match parser.statement() {
            Ok(statement) => statements.push(statement),
            Err(fault) => {
                faults.push(fault);
                if faults.len() == MAX_FAULTS || !parser.recover() {
                    break;
                }
            }
        }
    }
    if faults.is_empty() { Ok(statements) } else { Err(faults) }
}

struct Parser {
    tokens: Vec<(At, Token)>,
    next: usize,
    depth: usize,
}

type Parsed<T> = Result<T, Fault>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn at(&self) -> At {
        self.tokens[self.next].0
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(found) if *found == mark)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let is = self.is(mark);
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, mark: &str, after: &str) -> Parsed<()> {
        if self.eat(mark) {
            return Ok(());
        }
        Err(self.fault(format!("{} where `{mark}` is expected {after}", self.shown())))
    }

    fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault::new(self.at(), problem)
    }

    /// The next token, as quoted in messages.
    fn shown(&self) -> String {
        match self.peek() {
            Token::Name(name) | Token::Variable(name) => format!("`{name}`"),
            Token::Anonymous => "`_`".to_owned(),
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "a string".to_owned(),
            Token::Directive(word) => format!("`#{word}`"),
            Token::Not => "`not`".to_owned(),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end of the text".to_owned(),
        }
    }

    /// Skips to the token after the next full stop; false if no further fault can be reported.
    fn recover(&mut self) -> bool {
        self.depth = 0;
        loop {
            match self.advance() {
                Token::Mark(".") => break,
                // The content of a script is not a program.
                Token::Directive(word) if word == "script" => return false,
                Token::End => return false,
                _ => {}
            }
        }
        // The weight of a weak constraint follows its full stop.
        if self.is("[") {
            while !matches!(self.advance(), Token::Mark("]") | Token::End) {}
        }
        true
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let (at, first) = (self.at(), self.next);
        let statement = self.unlimited_statement(at)?;
        let tokens = self.next - first;
        if tokens > MAX_TOKENS {
            let problem = format!("a statement of {tokens} words and signs; at most {MAX_TOKENS}, split it");
            return Err(Fault::new(at, problem));
        }
        Ok(statement)
    }

    fn unlimited_statement(&mut self, at: At) -> Parsed<Statement> {
        if self.eat(":~") {
            let body = self.body()?;
            self.expect(".", "after the weak constraint")?;
            let head = self.weight()?;
            return Ok(Statement { at, head, body });
        }
        let head = if self.is(":-") { Head::Constraint } else { Head::Atom(self.head()?) };
        let mut body = Vec::new();
        if self.eat(":-") && !(self.is(".") && head != Head::Constraint) {
            body = self.body()?;
        }
        self.expect(".", "at the end of the rule")?;
        Ok(Statement { at, head, body })
    }

    fn weight(&mut self) -> Parsed<Head> {
        self.expect("[", "with the weight, as in `:~ body. [5, A]`")?;
        let weight = self.term()?;
        if self.is("@") {
            return Err(self.fault(
                "a priority: penalties of a policy are one criterion, `policy`; write [weight, terms] and place `policy` \
                 among the objectives",
            ));
        }
        let mut terms = Vec::new();
        while self.eat(",") {
            terms.push(self.term()?);
        }
        self.expect("]", "after the weight")?;
        Ok(Head::Weak(weight, terms))
    }

    fn head(&mut self) -> Parsed<Atom> {
        let at = self.at();
        let problem = match self.peek() {
            Token::Directive(word) => directive(word),
            Token::Mark("{") => CHOICE.to_owned(),
            Token::Mark("&") => THEORY.to_owned(),
            Token::Mark("-") => CLASSICAL.to_owned(),
            Token::Not => {
                "`not` in a head: only what follows can be concluded; write a constraint, `:- body.`"
                    .to_owned()
            }
            Token::Name(_) => String::new(),
            Token::Number(_) | Token::Variable(_)
                if matches!(self.tokens[self.next + 1].1, Token::Mark("{")) =>
            {
                CHOICE.to_owned()
            }
            _ => format!("{} where a rule starts; write `head :- body.` or `:- body.`", self.shown()),
        };
        if !problem.is_empty() {
            return Err(Fault::new(at, problem));
        }
        let atom = self.atom()?;
        let problem = match self.peek() {
            Token::Mark(";" | "|") => {
                "a disjunction: a policy judges and does not choose; write one rule for each".to_owned()
            }
            Token::Mark(",") => "`,` in a head; write one rule for each conclusion".to_owned(),
            Token::Mark(":") => {
                "a condition in a head; write it as the body, `head :- condition.`".to_owned()
            }
            Token::Mark(mark) if COMPARISONS.contains(mark) => {
                "a comparison in a head; write a constraint, `:- body.`".to_owned()
            }
            _ => return Ok(atom),
        };
        Err(self.fault(problem))
    }

    fn atom(&mut self) -> Parsed<Atom> {
        let at = self.at();
        let Token::Name(name) = self.advance() else {
            self.next -= 1;
            return Err(self.fault(format!("{} where a predicate is expected", self.shown())));
        };
        let terms = if self.eat("(") { self.arguments()? } else { Vec::new() };
        Ok(Atom { at, name, terms })
    }

    /// Parses arguments after `(`.
    fn arguments(&mut self) -> Parsed<Vec<Term>> {
        let mut terms = Vec::new();
        if self.eat(")") {
            return Ok(terms);
        }
        loop {
            terms.push(self.term()?);
            if self.is(";") {
                return Err(self.fault("a pool of terms; write one rule for each"));
            }
            if !self.eat(",") {
                self.expect(")", "after the arguments")?;
                return Ok(terms);
            }
        }
    }

    fn body(&mut self) -> Parsed<Vec<BodyElement>> {
        let mut parts = vec![self.body_element()?];
        while self.eat(",") || self.eat(";") {
            self.check_length(parts.len())?;
            parts.push(self.body_element()?);
        }
        Ok(parts)
    }

    /// Refuses one more element after `length`.
    fn check_length(&self, length: usize) -> Parsed<()> {
        if length < MAX_ELEMENTS {
            return Ok(());
        }
        Err(self.fault(format!(
            "more than {MAX_ELEMENTS} conditions in one body; name some of them by a rule of their own"
        )))
    }

    fn sign(&mut self) -> Parsed<Sign> {
        let mut sign = Sign::Plain;
        while *self.peek() == Token::Not {
            sign = match sign {
                Sign::Plain => Sign::Not,
                Sign::Not => Sign::NotNot,
                Sign::NotNot => return Err(self.fault("`not` three times; one says the same")),
            };
            self.advance();
        }
        Ok(sign)
    }

    fn body_element(&mut self) -> Parsed<BodyElement> {
        let at = self.at();
        let sign = self.sign()?;
        if let Some(function) = self.function()? {
            return self.aggregate(at, sign, None, function);
        }
        if let Some(problem) = self.refused_in_body() {
            return Err(self.fault(problem));
        }
        let left = self.term()?;
        if let Some(operator) = self.comparison() {
            if let Some(function) = self.function()? {
                return self.aggregate(at, sign, Some((left, operator)), function);
            }
            if self.is("{") {
                return Err(self.fault(SET));
            }
            let right = self.term()?;
            if self.comparison().is_some() {
                return Err(Fault::new(at, "a chain of comparisons; write them one by one, `1 < X, X < 5`"));
            }
            return self.conditional(Literal::Comparison(sign, left, operator, right));
        }
        if self.is("{") {
            return Err(self.fault(SET));
        }
        let literal = Literal::Atom(sign, as_atom(left)?);
        self.conditional(literal)
    }

    /// Why a construct of ASP in a body is not part of the policy language.
    fn refused_in_body(&self) -> Option<String> {
        match self.peek() {
            Token::Directive(word) if word == "true" || word == "false" => {
                Some(format!("`#{word}` says nothing here; leave it out"))
            }
            Token::Directive(word) => Some(directive(word)),
            Token::Mark("{") => Some(SET.to_owned()),
            Token::Mark("&") => Some(THEORY.to_owned()),
            Token::Mark("-") if matches!(self.tokens[self.next + 1].1, Token::Name(_)) => {
                Some(CLASSICAL.to_owned())
            }
            _ => None,
        }
    }

    fn conditional(&mut self, literal: Literal) -> Parsed<BodyElement> {
        if self.eat(":") {
            let condition = self.condition()?;
            if !(self.is(";") || self.is(".")) {
                return Err(self.fault(format!("{} after a condition; end it with `;`", self.shown())));
            }
            return Ok(BodyElement::Conditional(literal, condition));
        }
        Ok(BodyElement::Literal(literal))
    }

    fn condition(&mut self) -> Parsed<Vec<Literal>> {
        let mut literals = Vec::new();
        if matches!(self.peek(), Token::Mark(";" | "." | "}")) {
            return Ok(literals);
        }
        loop {
            let at = self.at();
            self.check_length(literals.len())?;
            match self.plain_literal()? {
                Some(literal) => literals.push(literal),
                None => return Err(Fault::new(at, "a set inside a condition; name it by a rule of its own")),
            }
            if !self.eat(",") {
                return Ok(literals);
            }
        }
    }

    /// A literal without a condition; `None` before an aggregate.
    fn plain_literal(&mut self) -> Parsed<Option<Literal>> {
        let sign = self.sign()?;
        if self.function()?.is_some() || self.is("{") {
            return Ok(None);
        }
        if let Some(problem) = self.refused_in_body() {
            return Err(self.fault(problem));
        }
        let left = self.term()?;
        Ok(Some(match self.comparison() {
            Some(operator) => {
                if self.function()?.is_some() {
                    return Ok(None);
                }
                Literal::Comparison(sign, left, operator, self.term()?)
            }
            None => Literal::Atom(sign, as_atom(left)?),
        }))
    }

    fn comparison(&mut self) -> Option<&'static str> {
        let Token::Mark(mark) = *self.peek() else { return None };
        COMPARISONS.contains(&mark).then(|| {
            self.advance();
            match mark {
                "==" => "=",
                "<>" => "!=",
                other => other,
            }
        })
    }

    /// The aggregate function at this position, if any.
    fn function(&mut self) -> Parsed<Option<&'static str>> {
        let Token::Directive(word) = self.peek() else { return Ok(None) };
        let Some(function) = ["count", "sum", "min", "max"].into_iter().find(|name| name == word) else {
            return Ok(None);
        };
        self.advance();
        let function = if function == "sum" && self.eat("+") { "sum+" } else { function };
        if !self.is("{") {
            return Err(self.fault(format!("{} where `{{` is expected after #{function}", self.shown())));
        }
        Ok(Some(function))
    }

    fn aggregate(
        &mut self,
        at: At,
        sign: Sign,
        left: Option<(Term, &'static str)>,
        function: &'static str,
    ) -> Parsed<BodyElement> {
        self.expect("{", "after the function")?;
        let mut elements = Vec::new();
        while !self.eat("}") {
            let mut terms = vec![self.term()?];
            while self.eat(",") {
                terms.push(self.term()?);
            }
            let condition = if self.eat(":") { self.condition()? } else { Vec::new() };
            elements.push((terms, condition));
            if !self.eat(";") && !self.is("}") {
                return Err(self.fault(format!(
                    "{} inside a set; write `terms : condition`, `;` between elements",
                    self.shown()
                )));
            }
        }
        let right = match self.comparison() {
            Some(operator) => Some((operator, self.term()?)),
            None => None,
        };
        if left.is_none() && right.is_none() {
            return Err(Fault::new(
                at,
                format!("#{function} is compared with nothing; write `#{function} {{ … }} > 3`"),
            ));
        }
        Ok(BodyElement::Aggregate(Aggregate { at, sign, left, function, elements, right }))
    }
}

const CHOICE: &str =
    "a choice: a policy judges and does not choose, the search does; write a constraint, `:- body.`";
const THEORY: &str = "a theory atom: policies have none; remove it";
const CLASSICAL: &str = "classical negation; use `not`, or a predicate of its own";
const SET: &str = "a set in braces; write `#count { … }` and compare it, as in `#count { A : p(A) } > 3`";

/// Why a directive is refused.
fn directive(word: &str) -> String {
    let why = match word {
        "script" => "runs a program inside the solver; a policy is rules only, remove it",
        "include" => "reads files; write the rules here",
        "external" => "leaves open what is true; a policy says it, write rules",
        "program" => {
            "divides the text into parts that are switched on one by one; a policy is one part, remove it"
        }
        "heuristic" => {
            "steers the search; say what is better by a weak constraint, `:~ body. [weight, terms]`"
        }
        "show" => "changes what the solver reports; remove it",
        "const" => {
            "names a constant that the command line could change; write the number, or a rule `limit(3).`"
        }
        "edge" => "is a constraint of its own kind; write rules, `:- body.`",
        "project" => "changes what counts as an answer; remove it",
        "theory" => "defines a language of its own; policies have none, remove it",
        "defined" => "quietens a warning about what is not defined; define it, or remove the rule",
        "minimize" | "minimise" | "maximize" | "maximise" => {
            "sets priorities of its own; write a weak constraint, `:~ body. [weight, terms]`"
        }
        "count" | "sum" | "min" | "max" => "belongs into a body; a policy judges and does not choose",
        _ => "is not known; a policy has rules, constraints and weak constraints only",
    };
    format!("`#{word}` {why}")
}

/// Interprets a term in the position of a literal.
fn as_atom(term: Term) -> Parsed<Atom> {
    match term.is {
        TermKind::Function(name, terms) if !name.is_empty() => Ok(Atom { at: term.at, name, terms }),
        _ => Err(Fault::new(
            term.at,
            format!("`{term}` is no predicate; write one, or compare it with something"),
        )),
    }
}
