//! Verifies a finished placement: the shipped programs decide over the snapshot's facts whether it is feasible and what it
//! costs, in a process of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{mem, thread};

use placement::criteria::{Encoding, Finished};
use placement::file::Levels;
use placement::room::Rooms;
use placement::{Assignment, Cost, Criterion, JudgeError, Judged, Snapshot};

use crate::child::Job;
use crate::engine::Outcome;
use crate::facts::{ALL_PAIRS, Encoded, pairs, vector};
use crate::group_counts::{GroupUnitCounts, JudgingBatch, Row};
use crate::process::{Ended, Solver};
use crate::sandbox::Limits;
use crate::scale::{LARGEST_SUM, Rounding, Scale};

/// Facts, given and derived, that clingo handles in about half a second (docs/results/history/placement.md).
pub(crate) const MOST_FACTS: usize = 60_000;

/// The same for a twelfth of that time.
pub(crate) const AT_ONCE_FACTS: usize = MOST_FACTS / 12;

/// Facts per actor and unit: given ones, and those derived from placements.
const PER_ACTOR: usize = 6;
const PER_UNIT: usize = 8;

/// With more runs than this the criteria are not verified: two at a time they take about as long as the wait for one run.
pub(crate) const MOST_PARTS: usize = 64;

/// Concurrent runs.
const CONCURRENT_RUNS: usize = 2;

/// What is verified.
pub(crate) struct Examined<'a> {
    world: &'a Snapshot,
    assignment: &'a Assignment,
    cost: &'a Cost,
    /// The maximum number of facts of one run, as in [`MOST_FACTS`].
    most: usize,
    /// With more runs than this the criteria are not verified.
    most_batches: usize,
}

/// clingo's minimized sums for a finished placement; `None` if it is infeasible.
type Sums = Option<Vec<i64>>;

impl<'a> Examined<'a> {
    /// A verification with at most `most` facts per run, and at most this many runs beside the first.
    pub fn new(
        world: &'a Snapshot,
        assignment: &'a Assignment,
        cost: &'a Cost,
        (most, most_batches): (usize, usize),
    ) -> Self {
        Self { world, assignment, cost, most, most_batches }
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
        Ok(self.in_scale(&plain, &scale, &ask)?.min(Judged::Constraints))
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
        match scale.apply(world, Rounding::Relaxed) {
            Ok(smaller) => self.judge(&smaller, vector(&smaller, self.assignment), ask),
            Err(_) => Ok(Judged::None),
        }
    }

    fn judge(
        &self,
        world: &Snapshot,
        mut expected: Vec<i64>,
        ask: &(impl Fn(&Job) -> Option<Sums> + Sync),
    ) -> Result<Judged, JudgeError> {
        let (counts, finished) =
            (GroupUnitCounts::of(world, self.assignment), Finished::new(world, self.assignment));
        let batches = batches(world, &finished, &counts, self.most);
        let (levels, batches, judged) = match batches.filter(|batches| batches.len() <= self.most_batches) {
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
            let found: Vec<Option<Sums>> = thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|batch| scope.spawn(move || sums_of(batch))).collect();
                running.into_iter().map(|thread| thread.join().ok().flatten()).collect()
            });
            for (batch, found) in some.iter().zip(found) {
                let Some(Some(found)) = found else { return Ok(Judged::Constraints) };
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

fn job(facts: String) -> Job {
    Job { conflicts: u64::from(u32::MAX), models: 1, judged: true, facts, ..Job::default() }
}

/// Splits the pairs and group channels of a snapshot into batches, one per run; empty if one run is enough. `None` if there
/// are too many batches, or if the facts that every run needs exceed the limit.
fn batches(
    world: &Snapshot,
    finished: &Finished,
    counts: &GroupUnitCounts,
    most: usize,
) -> Option<Vec<JudgingBatch>> {
    let problem = world.problem();
    let kinds = problem.unit_kind.iter().collect::<BTreeSet<_>>().len();
    // The facts of a pair: itself, and the pairs of kinds whose exchange cost it may need.
    let rooms = Rooms::new(problem);
    let encoding = Encoding::new(world, &rooms);
    let (pairs, facts_per_pair) = (pairs(&encoding), 1 + kinds * kinds);
    let related: usize = problem.relations.iter().map(|relation| relation.actors.len()).sum();
    let criteria = world.objectives().levels().iter().flatten();
    let whole = criteria
        .map(|criterion| criterion.measure().effort_to_judge(&encoding))
        .fold(0, usize::saturating_add);
    // Actors, units and relations are always in the first run, whatever their number: constraints cannot be verified without.
    if whole > most {
        return None;
    }
    let rows = counts.rows(&encoding)?;
    let (actors, units) = (PER_ACTOR * problem.movable.len(), PER_UNIT * finished.units());
    let first = actors + units + 2 * related + whole;
    if rows.is_empty() && (pairs == 0 || first.saturating_add(pairs * facts_per_pair) <= most) {
        return Some(Vec::new());
    }
    // A batch has the actors and units of its pairs: all, or two of each per pair.
    let of_all = most.saturating_sub(actors + units) / facts_per_pair;
    let each = of_all.max(most / (facts_per_pair + 2 * (PER_ACTOR + PER_UNIT)));
    if pairs > 0 && each == 0 {
        return None;
    }
    let pair_batches = (0..pairs).step_by(each.max(1));
    let pair_batches = pair_batches.map(|from| JudgingBatch {
        pairs: from..pairs.min(from + each),
        rows: Vec::new(),
        times: 1,
    });
    // A co-located group counts like an actor, and two groups with a channel like a derived pair.
    let room = most.saturating_sub((PER_ACTOR + PER_UNIT) * finished.units());
    Some(pair_batches.chain(in_batches(rows, 1 + facts_per_pair, room)?).collect())
}

/// Splits consecutive rows with equal multipliers into as few runs as possible; `None` if one row is too large for a run.
fn in_batches(mut rows: Vec<Row>, of_pair: usize, room: usize) -> Option<Vec<JudgingBatch>> {
    rows.sort_by_key(|row| row.times);
    let (mut batches, mut facts, mut sum) = (Vec::<JudgingBatch>::new(), 0, 0);
    for row in rows {
        let (more, most) = (of_pair * row.peer_units, row.most);
        if more > room {
            return None;
        }
        match batches.last_mut() {
            Some(batch) if batch.times == row.times && facts + more <= room && sum + most <= LARGEST_SUM => {
                (facts, sum) = (facts + more, sum + most);
                batch.rows.push(row);
            }
            _ => {
                (facts, sum) = (more, most);
                batches.push(JudgingBatch { pairs: 0..0, times: row.times, rows: vec![row] });
            }
        }
    }
    Some(batches)
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
        Ended::Finished(Outcome::Unsatisfiable) => Ok(None),
        Ended::Finished(_) => sums.map(Some).ok_or_else(|| "clingo sent no answer".to_owned()),
        Ended::Stopped => Err(format!("clingo took more than {} ms", patience.as_millis())),
        Ended::Lost(problem) => Err(problem),
    }
}
