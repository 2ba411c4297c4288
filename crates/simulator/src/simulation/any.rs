//! A simulation with any synchronization, which can be forked: several futures of one state.

use super::{Blocking, Optimistic, PeriodCounters, SimulationError, Windowed};
use crate::config::Paradigm;
use crate::platform::Platform;
use crate::trace::Trace;

/// A simulation with either synchronization; a clone continues from the same state.
#[derive(Clone, Debug)]
pub enum Simulation<'a> {
    /// Tasks run ahead.
    Optimistic(Box<Optimistic<'a>>),
    /// Tasks wait.
    Blocking(Box<Blocking<'a>>),
}

impl<'a> Simulation<'a> {
    /// Every actor on its initial unit, at time 0.
    pub fn new(paradigm: Paradigm, platform: &'a Platform, trace: &'a Trace, start: &[usize]) -> Self {
        let blocking =
            |conservative| Self::Blocking(Box::new(Blocking::new(platform, trace, start, conservative)));
        match paradigm {
            Paradigm::Optimistic => Self::Optimistic(Box::new(Optimistic::new(platform, trace, start))),
            Paradigm::Conservative => blocking(true),
            Paradigm::ForkJoin => blocking(false),
        }
    }

    /// As [`Windows::window`].
    ///
    /// # Errors
    /// No actor can make progress.
    pub fn window(&mut self) -> Result<Option<&PeriodCounters>, SimulationError> {
        match self {
            Self::Optimistic(simulation) => simulation.window(),
            Self::Blocking(simulation) => simulation.window(),
        }
    }

    /// As [`Windows::reassign`].
    pub fn reassign(&mut self, wanted: &[usize], delay: f64) {
        match self {
            Self::Optimistic(simulation) => simulation.reassign(wanted, delay),
            Self::Blocking(simulation) => simulation.reassign(wanted, delay),
        }
    }

    /// The throughput of up to `most` further windows; fewer if the trace ends.
    ///
    /// # Errors
    /// No actor can make progress.
    pub fn throughputs(&mut self, most: u64) -> Result<Vec<f64>, SimulationError> {
        let mut values = Vec::new();
        for _ in 0..most {
            match self.window()? {
                Some(counted) => values.push(counted.throughput()),
                None => break,
            }
        }
        Ok(values)
    }
}
