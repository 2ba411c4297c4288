//! Plans of the command line, as a black box.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use e2e::{keeper, product::tree};
use serde_json::Value;

/// Where the actors of one application are placed, by short name.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The nodes of placed actors.
    pub placed: BTreeMap<String, String>,
    /// The reasons of unplaced actors.
    pub unplaced: BTreeMap<String, Vec<String>>,
}

/// Runs `kubectl-cairn plan -f WORLD` and returns its output as well.
pub async fn plan(world: &Path) -> Result<(Plan, String)> {
    let (code, text) = run_world(world, "json").await?;
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
    let (_, snapshot) = run_world(world, "snapshot").await?;
    let mut snapshot: Value = serde_json::from_str(&snapshot).context("the snapshot is no JSON")?;
    let placed = assignments(text)?;
    for actor in snapshot["actors"].as_array_mut().context("the snapshot has no actors")? {
        if let Some(unit) = actor["id"].as_str().and_then(|id| placed.get(id)) {
            actor["current"] = unit.clone();
        }
    }
    let file = world.with_extension("running.json");
    std::fs::write(&file, snapshot.to_string()).context("cannot write the snapshot")?;
    let (_, later) = run(["--snapshot".as_ref(), file.as_os_str()], "json").await?;
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
async fn run_world(world: &Path, format: &str) -> Result<(Option<i32>, String)> {
    let policy = tree("policies/throughput.yaml");
    run(["-f".as_ref(), world.as_os_str(), "-f".as_ref(), policy.as_os_str()], format).await
}

/// Runs `kubectl-cairn plan` with these arguments and this output format, and returns its exit status and output.
async fn run<const N: usize>(arguments: [&OsStr; N], format: &str) -> Result<(Option<i32>, String)> {
    let mut command = tokio::process::Command::new(keeper::built("kubectl-cairn")?);
    command.arg("plan").args(arguments).args(["-o", format]);
    let output = command.env("KUBECONFIG", "/does/not/exist").kill_on_drop(true).output().await;
    let output = output.context("cannot run kubectl-cairn")?;
    let (code, errors) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
    ensure!(matches!(code, Some(0 | 2)), "kubectl-cairn plan ends with {code:?}: {errors}");
    Ok((code, String::from_utf8(output.stdout).context("the output is no text")?))
}
