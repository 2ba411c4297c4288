//! The best static assignment, by exhaustive search up to symmetry of equal units.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::config::Paradigm;
use crate::mean::mean;
use crate::platform::Platform;
use crate::simulation::{Simulation, SimulationError};
use crate::trace::Trace;

/// Upper limit on the number of enumerated assignments.
pub const MOST: usize = 4_000_000;

/// Throughput statistics over all assignments.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentStatistics {
    /// Number of assignments evaluated.
    pub count: usize,
    /// The best assignment (lexicographically first on ties) and its mean throughput in tasks per millisecond.
    pub best: (Vec<usize>, f64),
    /// The worst assignment and its mean throughput.
    pub worst: (Vec<usize>, f64),
    /// The mean throughput over all assignments.
    pub mean: f64,
}

/// Why the search has no result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BestStaticError {
    /// More assignments than the limit.
    #[error("{actors} actors on {units} units have more than {MOST} assignments; use fewer actors or units")]
    TooMany {
        /// Number of actors in the trace.
        actors: usize,
        /// Number of units of the platform.
        units: usize,
    },
    /// The platform has no unit for any actor.
    #[error("an actor has no compatible unit on the platform")]
    Nowhere,
    /// A simulation cannot continue.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Maps each unit to the first equal one: same kind, speed and place, and same message factors to all other units.
pub fn equals(platform: &Platform) -> Vec<usize> {
    let same = |a: usize, b: usize| {
        let describe = |unit: usize| {
            let place = (&platform.kinds[unit], &platform.node[unit], &platform.numa[unit]);
            (place, platform.speed[unit].to_bits(), platform.watts[unit].0.to_bits())
        };
        let others = (0..platform.units()).filter(|unit| *unit != a && *unit != b);
        let mut factors = others.map(|unit| (platform.factor[a][unit], platform.factor[b][unit]));
        describe(a) == describe(b) && factors.all(|(of_a, of_b)| of_a.total_cmp(&of_b).is_eq())
    };
    (0..platform.units()).map(|unit| (0..=unit).find(|first| same(*first, unit)).unwrap_or(unit)).collect()
}

/// All assignments in lexicographic order; of equal units, lower numbers are used first.
fn all(allowed: &[Vec<usize>], equal: &[usize]) -> Option<Vec<Vec<u16>>> {
    let mut found = Vec::new();
    let mut partial: Vec<u16> = Vec::new();
    extend(allowed, equal, &mut partial, &mut found).then_some(found)
}

fn extend(
    allowed: &[Vec<usize>],
    equal: &[usize],
    partial: &mut Vec<u16>,
    found: &mut Vec<Vec<u16>>,
) -> bool {
    let Some(here) = allowed.get(partial.len()) else {
        found.push(partial.clone());
        return found.len() <= MOST;
    };
    for &unit in here {
        let used = |other: usize| partial.iter().any(|at| usize::from(*at) == other);
        let before = (0..unit).rev().find(|other| equal[*other] == equal[unit]);
        if before.is_some_and(|before| !used(before)) {
            continue;
        }
        partial.push(u16::try_from(unit).expect("units are few"));
        let more = extend(allowed, equal, partial, found);
        partial.pop();
        if !more {
            return false;
        }
    }
    true
}

/// Simulates every assignment for the first `windows` windows on all cores; `done` receives the number finished.
///
/// `allowed` holds the feasible units of each actor, ascending.
///
/// # Errors
/// Too many assignments, no assignment, or a simulation that cannot continue.
pub fn best_static(
    platform: &Platform,
    trace: &Trace,
    paradigm: Paradigm,
    allowed: &[Vec<usize>],
    windows: u64,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<AssignmentStatistics, BestStaticError> {
    let too_many = || BestStaticError::TooMany { actors: trace.actors(), units: platform.units() };
    let assignments = all(allowed, &equals(platform)).ok_or_else(too_many)?;
    let values = in_parallel(assignments.len(), done, &|number| {
        let start: Vec<usize> = assignments[number].iter().map(|unit| usize::from(*unit)).collect();
        throughput(platform, trace, paradigm, &start, windows)
    })?;
    let pick = |better: &dyn Fn(f64, f64) -> bool| {
        let mut best: Option<usize> = None;
        for (number, value) in values.iter().enumerate() {
            if best.is_none_or(|best| better(*value, values[best])) {
                best = Some(number);
            }
        }
        best.map(|best| (assignments[best].iter().map(|unit| usize::from(*unit)).collect(), values[best]))
    };
    Ok(AssignmentStatistics {
        count: values.len(),
        best: pick(&|new, old| new > old).ok_or(BestStaticError::Nowhere)?,
        worst: pick(&|new, old| new < old).ok_or(BestStaticError::Nowhere)?,
        mean: mean(&values).ok_or(BestStaticError::Nowhere)?,
    })
}

/// Mean throughput of one assignment over the first windows; 0 if the trace ends within the first window.
fn throughput(
    platform: &Platform,
    trace: &Trace,
    paradigm: Paradigm,
    start: &[usize],
    windows: u64,
) -> Result<f64, SimulationError> {
    let mut simulation = Simulation::new(paradigm, platform, trace, start);
    Ok(mean(&simulation.throughputs(windows)?).unwrap_or(0.0))
}

/// Runs `count` jobs on all cores and returns their results in job order.
///
/// # Errors
/// The first error that a job returns.
pub fn in_parallel<T: Send, E: Send>(
    count: usize,
    done: &(dyn Fn(usize, usize) + Sync),
    work: &(dyn Fn(usize) -> Result<T, E> + Sync),
) -> Result<Vec<T>, E> {
    let at_once = (count / 64).clamp(1, 8);
    let (next, ready) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<(usize, Result<T, E>)>> = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get).min(count.max(1)) {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(at_once, Ordering::Relaxed);
                    if first >= count {
                        break;
                    }
                    let last = (first + at_once).min(count);
                    let mut own: Vec<_> = (first..last).map(|number| (number, work(number))).collect();
                    let failed = own.iter().any(|(_, result)| result.is_err());
                    results.lock().expect("no thread panics while holding the lock").append(&mut own);
                    done(ready.fetch_add(last - first, Ordering::Relaxed) + last - first, count);
                    if failed {
                        next.store(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics while holding the lock");
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::{all, in_parallel};

    #[test]
    fn equal_units_are_used_in_order() {
        let everywhere = vec![vec![0, 1, 2, 3]; 8];
        assert_eq!(all(&everywhere, &[0, 0, 2, 3]).unwrap().len(), 32_896);
        let few = all(&[vec![0, 1], vec![0, 1]], &[0, 0]).unwrap();
        assert_eq!(few, [[0, 0], [0, 1]]);
    }

    #[test]
    fn results_are_in_job_order() {
        let squares = in_parallel(100, &|_, _| {}, &|number| Ok::<_, ()>(number * number)).unwrap();
        assert!(squares.iter().enumerate().all(|(number, square)| number * number == *square));
        assert_eq!(
            in_parallel(100, &|_, _| {}, &|number| if number == 50 { Err("no") } else { Ok(()) }),
            Err("no")
        );
    }
}
