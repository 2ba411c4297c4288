//! The solver process that evaluates a policy on a finished assignment.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use clingo::{Symbol, SymbolType};
use placement::ix::{ActorIx, UnitIx};
use policy::{Argument, Verdict};
use serde::{Deserialize, Serialize};

use crate::engine::{self, Aim, EngineTask};
use crate::sandbox::{ChildError, Limits, begin, positions, write_line};

/// The argument that turns an executable into the worker; not part of any public command line.
pub(crate) const ARGUMENT: &str = "--cairn-internal-policy";

/// A job of the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PolicyJob {
    /// The parent process; the worker ends with it.
    pub parent: u32,
    pub limits: Limits,
    /// The policy's statements, one per line, with what they need.
    pub program: String,
    pub facts: String,
    /// Symbols that the answer refers to by position.
    pub actors: Vec<String>,
    pub units: Vec<String>,
}

/// Reads a job, evaluates it, writes the answer.
pub(crate) fn serve() -> Result<(), ChildError> {
    let job: PolicyJob = serde_json::from_reader(io::BufReader::new(io::stdin().lock()))?;
    begin(job.parent, &job.limits)?;
    write_line(&judge(&job))?;
    Ok(())
}

/// Maps symbols to positions. A hash map that is never iterated.
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
    let task = EngineTask {
        program: &program,
        seed: 0,
        conflicts: u64::from(u32::MAX),
        aim: Aim::Improve,
        at_most: &[],
    };
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

/// The position of a statement.
fn number(statement: Symbol) -> Result<usize, String> {
    let number = statement.number().map_err(|e| e.to_string())?;
    usize::try_from(number).map_err(|e| e.to_string())
}
