//! What every child process does: limit itself, end with its parent, and write its answer.

use std::collections::HashMap;
use std::io::{self, Write};

use clingo::Symbol;
use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};
use serde::{Deserialize, Serialize};

/// Resource limits of a solver process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Address space, in MiB.
    pub memory_mib: u64,
    /// Processor time, in seconds.
    pub cpu_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_mib: 1024, cpu_seconds: 60 }
    }
}

/// Why the solver process ends early; its parent reads it from standard error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("cannot limit the solver process: {0}")]
    Limit(#[from] rustix::io::Errno),
    #[error("the parent process is gone")]
    Orphan,
    #[error("cannot read the job: {0}")]
    Ask(#[source] io::Error),
    #[error("invalid job: {0}")]
    Job(#[from] serde_json::Error),
    #[error("cannot write the answer: {0}")]
    Tell(#[from] io::Error),
}

/// Binds this process to its parent, and sets its limits.
pub(crate) fn begin(parent: u32, limits: &Limits) -> Result<(), ChildError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have exited before the signal was set.
    let alive = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    if alive != Some(parent) {
        return Err(ChildError::Orphan);
    }
    Ok(limit(limits)?)
}

fn limit(limits: &Limits) -> Result<(), rustix::io::Errno> {
    let at_most = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::As, at_most(limits.memory_mib.saturating_mul(1 << 20)))?;
    setrlimit(Resource::Cpu, at_most(limits.cpu_seconds))
}

/// Writes one line of JSON.
pub(crate) fn write_line(line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()
}

/// Maps symbols to their positions.
pub(crate) fn positions(names: &[String]) -> Result<HashMap<Symbol, usize>, String> {
    let symbol = |(position, name): (usize, &String)| {
        let symbol = clingo::parse_term(name).map_err(|e| format!("{name} is no symbol: {e}"))?;
        Ok((symbol, position))
    };
    names.iter().enumerate().map(symbol).collect()
}
