//! A finished placement judged: whether it is feasible and what it costs, by the shipped programs over the facts of its
//! world, in a process of its own.

use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};

use placement::{Assignment, Cost, Criterion, JudgeError, Judged, Snapshot};

use crate::child::Job;
use crate::engine::Outcome;
use crate::facts::{Encoded, vector};
use crate::process::{Ended, Solver};
use crate::sandbox::Limits;
use crate::scale::{Rounding, Scale};

/// Actors, units and ties above which the criteria are left out. A world of 1,000 actors, which is below, is judged in 0.6 to 0.9 s.
const MOST_PARTS: usize = 20_000;

/// What is judged.
pub(crate) struct Examined<'a> {
    world: &'a Snapshot,
    assignment: &'a Assignment,
    cost: &'a Cost,
}

/// What clingo says of a finished placement: the minimized sums; none where it is not feasible.
type Sums = Option<Vec<i64>>;

impl<'a> Examined<'a> {
    pub fn new(world: &'a Snapshot, assignment: &'a Assignment, cost: &'a Cost) -> Self {
        Self { world, assignment, cost }
    }

    /// Has it judged by whom `ask` asks, who may have nothing to say.
    ///
    /// Numbers that 32 bits do not hold are made smaller first, in the way in which what is feasible stays so, and the sums
    /// are those of the smaller numbers.
    ///
    /// # Errors
    /// Where it is not feasible, or does not cost what is said.
    pub fn confirm(&self, ask: impl FnOnce(&Job) -> Option<Sums>) -> Result<Judged, JudgeError> {
        // What cannot be made smaller cannot be judged.
        let Ok(scale) = Scale::of(self.world) else { return Ok(Judged::None) };
        if scale.is_exact() {
            return self.judge(self.world, self.cost.vector(self.world), ask);
        }
        match scale.apply(self.world, Rounding::Relaxed) {
            Ok(smaller) => self.judge(&smaller, vector(&smaller, self.assignment), ask),
            Err(_) => Ok(Judged::None),
        }
    }

    fn judge(
        &self,
        world: &Snapshot,
        mut expected: Vec<i64>,
        ask: impl FnOnce(&Job) -> Option<Sums>,
    ) -> Result<Judged, JudgeError> {
        let (levels, judged) = match size(world) {
            small if small <= MOST_PARTS => (world.objectives().levels(), Judged::All),
            _ => (<&[Vec<Criterion>]>::default(), Judged::Constraints),
        };
        expected.truncate(levels.len() + 1);
        let mut encoded = Encoded::judged(world, levels, self.assignment);
        let job = Job {
            conflicts: u64::from(u32::MAX),
            models: 1,
            judged: true,
            facts: mem::take(&mut encoded.facts),
            ..Job::default()
        };
        let Some(sums) = ask(&job) else { return Ok(Judged::None) };
        let Some(sums) = sums else {
            return Err(JudgeError::Mismatch("clingo says that the placement is not feasible".to_owned()));
        };
        let found = encoded.vector(&sums);
        if found == expected {
            return Ok(judged);
        }
        Err(JudgeError::Mismatch(format!("the placement costs {expected:?}, and clingo says {found:?}")))
    }
}

/// How many parts a world has that are looked at.
fn size(world: &Snapshot) -> usize {
    let problem = world.problem();
    let ties: usize = problem.movable.iter().map(|&actor| problem.edges[actor].len()).sum();
    problem.movable.len() + world.units() + ties / 2
}

/// Asks a process that is started for it, and waits for at most `patience`.
///
/// # Errors
/// Whatever went wrong, in plain words.
pub(crate) fn ask(executable: &Path, limits: Limits, job: &Job, patience: Duration) -> Result<Sums, String> {
    let mut solver = Solver::start(executable, limits)?;
    let (asked, mut sums) = (Instant::now(), None);
    let ended = solver.run(job, &|| asked.elapsed() > patience, |_, found| {
        sums = Some(found.to_vec());
        Ok::<(), String>(())
    })?;
    match ended {
        Ended::Finished(Outcome::Unsatisfiable) => Ok(None),
        Ended::Finished(_) => sums.map(Some).ok_or_else(|| "clingo said nothing".to_owned()),
        Ended::Stopped => Err(format!("clingo took more than {} ms", patience.as_millis())),
        Ended::Lost(problem) => Err(problem),
    }
}
