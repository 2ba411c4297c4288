//! The interface of all simulations, and their errors.

use super::counters::PeriodCounters;
use crate::config::Start;
use crate::platform::Platform;

/// Why a simulation cannot continue.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// Deadlock: every actor waits for another one.
    #[error("at {milliseconds} ms the simulation is deadlocked: {problem}")]
    Stuck {
        /// Simulated time.
        milliseconds: u64,
        /// Which actor waits for which.
        problem: String,
    },
    /// The initial assignment has a wrong length.
    #[error("the initial assignment has {given} units for {actors} actors; name one unit per actor")]
    Start {
        /// Number of units given.
        given: usize,
        /// Number of actors in the trace.
        actors: usize,
    },
    /// The initial assignment names a unit that does not exist.
    #[error(
        "actor {actor} starts on unit {unit}, which does not exist; the platform has {units}, numbered from 0"
    )]
    NoUnit {
        /// The actor.
        actor: usize,
        /// The unknown unit.
        unit: usize,
        /// Number of units.
        units: usize,
    },
    /// The initial assignment places an actor on a unit of an incompatible kind.
    #[error("actor {actor} starts on {unit}, whose kind is not in its runsOn")]
    NotThere {
        /// The actor.
        actor: usize,
        /// The unit.
        unit: String,
    },
    /// Too many actors for counters by pair.
    #[error(
        "the trace has {actors} actors; simulations support at most {most}, as they count messages by pair"
    )]
    TooMany {
        /// Number of actors in the trace.
        actors: usize,
        /// The limit.
        most: usize,
    },
}

/// A simulation that advances window by window.
pub trait Windowed {
    /// Runs to the end of the next window; `None` if the trace of an actor ends before.
    ///
    /// # Errors
    /// No actor can make progress.
    fn window(&mut self) -> Result<Option<&PeriodCounters>, SimulationError>;

    /// Assigns every actor to a unit, in effect after `delay` milliseconds.
    fn reassign(&mut self, wanted: &[usize], delay: f64);
}

/// Limits the memory of counters by pair, 16 bytes each.
const MOST_ACTORS: usize = 2048;

/// The validated initial assignment; round-robin cycles through the feasible units of each actor.
///
/// # Errors
/// The assignment does not match the trace or the platform.
pub fn start(
    start: &Start,
    allowed: &[Vec<usize>],
    platform: &Platform,
) -> Result<Vec<usize>, SimulationError> {
    let (actors, units) = (allowed.len(), platform.units());
    if actors > MOST_ACTORS {
        return Err(SimulationError::TooMany { actors, most: MOST_ACTORS });
    }
    let given = match start {
        Start::Assignment(given) => given,
        Start::RoundRobin | Start::Named(_) => {
            return Ok(allowed.iter().enumerate().map(|(actor, of)| of[actor % of.len()]).collect());
        }
    };
    if given.len() != actors {
        return Err(SimulationError::Start { given: given.len(), actors });
    }
    for (actor, unit) in given.iter().enumerate() {
        if *unit >= units {
            return Err(SimulationError::NoUnit { actor, unit: *unit, units });
        }
        if !allowed[actor].contains(unit) {
            return Err(SimulationError::NotThere { actor, unit: platform.labels[*unit].clone() });
        }
    }
    Ok(given.clone())
}
