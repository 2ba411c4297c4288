//! The strategy `asp`: an answer at once, then better ones, and a proof where one is within reach.

use std::path::PathBuf;

use placement::{Answer, Budget, Greedy, Snapshot, SolveError, StoppedBy, Strategy};

use crate::child::Limits;
use crate::neighbourhood::Neighbourhoods;
use crate::search::Search;
use crate::whole::{self, Verdict};

/// Conflicts of the search of the whole, where nothing else is said: a minute or so, on worlds that are small.
const CONFLICTS: u64 = 2_000_000;

/// Pieces of effort where nothing else is said: a few minutes.
const PIECES: u64 = 1 << 17;

/// The same where the whole has been searched and there is no proof all the same: seconds.
const PIECES_AFTER_ALL: u64 = 1 << 8;

/// Answer Set Programming: the better of what runs and what [`Greedy`] finds, improved part by part, and proven where
/// the world is small.
///
/// clingo runs in a process of its own: this executable started again, which must call
/// [`run_child_if_asked`](crate::run_child_if_asked) first in `main`. Whatever happens to that process, there is an
/// answer: the best that was found before.
///
/// A piece of effort is one actor that greedy looked at, one model of the whole, the proof that there is no more, or one
/// neighbourhood. Every search of clingo is also cut after a number of conflicts, the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asp {
    pub(crate) executable: PathBuf,
    pub(crate) limits: Limits,
    conflicts: u64,
    pieces: u64,
}

impl Asp {
    /// Solves in this executable started again, within `limits`.
    pub fn new(limits: Limits) -> Self {
        // The running image itself: an executable that was replaced meanwhile is not started.
        Self::with_executable("/proc/self/exe", limits)
    }

    /// Solves in another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { executable: executable.into(), limits, conflicts: CONFLICTS, pieces: PIECES }
    }

    /// Cuts the search of the whole after so many conflicts instead of 2,000,000.
    #[must_use]
    pub fn with_conflicts(self, conflicts: u64) -> Self {
        Self { conflicts, ..self }
    }

    /// Ends a search to which no effort is given after so many pieces instead of 131,072.
    #[must_use]
    pub fn with_pieces(self, pieces: u64) -> Self {
        Self { pieces, ..self }
    }
}

impl Default for Asp {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Strategy for Asp {
    fn name(&self) -> &'static str {
        "asp"
    }

    fn summary(&self) -> &'static str {
        "starts from greedy, then Answer Set Programming improves part by part; proves what is small"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let greedy = Greedy.solve(snapshot, budget)?;
        let is_cut = greedy.stopped_by == StoppedBy::Deadline;
        let mut search = Search::new(self, snapshot, budget, greedy);
        if search.best.vector.iter().all(|value| *value == 0) {
            // Nothing is below 0.
            return Ok(search.proven());
        }
        if is_cut {
            return Ok(search.answer(StoppedBy::Deadline));
        }
        search.allow(self.pieces);
        if whole::is_small(snapshot) && search.over().is_none() {
            match whole::solve(&mut search, self.conflicts)? {
                Verdict::Proven => return Ok(search.proven()),
                Verdict::Stopped => return Ok(search.answer(StoppedBy::Deadline)),
                Verdict::Open => search.allow(PIECES_AFTER_ALL.min(self.pieces)),
            }
        }
        let mut neighbourhoods = Neighbourhoods::new(&search);
        loop {
            if let Some(why) = search.over() {
                return Ok(search.answer(why));
            }
            if !neighbourhoods.search(&mut search)? {
                return Ok(search.answer(StoppedBy::Effort));
            }
        }
    }
}
