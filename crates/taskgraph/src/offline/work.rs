//! Common result of the mappers of model `work`.

use super::list;
use crate::cost::WorkModel;
use crate::{Mapped, Mapping, StoppedBy};

/// A mapping found by a search.
pub(super) struct Found {
    pub mapping: Vec<usize>,
    pub evaluations: u64,
    pub effort: u64,
    pub stopped_by: StoppedBy,
}

/// The result for a mapping: its objective recomputed by Eq. 3, and its list schedule.
///
/// Positions of the mapping beyond the graph's tasks belong to data stores, in variable order.
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

/// The result for a mapping that was not found by a search.
pub fn priced(model: &WorkModel, mapping: Vec<usize>) -> Mapped {
    mapped(model, Found { mapping, evaluations: 1, effort: 1, stopped_by: StoppedBy::Converged })
}
