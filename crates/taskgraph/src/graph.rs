//! Task graphs: tasks, edges between them, variables that they share.

use std::collections::BTreeMap;

use crate::{FileError, Kind};

/// Graphs with more tasks are refused.
pub const MOST_TASKS: usize = 20_000;
/// Graphs with more edges are refused.
pub const MOST_EDGES: usize = 200_000;

/// How a graph's tasks and edges are priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Model {
    /// Expected and actual times per kind, in microseconds (CEDR).
    Measured,
    /// Work and vector length, bytes on edges (annealed mappings).
    Work,
    /// Times on any number of processors, as functions of parameters (semi-static mappings).
    Parallel,
}

/// A node of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, unique in the graph.
    pub id: String,
    /// What it costs, in the graph's model.
    pub cost: Cost,
    /// The variables it is called with, in order, by position in [`Graph::variables`].
    pub arguments: Vec<usize>,
}

/// What a task costs.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// One implementation per kind; never empty.
    Measured(BTreeMap<Kind, Implementation>),
    /// `w0` units of work on vectors of length `w1`.
    Work {
        /// Work, w0.
        work: f64,
        /// Vector length, w1.
        vector: f64,
    },
    /// t = h·(aα/p + bβ·log2 p + cγ) on p processors of one type.
    Parallel {
        /// Weight of the part that shrinks with processors.
        a: f64,
        /// Weight of the part that grows with them.
        b: f64,
        /// Weight of the part that does neither.
        c: f64,
        /// Factor per processor type; a type that is absent cannot run the task.
        h: BTreeMap<Kind, f64>,
    },
}

/// One way to run a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Implementation {
    /// Expected time in microseconds, as it was written.
    pub expected: f64,
    /// Actual time in microseconds, where it differs.
    pub actual: Option<f64>,
    /// The function that is called.
    pub function: String,
}

impl Implementation {
    /// The expected time, in whole nanoseconds.
    pub fn expected_ns(&self) -> u64 {
        nanoseconds(self.expected)
    }

    /// The actual time, in whole nanoseconds.
    pub fn actual_ns(&self) -> u64 {
        nanoseconds(self.actual.unwrap_or(self.expected))
    }
}

/// Whole nanoseconds in `microseconds`: ⌊1000 × µs⌋ in double precision.
pub fn nanoseconds(microseconds: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "readers refuse what does not fit"
    )]
    let whole = (1000.0 * microseconds).floor() as u64;
    whole
}

/// A dependence of one task on another.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The task that ends first, by position.
    pub from: usize,
    /// The task that waits for it.
    pub to: usize,
    /// What it carries.
    pub weight: Weight,
}

/// What an edge carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// A cost that nothing reads (CEDR's `edgecost`).
    Measured(f64),
    /// Bytes.
    Bytes(f64),
    /// d + e·μ units.
    Affine {
        /// d.
        fixed: f64,
        /// e.
        variable: f64,
    },
}

/// Memory that tasks share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variable {
    /// Its name, unique in the graph.
    pub name: String,
    /// Its size: of a pointer, 8.
    pub bytes: u64,
    /// Initial bytes: as many as `bytes`, or none for zeros.
    pub value: Vec<u8>,
    /// Whether it points at memory of its own.
    pub pointer: bool,
    /// The bytes it points at.
    pub allocated: u64,
    /// Tasks that write it, by position.
    pub writers: Vec<usize>,
    /// Tasks that read it.
    pub readers: Vec<usize>,
}

/// How an application handles a stream of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Streaming {
    /// One frame, once.
    #[default]
    None,
    /// One buffer between two tasks: a producer waits until its frame was taken.
    #[strum(serialize = "single buffer")]
    Single,
    /// Two buffers: a producer is at most two frames ahead.
    #[strum(serialize = "double buffer")]
    Double,
    /// A frame begins when the one before has ended everywhere.
    Sequential,
}

/// The range of a parameter, cut into intervals of equal length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Its least value.
    pub min: f64,
    /// Its largest.
    pub max: f64,
    /// How many intervals.
    pub intervals: usize,
}

/// What a graph is made of, before it is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The application's name; may be empty.
    pub name: String,
    /// How everything is priced.
    pub model: Model,
    /// Tasks, in the order that decides ties.
    pub tasks: Vec<Task>,
    /// Edges; a task's successors come in this order.
    pub edges: Vec<Edge>,
    /// Variables.
    pub variables: Vec<Variable>,
    /// Parameters of the model `parallel`.
    pub parameters: BTreeMap<String, Range>,
    /// How frames are handled.
    pub streaming: Streaming,
    /// How many frames there are, at least 1.
    pub frames: u32,
    /// The file that holds the functions; may be empty.
    pub shared_object: String,
    /// What CEDR's file says beyond all this, as a merge patch (RFC 7396) to what is written without it.
    pub cedr: Option<serde_json::Value>,
}

impl Parts {
    /// A graph of one frame without variables or parameters.
    pub fn new(name: impl Into<String>, model: Model, tasks: Vec<Task>, edges: Vec<Edge>) -> Self {
        Self {
            name: name.into(),
            model,
            tasks,
            edges,
            variables: Vec::new(),
            parameters: BTreeMap::new(),
            streaming: Streaming::None,
            frames: 1,
            shared_object: String::new(),
            cedr: None,
        }
    }
}

/// A directed acyclic graph of tasks, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    parts: Parts,
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    topological: Vec<usize>,
}

impl Graph {
    /// Checks `parts`: sizes, unique names, ends of edges, no edge twice, no cycle.
    pub fn new(parts: Parts) -> Result<Self, FileError> {
        let (tasks, edges) = (parts.tasks.len(), parts.edges.len());
        if tasks > MOST_TASKS || edges > MOST_EDGES {
            return Err(FileError::new(
                ".",
                format!("{tasks} tasks and {edges} edges"),
                format!("a graph has at most {MOST_TASKS} tasks and {MOST_EDGES} edges: split it"),
            ));
        }
        if tasks == 0 {
            return Err(FileError::new("tasks", "there is none", "a graph has at least one task"));
        }
        let mut names = BTreeMap::new();
        for (position, task) in parts.tasks.iter().enumerate() {
            if let Some(first) = names.insert(task.id.as_str(), position) {
                return Err(FileError::new(
                    format!("tasks[{position}].id"),
                    format!("`{}` is also the name of tasks[{first}]", task.id),
                    "give each task a name of its own",
                ));
            }
        }
        let (mut successors, mut predecessors) = (vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
        let mut seen = BTreeMap::new();
        for (position, edge) in parts.edges.iter().enumerate() {
            let path = || format!("edges[{position}]");
            if edge.from >= tasks || edge.to >= tasks {
                return Err(FileError::new(path(), "one end is no task", "name two tasks of the graph"));
            }
            if let Some(first) = seen.insert((edge.from, edge.to), position) {
                return Err(FileError::new(
                    path(),
                    format!("{} is edges[{first}] again", arrow(&parts, edge)),
                    "write each dependence once",
                ));
            }
            successors[edge.from].push(position);
            predecessors[edge.to].push(position);
        }
        let topological = order(&parts, &successors, &predecessors)?;
        Ok(Self { parts, successors, predecessors, topological })
    }

    /// The application's name; may be empty.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// How everything is priced.
    pub fn model(&self) -> Model {
        self.parts.model
    }

    /// Tasks, in the order that decides ties.
    pub fn tasks(&self) -> &[Task] {
        &self.parts.tasks
    }

    /// All edges.
    pub fn edges(&self) -> &[Edge] {
        &self.parts.edges
    }

    /// Variables.
    pub fn variables(&self) -> &[Variable] {
        &self.parts.variables
    }

    /// Parameters of the model `parallel`, by name.
    pub fn parameters(&self) -> &BTreeMap<String, Range> {
        &self.parts.parameters
    }

    /// How frames are handled.
    pub fn streaming(&self) -> Streaming {
        self.parts.streaming
    }

    /// How many frames there are.
    pub fn frames(&self) -> u32 {
        self.parts.frames
    }

    /// What it is made of.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// What it is made of, to change.
    pub fn into_parts(self) -> Parts {
        self.parts
    }

    /// Edges that leave `task`, by position, in their list's order.
    pub fn outgoing(&self, task: usize) -> &[usize] {
        &self.successors[task]
    }

    /// Edges that enter `task`, by position, in their list's order.
    pub fn incoming(&self, task: usize) -> &[usize] {
        &self.predecessors[task]
    }

    /// Tasks that wait for `task`, in their list's order.
    pub fn successors(&self, task: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.successors[task].iter().map(|edge| self.parts.edges[*edge].to)
    }

    /// Tasks that `task` waits for, in their list's order.
    pub fn predecessors(&self, task: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.predecessors[task].iter().map(|edge| self.parts.edges[*edge].from)
    }

    /// Tasks without predecessors, in task order.
    pub fn heads(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.parts.tasks.len()).filter(|task| self.predecessors[*task].is_empty())
    }

    /// All tasks, each after its predecessors; among those that may come next, the lowest position first.
    pub fn topological(&self) -> &[usize] {
        &self.topological
    }

    /// The position of the task of this name.
    pub fn task(&self, id: &str) -> Option<usize> {
        self.parts.tasks.iter().position(|task| task.id == id)
    }
}

fn arrow(parts: &Parts, edge: &Edge) -> String {
    format!("{} -> {}", parts.tasks[edge.from].id, parts.tasks[edge.to].id)
}

/// A topological order, or the names along a cycle.
fn order(
    parts: &Parts,
    successors: &[Vec<usize>],
    predecessors: &[Vec<usize>],
) -> Result<Vec<usize>, FileError> {
    let mut waits: Vec<usize> = predecessors.iter().map(Vec::len).collect();
    let mut free: std::collections::BTreeSet<usize> =
        (0..waits.len()).filter(|task| waits[*task] == 0).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(task) = free.pop_first() {
        order.push(task);
        for edge in &successors[task] {
            let next = parts.edges[*edge].to;
            waits[next] -= 1;
            if waits[next] == 0 {
                free.insert(next);
            }
        }
    }
    if order.len() == waits.len() {
        return Ok(order);
    }
    // Every task that is left waits for another that is left: going back from any of them ends in a cycle.
    let left = |task: &usize| waits[*task] > 0;
    let mut way = vec![(0..waits.len()).find(left).expect("some task is left")];
    let cycle = loop {
        let last = way[way.len() - 1];
        let before = predecessors[last].iter().map(|edge| parts.edges[*edge].from).find(left);
        let before = before.expect("what is left waits for something that is left");
        if let Some(start) = way.iter().position(|task| *task == before) {
            break &way[start..];
        }
        way.push(before);
    };
    let mut names: Vec<&str> = cycle.iter().rev().map(|task| parts.tasks[*task].id.as_str()).collect();
    names.push(names[0]);
    let shown = if names.len() > 12 {
        format!(
            "{} -> … ({} tasks) … -> {}",
            names[..6].join(" -> "),
            names.len() - 1,
            names[names.len() - 1]
        )
    } else {
        names.join(" -> ")
    };
    Err(FileError::new("edges", format!("there is a cycle: {shown}"), "take one of its edges away"))
}
