//! How long the busiest unit would have to work under an assignment, by the counters.
//!
//! What a plan gains in this is what can be said of throughput beforehand: where everybody waits for the slowest, the
//! busiest unit decides. The criteria of a snapshot say it in parts: work without messages, and all messages together.

use super::observed::Observed;
use super::work::demand;
use crate::config::Platform;

/// The power of the mean that stands for the maximum: large enough that the busiest unit decides, and the others still
/// count when it cannot be helped.
const POWER: i32 = 8;

/// Steps through all single changes, at most.
const SWEEPS: usize = 40;

/// What is known of the work to come.
pub struct Estimate<'a> {
    platform: &'a Platform,
    /// By actor: tasks per window.
    tasks: Vec<f64>,
    /// By sender and receiver: messages per window.
    sends: Vec<Vec<f64>>,
}

impl<'a> Estimate<'a> {
    /// From the counters since the last plan.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    pub fn new(observed: &Observed<'a>) -> Self {
        let (tasks, period) = (demand(observed), observed.period);
        let sends = tasks.iter().enumerate().map(|(actor, tasks)| {
            let each = tasks / (period.executed[actor] as f64).max(1.0);
            (0..observed.assignment.len())
                .map(|to| f64::from(period.messages.get(to, actor)) * each)
                .collect()
        });
        Self { platform: observed.platform, sends: sends.collect(), tasks }
    }

    /// Milliseconds that the actor needs of `unit` per window, itself there and everybody else where `assignment` says.
    fn needs(&self, actor: usize, unit: usize, assignment: &[usize]) -> f64 {
        let latency = &self.platform.latency[unit];
        let to = |(goal, count): (usize, &f64)| {
            count * latency[if goal == actor { unit } else { assignment[goal] }]
        };
        let sending: f64 = self.sends[actor].iter().enumerate().map(to).sum();
        self.tasks[actor] * self.platform.task[unit] + sending
    }

    fn by_unit(&self, assignment: &[usize]) -> Vec<f64> {
        let mut busy = vec![0.0; self.platform.units()];
        for (actor, &unit) in assignment.iter().enumerate() {
            busy[unit] += self.needs(actor, unit, assignment);
        }
        busy
    }

    /// Milliseconds of a window that the busiest unit has to work: the power mean of all units, a smooth maximum. Each task
    /// of each actor counts, and its messages at the price of where they go; rollbacks are left out.
    pub fn busiest(&self, assignment: &[usize]) -> f64 {
        norm(&self.by_unit(assignment))
    }

    /// The same after the actor has gone to `unit`, from what every unit has to do before.
    fn after_move(&self, busy: &[f64], assignment: &[usize], actor: usize, unit: usize) -> Vec<f64> {
        let (mut busy, from) = (busy.to_vec(), assignment[actor]);
        busy[from] -= self.needs(actor, from, assignment);
        busy[unit] += self.needs(actor, unit, assignment);
        for (sender, sends) in self.sends.iter().enumerate().filter(|(sender, _)| *sender != actor) {
            let latency = &self.platform.latency[assignment[sender]];
            busy[assignment[sender]] += sends[actor] * (latency[unit] - latency[from]);
        }
        busy
    }

    /// Single moves and exchanges from `assignment`, each the first that leaves the busiest unit less to do by a thousandth.
    pub fn steps(&self, assignment: &[usize], allowed: &[Vec<usize>]) -> Vec<usize> {
        let mut best = assignment.to_vec();
        let mut busy = self.by_unit(&best);
        for _ in 0..SWEEPS {
            let mut improved = false;
            let mut take =
                |best: &mut Vec<usize>, busy: &mut Vec<f64>, after: Vec<f64>, to: &[(usize, usize)]| {
                    if norm(&after) < norm(busy) * 0.999 {
                        for &(actor, unit) in to {
                            best[actor] = unit;
                        }
                        *busy = after;
                        improved = true;
                    }
                };
            for actor in 0..best.len() {
                for &unit in &allowed[actor] {
                    if unit != best[actor] {
                        let after = self.after_move(&busy, &best, actor, unit);
                        take(&mut best, &mut busy, after, &[(actor, unit)]);
                    }
                }
                for other in 0..actor {
                    let (a, b) = (best[actor], best[other]);
                    if a != b && allowed[actor].contains(&b) && allowed[other].contains(&a) {
                        let half = self.after_move(&busy, &best, actor, b);
                        let mut moved = best.clone();
                        moved[actor] = b;
                        let after = self.after_move(&half, &moved, other, a);
                        take(&mut best, &mut busy, after, &[(actor, b), (other, a)]);
                    }
                }
            }
            if !improved {
                break;
            }
        }
        best
    }
}

fn norm(busy: &[f64]) -> f64 {
    // Scaled, so that powers stay within range.
    let most = busy.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return 0.0;
    }
    most * busy.iter().map(|busy| (busy / most).powi(POWER)).sum::<f64>().powf(1.0 / f64::from(POWER))
}

#[cfg(test)]
mod tests {
    use super::{Estimate, norm};
    use crate::config::Config;
    use crate::planner::Observed;
    use crate::world::Counted;

    /// Two actors that talk, two that do not, on two equal units and a far one.
    fn estimated<T>(assignment: &[usize], ask: impl Fn(&Estimate, &[Vec<usize>]) -> T) -> T {
        let (config, platform) = Config::parse(
            "units: [{kind: cpu, count: 2, speed: 1}, {kind: gpu, count: 1, speed: 1}]
taskMilliseconds: 1
undoMilliseconds: 0
communicationMilliseconds: 1
exchangeFactors: {cpu: {cpu: 1, gpu: 50}, gpu: {gpu: 1}}
sameUnitFactor: 0
windowMilliseconds: 100
replanEveryWindows: 1
",
        )
        .unwrap();
        let mut period = Counted::new(4, 3);
        period.milliseconds = 100.0;
        period.executed.fill(10);
        period.progress.fill(10.0);
        period.messages.add(1, 0, 10);
        let allowed = vec![vec![0, 1, 2]; 4];
        let observed = Observed {
            config: &config,
            platform: &platform,
            allowed: &allowed,
            assignment,
            windows: 1,
            period: &period,
            total: &period,
        };
        ask(&Estimate::new(&observed), &allowed)
    }

    #[test]
    fn a_message_is_the_senders_time() {
        // Two actors with 10 tasks of 1 ms each; 10 messages at 1 ms from the first unit to the second.
        let busy = |assignment: &[usize]| estimated(assignment, |estimate, _| estimate.by_unit(assignment));
        assert_eq!(busy(&[0, 1, 0, 1]), [30.0, 20.0, 0.0]);
        assert_eq!(busy(&[1, 0, 2, 2]), [10.0, 20.0, 20.0]);
        assert_eq!(busy(&[0, 0, 1, 1]), [20.0, 20.0, 0.0]);
    }

    #[test]
    fn steps_leave_the_busiest_unit_less_to_do_and_know_what_a_change_does_to_others() {
        let steps = |assignment: &[usize]| {
            estimated(assignment, |estimate, allowed| {
                let stepped = estimate.steps(assignment, allowed);
                let apart = estimate.after_move(&estimate.by_unit(assignment), assignment, 1, 2);
                let mut moved = assignment.to_vec();
                moved[1] = 2;
                assert!((norm(&apart) - norm(&estimate.by_unit(&moved))).abs() < 1e-9, "{apart:?}");
                (estimate.busiest(assignment), estimate.busiest(&stepped), stepped)
            })
        };
        let (before, after, stepped) = steps(&[0, 1, 0, 1]);
        assert!(after < 0.999 * before, "{before} {after}");
        assert_eq!(stepped[0], stepped[1], "those that talk are together: {stepped:?}");
    }
}
