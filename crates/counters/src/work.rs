//! Work of an actor in one window.

use crate::demand::demand;
use crate::roster::RunningActor;
use crate::window::{ActorIncreases, CollectedWindow};

/// The kind of device whose work CPU seconds measure.
const CPU: &str = "cpu";
/// Share of a window from which an actor counts as busy all the time, so that its demand is hidden.
const SATURATED: f64 = 0.95;
/// Microseconds of a second.
const MICROSECONDS: f64 = 1e6;

/// Measured work of an actor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MeasuredWork {
    /// Microseconds at speed 1 on the present kind.
    pub microseconds: f64,
    /// Whether the demand may be larger: the manifest's work is a lower bound then.
    pub is_saturated: bool,
    /// Microseconds at speed 1 of a processed message; absent without processed messages.
    pub service: Option<f64>,
}

/// The work of each actor in a window of so many seconds; absent where it was not measured.
pub(crate) fn work(window: &CollectedWindow, seconds: f64) -> Vec<Option<MeasuredWork>> {
    let all = window.actors.iter().zip(&window.increases);
    let mut measured: Vec<Option<MeasuredWork>> =
        all.map(|(actor, increases)| of_actor(actor, increases, seconds)).collect();
    at_common_pace(window, &mut measured);
    measured
}

fn of_actor(actor: &RunningActor, increases: &ActorIncreases, seconds: f64) -> Option<MeasuredWork> {
    let cpu = increases.cpu_seconds.filter(|_| actor.kind == CPU);
    let busy = increases.busy_seconds.or(cpu)? * actor.speed;
    let mut work = MeasuredWork { microseconds: busy * MICROSECONDS, ..MeasuredWork::default() };
    let Some(busy_seconds) = increases.busy_seconds else { return Some(work) };
    let processed = increases.processed.filter(|processed| *processed > 0.0);
    work.service = processed.map(|processed| work.microseconds / processed);
    if busy_seconds >= SATURATED * seconds {
        work.is_saturated = true;
        let service = work.service.unwrap_or(actor.service_microseconds);
        work.microseconds += increases.mailbox_growth.unwrap_or_default() * service;
    }
    Some(work)
}

/// Replaces the work of actors with logical time by their demand at the common pace times the measured service time.
fn at_common_pace(window: &CollectedWindow, measured: &mut [Option<MeasuredWork>]) {
    let has_progress =
        |increases: &ActorIncreases| increases.progress.is_some() && increases.processed.is_some();
    let positions: Vec<usize> =
        (0..measured.len()).filter(|at| has_progress(&window.increases[*at])).collect();
    let increases = || positions.iter().map(|at| &window.increases[*at]);
    let kept: Vec<f64> = increases()
        .map(|it| (it.processed.unwrap_or_default() - it.undone.unwrap_or_default()).max(0.0))
        .collect();
    let progress: Vec<f64> = increases().map(|it| it.progress.unwrap_or_default()).collect();
    for (at, tasks) in positions.iter().zip(demand(&kept, &progress, 1.0)) {
        let Some(work) = &mut measured[*at] else { continue };
        let service = work.service.unwrap_or(window.actors[*at].service_microseconds);
        *work = MeasuredWork { microseconds: tasks * service, is_saturated: false, service: work.service };
    }
}
