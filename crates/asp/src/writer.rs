//! A writer of facts.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::mem;

use placement::criteria::encoding::Term;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Problem, Snapshot};
use policy::{actor, string};

/// Accumulates facts.
pub(crate) struct Writer<'a> {
    pub snapshot: &'a Snapshot,
    pub problem: &'a Problem,
    pub actors: IxVec<ActorIx, String>,
    pub units: IxVec<UnitIx, String>,
    /// The output: one fact per line.
    text: String,
}

impl<'a> Writer<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            problem: snapshot.problem(),
            actors: ActorIx::first(snapshot.actors())
                .map(|position| actor(snapshot.actor_id(position)))
                .collect(),
            units: UnitIx::first(snapshot.units())
                .map(|position| string(snapshot.unit_id(position)))
                .collect(),
            text: String::new(),
        }
    }

    /// Writes one fact.
    pub fn fact(&mut self, name: &str, terms: &[&dyn Display]) {
        self.text.push_str(name);
        for (position, term) in terms.iter().enumerate() {
            let before = if position == 0 { '(' } else { ',' };
            write!(self.text, "{before}{term}").expect("a string takes whatever is written");
        }
        self.text.push_str(").\n");
    }

    /// Writes a fact of typed positions; fixed actors in it are declared.
    pub fn say(&mut self, name: &str, terms: &[Term]) {
        for term in terms {
            if let Term::Actor(actor) = term {
                self.resident(*actor);
            }
        }
        let symbols: Vec<Cow<str>> = terms.iter().map(|term| self.symbol(*term)).collect();
        let line = format!("{name}({}).\n", symbols.join(","));
        self.text.push_str(&line);
    }

    fn symbol(&self, term: Term) -> Cow<'_, str> {
        match term {
            Term::Actor(actor) => Cow::from(&self.actors[actor]),
            Term::Unit(unit) => Cow::from(&self.units[unit]),
            Term::Number(number) => Cow::from(number.to_string()),
        }
    }

    /// Declares a fixed actor and its unit.
    fn resident(&mut self, actor: ActorIx) {
        if let Some(home) = self.problem.fixed_at(actor) {
            let (symbol, home) = (self.actors[actor].clone(), self.units[home].clone());
            self.fact("fixed", &[&symbol, &home]);
            self.fact("actor", &[&symbol]);
        }
    }

    /// The facts, sorted and without duplicates, and the writer without them.
    pub fn sorted(mut self) -> (String, Self) {
        let mut text = mem::take(&mut self.text);
        text.shrink_to_fit();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.sort_unstable();
        lines.dedup();
        (lines.concat(), self)
    }
}
