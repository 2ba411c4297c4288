//! Graphs as YAML, for all three cost models.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Pairs, VERSION, positive, version, within, yaml};
use crate::{
    Cost, Edge, FileError, Graph, Implementation, Kind, Model, Parts, Range, Streaming, Task, Variable,
    Weight,
};

/// Upper limit on times in microseconds (2 h 46 min): keeps sums of nanoseconds far from overflow.
pub const LONGEST_MICROSECONDS: f64 = 1e10;
/// Upper limit on work, bytes and weights.
pub const LARGEST: f64 = 1e15;
/// Valid parameter names.
pub const PARAMETERS: [&str; 4] = ["alpha", "beta", "gamma", "mu"];

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GraphFile {
    version: u32,
    model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    shared_object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    streaming: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frames: Option<u32>,
    tasks: Vec<TaskFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    edges: Vec<EdgeFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    variables: Vec<VariableFile>,
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    parameters: Pairs<RangeFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cedr: Option<serde_json::Value>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct TaskFile {
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    h: Option<Pairs<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on: Option<Pairs<ImplementationFile>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ImplementationFile {
    expected: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actual: Option<f64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    function: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EdgeFile {
    from: String,
    to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fixed: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    variable: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct VariableFile {
    name: String,
    bytes: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    value: Vec<u8>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pointer: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    allocated: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    writers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    readers: Vec<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RangeFile {
    min: f64,
    max: f64,
    intervals: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Reads a graph from its YAML text.
pub fn read(text: &str) -> Result<Graph, FileError> {
    let file: GraphFile = yaml(text)?;
    version(file.version)?;
    let model: Model = file.model.parse().map_err(|_| {
        FileError::new("model", format!("`{}` is unknown", file.model), "write measured, work or parallel")
    })?;
    let mut parts = Parts::new(file.name, model, Vec::with_capacity(file.tasks.len()), Vec::new());
    parts.shared_object = file.shared_object;
    parts.cedr = file.cedr;
    parts.streaming = streaming("streaming", file.streaming.as_deref())?;
    parts.frames = frames("frames", file.frames)?;
    let mut variables = BTreeMap::new();
    for (position, variable) in file.variables.iter().enumerate() {
        if variables.insert(variable.name.clone(), position).is_some() {
            let path = format!("variables[{position}].name");
            return Err(FileError::new(
                path,
                format!("`{}` occurs twice", variable.name),
                "give each variable a name of its own",
            ));
        }
    }
    for (position, task) in file.tasks.into_iter().enumerate() {
        parts.tasks.push(read_task(&format!("tasks[{position}]"), task, model, &variables)?);
    }
    let tasks: BTreeMap<&str, usize> =
        parts.tasks.iter().enumerate().map(|(position, task)| (task.id.as_str(), position)).collect();
    let find = |path: String, name: &str| match tasks.get(name) {
        Some(position) => Ok(*position),
        None => Err(FileError::new(path, format!("`{name}` is not a task"), "name a task of this graph")),
    };
    for (position, edge) in file.edges.iter().enumerate() {
        let path = format!("edges[{position}]");
        let weight = read_weight(&path, edge, model)?;
        let from = find(format!("{path}.from"), &edge.from)?;
        parts.edges.push(Edge { from, to: find(format!("{path}.to"), &edge.to)?, weight });
    }
    for (position, variable) in file.variables.into_iter().enumerate() {
        let path = format!("variables[{position}]");
        let ends = |field: &str, names: &[String]| -> Result<Vec<usize>, FileError> {
            names
                .iter()
                .enumerate()
                .map(|(number, name)| find(format!("{path}.{field}[{number}]"), name))
                .collect()
        };
        let (writers, readers) = (ends("writers", &variable.writers)?, ends("readers", &variable.readers)?);
        let VariableFile { name, bytes, value, pointer, allocated, .. } = variable;
        let variable = Variable { name, bytes, value, pointer, allocated, writers, readers };
        check_variable(&path, "value", &variable)?;
        parts.variables.push(variable);
    }
    for (name, range) in file.parameters.0 {
        let path = format!("parameters.{name}");
        if model != Model::Parallel || !PARAMETERS.contains(&name.as_str()) {
            let remedy = "the model parallel has alpha, beta, gamma and mu, other models have none";
            return Err(FileError::new(path, "unknown parameter", remedy));
        }
        let RangeFile { min, max, intervals } = range;
        within(&format!("{path}.min"), min, -LARGEST, LARGEST)?;
        within(&format!("{path}.max"), max, -LARGEST, LARGEST)?;
        if min >= max {
            return Err(FileError::new(path, format!("min {min} is not below max {max}"), "write min < max"));
        }
        if !(1..=64).contains(&intervals) {
            let path = format!("{path}.intervals");
            return Err(FileError::new(
                path,
                format!("{intervals} intervals"),
                "write a number from 1 to 64",
            ));
        }
        parts.parameters.insert(name, Range { min, max, intervals });
    }
    Graph::new(parts)
}

/// Checks the size of a variable against its initial bytes, and of pointers.
pub(crate) fn check_variable(path: &str, value: &str, variable: &Variable) -> Result<(), FileError> {
    if !variable.value.is_empty() && variable.value.len() as u64 != variable.bytes {
        return Err(FileError::new(
            format!("{path}.{value}"),
            format!("{} initial bytes for {} bytes", variable.value.len(), variable.bytes),
            "write as many as the variable has, or none",
        ));
    }
    if variable.pointer && variable.bytes != 8 {
        let problem = format!("a pointer of {} bytes", variable.bytes);
        return Err(FileError::new(format!("{path}.bytes"), problem, "a pointer has 8"));
    }
    #[expect(clippy::cast_precision_loss, reason = "compared with a round limit")]
    for (field, bytes) in [("bytes", variable.bytes), ("allocated", variable.allocated)] {
        within(&format!("{path}.{field}"), bytes as f64, 0.0, LARGEST)?;
    }
    Ok(())
}

/// Reads the streaming mode.
pub(crate) fn streaming(path: &str, given: Option<&str>) -> Result<Streaming, FileError> {
    let Some(given) = given else { return Ok(Streaming::None) };
    given.parse().map_err(|_| {
        let remedy = "write none, single buffer, double buffer or sequential";
        FileError::new(path, format!("`{given}` is unknown"), remedy)
    })
}

/// Reads the number of frames.
pub(crate) fn frames(path: &str, given: Option<u32>) -> Result<u32, FileError> {
    match given.unwrap_or(1) {
        frames @ 1..=1_000_000 => Ok(frames),
        frames => Err(FileError::new(path, format!("{frames} frames"), "write a number from 1 to 1000000")),
    }
}

fn read_task(
    path: &str,
    file: TaskFile,
    model: Model,
    variables: &BTreeMap<String, usize>,
) -> Result<Task, FileError> {
    let TaskFile { id, work, vector, a, b, c, h, on, arguments } = file;
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| FileError::new(path, "a task without id", "give it one: id: NAME"))?;
    let given = [
        ("work", Model::Work, work.is_some()),
        ("vector", Model::Work, vector.is_some()),
        ("a", Model::Parallel, a.is_some()),
        ("b", Model::Parallel, b.is_some()),
        ("c", Model::Parallel, c.is_some()),
        ("h", Model::Parallel, h.is_some()),
        ("on", Model::Measured, on.is_some()),
    ];
    foreign(path, model, &given)?;
    let absent = |field: &str| {
        FileError::new(
            format!("{path}.{field}"),
            format!("absent in task {id}"),
            "every task of this model has it",
        )
    };
    let weight = |field: &str, value: Option<f64>| {
        within(&format!("{path}.{field}"), value.ok_or_else(|| absent(field))?, 0.0, LARGEST)
    };
    let cost = match model {
        Model::Measured => Cost::Measured(read_implementations(path, on.ok_or_else(|| absent("on"))?)?),
        Model::Work => {
            Cost::Work { work: weight("work", work)?, vector: weight("vector", Some(vector.unwrap_or(1.0)))? }
        }
        Model::Parallel => {
            let mut factors = BTreeMap::new();
            for (name, factor) in h.ok_or_else(|| absent("h"))?.0 {
                let path = format!("{path}.h.{name}");
                let kind = kind(&path, &name)?;
                factors.insert(kind, positive(&path, factor, LARGEST)?);
            }
            if factors.is_empty() {
                return Err(absent("h"));
            }
            Cost::Parallel { a: weight("a", a)?, b: weight("b", b)?, c: weight("c", c)?, h: factors }
        }
    };
    let find = |(position, name): (usize, &String)| {
        variables.get(name).copied().ok_or_else(|| {
            let path = format!("{path}.arguments[{position}]");
            FileError::new(path, format!("`{name}` is not a variable"), "name one of this graph's variables")
        })
    };
    let arguments = arguments.iter().enumerate().map(find).collect::<Result<_, _>>()?;
    Ok(Task { id, cost, arguments })
}

fn read_implementations(
    path: &str,
    on: Pairs<ImplementationFile>,
) -> Result<BTreeMap<Kind, Implementation>, FileError> {
    let mut all = BTreeMap::new();
    for (name, ImplementationFile { expected, actual, function }) in on.0 {
        let path = format!("{path}.on.{name}");
        let kind = kind(&path, &name)?;
        within(&format!("{path}.expected"), expected, 0.0, LONGEST_MICROSECONDS)?;
        if let Some(actual) = actual {
            within(&format!("{path}.actual"), actual, 0.0, LONGEST_MICROSECONDS)?;
        }
        all.insert(kind, Implementation { expected, actual, function });
    }
    if all.is_empty() {
        let remedy = "name at least one kind with its expected time";
        return Err(FileError::new(format!("{path}.on"), "no implementation", remedy));
    }
    Ok(all)
}

fn read_weight(path: &str, edge: &EdgeFile, model: Model) -> Result<Weight, FileError> {
    let given = [
        ("bytes", Model::Work, edge.bytes.is_some()),
        ("fixed", Model::Parallel, edge.fixed.is_some()),
        ("variable", Model::Parallel, edge.variable.is_some()),
        ("cost", Model::Measured, edge.cost.is_some()),
    ];
    foreign(path, model, &given)?;
    let amount = |field: &str, value: Option<f64>| {
        within(&format!("{path}.{field}"), value.unwrap_or(0.0), 0.0, LARGEST)
    };
    Ok(match model {
        Model::Measured => Weight::Measured(amount("cost", edge.cost)?),
        Model::Work => Weight::Bytes(amount("bytes", edge.bytes)?),
        Model::Parallel => Weight::Affine {
            fixed: amount("fixed", edge.fixed)?,
            variable: amount("variable", edge.variable)?,
        },
    })
}

/// Rejects a field that belongs to another cost model.
fn foreign(path: &str, model: Model, given: &[(&str, Model, bool)]) -> Result<(), FileError> {
    match given.iter().find(|(_, of, there)| *there && *of != model) {
        None => Ok(()),
        Some((field, of, _)) => Err(FileError::new(
            format!("{path}.{field}"),
            format!("belongs to the model {of}, and this graph's is {model}"),
            "take it out, or change `model`",
        )),
    }
}

/// Reads a kind by its name.
pub(crate) fn kind(path: &str, name: &str) -> Result<Kind, FileError> {
    name.parse().map_err(|problem: String| {
        let (problem, remedy) = problem.split_once("; ").unwrap_or((&problem, "write a kind"));
        FileError::new(path, problem, remedy)
    })
}

/// Writes a graph as YAML; reading it gives an equal graph.
pub fn write(graph: &Graph) -> String {
    let id = |task: &usize| graph.tasks()[*task].id.clone();
    let file = GraphFile {
        version: VERSION,
        model: graph.model().to_string(),
        name: graph.name().to_owned(),
        shared_object: graph.parts().shared_object.clone(),
        streaming: Some(graph.streaming())
            .filter(|mode| *mode != Streaming::None)
            .map(|mode| mode.to_string()),
        frames: Some(graph.frames()).filter(|frames| *frames != 1),
        tasks: graph.tasks().iter().map(|task| write_task(graph, task)).collect(),
        edges: graph.edges().iter().map(|edge| write_edge(graph, edge)).collect(),
        variables: graph
            .variables()
            .iter()
            .map(|variable| VariableFile {
                name: variable.name.clone(),
                bytes: variable.bytes,
                value: variable.value.clone(),
                pointer: variable.pointer,
                allocated: variable.allocated,
                writers: variable.writers.iter().map(id).collect(),
                readers: variable.readers.iter().map(id).collect(),
            })
            .collect(),
        parameters: Pairs(
            graph
                .parameters()
                .iter()
                .map(|(name, Range { min, max, intervals })| {
                    (name.clone(), RangeFile { min: *min, max: *max, intervals: *intervals })
                })
                .collect(),
        ),
        cedr: graph.parts().cedr.clone(),
    };
    serde_yaml::to_string(&file).expect("plain data with text keys always serializes")
}

fn write_task(graph: &Graph, task: &Task) -> TaskFile {
    let arguments = task.arguments.iter().map(|position| graph.variables()[*position].name.clone()).collect();
    let mut file = TaskFile { id: Some(task.id.clone()), arguments, ..TaskFile::default() };
    match &task.cost {
        Cost::Measured(all) => {
            let on = all.iter().map(|(kind, Implementation { expected, actual, function })| {
                let one =
                    ImplementationFile { expected: *expected, actual: *actual, function: function.clone() };
                (kind.to_string(), one)
            });
            file.on = Some(Pairs(on.collect()));
        }
        Cost::Work { work, vector } => (file.work, file.vector) = (Some(*work), Some(*vector)),
        Cost::Parallel { a, b, c, h } => {
            (file.a, file.b, file.c) = (Some(*a), Some(*b), Some(*c));
            file.h = Some(Pairs(h.iter().map(|(kind, factor)| (kind.to_string(), *factor)).collect()));
        }
    }
    file
}

fn write_edge(graph: &Graph, edge: &Edge) -> EdgeFile {
    let id = |task: usize| graph.tasks()[task].id.clone();
    let (from, to) = (id(edge.from), id(edge.to));
    let mut file = EdgeFile { from, to, bytes: None, fixed: None, variable: None, cost: None };
    match edge.weight {
        Weight::Measured(cost) => file.cost = Some(cost).filter(|cost| *cost != 0.0),
        Weight::Bytes(bytes) => file.bytes = Some(bytes),
        Weight::Affine { fixed, variable } => (file.fixed, file.variable) = (Some(fixed), Some(variable)),
    }
    file
}
