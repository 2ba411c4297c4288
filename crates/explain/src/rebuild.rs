//! Rebuilds a snapshot after changes.

use placement::{Judge, Snapshot};

use crate::change::Change;

/// The snapshot without what a policy derived, and the judge that derives it.
#[derive(Clone, Copy)]
pub struct Rebuild<'a> {
    /// The snapshot as given.
    pub bare: &'a Snapshot,
    /// Evaluates the policy.
    pub judge: &'a dyn Judge,
}

impl Rebuild<'_> {
    /// Whether the policy has a program.
    pub(crate) fn has_program(&self) -> bool {
        self.bare.file().policy.as_ref().is_some_and(|policy| policy.program.is_some())
    }

    /// Rebuilds `snapshot`, which is the bare snapshot with what was derived, after some changes: the policy's constraints and the
    /// grandfathered limits are derived again. `None` if the changed snapshot is invalid.
    pub(crate) fn with(&self, snapshot: &Snapshot, changes: &[Change]) -> Option<Snapshot> {
        let given = self.bare.file().constraints.len();
        let is_derived = |change: &&Change| change.constraint().is_some_and(|position| position >= given);
        let mut file = self.bare.file().clone();
        for change in changes.iter().filter(|change| !is_derived(change)) {
            change.apply(snapshot, &mut file);
        }
        let bare = Snapshot::new(file).ok()?;
        let derived = self.judge.derive(&bare).ok()?;
        let mut file = bare.file().clone();
        file.constraints.extend(derived.constraints);
        // A derived constraint may have moved to another position; if it is not derived any more, there is nothing to change.
        let constraints = &snapshot.file().constraints;
        let moved = |change: &Change| {
            let position = change.constraint()?;
            let was = &constraints[position];
            let before = constraints[given..position].iter().filter(|other| *other == was).count();
            let mut now = (given..file.constraints.len()).filter(|&other| file.constraints[other] == *was);
            Some(change.at(now.nth(before)?))
        };
        let moved: Vec<Change> = changes.iter().filter(is_derived).filter_map(moved).collect();
        for change in moved {
            change.apply(snapshot, &mut file);
        }
        Some(Snapshot::new(file).ok()?.with_rules_everywhere(derived.rules))
    }
}
