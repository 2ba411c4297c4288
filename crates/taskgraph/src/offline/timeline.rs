//! Execution of a mapping of model `parallel`: tasks in their order, each at the earliest time at which its data have
//! arrived and enough processors of its type are free. Gaps are not filled.

use crate::cost::ParallelModel;
use crate::{Allotment, MapError, Mapping, Schedule, Slot};

/// A mapping of model `parallel`, by index: type and processor count by task, and the order of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// By task: processor type.
    pub kinds: Vec<usize>,
    /// By task: number of processors.
    pub processors: Vec<usize>,
    /// Tasks in the order in which they are scheduled, a topological order.
    pub order: Vec<usize>,
}

impl Plan {
    /// The plan of a mapping by name; errors name the invalid task at `id`.
    pub fn new(
        model: &ParallelModel,
        allotments: &[Allotment],
        id: impl Fn(usize) -> String,
    ) -> Result<Self, MapError> {
        let wrong = |task: usize, what: String| MapError::Other(format!("mapping.{}: {what}", id(task)));
        if allotments.len() != model.tasks() {
            return Err(MapError::Other(format!(
                "the mapping has {} tasks and the graph {}; give each task its place",
                allotments.len(),
                model.tasks()
            )));
        }
        let mut plan = Self { order: (0..model.tasks()).collect(), ..Self::default() };
        for (task, allotment) in allotments.iter().enumerate() {
            let kind = model.kinds().iter().position(|(kind, _)| *kind == allotment.kind);
            let kind = kind.filter(|&kind| model.optimum(task, kind) > 0).ok_or_else(|| {
                wrong(
                    task,
                    format!(
                        "it cannot run on {}; name a type of its h that the platform has",
                        allotment.kind
                    ),
                )
            })?;
            let count = model.kinds()[kind].1;
            if !(1..=count).contains(&allotment.processors) {
                return Err(wrong(
                    task,
                    format!(
                        "{} processors of {}; give it 1 to {count}",
                        allotment.processors, allotment.kind
                    ),
                ));
            }
            plan.kinds.push(kind);
            plan.processors.push(allotment.processors);
        }
        plan.order.sort_by_key(|&task| allotments[task].order);
        let mut place = vec![0; model.tasks()];
        for (position, &task) in plan.order.iter().enumerate() {
            place[task] = position;
        }
        for task in 0..model.tasks() {
            if let Some((before, _)) =
                model.received(task).iter().find(|(before, _)| place[*before] > place[task])
            {
                return Err(wrong(
                    task,
                    format!(
                        "its order is before that of {}, which it waits for; order it later",
                        id(*before)
                    ),
                ));
            }
        }
        Ok(plan)
    }

    /// The mapping by name.
    pub fn mapping(&self, model: &ParallelModel) -> Mapping {
        let mut orders = vec![0; self.order.len()];
        for (order, &task) in self.order.iter().enumerate() {
            orders[task] = order;
        }
        let allotment = |task: usize| Allotment {
            kind: model.kinds()[self.kinds[task]].0.clone(),
            processors: self.processors[task],
            order: orders[task],
        };
        Mapping::Parallel((0..self.order.len()).map(allotment).collect())
    }
}

/// Times at which processors become free, by type, ascending: all state that task times depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    free: Vec<Vec<f64>>,
    end: Vec<f64>,
}

impl Timeline {
    /// All processors free at 0.
    pub fn reset(&mut self, model: &ParallelModel) {
        self.free.resize(model.kinds().len(), Vec::new());
        for (free, (_, count)) in self.free.iter_mut().zip(model.kinds()) {
            free.clear();
            free.resize(*count, 0.0);
        }
        self.end.clear();
        self.end.resize(model.tasks(), 0.0);
    }

    /// Arrival time of a task's data on a type, given its scheduled predecessors.
    pub fn ready(&self, model: &ParallelModel, kinds: &[usize], task: usize, kind: usize) -> f64 {
        let arrivals = model.received(task).iter();
        let arrivals = arrivals.map(|&(from, edge)| self.end[from] + model.message(edge, kinds[from], kind));
        arrivals.fold(0.0, f64::max)
    }

    /// Time at which this many processors of a type are free.
    pub fn free(&self, kind: usize, processors: usize) -> f64 {
        self.free[kind][processors - 1]
    }

    /// Assigns the earliest free processors to a task from `start` to `end`.
    pub fn take(&mut self, task: usize, kind: usize, processors: usize, end: f64) {
        self.end[task] = end;
        let free = &mut self.free[kind];
        let mut position = processors;
        while position < free.len() && free[position] <= end {
            free[position - processors] = free[position];
            position += 1;
        }
        free[position - processors..position].fill(end);
    }

    /// Makespan of a plan.
    pub fn makespan(&mut self, model: &ParallelModel, plan: &Plan) -> f64 {
        self.reset(model);
        let mut last = 0.0_f64;
        for &task in &plan.order {
            let (kind, processors) = (plan.kinds[task], plan.processors[task]);
            let ready = self.ready(model, &plan.kinds, task, kind);
            let end = ready.max(self.free(kind, processors)) + model.time(task, kind, processors);
            self.take(task, kind, processors, end);
            last = last.max(end);
        }
        last
    }
}

/// Makespan of a plan.
pub fn makespan(model: &ParallelModel, plan: &Plan) -> f64 {
    Timeline::default().makespan(model, plan)
}

/// Slots of a plan: time and processors of each task; of the earliest free processors, the lowest.
pub fn schedule(model: &ParallelModel, plan: &Plan) -> Schedule {
    let mut timeline = Timeline::default();
    timeline.reset(model);
    let mut free: Vec<Vec<(f64, usize)>> = (0..model.kinds().len())
        .map(|kind| (0..model.kinds()[kind].1).map(|number| (0.0, model.first(kind) + number)).collect())
        .collect();
    let mut slots = Vec::with_capacity(plan.order.len());
    for &task in &plan.order {
        let (kind, processors) = (plan.kinds[task], plan.processors[task]);
        let ready = timeline.ready(model, &plan.kinds, task, kind);
        let start = ready.max(timeline.free(kind, processors));
        let end = start + model.time(task, kind, processors);
        timeline.take(task, kind, processors, end);
        free[kind].sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let taken = &mut free[kind][..processors];
        let mut pes: Vec<usize> = taken.iter().map(|(_, pe)| *pe).collect();
        pes.sort_unstable();
        for slot in taken {
            slot.0 = end;
        }
        slots.push(Slot { task, pes, start, end });
    }
    Schedule { slots }
}
