//! The interface of all simulations, and their errors.

use super::counters::Counted;
use crate::config::Start;
use crate::platform::Platform;

/// Why a simulation cannot continue.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// Deadlock: every actor waits for another one.
    #[error("at {milliseconds} ms no actor can go on: {problem}")]
    Stuck {
        /// Simulated time.
        milliseconds: u64,
        /// Which actor waits for which.
        problem: String,
    },
    /// The initial assignment has a wrong length.
    #[error("the start names {given} units and the trace has {actors} actors; name one unit for each")]
    Start {
        /// Number of units given.
        given: usize,
        /// Number of actors in the trace.
        actors: usize,
    },
    /// The initial assignment names a unit that does not exist.
    #[error("actor {actor} starts on unit {unit}; there are {units}, from 0")]
    NoUnit {
        /// The actor.
        actor: usize,
        /// The unknown unit.
        unit: usize,
        /// Number of units.
        units: usize,
    },
    /// The initial assignment places an actor on a unit of an incompatible kind.
    #[error("actor {actor} starts on {unit}, and cannot run there; see runsOn in the configuration")]
    NotThere {
        /// The actor.
        actor: usize,
        /// The unit.
        unit: String,
    },
    /// Too many actors for counters by pair.
    #[error("the trace has {actors} actors; worlds count messages of every pair, of at most {most}")]
    TooMany {
        /// Number of actors in the trace.
        actors: usize,
        /// The limit.
        most: usize,
    },
}

/// A simulation that advances window by window.
pub trait Windows {
    /// Runs to the end of the next window; `None` if the trace of an actor ends before.
    ///
    /// # Errors
    /// No actor can make progress.
    fn window(&mut self) -> Result<Option<&Counted>, WorldError>;

    /// Assigns every actor to a unit, in effect after `delay` milliseconds.
    fn reassign(&mut self, wanted: &[usize], delay: f64);
}

/// Limits the memory of counters by pair, 16 bytes each.
const MOST_ACTORS: usize = 2048;

/// The validated initial assignment; round-robin cycles through the feasible units of each actor.
///
/// # Errors
/// The assignment does not match the trace or the platform.
pub fn start(start: &Start, allowed: &[Vec<usize>], platform: &Platform) -> Result<Vec<usize>, WorldError> {
    let (actors, units) = (allowed.len(), platform.units());
    if actors > MOST_ACTORS {
        return Err(WorldError::TooMany { actors, most: MOST_ACTORS });
    }
    let given = match start {
        Start::Assignment(given) => given,
        Start::RoundRobin | Start::Named(_) => {
            return Ok(allowed.iter().enumerate().map(|(actor, of)| of[actor % of.len()]).collect());
        }
    };
    if given.len() != actors {
        return Err(WorldError::Start { given: given.len(), actors });
    }
    for (actor, unit) in given.iter().enumerate() {
        if *unit >= units {
            return Err(WorldError::NoUnit { actor, unit: *unit, units });
        }
        if !allowed[actor].contains(unit) {
            return Err(WorldError::NotThere { actor, unit: platform.labels[*unit].clone() });
        }
    }
    Ok(given.clone())
}
