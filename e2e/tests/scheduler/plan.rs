//! Plans of the command line, as a black box.

use std::{collections::BTreeMap, path::Path};

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
    let mut command = tokio::process::Command::new(keeper::built("kubectl-cairn")?);
    command.arg("plan").arg("-f").arg(world).arg("-f").arg(tree("policies/throughput.yaml"));
    command.args(["-o", "json"]).env("KUBECONFIG", "/does/not/exist").kill_on_drop(true);
    let output = command.output().await.context("cannot run kubectl-cairn")?;
    let (code, errors) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
    ensure!(matches!(code, Some(0 | 2)), "kubectl-cairn plan ends with {code:?}: {errors}");
    let text = String::from_utf8(output.stdout).context("the plan is no text")?;
    let json: Value = serde_json::from_str(&text).context("the plan is no JSON")?;
    let short = |id: &str| id.rsplit('/').next().unwrap_or(id).to_owned();
    let node = |unit: &Value| unit.as_str().and_then(|unit| Some(unit.split_once('/')?.0.to_owned()));
    let applications = json["applications"].as_object().into_iter().flatten();
    let (_, json) = applications.last().context("no application is planned")?;
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
