//! The state of a search by `asp` or `clingo`: the incumbent, effort spent, bounds, and the shared solver process.

use std::collections::BTreeMap;

use asp::{JobEnd, Outcome, Session, Task, vector};
use placement::{
    Answer, Assignment, Budget, FoundBy, Objectives, ProvenBy, Rule, RuleEvaluator, Snapshot, SolveError,
    Stage, StoppedBy,
};

/// An assignment and how it was found.
pub(crate) struct Incumbent {
    pub assignment: Assignment,
    pub vector: Vec<i64>,
    /// By how much it violates the policy.
    pub violation: i64,
    /// Effort after which it was known.
    effort: u64,
    stage: Stage,
    found_by: FoundBy,
}

pub(crate) struct SearchState<'a> {
    pub snapshot: &'a Snapshot,
    pub best: Incumbent,
    budget: &'a Budget<'a>,
    /// Effort spent.
    spent: u64,
    /// Effort after which the search ends.
    end: u64,
    /// clingo; `None` while a request is running.
    session: Option<Session>,
    /// Proven lower bounds by key of the level.
    pub bound: BTreeMap<String, i64>,
}

impl<'a> SearchState<'a> {
    /// Starts from an answer, or from what runs now if that is better.
    pub fn new(session: Session, snapshot: &'a Snapshot, budget: &'a Budget<'a>, start: Answer) -> Self {
        let best = Incumbent {
            violation: violation(snapshot, &start.assignment),
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

    /// Why the search ends now, if it does.
    pub fn stop_reason(&self) -> Option<StoppedBy> {
        if self.left() == 0 {
            return Some(StoppedBy::Effort);
        }
        (self.budget.stop)().then_some(StoppedBy::Deadline)
    }

    /// Effort that may still be spent.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.spent)
    }

    /// Allows so much more effort, unless the budget limits it.
    pub fn allow_effort(&mut self, effort: u64) {
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

    /// Effort spent.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub fn spend(&mut self, effort: u64) {
        self.spent += effort;
    }

    /// Replaces the incumbent by a feasible assignment that violates the policy less or is better.
    pub fn offer(&mut self, assignment: Assignment, stage: Stage, found_by: FoundBy) -> bool {
        let snapshot = self.snapshot;
        let violation = violation(snapshot, &assignment);
        let vector = vector(snapshot, &assignment);
        let is_better = (violation, &vector) < (self.best.violation, &self.best.vector)
            && snapshot.violations(&assignment).iter().all(|violation| violation.rule == Rule::Policy);
        if is_better {
            tracing::debug!(?vector, violation, %stage, %found_by, effort = self.spent, "improved");
            self.best = Incumbent { assignment, vector, violation, effort: self.spent, stage, found_by };
        }
        is_better
    }

    /// Runs the native search from what runs, with so much effort.
    pub fn improve(&mut self, effort: u64) {
        let budget = Budget { effort: Some(self.left().min(effort)), ..*self.budget };
        let found = search::improve(self.snapshot, &self.snapshot.incumbent(), &budget);
        self.spend(found.effort);
        // What a clock cut short before the first batch could not be replayed.
        if found.effort > 0 {
            self.offer(found.assignment, Stage::Local, found.found_by);
        }
    }

    /// Adds proven bounds.
    pub fn add_bounds(&mut self, bounds: BTreeMap<String, i64>) {
        for (level, bound) in bounds {
            let known = self.bound.entry(level).or_insert(bound);
            *known = bound.max(*known);
        }
    }

    /// Whether clingo can be used: not after its process was lost.
    pub fn has_solver(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_usable)
    }

    /// Solves a snapshot by clingo. `found` receives each model and its exact cost.
    pub fn solve_by_clingo(
        &mut self,
        world: &Snapshot,
        start: &Assignment,
        task: &Task,
        mut found: impl FnMut(&mut Self, Assignment, Vec<i64>),
    ) -> Result<JobEnd, SolveError> {
        let Some(mut session) = self.session.take() else {
            return Ok(JobEnd::Lost("clingo is not used here".into()));
        };
        let stop = self.budget.stop;
        let ended =
            session.ask(world, start, task, stop, |assignment, vector| found(self, assignment, vector));
        self.session = Some(session);
        ended
    }

    /// The answer, with its bounds.
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

    /// The answer, proven to be optimal.
    pub fn proven(self, by: ProvenBy) -> Answer {
        let levels = self.snapshot.objectives().levels();
        let keys = levels.iter().map(|level| Objectives::key(level));
        let bound = keys.zip(self.best.vector[1..].iter().copied()).collect();
        let effort = self.spent;
        Answer { optimal: true, proven_by: Some(by), bound, effort, ..self.answer(StoppedBy::Proof) }
    }
}

/// By how much an assignment violates the policy.
fn violation(snapshot: &Snapshot, assignment: &Assignment) -> i64 {
    snapshot.rules().map_or(0, |rules| RuleEvaluator::of(rules, assignment).degree())
}

/// Whether the search space was exhausted.
pub(crate) fn is_exhausted(ended: &JobEnd) -> bool {
    *ended == JobEnd::Finished(Outcome::Proven)
}
