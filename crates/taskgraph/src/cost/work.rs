//! The model `work`: tasks have work and a vector length, edges have bytes, loads are times.
//!
//! Latency of task i on processing element j (the annealing paper, Eq. 1):
//! `(w1 / W1) · w0 / W0 + Σ bytes / bandwidth` over the edges to its successors; messages within a processing element
//! are free. A load is the sum over a processing element's tasks (Eq. 2), the objective is the largest load (Eq. 3).

use std::collections::BTreeMap;

use super::edge::WorkEdge;
use super::{links, stores};
use crate::{Cost, Graph, MapError, Model, Platform};

/// How a task's vector is divided by a processing element's vector length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Division {
    /// `w1 / W1`, as printed in Eq. 1.
    #[default]
    Exact,
    /// `⌈w1 / W1⌉`: a longer vector takes several instructions.
    Ceil,
}

impl Division {
    /// Number of vector instructions for `vector` elements at `width` elements per instruction.
    pub fn instructions(self, vector: f64, width: f64) -> f64 {
        match self {
            Self::Exact => vector / width,
            Self::Ceil => (vector / width).ceil(),
        }
    }
}

/// A graph of model `work` on a platform, by index: tasks first, then data stores.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkModel {
    names: Vec<String>,
    /// Number of data stores, which are the last tasks.
    stores: usize,
    /// By task: work and vector length.
    needs: Vec<(f64, f64)>,
    /// By processing element: work per unit of time and vector length.
    capacities: Vec<(f64, f64)>,
    /// By task and processing element: computation time.
    own: Vec<f64>,
    edges: Vec<WorkEdge>,
    /// By task: its outgoing and incoming edges, ascending.
    outgoing: Vec<Vec<usize>>,
    incoming: Vec<Vec<usize>>,
    /// By pair of processing elements: time per byte, 0 on the diagonal.
    per_byte: Vec<f64>,
}

/// A task of model `work`: name, work `w0` and vector length `w1`.
pub type WorkTask = (String, f64, f64);

/// Upper limit on the size of the table of task times.
const MOST_TIMES: usize = 20_000_000;

impl WorkModel {
    /// The model of a graph on a platform; `mapper` is named in errors.
    pub fn new(
        mapper: &'static str,
        graph: &Graph,
        platform: &Platform,
        division: Division,
    ) -> Result<Self, MapError> {
        if graph.model() != Model::Work {
            return Err(MapError::Model { mapper, takes: Model::Work.into(), given: graph.model().into() });
        }
        if graph.tasks().len() * platform.pes().len() > MOST_TIMES {
            let (tasks, pes) = (graph.tasks().len(), platform.pes().len());
            return Err(MapError::Other(format!(
                "{tasks} tasks on {pes} processing elements are too many; tasks × processing elements is at most \
                 {MOST_TIMES}: split the graph"
            )));
        }
        let mut tasks: Vec<WorkTask> = graph
            .tasks()
            .iter()
            .filter_map(|task| match task.cost {
                Cost::Work { work, vector } => Some((task.id.clone(), work, vector)),
                Cost::Measured(_) | Cost::Parallel { .. } => None,
            })
            .collect();
        for variable in graph.variables() {
            if graph.task(&variable.name).is_some() {
                return Err(MapError::Other(format!(
                    "{} is the name of a task and of a variable, which a mapping cannot tell apart; rename one",
                    variable.name
                )));
            }
            tasks.push((variable.name.clone(), 0.0, 0.0));
        }
        let edges = stores::edges(graph);
        let per_byte = links::per_byte(platform, edges.iter().any(|edge| edge.bytes > 0.0))?;
        let capacities = platform.pes().iter().map(|pe| (pe.work, pe.vector)).collect();
        Ok(Self::from_parts(tasks, graph.variables().len(), capacities, edges, per_byte, division))
    }

    /// A mapping by name, data stores included.
    pub fn named(&self, platform: &Platform, mapping: &[usize]) -> BTreeMap<String, String> {
        let name = |(task, pe): (usize, &usize)| (self.names[task].clone(), platform.pes()[*pe].name.clone());
        mapping.iter().enumerate().map(name).collect()
    }

    /// The model of these tasks (the last `stores` are data stores) on processing elements with these work rates and
    /// vector lengths; `per_byte` is the time per byte by pair, row-major.
    pub fn from_parts(
        tasks: Vec<WorkTask>,
        stores: usize,
        capacities: Vec<(f64, f64)>,
        edges: Vec<WorkEdge>,
        per_byte: Vec<f64>,
        division: Division,
    ) -> Self {
        let mut outgoing = vec![Vec::new(); tasks.len()];
        let mut incoming = vec![Vec::new(); tasks.len()];
        for (number, edge) in edges.iter().enumerate() {
            outgoing[edge.from].push(number);
            incoming[edge.to].push(number);
        }
        let time = |work: f64, vector: f64, (rate, width): (f64, f64)| {
            if work == 0.0 || vector == 0.0 {
                0.0
            } else {
                division.instructions(vector, width) * work / rate
            }
        };
        let on_all = |(_, work, vector): &WorkTask| {
            capacities.iter().map(|pe| time(*work, *vector, *pe)).collect::<Vec<f64>>()
        };
        Self {
            own: tasks.iter().flat_map(on_all).collect(),
            needs: tasks.iter().map(|(_, work, vector)| (*work, *vector)).collect(),
            names: tasks.into_iter().map(|(name, ..)| name).collect(),
            stores,
            capacities,
            edges,
            outgoing,
            incoming,
            per_byte,
        }
    }

    /// Number of tasks, data stores included.
    pub fn tasks(&self) -> usize {
        self.needs.len()
    }

    /// Number of processing elements.
    pub fn pes(&self) -> usize {
        self.capacities.len()
    }

    /// Name of a task or data store.
    pub fn name(&self, task: usize) -> &str {
        &self.names[task]
    }

    /// Whether the task is a data store.
    pub fn is_store(&self, task: usize) -> bool {
        task + self.stores >= self.tasks()
    }

    /// Work and vector length of a task.
    pub fn needs(&self, task: usize) -> (f64, f64) {
        self.needs[task]
    }

    /// Work per unit of time and vector length of a processing element.
    pub fn capacity(&self, pe: usize) -> (f64, f64) {
        self.capacities[pe]
    }

    /// All edges.
    pub fn edges(&self) -> &[WorkEdge] {
        &self.edges
    }

    /// Indices of a task's outgoing edges, in order.
    pub fn outgoing(&self, task: usize) -> &[usize] {
        &self.outgoing[task]
    }

    /// Indices of a task's incoming edges, in order.
    pub fn incoming(&self, task: usize) -> &[usize] {
        &self.incoming[task]
    }

    /// Computation time of a task on a processing element.
    pub fn own(&self, task: usize, pe: usize) -> f64 {
        self.own[task * self.pes() + pe]
    }

    /// Time per byte from one processing element to another; 0 within one.
    pub fn per_byte(&self, from: usize, to: usize) -> f64 {
        self.per_byte[from * self.pes() + to]
    }

    /// Time an edge keeps its sender busy under a mapping.
    pub fn transfer(&self, edge: usize, mapping: &[usize]) -> f64 {
        let WorkEdge { from, to, bytes, .. } = self.edges[edge];
        bytes * self.per_byte(mapping[from], mapping[to])
    }

    /// Time a task keeps its processing element busy under a mapping: Eq. 1.
    pub fn latency(&self, task: usize, mapping: &[usize]) -> f64 {
        let sent: f64 = self.outgoing[task].iter().map(|&edge| self.transfer(edge, mapping)).sum();
        self.own(task, mapping[task]) + sent
    }

    /// Load of each processing element under a mapping: Eq. 2.
    pub fn loads(&self, mapping: &[usize]) -> Vec<f64> {
        let mut loads = vec![0.0; self.pes()];
        for (task, &pe) in mapping.iter().enumerate() {
            loads[pe] += self.latency(task, mapping);
        }
        loads
    }

    /// The largest load under a mapping: Eq. 3.
    pub fn objective(&self, mapping: &[usize]) -> f64 {
        self.loads(mapping).into_iter().fold(0.0, f64::max)
    }
}
