//! Verifies a finished placement: the shipped programs decide over the snapshot's facts whether it is feasible and what it
//! costs, in a process of its own.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{mem, thread};

use placement::criteria::Finished;
use placement::file::Levels;
use placement::{Assignment, Cost, Criterion, JudgeError, Judged, Snapshot};

use crate::child::Job;
use crate::engine::Outcome;
use crate::facts::{ALL_PAIRS, Encoded, vector};
use crate::group_counts::{GroupUnitCounts, JudgingBatch};
use crate::judging_size::{CONCURRENT_RUNS, JudgingSize, most_batches_of_channels};
use crate::process::{JobEnd, Solver};
use crate::sandbox::Limits;
use crate::scale::{Rounding, Scale};

/// Facts, given and derived, that clingo handles in about half a second (docs/results/history/placement.md).
pub(crate) const MOST_FACTS: usize = 60_000;

/// The same for a twelfth of that time.
pub(crate) const AT_ONCE_FACTS: usize = MOST_FACTS / 12;

/// With more runs than this the criteria are not verified: two at a time they take about as long as the wait for one run.
pub(crate) const MOST_PARTS: usize = 64;

/// How much may be verified.
#[derive(Clone, Copy)]
pub(crate) struct JudgeLimits<'a> {
    /// The maximum number of facts of one run, as in [`MOST_FACTS`].
    pub facts: usize,
    /// With more runs than this beside the first the criteria are not verified.
    pub batches: usize,
    /// The time until the deadline, if there is one.
    pub left: Option<&'a (dyn Fn() -> Duration + Sync)>,
}

/// What is verified.
pub(crate) struct Examined<'a> {
    world: &'a Snapshot,
    assignment: &'a Assignment,
    cost: &'a Cost,
    limits: JudgeLimits<'a>,
}

/// clingo's minimized sums for a finished placement; `None` if it is infeasible.
type Sums = Option<Vec<i64>>;

impl<'a> Examined<'a> {
    /// A verification within limits.
    pub fn new(
        world: &'a Snapshot,
        assignment: &'a Assignment,
        cost: &'a Cost,
        limits: JudgeLimits<'a>,
    ) -> Self {
        Self { world, assignment, cost, limits }
    }

    /// Whether that much is left of the time.
    fn has_time(&self, time: Duration) -> bool {
        self.limits.left.is_none_or(|left| left() >= time)
    }

    /// Verifies by calling `ask`, which may return no answer; concurrently if several runs are needed.
    ///
    /// Numbers that exceed 32 bits are scaled down first so that feasible placements stay feasible, and the sums are compared in
    /// the scaled numbers.
    ///
    /// # Errors
    /// When clingo finds the placement infeasible, or its cost differs.
    pub fn confirm(&self, ask: impl Fn(&Job) -> Option<Sums> + Sync) -> Result<Judged, JudgeError> {
        if let Ok(scale) = Scale::of(self.world) {
            return self.in_scale(self.world, &scale, &ask);
        }
        // Criteria whose numbers cannot be scaled are not verified; feasibility does not depend on them.
        let mut file = self.world.file().clone();
        file.objectives = Levels::InOrder(vec![vec![Criterion::Overload]]);
        let Ok(plain) = self.world.in_numbers(file, self.world.rules().cloned()) else {
            return Ok(Judged::None);
        };
        let Ok(scale) = Scale::of(&plain) else { return Ok(Judged::None) };
        let judged = self.in_scale(&plain, &scale, &ask)?;
        Ok(judged.min(of_constraints(&plain, &scale)))
    }

    fn in_scale(
        &self,
        world: &Snapshot,
        scale: &Scale,
        ask: &(impl Fn(&Job) -> Option<Sums> + Sync),
    ) -> Result<Judged, JudgeError> {
        if scale.is_exact() {
            return self.judge(world, self.cost.vector(world), ask);
        }
        let Ok(smaller) = scale.apply(world, Rounding::Relaxed) else { return Ok(Judged::None) };
        Ok(match self.judge(&smaller, vector(&smaller, self.assignment), ask)? {
            Judged::None => Judged::None,
            Judged::All | Judged::Parts => Judged::Scaled,
            _ => of_constraints(world, scale),
        })
    }

    fn judge(
        &self,
        world: &Snapshot,
        mut expected: Vec<i64>,
        ask: &(impl Fn(&Job) -> Option<Sums> + Sync),
    ) -> Result<Judged, JudgeError> {
        let (counts, finished) =
            (GroupUnitCounts::of(world, self.assignment), Finished::new(world, self.assignment));
        let (size, most) = (JudgingSize::of(world, finished.units(), &counts), self.limits.facts);
        let batches = size.batches(most).filter(|batches| batches.len() <= self.limits.batches);
        let batches = batches.filter(|batches| self.has_time(size.time(batches.len(), most)));
        let (levels, batches, judged) = match batches {
            Some(whole) if whole.is_empty() => (world.objectives().levels(), whole, Judged::All),
            Some(batches) => (world.objectives().levels(), batches, Judged::Parts),
            None => (<&[Vec<Criterion>]>::default(), Vec::new(), Judged::Constraints),
        };
        expected.truncate(levels.len() + 1);
        // If pairs are summed in batches, the first run has none of them; it counts co-located groups.
        let (pairs, counts) =
            if judged == Judged::Parts { (0..0, counts) } else { (ALL_PAIRS, GroupUnitCounts::default()) };
        let mut encoded = Encoded::judged(world, levels, &finished, &pairs, &counts);
        let first = job(mem::take(&mut encoded.facts));
        let Some(sums) = ask(&first) else { return Ok(Judged::None) };
        drop(first);
        let Some(mut sums) = sums else {
            return Err(JudgeError::Mismatch("clingo finds the placement infeasible".to_owned()));
        };
        let sums_of = |batch: &JudgingBatch| {
            ask(&job(Encoded::of_batch(world, levels, self.assignment, batch, &counts)))
        };
        for some in batches.chunks(CONCURRENT_RUNS) {
            if !self.has_time(Duration::from_nanos(1)) {
                return Ok(Judged::Constraints);
            }
            let found: Vec<Option<Sums>> = thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|batch| scope.spawn(move || sums_of(batch))).collect();
                running.into_iter().map(|thread| thread.join().ok().flatten()).collect()
            });
            for (batch, found) in some.iter().zip(found) {
                let Some(found) = found else { return Ok(Judged::Constraints) };
                let Some(found) = found else {
                    return Err(JudgeError::Mismatch(
                        "clingo finds a part of the placement infeasible".to_owned(),
                    ));
                };
                // The first component counts unplaced actors, which the first run has verified; each level contributes a constant 1.
                for (sum, more) in sums.iter_mut().zip(found).skip(1) {
                    *sum += batch.times * (more - 1);
                }
            }
        }
        let found = encoded.vector(&sums);
        if found == expected {
            return Ok(judged);
        }
        Err(JudgeError::Mismatch(format!("the placement costs {expected:?}, but clingo computes {found:?}")))
    }
}

/// What a verification of the constraints is called in this scale.
fn of_constraints(world: &Snapshot, scale: &Scale) -> Judged {
    if scale.keeps_limits(world) { Judged::Constraints } else { Judged::ScaledConstraints }
}

fn job(facts: String) -> Job {
    Job { conflicts: u64::from(u32::MAX), models: 1, judged: true, facts, ..Job::default() }
}

/// The expected time of a verification, whatever is placed where: of everything if that is at most `most`, otherwise of the
/// constraints.
pub(crate) fn time_to_confirm(world: &Snapshot, limits: &JudgeLimits, most: Duration) -> Duration {
    let size = JudgingSize::of(world, world.units(), &GroupUnitCounts::default());
    let of_channels = most_batches_of_channels(world, limits.facts);
    let of_pairs = size.batches(limits.facts).map(|batches| batches.len() + of_channels);
    let whole = of_pairs.filter(|batches| *batches <= limits.batches);
    let whole = whole.map(|batches| size.time(batches, limits.facts)).filter(|time| *time <= most);
    whole.unwrap_or_else(|| size.time_of_constraints()).min(most)
}

/// Asks a newly started process, and waits for at most `patience`.
///
/// # Errors
/// What failed, as a sentence.
pub(crate) fn ask(executable: &Path, limits: Limits, job: &Job, patience: Duration) -> Result<Sums, String> {
    let mut solver = Solver::start(executable, limits)?;
    let (asked, mut sums) = (Instant::now(), None);
    let ended = solver.run(job, &|| asked.elapsed() > patience, |_, found| {
        sums = Some(found.to_vec());
        Ok::<(), String>(())
    })?;
    match ended {
        JobEnd::Finished(Outcome::Unsatisfiable) => Ok(None),
        JobEnd::Finished(_) => sums.map(Some).ok_or_else(|| "clingo sent no answer".to_owned()),
        JobEnd::Stopped => Err(format!("clingo took more than {} ms", patience.as_millis())),
        JobEnd::Lost(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use placement::ix::UnitIx;

    use super::*;

    /// Six facts an actor, eight a unit and two a message are more than 30, so that messages are judged in runs of their own.
    #[test]
    fn a_part_without_an_answer_is_unverified_and_an_infeasible_one_is_a_mismatch() {
        let text = r#"{"version":1,"units":[{"id":"u","kind":"cpu","node":"n","capacity":9},
            {"id":"v","kind":"cpu","node":"m","capacity":9}],
            "actors":[{"id":"a","runsOn":{"cpu":1}},{"id":"b","runsOn":{"cpu":1}},{"id":"c","runsOn":{"cpu":1}}],
            "messages":[{"from":"a","to":"b","count":1},{"from":"b","to":"c","count":1}],
            "exchangeCost":{"otherNode":1,"otherKind":1},"objectives":["communication"]}"#;
        let world = Snapshot::read(text).unwrap();
        let assignment: Assignment = [0, 1, 0].map(|unit| Some(UnitIx::new(unit))).into_iter().collect();
        let cost = world.cost(&assignment);
        let limits = JudgeLimits { facts: 30, batches: 64, left: None };
        for (part, expected) in [
            (None, Ok(Judged::Constraints)),
            (
                Some(None),
                Err(JudgeError::Mismatch("clingo finds a part of the placement infeasible".to_owned())),
            ),
        ] {
            let runs = AtomicUsize::new(0);
            let confirmed = Examined::new(&world, &assignment, &cost, limits).confirm(|_| {
                if runs.fetch_add(1, Ordering::Relaxed) == 0 { Some(Some(vec![0; 8])) } else { part.clone() }
            });
            assert_eq!(confirmed, expected);
            assert!(runs.into_inner() > 1, "it is judged in parts");
        }
    }
}
