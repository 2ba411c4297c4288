//! What facts are written with.

use placement::{Criterion, Snapshot};

/// Facts in the making.
pub(crate) struct Writer<'a> {
    pub snapshot: &'a Snapshot,
    pub actors: Vec<String>,
    pub units: Vec<String>,
    /// One fact each, with its end of line.
    pub lines: Vec<String>,
}

impl Writer<'_> {
    pub fn fact(&mut self, name: &str, terms: &[&dyn std::fmt::Display]) {
        let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
        self.lines.push(format!("{name}({}).\n", terms.join(",")));
    }

    pub fn aims_at(&self, criterion: Criterion) -> bool {
        self.snapshot.objectives().names(criterion)
    }

    /// Says where a fixed actor is.
    pub fn resident(&mut self, actor: usize) {
        if let Some(home) = self.snapshot.current(actor).filter(|_| self.snapshot.is_fixed(actor)) {
            let (symbol, home) = (self.actors[actor].clone(), self.units[home].clone());
            self.fact("actor", &[&symbol]);
            self.fact("fixed", &[&symbol, &home]);
        }
    }
}
