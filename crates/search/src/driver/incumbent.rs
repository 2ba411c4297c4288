//! The best placement that a search has found, and its cost vector.

use placement::{Assignment, Cost, Snapshot};

/// The best feasible answer so far.
pub struct Incumbent<'a> {
    snapshot: &'a Snapshot,
    pub assignment: Assignment,
    /// `None` until there is a feasible one.
    pub vector: Option<Vec<i64>>,
}

impl<'a> Incumbent<'a> {
    /// Begins with `start`, feasible or not.
    pub fn new(snapshot: &'a Snapshot, start: &Assignment) -> Self {
        let vector = snapshot.violations(start).is_empty().then(|| vector(snapshot, start));
        Self { snapshot, assignment: start.clone(), vector }
    }

    /// Replaces the incumbent if the assignment is feasible and better, or if there is no feasible one yet.
    pub fn offer(&mut self, assignment: Assignment) {
        let offered = vector(self.snapshot, &assignment);
        if self.vector.as_ref().is_some_and(|best| offered >= *best) {
            return;
        }
        if self.snapshot.violations(&assignment).is_empty() {
            (self.assignment, self.vector) = (assignment, Some(offered));
        } else if self.vector.is_none() {
            self.assignment = assignment;
        }
    }
}

/// The cost vector, with the penalties of policies and preferences.
pub fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let policy = snapshot.penalty(assignment);
    Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}
