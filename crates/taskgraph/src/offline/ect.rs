//! The mapper `ect`: earliest completion time, level by level.

use super::timeline::{Plan, Timeline, schedule};
use crate::cost::{ParallelModel, Vector};
use crate::{Budget, Graph, MapError, Mapped, Mapper, Platform, StoppedBy};

/// Earliest completion time (the semi-static paper, 4.4): fast enough to run between two iterations.
///
/// Tasks by ascending level (one more than the highest predecessor's), descending number of children, then by index. Each
/// gets the type and the number of processors, up to its optimum, with the earliest end; ties: the lowest type, then the
/// fewest processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ect {
    /// The parameters.
    pub vector: Vector,
}

impl Mapper for Ect {
    fn name(&self) -> &'static str {
        "ect"
    }

    fn map(&self, graph: &Graph, platform: &Platform, _: &Budget) -> Result<Mapped, MapError> {
        let model = ParallelModel::new(self.name(), graph, platform, &self.vector)?;
        let plan = ect(&model);
        Ok(mapped(&model, &plan, 1, 1, StoppedBy::Converged))
    }
}

/// The result for a plan.
pub(super) fn mapped(
    model: &ParallelModel,
    plan: &Plan,
    evaluations: u64,
    effort: u64,
    stopped_by: StoppedBy,
) -> Mapped {
    let schedule = schedule(model, plan);
    let makespan = schedule.makespan();
    Mapped {
        mapping: plan.mapping(model),
        objective: makespan,
        makespan,
        schedule,
        evaluations,
        effort,
        stopped_by,
    }
}

/// The plan of earliest completion times.
pub fn ect(model: &ParallelModel) -> Plan {
    let order = by_level(model);
    let mut plan =
        Plan { kinds: vec![0; model.tasks()], processors: vec![1; model.tasks()], order: order.clone() };
    let mut timeline = Timeline::default();
    timeline.reset(model);
    for task in order {
        let mut best: Option<(f64, usize, usize)> = None;
        for kind in (0..model.kinds().len()).filter(|kind| model.optimum(task, *kind) > 0) {
            let ready = timeline.ready(model, &plan.kinds, task, kind);
            for processors in 1..=model.optimum(task, kind) {
                let end = ready.max(timeline.free(kind, processors)) + model.time(task, kind, processors);
                if best.is_none_or(|(least, ..)| end < least) {
                    best = Some((end, kind, processors));
                }
            }
        }
        let (end, kind, processors) = best.expect("the model rejects tasks without a compatible type");
        timeline.take(task, kind, processors, end);
        (plan.kinds[task], plan.processors[task]) = (kind, processors);
    }
    plan
}

/// Level ascending, number of children descending, then index.
fn by_level(model: &ParallelModel) -> Vec<usize> {
    let tasks = model.tasks();
    let mut children = vec![Vec::new(); tasks];
    let mut waits = vec![0_usize; tasks];
    for (task, waiting) in waits.iter_mut().enumerate() {
        for &(from, _) in model.received(task) {
            children[from].push(task);
            *waiting += 1;
        }
    }
    let mut level = vec![1_usize; tasks];
    let mut free: Vec<usize> = (0..tasks).filter(|task| waits[*task] == 0).collect();
    while let Some(task) = free.pop() {
        for &child in &children[task] {
            level[child] = level[child].max(level[task] + 1);
            waits[child] -= 1;
            if waits[child] == 0 {
                free.push(child);
            }
        }
    }
    let mut order: Vec<usize> = (0..tasks).collect();
    order.sort_by_key(|&task| (level[task], std::cmp::Reverse(children[task].len()), task));
    order
}
