//! What facts are written with.

use std::fmt::Display;

use placement::criteria::encoding::Term;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Problem, Snapshot};
use policy::{actor, string};

/// Facts in the making.
pub(crate) struct Writer<'a> {
    pub snapshot: &'a Snapshot,
    pub problem: &'a Problem,
    pub actors: IxVec<ActorIx, String>,
    pub units: IxVec<UnitIx, String>,
    /// One fact each, with its end of line.
    pub lines: Vec<String>,
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
            lines: Vec::new(),
        }
    }

    /// Writes one.
    pub fn fact(&mut self, name: &str, terms: &[&dyn Display]) {
        let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
        self.lines.push(line(name, &terms));
    }

    /// Writes one in typed positions; fixed actors in it are made known.
    pub fn say(&mut self, name: &str, terms: &[Term]) {
        for term in terms {
            if let Term::Actor(actor) = term {
                self.resident(*actor);
            }
        }
        let symbol = |term: &Term| match term {
            Term::Actor(actor) => self.actors[*actor].clone(),
            Term::Unit(unit) => self.units[*unit].clone(),
            Term::Number(number) => number.to_string(),
        };
        let terms: Vec<String> = terms.iter().map(symbol).collect();
        self.lines.push(line(name, &terms));
    }

    /// Says where a fixed actor is.
    fn resident(&mut self, actor: ActorIx) {
        if let Some(home) = self.problem.fixed_at(actor) {
            let (symbol, home) = (self.actors[actor].clone(), self.units[home].clone());
            self.lines.push(line("fixed", &[symbol.clone(), home]));
            self.lines.push(line("actor", &[symbol]));
        }
    }
}

fn line(name: &str, terms: &[String]) -> String {
    format!("{name}({}).\n", terms.join(","))
}
