//! Work and capacities from simulation counters.

use super::observed::Observed;

/// Capacity by unit, and by actor its work on each unit.
pub type Work = (Vec<f64>, Vec<Vec<f64>>);

/// Work units per millisecond: tenths of a microsecond keep rounding well below the measurement error.
pub const PER_MILLISECOND: f64 = 10_000.0;

/// One per cent above the share at perfect balance.
const SLACK: f64 = 1.01;

/// Tasks of each actor per window at the common pace of all actors ([`counters::demand`]).
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub fn demand(observed: &Observed) -> Vec<f64> {
    let period = observed.period;
    let kept = period.executed.iter().zip(&period.undone);
    let kept: Vec<f64> = kept.map(|(ran, undone)| ran.saturating_sub(*undone) as f64).collect();
    counters::demand(&kept, &period.progress, period.milliseconds / observed.platform.window)
}

/// Milliseconds per task on a unit, including sends and rollbacks: measured on busy units of its kind; without such a
/// unit, the task duration plus a message within the unit.
fn service(observed: &Observed, unit: usize) -> f64 {
    let (platform, period) = (observed.platform, observed.period);
    let alike = (0..platform.units()).filter(|other| platform.kinds[*other] == platform.kinds[unit]);
    let (busy, ran) = alike
        .fold((0.0, 0), |(busy, ran), other| (busy + period.busy[other], ran + period.executed_on[other]));
    if ran == 0 {
        return platform.task[unit] + platform.latency[unit][unit];
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    let ran = ran as f64;
    busy / ran
}

/// Time: an actor's [`demand`] times the measured task time on the kind. The demand of a trace has no bound, so a unit's
/// capacity is its share of the work at perfect balance, plus one per cent and `room` actors of mean work.
pub fn time(observed: &Observed, room: f64) -> Work {
    let tasks = demand(observed);
    let units = 0..observed.platform.units();
    let each: Vec<f64> = units.map(|unit| service(observed, unit) * PER_MILLISECOND).collect();
    let together: f64 = each.iter().map(|each| 1.0 / each).sum();
    let share = tasks.iter().sum::<f64>() / together;
    let work = tasks.iter().map(|tasks| each.iter().map(|each| tasks * each).collect()).collect();
    #[expect(clippy::cast_precision_loss, reason = "actors are few")]
    let room = tasks.iter().sum::<f64>() / tasks.len().max(1) as f64 * room;
    let capacity = each.iter().map(|each| share * SLACK + room * each).collect();
    (capacity, work)
}

/// By actor: [`demand`] divided by its executed tasks, the correction factor for its messages.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub fn paces(observed: &Observed) -> Vec<f64> {
    let windows = observed.period.milliseconds / observed.platform.window;
    let ran = observed.period.executed.iter().map(|ran| *ran as f64 / windows);
    demand(observed).iter().zip(ran).map(|(tasks, ran)| if ran > 0.0 { tasks / ran } else { 0.0 }).collect()
}

/// Time as if all messages were local: an actor's [`demand`] times its task duration plus its sends within a unit. The
/// capacity is half of the share at perfect balance, so that overload also distinguishes the less loaded units.
pub fn alone(observed: &Observed) -> Work {
    let (platform, period) = (observed.platform, observed.period);
    let windows = period.milliseconds / platform.window;
    let (tasks, paces) = (demand(observed), paces(observed));
    let sends = |actor: usize| -> f64 {
        let to = (0..tasks.len()).map(|to| f64::from(period.messages.get(to, actor)));
        to.sum::<f64>() * paces[actor] / windows
    };
    let of = |actor: usize| -> Vec<f64> {
        let (tasks, sends) = (tasks[actor], sends(actor));
        let on = |unit: usize| tasks * platform.task[unit] + sends * platform.latency[unit][unit];
        (0..platform.units()).map(|unit| on(unit) * PER_MILLISECOND).collect()
    };
    let work: Vec<Vec<f64>> = (0..tasks.len()).map(of).collect();
    // The time in which all units together would do all work if it were divisible.
    let needs = |unit: usize| work.iter().map(|of| of[unit]).sum::<f64>();
    let together: f64 = (0..platform.units()).map(|unit| 1.0 / needs(unit).max(1.0)).sum();
    (vec![0.5 / together; platform.units()], work)
}

/// Executed tasks, with 1.01 times the tasks of the unit as its capacity (APO authors' program).
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub fn tasks(observed: &Observed) -> Work {
    let platform = observed.platform;
    let period = observed.period;
    let ran: Vec<f64> = period.executed_on.iter().map(|tasks| *tasks as f64).collect();
    let busy: Vec<usize> = (0..platform.units()).filter(|unit| ran[*unit] > 0.0).collect();
    let at_speed_1: f64 = busy.iter().map(|unit| ran[*unit] / platform.speed[*unit]).sum();
    let baseline = at_speed_1 / busy.len().max(1) as f64;
    let capacity = (0..platform.units())
        .map(|unit| if ran[unit] > 0.0 { ran[unit] * SLACK } else { baseline * platform.speed[unit] });
    let work = period.executed.iter().map(|tasks| vec![*tasks as f64; platform.units()]);
    (capacity.collect(), work.collect())
}

/// [`tasks`] with the mean of all actors for each, rounded down: a unit's work is its number of actors times the mean.
#[expect(clippy::cast_precision_loss, reason = "actors are few")]
pub fn mean_tasks(observed: &Observed) -> Work {
    let (capacity, mut work) = tasks(observed);
    let sum: f64 = work.iter().filter_map(|of| of.first()).sum();
    let mean = (sum / work.len().max(1) as f64).floor();
    for of in &mut work {
        of.fill(mean);
    }
    (capacity, work)
}
