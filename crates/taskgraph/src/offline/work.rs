//! What every mapper of the model `work` answers.

use super::list;
use crate::cost::WorkModel;
use crate::{Mapped, Mapping, StoppedBy};

/// A mapping that was found.
pub(super) struct Found {
    pub mapping: Vec<usize>,
    pub evaluations: u64,
    pub effort: u64,
    pub stopped_by: StoppedBy,
}

/// The answer for a mapping: its objective anew by Eq. 3, and its list schedule.
///
/// The mapping's places beyond the graph's tasks are those of the data-stores, in the order of variables.
pub(super) fn mapped(model: &WorkModel, found: Found) -> Mapped {
    let listed = list::schedule(model, &found.mapping);
    Mapped {
        objective: model.objective(&found.mapping),
        makespan: listed.makespan,
        schedule: listed.schedule,
        mapping: Mapping::Single(found.mapping),
        evaluations: found.evaluations,
        effort: found.effort,
        stopped_by: found.stopped_by,
    }
}

/// The answer for a mapping that was made elsewhere, in one go.
pub fn priced(model: &WorkModel, mapping: Vec<usize>) -> Mapped {
    mapped(model, Found { mapping, evaluations: 1, effort: 1, stopped_by: StoppedBy::Converged })
}
