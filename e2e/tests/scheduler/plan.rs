//! Plans of the command line, as a black box.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use e2e::{keeper, product::tree};
use serde_json::{Value, json};

/// Where the actors of one application are placed, by short name.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The nodes of placed actors.
    pub placed: BTreeMap<String, String>,
    /// The reasons of unplaced actors.
    pub unplaced: BTreeMap<String, Vec<String>>,
}

/// What a plan costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Overload, and communication plus migration: the first two levels of the policy.
    pub levels: [i64; 2],
    /// The time of the search.
    pub seconds: f64,
}

impl Cost {
    /// Reads the JSON output of a plan.
    pub fn of(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("the plan is no JSON")?;
        let (plan, objective) = (planned(&json), &planned(&json)["objective"]);
        let value = |name: &str| objective[name].as_i64().with_context(|| format!("the plan has no {name}"));
        let levels = [value("overload")?, value("communication")? + value("migration")?];
        Ok(Self { levels, seconds: plan["seconds"].as_f64().context("the plan has no seconds")? })
    }
}

/// What it costs if exactly these actors, by short name, run on these nodes: their plan has no choice.
pub async fn cost_of(world: &Path, nodes: &BTreeMap<String, String>) -> Result<Cost> {
    let (_, snapshot) = run_world(world, &[], "snapshot").await?;
    let mut snapshot: Value = serde_json::from_str(&snapshot).context("the snapshot is no JSON")?;
    let list = |name: &str| snapshot[name].as_array().with_context(|| format!("the snapshot has no {name}"));
    let units = list("units")?.iter().map(|unit| (unit["node"].clone(), unit["id"].clone()));
    let units: Vec<(Value, Value)> = units.collect();
    let pin = |actor: &Value| {
        let node = nodes.get(&short(actor["id"].as_str()?))?;
        let (_, unit) = units.iter().find(|(at, _)| at == node)?;
        Some(json!({"type": "pin", "actor": actor["id"], "unit": unit}))
    };
    let pins: Vec<Value> = list("actors")?.iter().filter_map(pin).collect();
    snapshot["constraints"].as_array_mut().context("the snapshot has no constraints")?.extend(pins);
    let file = world.with_extension("pinned.json");
    std::fs::write(&file, snapshot.to_string()).context("cannot write the snapshot")?;
    let (_, text) = run(&["--snapshot".as_ref(), file.as_os_str()], "json").await?;
    std::fs::remove_file(&file).context("cannot delete the snapshot")?;
    Cost::of(&text)
}

/// As [`plan_with`], without further arguments.
pub async fn plan(world: &Path) -> Result<(Plan, String)> {
    plan_with(world, &[]).await
}

/// Runs `kubectl-cairn plan -f WORLD` with further arguments, and returns its output as well.
pub async fn plan_with(world: &Path, arguments: &[&str]) -> Result<(Plan, String)> {
    let (code, text) = run_world(world, arguments, "json").await?;
    let json: Value = serde_json::from_str(&text).context("the plan is no JSON")?;
    let node = |unit: &Value| unit.as_str().and_then(|unit| Some(unit.split_once('/')?.0.to_owned()));
    let json = planned(&json);
    let mut plan = Plan::default();
    for (actor, unit) in json["assignments"].as_object().context("the plan has no assignments")? {
        plan.placed.insert(short(actor), node(unit).with_context(|| format!("{actor} is on {unit}"))?);
    }
    for it in json["unplaced"].as_array().into_iter().flatten() {
        let reasons = it["reasons"].as_array().into_iter().flatten();
        let reasons = reasons.filter_map(Value::as_str).map(str::to_owned).collect();
        plan.unplaced.insert(short(it["actor"].as_str().context("an unplaced actor has no name")?), reasons);
    }
    ensure!((code == Some(0)) == plan.unplaced.is_empty(), "exit status {code:?} of {text}");
    Ok((plan, text))
}

/// The actors that a plan of the same world places once those of an earlier plan run; `text` is the output of that.
pub async fn placed_later(world: &Path, text: &str) -> Result<BTreeSet<String>> {
    let (_, snapshot) = run_world(world, &[], "snapshot").await?;
    let mut snapshot: Value = serde_json::from_str(&snapshot).context("the snapshot is no JSON")?;
    let placed = assignments(text)?;
    for actor in snapshot["actors"].as_array_mut().context("the snapshot has no actors")? {
        if let Some(unit) = actor["id"].as_str().and_then(|id| placed.get(id)) {
            actor["current"] = unit.clone();
        }
    }
    let file = world.with_extension("running.json");
    std::fs::write(&file, snapshot.to_string()).context("cannot write the snapshot")?;
    let (_, later) = run(&["--snapshot".as_ref(), file.as_os_str()], "json").await?;
    std::fs::remove_file(&file).context("cannot delete the snapshot")?;
    Ok(assignments(&later)?.keys().map(|actor| short(actor)).collect())
}

/// The unit of each placed actor of the planned application.
fn assignments(text: &str) -> Result<serde_json::Map<String, Value>> {
    let json: Value = serde_json::from_str(text).context("the plan is no JSON")?;
    planned(&json)["assignments"].as_object().cloned().context("the plan has no assignments")
}

/// The last application of a plan of manifests; the only one of a snapshot.
fn planned(json: &Value) -> &Value {
    json["applications"].as_object().and_then(|all| all.values().next_back()).unwrap_or(json)
}

fn short(id: &str) -> String {
    id.rsplit('/').next().unwrap_or(id).to_owned()
}

/// Plans a world under the policy of the tests.
async fn run_world(world: &Path, arguments: &[&str], format: &str) -> Result<(Option<i32>, String)> {
    let policy = tree("policies/throughput.yaml");
    let files: [&OsStr; 4] = ["-f".as_ref(), world.as_os_str(), "-f".as_ref(), policy.as_os_str()];
    let arguments = arguments.iter().map(|argument| OsStr::new(*argument));
    run(&files.into_iter().chain(arguments).collect::<Vec<_>>(), format).await
}

/// Runs `kubectl-cairn plan` with these arguments and this output format, and returns its exit status and output.
async fn run(arguments: &[&OsStr], format: &str) -> Result<(Option<i32>, String)> {
    let mut command = tokio::process::Command::new(keeper::built("kubectl-cairn")?);
    command.arg("plan").args(arguments).args(["-o", format]);
    let output = command.env("KUBECONFIG", "/does/not/exist").kill_on_drop(true).output().await;
    let output = output.context("cannot run kubectl-cairn")?;
    let (code, errors) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
    ensure!(matches!(code, Some(0 | 2)), "kubectl-cairn plan ends with {code:?}: {errors}");
    Ok((code, String::from_utf8(output.stdout).context("the output is no text")?))
}
