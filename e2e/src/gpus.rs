//! `cairn-e2e gpus`: the node agent's values of this machine's GPUs, compared with `nvidia-smi`.
//!
//! The agent probes the machine and is scraped, as on a node, without an API server to
//! publish to. `nvidia-smi` is queried at the same moments, `clinfo` once, if it is installed.

mod agent;
mod clinfo;
mod smi;
mod table;

use std::{fs, io, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::{
    process::Command,
    time::{Instant, sleep_until},
};

use crate::{command, keeper, ports, process::http_get, product::AGENT, wait};
use agent::ScrapedSeries;
use smi::Gpu;

/// The limit for the agent to find GPUs: the first query loads the driver's state.
const LIMIT: Duration = Duration::from_mins(3);

/// All values of one moment.
pub struct Moment {
    at: Instant,
    /// The agent's metrics.
    agent: ScrapedSeries,
    /// The output of `nvidia-smi`.
    smi: Vec<Gpu>,
}

/// Compares two moments with this distance, prints a table, and writes `node-agent/gpus.md` into `results`.
///
/// The difference of the energy counters gives the power.
pub async fn run(apart: Duration, commit: &str, results: &Path) -> Result<()> {
    let fields = smi::fields(&nvidia_smi(&["--help-query-gpu"]).await?);
    let port = ports::free_one()?;
    let state = tempfile::tempdir().context("cannot make a folder for the agent")?;
    let _agent = start_agent(port, state.path())?;
    let ready = wait::until(LIMIT, async || {
        let (_, page) = http_get(port, "/collectors").await?;
        ensure!(page.lines().any(|line| line.starts_with("nvml ok")), "{}", page.trim());
        anyhow::Ok(())
    });
    ready.await.map_err(|seen| anyhow::anyhow!("the agent finds no driver of NVIDIA; it says:\n{seen}"))?;

    let first = moment(port, &fields).await?;
    sleep_until(first.at + apart).await;
    let last = moment(port, &fields).await?;
    let text = table::page(&first, &last, &opencl().await?, commit);
    print!("{text}");
    let folder = results.join("node-agent");
    fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    let path = folder.join("gpus.md");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// An agent without an API server, which only serves metrics.
fn start_agent(port: u16, state: &Path) -> Result<tokio::process::Child> {
    let nowhere = json!({"apiVersion": "v1", "kind": "Config", "current-context": "nowhere",
        "clusters": [{"name": "nowhere", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}]});
    let kubeconfig = state.join("kubeconfig");
    fs::write(&kubeconfig, nowhere.to_string())?;
    let mut agent = Command::new(keeper::built(AGENT)?);
    agent.args(["--node-name=here", "--log-level=off", "--probe-listen=127.0.0.1:0"]);
    agent.arg(format!("--listen=127.0.0.1:{port}"));
    agent.env("KUBECONFIG", kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
    agent.spawn().with_context(|| format!("cannot start {AGENT}"))
}

/// Queries both concurrently.
async fn moment(port: u16, fields: &[&'static str]) -> Result<Moment> {
    let query = format!("--query-gpu={}", fields.join(","));
    let asked = ["--format=csv,noheader,nounits", &query];
    let (agent, smi) = tokio::join!(http_get(port, "/metrics"), nvidia_smi(&asked));
    let at = Instant::now();
    Ok(Moment { at, agent: ScrapedSeries::read(&agent?.1), smi: smi::read(fields, &smi?)? })
}

async fn nvidia_smi(arguments: &[&str]) -> Result<String> {
    let mut nvidia_smi = Command::new("nvidia-smi");
    nvidia_smi.args(arguments);
    match command::run(nvidia_smi, "").await {
        Ok(output) => Ok(output.stdout),
        Err(error) if is_missing(&error) => bail!(
            "there is no nvidia-smi here: this compares the agent with it, so it needs a machine with a GPU of NVIDIA \
             and its driver"
        ),
        Err(error) => Err(error),
    }
}

/// The GPUs in the output of `clinfo`, by address; empty if it is not installed.
async fn opencl() -> Result<clinfo::OpenClDevices> {
    let mut clinfo = Command::new("clinfo");
    clinfo.arg("--raw");
    match command::run(clinfo, "").await {
        Ok(output) => Ok(clinfo::read(&output.stdout)),
        Err(error) if is_missing(&error) => Ok(clinfo::OpenClDevices::new()),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A PCI address in the kernel's format: `nvidia-smi` prints eight digits of the domain, in capitals.
fn normal_address(address: &str) -> String {
    let address = address.to_lowercase();
    match address.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 => format!("{}:{rest}", &domain[domain.len() - 4..]),
        _ => address,
    }
}
