//! `avoid`: places that are used only if actors stay unplaced otherwise; [`plan`](crate::plan) looks for a plan without them first.

use super::ConstraintKind;
use crate::file::format::{Constraint, SnapshotFile};

/// Binds nothing by itself.
pub(super) struct Avoid;

impl ConstraintKind for Avoid {
    fn describe(&self, position: usize, given: &Constraint) -> String {
        let _ = given;
        format!("avoids the places of constraints[{position}]")
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/choose.lp")
    }
}

/// A `never` for each `avoid` of a file; actors that are there may stay.
pub(crate) fn exclusions(file: &SnapshotFile) -> Vec<Constraint> {
    let exclusion = |given: &Constraint| match given {
        Constraint::Avoid { actors, places, reason } => Some(Constraint::Never {
            actors: actors.clone(),
            places: places.clone(),
            except_current: true,
            reason: reason.clone(),
        }),
        _ => None,
    };
    file.constraints.iter().filter_map(exclusion).collect()
}
