//! The solver process, asked what a policy says of a finished assignment.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use clingo::{Symbol, SymbolType};
use placement::ix::{ActorIx, UnitIx};
use policy::{Argument, Verdict};
use serde::{Deserialize, Serialize};

use crate::engine::{self, Aim, Task};
use crate::sandbox::{ChildError, Limits, begin, positions, tell};

/// The argument that makes an executable the worker; no part of any command line that people use.
pub(crate) const ARGUMENT: &str = "--cairn-internal-policy";

/// What the process is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PolicyJob {
    /// The process that waits for the answer; without it nobody would.
    pub parent: u32,
    pub limits: Limits,
    /// The policy's statements, one on each line, and what goes with them.
    pub program: String,
    pub facts: String,
    /// Symbols that are answered by their position.
    pub actors: Vec<String>,
    pub units: Vec<String>,
}

/// Reads a job, does it, tells the answer.
pub(crate) fn serve() -> Result<(), ChildError> {
    let job: PolicyJob = serde_json::from_reader(io::BufReader::new(io::stdin().lock()))?;
    begin(job.parent, &job.limits)?;
    tell(&judge(&job))?;
    Ok(())
}

/// Symbols back to positions; only looked up in, never walked.
struct Names {
    actors: HashMap<Symbol, usize>,
    units: HashMap<Symbol, usize>,
}

impl Names {
    fn argument(&self, symbol: Symbol) -> Argument {
        if let Some(actor) = self.actors.get(&symbol) {
            return Argument::Actor(ActorIx::new(*actor));
        }
        if let Some(unit) = self.units.get(&symbol) {
            return Argument::Unit(UnitIx::new(*unit));
        }
        let other = || Argument::Other(symbol.to_string());
        match symbol.symbol_type() {
            Ok(SymbolType::Number) => symbol.number().map_or_else(|_| other(), Argument::Number),
            Ok(SymbolType::String) => {
                symbol.string().map_or_else(|_| other(), |text| Argument::Text(text.to_owned()))
            }
            _ => other(),
        }
    }

    fn all(&self, terms: Vec<Symbol>) -> Vec<Argument> {
        terms.into_iter().map(|symbol| self.argument(symbol)).collect()
    }
}

fn judge(job: &PolicyJob) -> Result<Verdict, String> {
    let names = Names { actors: positions(&job.actors)?, units: positions(&job.units)? };
    let program = [job.program.as_str(), job.facts.as_str()];
    let task =
        Task { program: &program, seed: 0, conflicts: u64::from(u32::MAX), aim: Aim::Improve, at_most: &[] };
    let mut atoms = None;
    let take = |model: engine::Model| {
        atoms = Some(model.atoms);
        ControlFlow::Break(())
    };
    engine::run(&task, take).map_err(|e| e.to_string())?;
    let mut verdict = Verdict::default();
    for atom in atoms.ok_or("clingo finds no model where there is exactly one")? {
        let name = atom.name().map_err(|e| e.to_string())?;
        let terms = atom.arguments().map_err(|e| e.to_string())?;
        match (name, terms.as_slice()) {
            ("violated", [statement, values]) => {
                let values = names.all(values.arguments().unwrap_or_default());
                verdict.violated.push((number(*statement)?, values));
            }
            ("penalty", [weight, _]) => verdict.penalties.push(names.argument(*weight)),
            ("broken", [statement, what]) => verdict.broken.push((number(*statement)?, what.to_string())),
            ("concluded", [statement, word, values]) => {
                let values = names.all(values.arguments().unwrap_or_default());
                verdict.concluded.push((number(*statement)?, word.to_string(), values));
            }
            _ => {}
        }
    }
    verdict.broken.sort_unstable();
    verdict.concluded.sort_unstable();
    verdict.violated.sort_unstable();
    verdict.penalties.sort_unstable();
    Ok(verdict)
}

/// The number of a statement.
fn number(statement: Symbol) -> Result<usize, String> {
    let number = statement.number().map_err(|e| e.to_string())?;
    usize::try_from(number).map_err(|e| e.to_string())
}
