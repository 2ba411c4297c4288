//! The model `parallel`: moldable tasks on processors of one type, with parameter-dependent durations.
//!
//! Time on p processors (the semi-static paper, Eq. 1): `t = h·(aα/p + bβ·log2 p + cγ)`; a message (Eq. 2) takes
//! `C = S + (d + eμ)/R`, within a type too. No task gets more than `p_opt = ⌊aα/(bβ)⌋` processors, between 1 and the
//! number of its type.

use crate::{Cost, Graph, Kind, MapError, Model, Platform, Weight};

/// Values of the parameters α, β, γ, μ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vector {
    /// Weight of the part that decreases with the number of processors.
    pub alpha: f64,
    /// Weight of the part that increases with the number of processors.
    pub beta: f64,
    /// Weight of the constant part.
    pub gamma: f64,
    /// Weight of messages.
    pub mu: f64,
}

/// Names of the parameters, in vector order.
pub const PARAMETERS: [&str; 4] = ["alpha", "beta", "gamma", "mu"];

impl Vector {
    /// The vector of four values, in the order of [`PARAMETERS`].
    pub fn new([alpha, beta, gamma, mu]: [f64; 4]) -> Self {
        Self { alpha, beta, gamma, mu }
    }

    /// Its four values, in the order of [`PARAMETERS`].
    pub fn values(&self) -> [f64; 4] {
        [self.alpha, self.beta, self.gamma, self.mu]
    }
}

impl std::str::FromStr for Vector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read =
            |part: &str| part.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let values: Option<Vec<f64>> = text.split(',').map(read).collect();
        let four = values.and_then(|values| <[f64; 4]>::try_from(values).ok());
        four.map(Self::new).ok_or_else(|| {
            format!("`{text}` is not a vector; write alpha,beta,gamma,mu as four numbers from 0 up: 3090,13,258,67")
        })
    }
}

impl std::fmt::Display for Vector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{},{}", self.alpha, self.beta, self.gamma, self.mu)
    }
}

/// A graph of model `parallel` on a platform for one parameter vector, by index.
#[derive(Clone, Debug)]
pub struct ParallelModel {
    /// Processor types with their counts and the position of their first processor.
    kinds: Vec<(Kind, usize)>,
    first: Vec<usize>,
    most: usize,
    /// By task, type and number of processors less one; infinite if incompatible.
    time: Vec<f64>,
    /// By task and type: maximum useful number of processors, 0 if incompatible.
    optimum: Vec<usize>,
    /// By task: sender and edge of its inputs.
    received: Vec<Vec<(usize, usize)>>,
    /// By edge, sender type and receiver type.
    message: Vec<f64>,
}

/// Upper limit on the size of the table of durations.
const MOST_TIMES: usize = 20_000_000;

impl ParallelModel {
    /// The model of a graph on a platform for a vector; `mapper` is named in errors.
    pub fn new(
        mapper: &'static str,
        graph: &Graph,
        platform: &Platform,
        vector: &Vector,
    ) -> Result<Self, MapError> {
        if graph.model() != Model::Parallel {
            return Err(MapError::Model {
                mapper,
                takes: Model::Parallel.into(),
                given: graph.model().into(),
            });
        }
        let kinds = platform.kinds();
        let most = kinds.iter().map(|(_, count)| *count).max().unwrap_or(1);
        let size = graph.tasks().len().saturating_mul(kinds.len()).saturating_mul(most);
        let messages = graph.edges().len().saturating_mul(kinds.len()).saturating_mul(kinds.len());
        if size > MOST_TIMES || messages > MOST_TIMES {
            return Err(MapError::Other(format!(
                "{} tasks and {} edges on {} types of up to {most} processors are too many; split the graph",
                graph.tasks().len(),
                graph.edges().len(),
                kinds.len()
            )));
        }
        let mut first = Vec::new();
        for (_, count) in &kinds {
            first.push(first.last().map_or(0, |last| last + kinds[first.len() - 1].1));
            debug_assert!(*count > 0, "a type has processors");
        }
        let mut model = Self {
            time: Vec::with_capacity(size),
            optimum: Vec::with_capacity(graph.tasks().len() * kinds.len()),
            received: (0..graph.tasks().len())
                .map(|task| {
                    graph.incoming(task).iter().map(|&edge| (graph.edges()[edge].from, edge)).collect()
                })
                .collect(),
            message: messages_of(graph, platform, &kinds, vector)?,
            kinds,
            first,
            most,
        };
        for task in graph.tasks() {
            let Cost::Parallel { a, b, c, h } = &task.cost else { continue };
            let shares = (a * vector.alpha, b * vector.beta, c * vector.gamma);
            if !model.kinds.iter().any(|(kind, _)| h.contains_key(kind)) {
                return Err(MapError::NoPlace {
                    task: task.id.clone(),
                    why: "the platform has no processor of a type that its h names".to_owned(),
                });
            }
            for at in 0..model.kinds.len() {
                let (kind, count) = &model.kinds[at];
                let (factor, count) = (h.get(kind), *count);
                model.optimum.push(factor.map_or(0, |_| optimum(shares.0, shares.1, count)));
                let time = |p: usize| {
                    let p = real(p);
                    factor.map(|h| h * (shares.0 / p + shares.1 * libm::log2(p) + shares.2))
                };
                let times = (1..=model.most).map(|p| time(p).filter(|_| p <= count).unwrap_or(f64::INFINITY));
                model.time.extend(times);
            }
        }
        Ok(model)
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.received.len()
    }

    /// Processor types and their counts.
    pub fn kinds(&self) -> &[(Kind, usize)] {
        &self.kinds
    }

    /// Position in the platform of a type's first processor.
    pub fn first(&self, kind: usize) -> usize {
        self.first[kind]
    }

    /// Duration of a task on this many processors of a type, at least 1; infinite if incompatible.
    pub fn time(&self, task: usize, kind: usize, processors: usize) -> f64 {
        self.time[(task * self.kinds.len() + kind) * self.most + processors - 1]
    }

    /// Maximum number of processors of a type for a task; 0 if incompatible.
    pub fn optimum(&self, task: usize, kind: usize) -> usize {
        self.optimum[task * self.kinds.len() + kind]
    }

    /// Inputs of a task: sender and edge.
    pub fn received(&self, task: usize) -> &[(usize, usize)] {
        &self.received[task]
    }

    /// Duration of an edge's message between two types, or within one.
    pub fn message(&self, edge: usize, from: usize, to: usize) -> f64 {
        self.message[(edge * self.kinds.len() + from) * self.kinds.len() + to]
    }
}

/// By edge and pair of types.
fn messages_of(
    graph: &Graph,
    platform: &Platform,
    kinds: &[(Kind, usize)],
    vector: &Vector,
) -> Result<Vec<f64>, MapError> {
    let mut all = Vec::with_capacity(graph.edges().len() * kinds.len() * kinds.len());
    let mut between = Vec::new();
    for (a, _) in kinds {
        for (b, _) in kinds {
            between.push(platform.communication(a, b));
            if between.last().is_some_and(Option::is_none) && !graph.edges().is_empty() {
                return Err(MapError::Platform {
                    what: format!("the cost of messages between {a} and {b} (communication)"),
                });
            }
        }
    }
    for edge in graph.edges() {
        let Weight::Affine { fixed, variable } = edge.weight else { continue };
        let units = fixed + variable * vector.mu;
        all.extend(between.iter().flatten().map(|link| link.startup + units * link.per_unit));
    }
    Ok(all)
}

/// ⌊shrinking / growing⌋, between 1 and `count`.
fn optimum(shrinking: f64, growing: f64, count: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is clamped")]
    let most = if growing > 0.0 { (shrinking / growing).floor() as usize } else { usize::MAX };
    most.clamp(1, count)
}

#[expect(clippy::cast_precision_loss, reason = "processors are few")]
fn real(number: usize) -> f64 {
    number as f64
}
