//! The mapper `bin-packing`: adaptive best fit decreasing (A-BFD) over vector lengths.

use super::work::priced;
use crate::cost::{Division, WorkModel};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform};

/// A-BFD: vector lengths are volumes, W0/W1 the cost of a bin; a baseline that ignores work and messages.
///
/// Tasks by descending vector length, processing elements by descending W0/W1; each task is assigned to the element with
/// the most free vector length (which may become negative) among those wide enough for its vector. Finally the whole load
/// of a processing element moves to an empty one that holds all its vectors at once and has a smaller W0.
#[derive(Clone, Copy, Debug, Default)]
pub struct BinPacking {
    /// How vectors are divided, used in the objective only.
    pub division: Division,
}

impl Mapper for BinPacking {
    fn name(&self) -> &'static str {
        "bin-packing"
    }

    fn map(&self, graph: &Graph, platform: &Platform, _: &Budget) -> Result<Mapped, MapError> {
        let model = WorkModel::new(self.name(), graph, platform, self.division)?;
        Ok(priced(&model, pack(&model)?))
    }
}

fn pack(model: &WorkModel) -> Result<Vec<usize>, MapError> {
    let ratio = |pe: usize| model.capacity(pe).0 / model.capacity(pe).1;
    let mut pes: Vec<usize> = (0..model.pes()).collect();
    pes.sort_by(|&a, &b| ratio(b).total_cmp(&ratio(a)));
    let mut tasks: Vec<usize> = (0..model.tasks()).collect();
    tasks.sort_by(|&a, &b| model.needs(b).1.total_cmp(&model.needs(a).1));

    let mut mapping = vec![0; model.tasks()];
    let mut used = vec![0.0; model.pes()];
    let mut empty = vec![true; model.pes()];
    for &task in &tasks {
        let vector = model.needs(task).1;
        let free = |pe: usize| model.capacity(pe).1 - used[pe];
        // The first maximum: `max_by` would return the last.
        let fitting = pes.iter().copied().filter(|&pe| model.capacity(pe).1 >= vector);
        let freest = fitting.reduce(|best, pe| if free(pe) > free(best) { pe } else { best });
        let Some(pe) = freest else {
            let widest = (0..model.pes()).map(|pe| model.capacity(pe).1).fold(0.0, f64::max);
            return Err(MapError::NoPlace {
                task: model.name(task).to_owned(),
                why: format!("its vector of {vector} is longer than the longest of the platform, {widest}"),
            });
        };
        mapping[task] = pe;
        used[pe] += vector;
        empty[pe] = false;
    }

    for &from in &pes {
        if empty[from] {
            continue;
        }
        let better = |to: &usize| {
            empty[*to]
                && model.capacity(*to).1 >= used[from]
                && model.capacity(*to).0 < model.capacity(from).0
        };
        if let Some(to) = pes.iter().copied().find(better) {
            for pe in mapping.iter_mut().filter(|pe| **pe == from) {
                *pe = to;
            }
            used[to] = used[from];
            used[from] = 0.0;
            (empty[from], empty[to]) = (true, false);
        }
    }
    Ok(mapping)
}
