//! Task graphs: tasks, edges between them, and shared variables.

use std::collections::BTreeMap;

use crate::{FileError, Kind};

/// Upper limit on tasks.
pub const MOST_TASKS: usize = 20_000;
/// Upper limit on edges.
pub const MOST_EDGES: usize = 200_000;

/// Cost model of a graph's tasks and edges.
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

/// A task, a node of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name, unique in the graph.
    pub id: String,
    /// Cost, in the graph's model.
    pub cost: Cost,
    /// Variables passed as arguments, in order, by position in [`Graph::variables`].
    pub arguments: Vec<usize>,
}

/// Cost of a task.
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
        /// Weight of the part that decreases with the number of processors.
        a: f64,
        /// Weight of the part that increases with the number of processors.
        b: f64,
        /// Weight of the constant part.
        c: f64,
        /// Factor per processor type; an absent type cannot run the task.
        h: BTreeMap<Kind, f64>,
    },
}

/// An implementation of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Implementation {
    /// Expected time in microseconds, as written.
    pub expected: f64,
    /// Actual time in microseconds, if different.
    pub actual: Option<f64>,
    /// Name of the function.
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
        reason = "readers reject values out of range"
    )]
    let whole = (1000.0 * microseconds).floor() as u64;
    whole
}

/// A dependency of one task on another.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The predecessor, by position.
    pub from: usize,
    /// The successor, by position.
    pub to: usize,
    /// Data sent along the edge.
    pub weight: Weight,
}

/// Weight of an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// An unused cost (CEDR's `edgecost`).
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

/// Shared memory of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variable {
    /// Name, unique in the graph.
    pub name: String,
    /// Size; 8 for a pointer.
    pub bytes: u64,
    /// Initial bytes: exactly `bytes` many, or empty for zeros.
    pub value: Vec<u8>,
    /// Whether it is a pointer to its own memory.
    pub pointer: bool,
    /// Size of the memory it points to.
    pub allocated: u64,
    /// Tasks that write it, by position.
    pub writers: Vec<usize>,
    /// Tasks that read it.
    pub readers: Vec<usize>,
}

/// How an application processes a stream of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Streaming {
    /// One frame only.
    #[default]
    None,
    /// Single buffering: a producer waits until its frame is consumed.
    #[strum(serialize = "single buffer")]
    Single,
    /// Double buffering: a producer is at most two frames ahead.
    #[strum(serialize = "double buffer")]
    Double,
    /// A frame begins when the previous one is complete.
    Sequential,
}

/// The range of a parameter, divided into intervals of equal length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lower bound.
    pub min: f64,
    /// Upper bound.
    pub max: f64,
    /// Number of intervals.
    pub intervals: usize,
}

/// The parts of a graph before validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// Application name; may be empty.
    pub name: String,
    /// Cost model.
    pub model: Model,
    /// Tasks; their order is the tie-break.
    pub tasks: Vec<Task>,
    /// Edges; they determine the order of a task's successors.
    pub edges: Vec<Edge>,
    /// Variables.
    pub variables: Vec<Variable>,
    /// Parameters of the model `parallel`.
    pub parameters: BTreeMap<String, Range>,
    /// How frames are processed.
    pub streaming: Streaming,
    /// Number of frames, at least 1.
    pub frames: u32,
    /// Shared object with the functions; may be empty.
    pub shared_object: String,
    /// Additional content of CEDR's file, as a merge patch (RFC 7396) to the file written without it.
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

/// A validated directed acyclic graph of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    parts: Parts,
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    topological: Vec<usize>,
}

impl Graph {
    /// Validates `parts`: sizes, unique names, edge ends, no duplicate edges, no cycle.
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
            return Err(FileError::new("tasks", "empty", "a graph has at least one task"));
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
                return Err(FileError::new(path(), "one end is not a task", "name two tasks of the graph"));
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

    /// Application name; may be empty.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Cost model.
    pub fn model(&self) -> Model {
        self.parts.model
    }

    /// Tasks; their order is the tie-break.
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

    /// How frames are processed.
    pub fn streaming(&self) -> Streaming {
        self.parts.streaming
    }

    /// Number of frames.
    pub fn frames(&self) -> u32 {
        self.parts.frames
    }

    /// The parts of the graph.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Converts the graph to its parts, to change them.
    pub fn into_parts(self) -> Parts {
        self.parts
    }

    /// Outgoing edges of `task`, by position, in list order.
    pub fn outgoing(&self, task: usize) -> &[usize] {
        &self.successors[task]
    }

    /// Incoming edges of `task`, by position, in list order.
    pub fn incoming(&self, task: usize) -> &[usize] {
        &self.predecessors[task]
    }

    /// Successors of `task`, in list order.
    pub fn successors(&self, task: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.successors[task].iter().map(|edge| self.parts.edges[*edge].to)
    }

    /// Predecessors of `task`, in list order.
    pub fn predecessors(&self, task: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.predecessors[task].iter().map(|edge| self.parts.edges[*edge].from)
    }

    /// Tasks without predecessors, in task order.
    pub fn heads(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.parts.tasks.len()).filter(|task| self.predecessors[*task].is_empty())
    }

    /// All tasks in topological order; among ready tasks the lowest position is first.
    pub fn topological(&self) -> &[usize] {
        &self.topological
    }

    /// Position of the task with this name.
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
    // Every remaining task has a remaining predecessor: going back from any of them ends in a cycle.
    let left = |task: &usize| waits[*task] > 0;
    let mut way = vec![(0..waits.len()).find(left).expect("a task remains")];
    let cycle = loop {
        let last = way[way.len() - 1];
        let before = predecessors[last].iter().map(|edge| parts.edges[*edge].from).find(left);
        let before = before.expect("a remaining task has a remaining predecessor");
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
