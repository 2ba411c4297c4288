//! What every world offers, and why one cannot go on.

use super::counters::Counted;
use crate::config::Start;
use crate::platform::Platform;

/// Why a world cannot go on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// Everybody waits for somebody.
    #[error("at {milliseconds} ms no actor can go on: {problem}")]
    Stuck {
        /// When.
        milliseconds: u64,
        /// Who waits for what.
        problem: String,
    },
    /// A start assignment that does not fit the trace.
    #[error("the start names {given} units and the trace has {actors} actors; name one unit for each")]
    Start {
        /// Units that are named.
        given: usize,
        /// Actors of the trace.
        actors: usize,
    },
    /// A start assignment that names a unit which is not there.
    #[error("actor {actor} starts on unit {unit}; there are {units}, from 0")]
    NoUnit {
        /// Whose start.
        actor: usize,
        /// What is named.
        unit: usize,
        /// How many there are.
        units: usize,
    },
    /// A start on a unit of a kind that the actor cannot run on.
    #[error("actor {actor} starts on {unit}, and cannot run there; see runsOn in the configuration")]
    NotThere {
        /// Whose start.
        actor: usize,
        /// The unit that is named.
        unit: String,
    },
    /// More actors than pairs are counted for.
    #[error("the trace has {actors} actors; worlds count messages of every pair, of at most {most}")]
    TooMany {
        /// Actors of the trace.
        actors: usize,
        /// The most that are possible.
        most: usize,
    },
}

/// A world that is looked at window by window.
pub trait Windows {
    /// Runs to the end of the next window; `None` when the trace of an actor is exhausted before.
    ///
    /// # Errors
    /// When nothing can go on.
    fn window(&mut self) -> Result<Option<&Counted>, WorldError>;

    /// Orders every actor to a unit, in effect `delay` milliseconds from now.
    fn reassign(&mut self, wanted: &[usize], delay: f64);
}

/// Counters by pair of actors take 16 bytes for each.
const MOST_ACTORS: usize = 2048;

/// The unit of each actor at the start, checked; round-robin goes through the units that an actor may be on.
///
/// # Errors
/// When it does not fit trace and platform.
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
