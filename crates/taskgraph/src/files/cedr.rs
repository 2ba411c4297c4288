//! CEDR's own format: an application as JSON (Mack et al., ACM TECS 2022, listing 1, and its published code).
//!
//! Unknown fields are kept, with a warning.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::graph::{LARGEST, LONGEST_MICROSECONDS, check_variable, frames, kind, streaming};
use super::{Pairs, within};
use crate::{
    Cost, Edge, FileError, Graph, Implementation, Kind, Model, Parts, Streaming, Task, Variable, Weight,
};

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(expecting = "an object with AppName, SharedObject, Variables and DAG")]
struct Application {
    #[serde(rename = "AppName")]
    name: String,
    #[serde(rename = "SharedObject")]
    shared_object: String,
    #[serde(rename = "Stream_enable", default, skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    #[serde(rename = "Max_stream_frame_count", default, skip_serializing_if = "Option::is_none")]
    frames: Option<u32>,
    #[serde(rename = "Variables")]
    variables: Pairs<Storage>,
    #[serde(rename = "DAG")]
    dag: Pairs<Node>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Storage {
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is_ptr: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ptr_alloc_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    val: Option<Vec<u8>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Node {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<i64>,
    arguments: Vec<String>,
    predecessors: Vec<Neighbour>,
    successors: Vec<Neighbour>,
    platforms: Vec<Way>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Neighbour {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edgecost: Option<Number>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Way {
    name: String,
    nodecost: Number,
    runfunc: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shared_object: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Reads an application from its JSON text; also returns a warning for each unknown field.
pub fn read(text: &str) -> Result<(Graph, Vec<String>), FileError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let file: Application = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.inner();
        let remedy = if inner.is_eof() {
            "the text ends too early: write the rest of it"
        } else if inner.is_data() {
            "see docs/reference/task-graphs.md for CEDR's fields"
        } else {
            "write JSON"
        };
        FileError::new(path, inner.to_string(), remedy)
    })?;
    reader
        .end()
        .map_err(|error| FileError::new(".", error.to_string(), "write one JSON object and no more"))?;
    let warnings = unknown(&file);
    let mut parts = file.parts()?;
    // Content that the graph does not model is kept as a patch.
    let whole = serde_json::to_value(&file).expect("plain data with text keys always serializes");
    let plain = serde_json::to_value(Application::of(&parts)).expect("plain data always serializes");
    parts.cedr = difference(&plain, &whole);
    Ok((Graph::new(parts)?, warnings))
}

/// Writes a graph of the model `measured` as CEDR's JSON; a graph that was read is written as an equal value.
pub fn write(graph: &Graph) -> Result<String, FileError> {
    if graph.model() != Model::Measured {
        let problem = format!("the model is {}", graph.model());
        return Err(FileError::new("model", problem, "CEDR's format has measured times only; write YAML"));
    }
    let mut value =
        serde_json::to_value(Application::of(graph.parts())).expect("plain data always serializes");
    if let Some(patch) = &graph.parts().cedr {
        merge(&mut value, patch);
    }
    let mut text = serde_json::to_string_pretty(&value).expect("a value always serializes");
    text.push('\n');
    if graph.parts().cedr.is_some() {
        // The patch is user input: the result is validated as well.
        read(&text).map_err(|error| {
            let problem = format!("what it makes of the graph is refused: {error}");
            FileError::new("cedr", problem, "take `cedr` out, or change it")
        })?;
    }
    Ok(text)
}

/// One warning for each unknown field.
fn unknown(file: &Application) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |path: &str, rest: &Map<String, Value>| {
        found.extend(
            rest.keys().map(|key| format!("{path}{key}: unknown field of CEDR's format; kept but ignored")),
        );
    };
    note("", &file.rest);
    for (name, variable) in file.variables.iter() {
        note(&format!("Variables.{name}."), &variable.rest);
    }
    for (name, node) in file.dag.iter() {
        note(&format!("DAG.{name}."), &node.rest);
        for (field, list) in [("predecessors", &node.predecessors), ("successors", &node.successors)] {
            for (position, neighbour) in list.iter().enumerate() {
                note(&format!("DAG.{name}.{field}[{position}]."), &neighbour.rest);
            }
        }
        for (position, way) in node.platforms.iter().enumerate() {
            note(&format!("DAG.{name}.platforms[{position}]."), &way.rest);
        }
    }
    found
}

impl Application {
    fn parts(&self) -> Result<Parts, FileError> {
        let mut parts = Parts::new(self.name.clone(), Model::Measured, Vec::new(), Vec::new());
        parts.shared_object.clone_from(&self.shared_object);
        parts.streaming = streaming("Stream_enable", self.stream.as_deref())?;
        parts.frames = frames("Max_stream_frame_count", self.frames)?;
        let mut variables = BTreeMap::new();
        // Object order has no meaning: sorted by name, as it is written.
        let mut storages: Vec<(&str, &Storage)> = self.variables.iter().collect();
        storages.sort_by_key(|(name, _)| *name);
        for (name, storage) in storages {
            variables.insert(name, parts.variables.len());
            let variable = Variable {
                name: name.to_owned(),
                bytes: storage.bytes,
                value: storage.val.clone().unwrap_or_default(),
                pointer: storage.is_ptr.unwrap_or(false),
                allocated: storage.ptr_alloc_bytes.unwrap_or(0),
                ..Variable::default()
            };
            check_variable(&format!("Variables.{name}"), "val", &variable)?;
            parts.variables.push(variable);
        }
        let nodes = self.ordered()?;
        let positions: BTreeMap<&str, usize> =
            nodes.iter().enumerate().map(|(position, (name, _))| (*name, position)).collect();
        for (name, node) in &nodes {
            let find = |(position, argument): (usize, &String)| {
                variables.get(argument.as_str()).copied().ok_or_else(|| {
                    let path = format!("DAG.{name}.arguments[{position}]");
                    let remedy = "name one of `Variables`, or add it there";
                    FileError::new(path, format!("`{argument}` is not a variable"), remedy)
                })
            };
            let arguments = node.arguments.iter().enumerate().map(find).collect::<Result<_, _>>()?;
            let cost = Cost::Measured(implementations(name, &node.platforms)?);
            parts.tasks.push(Task { id: (*name).to_owned(), cost, arguments });
        }
        parts.edges = edges(&nodes, &positions)?;
        Ok(parts)
    }

    /// Nodes by `task_id` if all have one, else by name.
    fn ordered(&self) -> Result<Vec<(&str, &Node)>, FileError> {
        let mut nodes: Vec<(&str, &Node)> = self.dag.iter().collect();
        nodes.sort_by_key(|(name, _)| *name);
        if nodes.iter().any(|(_, node)| node.task_id.is_none()) {
            return Ok(nodes);
        }
        nodes.sort_by_key(|(_, node)| node.task_id);
        let twice = nodes.windows(2).find(|pair| pair[0].1.task_id == pair[1].1.task_id);
        if let Some([(first, _), (second, node)]) = twice {
            let problem = format!("{} is also that of {first}", node.task_id.unwrap_or_default());
            let path = format!("DAG.{second}.task_id");
            return Err(FileError::new(path, problem, "give each task an id of its own"));
        }
        Ok(nodes)
    }

    /// The file of a graph, without the additional content of CEDR's file.
    fn of(parts: &Parts) -> Self {
        let number = |value: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be whole"
            )]
            let whole =
                (value.fract() == 0.0 && (0.0..1e15).contains(&value)).then(|| Number::from(value as u64));
            whole.or_else(|| Number::from_f64(value)).expect("readers reject non-finite numbers")
        };
        let storage = |variable: &Variable| Storage {
            bytes: variable.bytes,
            is_ptr: Some(variable.pointer),
            ptr_alloc_bytes: Some(variable.allocated),
            val: Some(variable.value.clone()),
            rest: Map::new(),
        };
        let by_name = parts.tasks.windows(2).all(|pair| pair[0].id < pair[1].id);
        let (mut before, mut after) =
            (vec![Vec::new(); parts.tasks.len()], vec![Vec::new(); parts.tasks.len()]);
        for edge in &parts.edges {
            let cost = Some(number(if let Weight::Measured(cost) = edge.weight { cost } else { 0.0 }));
            let neighbour = |task: usize| Neighbour {
                name: parts.tasks[task].id.clone(),
                edgecost: cost.clone(),
                rest: Map::new(),
            };
            after[edge.from].push(neighbour(edge.to));
            before[edge.to].push(neighbour(edge.from));
        }
        let mut ends = before.into_iter().zip(after);
        let mut node = |(position, task): (usize, &Task)| {
            let (predecessors, successors) = ends.next().expect("one pair of lists per task");
            let platforms = match &task.cost {
                Cost::Measured(on) => on
                    .iter()
                    .map(|(kind, one)| Way {
                        name: kind.to_string(),
                        nodecost: number(one.expected),
                        runfunc: one.function.clone(),
                        shared_object: None,
                        rest: Map::new(),
                    })
                    .collect(),
                Cost::Work { .. } | Cost::Parallel { .. } => Vec::new(),
            };
            let arguments = task.arguments.iter().map(|one| parts.variables[*one].name.clone()).collect();
            let task_id = (!by_name).then(|| i64::try_from(position).expect("at most 20,000 tasks"));
            (
                task.id.clone(),
                Node { task_id, arguments, predecessors, successors, platforms, rest: Map::new() },
            )
        };
        Self {
            name: parts.name.clone(),
            shared_object: parts.shared_object.clone(),
            stream: Some(parts.streaming)
                .filter(|mode| *mode != Streaming::None)
                .map(|mode| mode.to_string()),
            frames: Some(parts.frames).filter(|frames| *frames != 1),
            variables: Pairs(parts.variables.iter().map(|one| (one.name.clone(), storage(one))).collect()),
            dag: Pairs(parts.tasks.iter().enumerate().map(&mut node).collect()),
            rest: Map::new(),
        }
    }
}

fn implementations(name: &str, platforms: &[Way]) -> Result<BTreeMap<Kind, Implementation>, FileError> {
    let mut all = BTreeMap::new();
    for (position, way) in platforms.iter().enumerate() {
        let path = format!("DAG.{name}.platforms[{position}]");
        let kind = kind(&format!("{path}.name"), &way.name)?;
        let cost = way.nodecost.as_f64().unwrap_or(f64::NAN);
        let expected = within(&format!("{path}.nodecost"), cost, 0.0, LONGEST_MICROSECONDS)?;
        let one = Implementation { expected, actual: None, function: way.runfunc.clone() };
        if all.insert(kind, one).is_some() {
            let problem = format!("{} occurs twice", way.name);
            return Err(FileError::new(path, problem, "write one implementation per kind"));
        }
    }
    if all.is_empty() {
        let remedy = "name at least one kind with nodecost and runfunc";
        return Err(FileError::new(format!("DAG.{name}.platforms"), "no implementation", remedy));
    }
    Ok(all)
}

/// All edges, by task in the order of successor lists; both ends must list each edge.
fn edges(nodes: &[(&str, &Node)], positions: &BTreeMap<&str, usize>) -> Result<Vec<Edge>, FileError> {
    let mut pairs = BTreeSet::new();
    for (to, (name, node)) in nodes.iter().enumerate() {
        for (number, from) in node.predecessors.iter().enumerate() {
            let path = format!("DAG.{name}.predecessors[{number}]");
            let Some(position) = positions.get(from.name.as_str()) else {
                return Err(no_task(&path, &from.name));
            };
            cost(&path, from)?;
            if !pairs.insert((*position, to)) {
                let problem = format!("`{}` occurs twice", from.name);
                return Err(FileError::new(path, problem, "write each dependence once"));
            }
        }
    }
    let mut edges = Vec::with_capacity(pairs.len());
    for (from, (name, node)) in nodes.iter().enumerate() {
        for (number, to) in node.successors.iter().enumerate() {
            let path = format!("DAG.{name}.successors[{number}]");
            let Some(position) = positions.get(to.name.as_str()) else {
                return Err(no_task(&path, &to.name));
            };
            if !pairs.remove(&(from, *position)) {
                let problem = format!("`{}` does not have `{name}` among its predecessors", to.name);
                return Err(FileError::new(path, problem, "add it there once, or take this out"));
            }
            edges.push(Edge { from, to: *position, weight: Weight::Measured(cost(&path, to)?) });
        }
    }
    if let Some((from, to)) = pairs.first() {
        let (from, to) = (nodes[*from].0, nodes[*to].0);
        let problem = format!("`{from}` does not have `{to}` among its successors");
        return Err(FileError::new(
            format!("DAG.{to}.predecessors"),
            problem,
            "add it there, or take the predecessor out",
        ));
    }
    Ok(edges)
}

fn no_task(path: &str, name: &str) -> FileError {
    FileError::new(path, format!("`{name}` is not a task"), "name a task of `DAG`")
}

fn cost(path: &str, neighbour: &Neighbour) -> Result<f64, FileError> {
    let cost = neighbour.edgecost.as_ref().map_or(Some(0.0), Number::as_f64);
    within(&format!("{path}.edgecost"), cost.unwrap_or(f64::NAN), 0.0, LARGEST)
}

/// The merge patch (RFC 7396) that turns `old` into `new`; `None` if they are equal.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch: Map<String, Value> =
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        match old.get(key) {
            None => {
                patch.insert(key.clone(), value.clone());
            }
            Some(before) => {
                if let Some(change) = difference(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    Some(Value::Object(patch))
}

/// Applies a merge patch (RFC 7396).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(value) = value else { return };
    for (key, change) in patch {
        if change.is_null() {
            value.remove(key);
        } else {
            merge(value.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}
