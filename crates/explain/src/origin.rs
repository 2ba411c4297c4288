//! How a world is made anew when something in it changes.

use placement::{Judge, Snapshot};

use crate::change::Change;

/// The world before a policy derived anything of it, and who derives.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// The world as it was given.
    pub bare: &'a Snapshot,
    /// Who evaluates the policy.
    pub judge: &'a dyn Judge,
}

impl Origin<'_> {
    /// Whether a policy has anything to derive.
    pub(crate) fn has_program(&self) -> bool {
        self.bare.file().policy.as_ref().is_some_and(|policy| policy.program.is_some())
    }

    /// The whole world after some changes of `snapshot`, which is the bare world with what was derived: what the policy says of it
    /// is derived anew, and so is which limits what runs breaks. None where there is no such world.
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
        // What was derived may have another position now; where it is not derived any more, there is nothing to change.
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
