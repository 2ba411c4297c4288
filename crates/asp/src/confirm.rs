//! A finished placement judged: whether it is feasible and what it costs, by the shipped programs over the facts of its
//! world, in a process of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{mem, thread};

use placement::criteria::{Encoding, Finished};
use placement::file::Levels;
use placement::room::Rooms;
use placement::{Assignment, Cost, Criterion, JudgeError, Judged, Snapshot};

use crate::child::Job;
use crate::crowds::{Crowds, Part, Row};
use crate::engine::Outcome;
use crate::facts::{EVERY_TIE, Encoded, ties, vector};
use crate::process::{Ended, Solver};
use crate::sandbox::Limits;
use crate::scale::{LARGEST_SUM, Rounding, Scale};

/// What clingo goes through in about half a second: facts, and what it derives of them (docs/results/placement/history.md).
pub(crate) const MOST_FACTS: usize = 60_000;

/// The same for a twelfth of that time.
pub(crate) const AT_ONCE_FACTS: usize = MOST_FACTS / 12;

/// What an actor and a unit are in these: their own facts, and what is derived of where they are.
const PER_ACTOR: usize = 6;
const PER_UNIT: usize = 8;

/// Runs above which the criteria are left out: two at a time they take about as long as one run is waited for.
pub(crate) const MOST_PARTS: usize = 64;

/// Runs at a time.
const SIDE_BY_SIDE: usize = 2;

/// What is judged.
pub(crate) struct Examined<'a> {
    world: &'a Snapshot,
    assignment: &'a Assignment,
    cost: &'a Cost,
    /// What one run takes at most, as [`MOST_FACTS`].
    most: usize,
    /// Runs above which the criteria are left out.
    most_parts: usize,
}

/// What clingo says of a finished placement: the minimized sums; none where it is not feasible.
type Sums = Option<Vec<i64>>;

impl<'a> Examined<'a> {
    /// `most` facts for a run, and so many runs beside the first.
    pub fn new(
        world: &'a Snapshot,
        assignment: &'a Assignment,
        cost: &'a Cost,
        (most, most_parts): (usize, usize),
    ) -> Self {
        Self { world, assignment, cost, most, most_parts }
    }

    /// Has it judged by whom `ask` asks, who may have nothing to say; several times at once where it takes several runs.
    ///
    /// Numbers that 32 bits do not hold are made smaller first, in the way in which what is feasible stays so, and the sums
    /// are those of the smaller numbers.
    ///
    /// # Errors
    /// Where it is not feasible, or does not cost what is said.
    pub fn confirm(&self, ask: impl Fn(&Job) -> Option<Sums> + Sync) -> Result<Judged, JudgeError> {
        if let Ok(scale) = Scale::of(self.world) {
            return self.in_scale(self.world, &scale, &ask);
        }
        // Of criteria whose numbers cannot be made smaller nothing is asked; whether it is feasible does not depend on them.
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
        let (crowds, finished) = (Crowds::of(world, self.assignment), Finished::new(world, self.assignment));
        let parts = parts(world, &finished, &crowds, self.most);
        let (levels, parts, judged) = match parts.filter(|parts| parts.len() <= self.most_parts) {
            Some(whole) if whole.is_empty() => (world.objectives().levels(), whole, Judged::All),
            Some(parts) => (world.objectives().levels(), parts, Judged::Parts),
            None => (<&[Vec<Criterion>]>::default(), Vec::new(), Judged::Constraints),
        };
        expected.truncate(levels.len() + 1);
        // Where ties are added up in parts, none is in the first run, which counts those who are taken together.
        let (ties, crowds) =
            if judged == Judged::Parts { (0..0, crowds) } else { (EVERY_TIE, Crowds::default()) };
        let mut encoded = Encoded::judged(world, levels, &finished, &ties, &crowds);
        let first = job(mem::take(&mut encoded.facts));
        let Some(sums) = ask(&first) else { return Ok(Judged::None) };
        drop(first);
        let Some(mut sums) = sums else {
            return Err(JudgeError::Mismatch("clingo says that the placement is not feasible".to_owned()));
        };
        let of_part =
            |part: &Part| ask(&job(Encoded::of_part(world, levels, self.assignment, part, &crowds)));
        for some in parts.chunks(SIDE_BY_SIDE) {
            let found: Vec<Option<Sums>> = thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|part| scope.spawn(move || of_part(part))).collect();
                running.into_iter().map(|part| part.join().ok().flatten()).collect()
            });
            for (part, found) in some.iter().zip(found) {
                let Some(Some(found)) = found else { return Ok(Judged::Constraints) };
                // The first component is who has no place, which the first run has said; each level has a point of its own.
                for (sum, more) in sums.iter_mut().zip(found).skip(1) {
                    *sum += part.times * (more - 1);
                }
            }
        }
        let found = encoded.vector(&sums);
        if found == expected {
            return Ok(judged);
        }
        Err(JudgeError::Mismatch(format!("the placement costs {expected:?}, and clingo says {found:?}")))
    }
}

fn job(facts: String) -> Job {
    Job { conflicts: u64::from(u32::MAX), models: 1, judged: true, facts, ..Job::default() }
}

/// The ties of a world, and its channels between whole groups, in as many parts as it takes runs; nothing where one run is
/// enough. None where they are too many, or what is no sum over them is too much for one.
fn parts(world: &Snapshot, finished: &Finished, crowds: &Crowds, most: usize) -> Option<Vec<Part>> {
    let problem = world.problem();
    let kinds = problem.unit_kind.iter().collect::<BTreeSet<_>>().len();
    // What a tie takes: itself, and the pairs of kinds that it may be expensive between.
    let rooms = Rooms::new(problem);
    let encoding = Encoding::new(world, &rooms);
    let (ties, of_tie) = (ties(&encoding), 1 + kinds * kinds);
    let related: usize = problem.relations.iter().map(|relation| relation.actors.len()).sum();
    let criteria = world.objectives().levels().iter().flatten();
    let whole = criteria
        .map(|criterion| criterion.measure().effort_to_judge(&encoding))
        .fold(0, usize::saturating_add);
    // Actors, units and relations are in the first run in any case, however many they are: without them no constraint is judged.
    if whole > most {
        return None;
    }
    let rows = crowds.rows(&encoding)?;
    let (actors, units) = (PER_ACTOR * problem.movable.len(), PER_UNIT * finished.units());
    let first = actors + units + 2 * related + whole;
    if rows.is_empty() && (ties == 0 || first.saturating_add(ties * of_tie) <= most) {
        return Some(Vec::new());
    }
    // Of actors and units a part has those of its ties: all, or two of each for a tie.
    let of_all = most.saturating_sub(actors + units) / of_tie;
    let each = of_all.max(most / (of_tie + 2 * (PER_ACTOR + PER_UNIT)));
    if ties > 0 && each == 0 {
        return None;
    }
    let of_ties = (0..ties).step_by(each.max(1));
    let of_ties = of_ties.map(|from| Part { ties: from..ties.min(from + each), rows: Vec::new(), times: 1 });
    // A crowd is to clingo what an actor is, and two that meet are a tie that it derives.
    let room = most.saturating_sub((PER_ACTOR + PER_UNIT) * finished.units());
    Some(of_ties.chain(in_parts(rows, 1 + of_tie, room)?).collect())
}

/// Rows in as few runs as their order allows, of those that count equally often; none where one is too much for a run.
fn in_parts(mut rows: Vec<Row>, of_pair: usize, room: usize) -> Option<Vec<Part>> {
    rows.sort_by_key(|row| row.times);
    let (mut parts, mut facts, mut sum) = (Vec::<Part>::new(), 0, 0);
    for row in rows {
        let (more, most) = (of_pair * row.crowds, row.most);
        if more > room {
            return None;
        }
        match parts.last_mut() {
            Some(part) if part.times == row.times && facts + more <= room && sum + most <= LARGEST_SUM => {
                (facts, sum) = (facts + more, sum + most);
                part.rows.push(row);
            }
            _ => {
                (facts, sum) = (more, most);
                parts.push(Part { ties: 0..0, times: row.times, rows: vec![row] });
            }
        }
    }
    Some(parts)
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
