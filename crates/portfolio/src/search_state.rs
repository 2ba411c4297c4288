//! One search: the best answer so far, what was spent on it, and the solver process that its stages share.

use std::collections::BTreeMap;

use asp::{Ended, Outcome, Session, Task, vector};
use placement::{
    Answer, Assignment, Budget, FoundBy, Objectives, ProvenBy, Rule, Ruling, Snapshot, SolveError, Stage,
    StoppedBy,
};

/// An assignment, and how it was come by.
pub(crate) struct Best {
    pub assignment: Assignment,
    pub vector: Vec<i64>,
    /// By how much it breaks what a policy demands.
    pub broken: i64,
    /// Effort units after which it was known.
    effort: u64,
    stage: Stage,
    found_by: FoundBy,
}

pub(crate) struct SearchState<'a> {
    pub snapshot: &'a Snapshot,
    pub best: Best,
    budget: &'a Budget<'a>,
    /// Effort units finished.
    spent: u64,
    /// Effort units after which it ends.
    end: u64,
    /// clingo; none while it is asked.
    session: Option<Session>,
    /// Proven lower bounds by key of the level.
    pub bound: BTreeMap<String, i64>,
}

impl<'a> SearchState<'a> {
    /// Starts from an answer, and from what runs now where that is better.
    pub fn new(session: Session, snapshot: &'a Snapshot, budget: &'a Budget<'a>, start: Answer) -> Self {
        let best = Best {
            broken: broken(snapshot, &start.assignment),
            vector: vector(snapshot, &start.assignment),
            assignment: start.assignment,
            effort: start.effort,
            stage: start.stage,
            found_by: start.found_by,
        };
        let mut search = Self {
            snapshot,
            best,
            budget,
            spent: start.effort,
            end: budget.effort.unwrap_or(u64::MAX),
            session: Some(session),
            bound: BTreeMap::new(),
        };
        search.offer(snapshot.incumbent(), Stage::Incumbent, FoundBy::Incumbent);
        search
    }

    /// What ends the search now, if anything does.
    pub fn over(&self) -> Option<StoppedBy> {
        if self.left() == 0 {
            return Some(StoppedBy::Effort);
        }
        (self.budget.stop)().then_some(StoppedBy::Deadline)
    }

    /// Effort units that may still be spent.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.spent)
    }

    /// Lets so many effort units more be spent, where the budget leaves it open.
    pub fn allow(&mut self, effort: u64) {
        if self.budget.effort.is_none() {
            self.end = self.spent.saturating_add(effort);
        }
    }

    pub fn budget(&self) -> &'a Budget<'a> {
        self.budget
    }

    pub fn stop(&self) -> &'a (dyn Fn() -> bool + Sync) {
        self.budget.stop
    }

    /// Effort units finished.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub fn spend(&mut self, effort: u64) {
        self.spent += effort;
    }

    /// Takes an assignment if it is feasible, and obeys the policy more or is better.
    pub fn offer(&mut self, assignment: Assignment, stage: Stage, found_by: FoundBy) -> bool {
        let snapshot = self.snapshot;
        let broken = broken(snapshot, &assignment);
        let vector = vector(snapshot, &assignment);
        let is_better = (broken, &vector) < (self.best.broken, &self.best.vector)
            && snapshot.violations(&assignment).iter().all(|violation| violation.rule == Rule::Policy);
        if is_better {
            tracing::debug!(?vector, broken, %stage, %found_by, effort = self.spent, "better");
            self.best = Best { assignment, vector, broken, effort: self.spent, stage, found_by };
        }
        is_better
    }

    /// Has the native search begin from what runs, for so many effort units.
    pub fn improve(&mut self, effort: u64) {
        let budget = Budget { effort: Some(self.left().min(effort)), ..*self.budget };
        let found = search::improve(self.snapshot, &self.snapshot.incumbent(), &budget);
        self.spend(found.effort);
        // What a clock cut short before the first effort unit could not be done again.
        if found.effort > 0 {
            self.offer(found.assignment, Stage::Local, found.found_by);
        }
    }

    /// Takes bounds that are proven.
    pub fn take_bounds(&mut self, bounds: BTreeMap<String, i64>) {
        for (level, bound) in bounds {
            let known = self.bound.entry(level).or_insert(bound);
            *known = bound.max(*known);
        }
    }

    /// Whether clingo can be asked: not when its process was lost.
    pub fn has_solver(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_usable)
    }

    /// Has the solver solve a world; `found` gets each model, which has been priced again.
    pub fn ask(
        &mut self,
        world: &Snapshot,
        start: &Assignment,
        task: &Task,
        mut found: impl FnMut(&mut Self, Assignment, Vec<i64>),
    ) -> Result<Ended, SolveError> {
        let Some(mut session) = self.session.take() else {
            return Ok(Ended::Lost("clingo is left out here".into()));
        };
        let stop = self.budget.stop;
        let ended =
            session.ask(world, start, task, stop, |assignment, vector| found(self, assignment, vector));
        self.session = Some(session);
        ended
    }

    /// The answer, with what is known of how good it is.
    pub fn answer(self, stopped_by: StoppedBy) -> Answer {
        Answer {
            assignment: self.best.assignment,
            bound: self.bound,
            optimal: false,
            effort: self.best.effort,
            stage: self.best.stage,
            found_by: self.best.found_by,
            proven_by: None,
            stopped_by,
        }
    }

    /// The answer, which nothing feasible is better than.
    pub fn proven(self, by: ProvenBy) -> Answer {
        let levels = self.snapshot.objectives().levels();
        let keys = levels.iter().map(|level| Objectives::key(level));
        let bound = keys.zip(self.best.vector[1..].iter().copied()).collect();
        let effort = self.spent;
        Answer { optimal: true, proven_by: Some(by), bound, effort, ..self.answer(StoppedBy::Proof) }
    }
}

/// By how much an assignment breaks what a policy demands.
fn broken(snapshot: &Snapshot, assignment: &Assignment) -> i64 {
    snapshot.rules().map_or(0, |rules| Ruling::of(rules, assignment).degree())
}

/// Whether all there was to search has been searched.
pub(crate) fn is_exhausted(ended: &Ended) -> bool {
    *ended == Ended::Finished(Outcome::Proven)
}
