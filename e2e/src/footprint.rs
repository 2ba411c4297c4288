//! `cairn-e2e footprint`: what the node agent costs on a busy node, measured from outside on a real control plane.
//!
//! The node has 110 pods and eight GPUs of the stand-in for NVIDIA's driver, which the pods share. One GPU after the
//! other falls off the bus and comes back, as fast as the agent notices. Resident memory is fitted by a line, so that
//! what stays of each scrape and each loss shows as growth.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Cluster, Process, SimulatedNode,
    hardware::{Driver, FakeKubelet, holder},
    keeper, ports,
    process::{Launch, http_get},
    product::AGENT,
    wait,
};

/// The node, and the namespace of its pods.
const HERE: &str = "busy";
/// As many as a kubelet takes by default.
const PODS: usize = 110;
/// As many as the largest servers have.
const GPUS: usize = 8;
/// The port of the agent in its manifest.
const AGENT_PORT: u16 = 9101;
/// How long a condition may take to be seen, on a machine that has other things to do.
const LIMIT: Duration = Duration::from_mins(2);
/// How often in a row is scraped for the times of a scrape.
const IN_A_ROW: usize = 200;

/// How often is scraped, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The time between two scrapes; memory and descriptors are looked at as often.
    pub every: Duration,
    /// How many scrapes before the first that counts.
    pub warm_up: usize,
    /// How many scrapes with all devices there.
    pub at_rest: usize,
    /// How many scrapes while devices are lost and come back.
    pub in_trouble: usize,
}

impl Pace {
    /// What the results are stated for: two minutes at rest, ten in trouble, scraped as Prometheus does by default here.
    pub const FULL: Self = Self { every: Duration::from_secs(15), warm_up: 8, at_rest: 8, in_trouble: 40 };
    /// A minute for a test, with many scrapes, so that what stays of one is there often.
    pub const SHORT: Self =
        Self { every: Duration::from_millis(100), warm_up: 100, at_rest: 10, in_trouble: 500 };
}

/// What a process cost over some scrapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Resident memory at each scrape, in MiB.
    pub memory_mib: Vec<f64>,
    /// Open descriptors before each scrape.
    pub descriptors: Vec<usize>,
    /// Processor time of its own, in thousandths of a core.
    pub millicores: f64,
    /// The same of its children that have ended.
    pub millicores_of_children: f64,
}

/// What the agent cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// From its start until it was ready: its NodeTopology was published.
    pub ready_seconds: f64,
    /// With all devices there.
    pub at_rest: Cost,
    /// While devices were lost and came back.
    pub in_trouble: Cost,
    /// How many losses and returns the agent noticed meanwhile.
    pub changes: usize,
    /// How long each of some scrapes in a row took, sorted.
    pub scrape_milliseconds: Vec<f64>,
    /// How many series a scrape has.
    pub series: usize,
}

impl Cost {
    /// How much memory grew from the first scrape to the last by the line that fits best, and the standard error of
    /// that, in MiB.
    pub fn growth_mib(&self) -> (f64, f64) {
        growth(&self.memory_mib)
    }

    /// The least number of descriptors of the first scrapes, and of the last: a connection that is being closed counts
    /// at some moments only.
    pub fn descriptors_at_ends(&self) -> (usize, usize) {
        let end = self.descriptors.len().min(10);
        let least = |part: &[usize]| part.iter().copied().min().unwrap_or_default();
        (least(&self.descriptors[..end]), least(&self.descriptors[self.descriptors.len() - end..]))
    }

    fn most_mib(&self) -> f64 {
        self.memory_mib.iter().copied().fold(0.0, f64::max)
    }
}

/// Measures the agent and Debian's `prometheus-node-exporter`, prints a table, and writes `node-agent/footprint.md`
/// into `results`.
pub async fn run(pace: Pace, results: &Path) -> Result<()> {
    let agent = measure(pace).await?;
    let other = node_exporter(pace).await?;
    let text = page(pace, &agent, &other);
    print!("{text}");
    let folder = results.join("node-agent");
    fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    fs::write(folder.join("footprint.md"), text)?;
    Ok(())
}

/// A control plane of its own, the node, the agent; everything is stopped afterwards.
pub async fn measure(pace: Pace) -> Result<Measured> {
    let cluster = Cluster::start()?;
    let settings = ["--set=agent.podResources=Enabled", "--set=agent.log.level=warn"];
    cluster.install(Path::new(""), &settings).await?;
    let _nodes = cluster.nodes([SimulatedNode::new(HERE)]).await?;
    cluster.kubectl_with(["apply", "-f-"], &pods().to_string()).await?;
    let run = cluster.plane().state.join("run");
    let name = |index: usize| format!("pod-{index:03}");
    let holders = (0..PODS).map(|index| holder(HERE, &name(index), Some(index % GPUS), &[2]));
    let kubelet = FakeKubelet::start(&run.join("kubelet.sock"), holders.collect());
    let driver = Driver::new(run.join("driver"), GPUS)?;
    let workload = cluster.gpu_agent(HERE, &driver, &kubelet).await?;
    let started = Instant::now();
    let agent = workload.start(&keeper::built(AGENT)?).await?;
    agent.wait_ready().await?;
    let ready_seconds = started.elapsed().as_secs_f64();
    let port = agent.port(AGENT_PORT)?;
    let all_known = wait::until(LIMIT, async || {
        let (_, text) = http_get(port, "/metrics").await?;
        let known = text.lines().filter(|line| line.starts_with("cairn_pod_device_info{")).count();
        ensure!(known == PODS, "{known} pods are known");
        anyhow::Ok(())
    });
    all_known.await.map_err(anyhow::Error::msg)?;

    let mut trouble = Trouble { driver, step: 0, changes: 0 };
    watch(&agent, port, pace.every, pace.warm_up, |text| trouble.go_on(text)).await?;
    trouble.end(port).await?;
    let at_rest = watch(&agent, port, pace.every, pace.at_rest, |_| Ok(())).await?;
    trouble.changes = 0;
    let in_trouble = watch(&agent, port, pace.every, pace.in_trouble, |text| trouble.go_on(text)).await?;
    let changes = trouble.changes;
    trouble.end(port).await?;
    let (scrape_milliseconds, series) = in_a_row(port).await?;
    Ok(Measured { ready_seconds, at_rest, in_trouble, changes, scrape_milliseconds, series })
}

/// The pods of the node, and their namespace.
fn pods() -> serde_json::Value {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}});
    let pod = |index: usize| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{index:03}"), "namespace": HERE},
            "spec": {"nodeName": HERE, "containers": [{"name": "actor", "image": "none"}]}})
    };
    let items: Vec<_> = std::iter::once(namespace).chain((0..PODS).map(pod)).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Devices that are lost and come back, one after the other, each step when the agent has noticed the one before.
struct Trouble {
    driver: Driver,
    step: usize,
    changes: usize,
}

impl Trouble {
    /// The GPU that is lost now; every other step none is.
    fn lost(&self) -> Option<usize> {
        (self.step % 2 == 1).then_some(self.step / 2 % GPUS)
    }

    /// Takes the next step if the agent, which says this, noticed the last.
    fn go_on(&mut self, metrics: &str) -> Result<()> {
        if lost(metrics) != usize::from(self.lost().is_some()) {
            return Ok(());
        }
        self.changes += 1;
        self.step += 1;
        // by turns: it says that it is lost, or it is not there at all
        let how = if (self.step / 2).is_multiple_of(2) { "lost" } else { "gone" };
        self.driver.set(&self.lost().map(|gpu| format!("{how}={gpu}")).unwrap_or_default())
    }

    /// Has all devices back, and waits until the agent noticed.
    async fn end(&mut self, port: u16) -> Result<()> {
        self.step += self.step % 2;
        self.driver.set("")?;
        let back = wait::until(LIMIT, async || {
            let (_, text) = http_get(port, "/metrics").await?;
            if lost(&text) == 0 { Ok(()) } else { bail!("a GPU is lost") }
        });
        back.await.map_err(anyhow::Error::msg)
    }
}

/// How many devices a scrape says are lost.
fn lost(metrics: &str) -> usize {
    let lost = |line: &&str| line.starts_with("cairn_device_health{") && line.ends_with("state=\"lost\"} 1");
    metrics.lines().filter(lost).count()
}

/// Scrapes a process so many times, looking at it each time; `then` hears what it said.
async fn watch(
    process: &Process,
    port: u16,
    every: Duration,
    scrapes: usize,
    mut then: impl FnMut(&str) -> Result<()>,
) -> Result<Cost> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut memory_mib, mut descriptors) = (Vec::new(), Vec::new());
    let (began, before) = (Instant::now(), processor_seconds(process)?);
    for _ in 0..scrapes {
        ticks.tick().await;
        descriptors.push(open_files(process)?);
        let (status, text) = http_get(port, "/metrics").await?;
        ensure!(status == 200, "/metrics answers {status}: {text}");
        memory_mib.push(resident_mib(process)?);
        then(&text)?;
    }
    ticks.tick().await;
    let (now, seconds) = (processor_seconds(process)?, began.elapsed().as_secs_f64());
    let millicores = |which: usize| (now[which] - before[which]) / seconds * 1000.0;
    Ok(Cost { memory_mib, descriptors, millicores: millicores(0), millicores_of_children: millicores(1) })
}

/// How long scrapes in a row take, sorted, and how many series one has.
async fn in_a_row(port: u16) -> Result<(Vec<f64>, usize)> {
    let (mut took, mut series) = (Vec::new(), 0);
    for _ in 0..IN_A_ROW {
        let began = Instant::now();
        let (_, text) = http_get(port, "/metrics").await?;
        took.push(began.elapsed().as_secs_f64() * 1000.0);
        series = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    }
    took.sort_by(f64::total_cmp);
    Ok((took, series))
}

/// Debian's `prometheus-node-exporter` as it comes, beside a control plane of its own: the same machine, as busy.
async fn node_exporter(pace: Pace) -> Result<Measured> {
    let program = Path::new("/usr/bin/prometheus-node-exporter");
    let advice =
        "prometheus-node-exporter is not installed; on Debian: apt-get install prometheus-node-exporter";
    ensure!(program.is_file(), advice);
    let cluster = Cluster::start()?;
    let port = ports::free_one()?;
    let launch = Launch {
        arguments: vec![format!("--web.listen-address=127.0.0.1:{port}")],
        ports: [(port, port)].into(),
        readiness: Some((port, "/metrics".to_owned())),
        ..Launch::default()
    };
    let started = Instant::now();
    let process = cluster.run("node-exporter", program, launch)?;
    process.wait_ready().await?;
    let ready_seconds = started.elapsed().as_secs_f64();
    watch(&process, port, pace.every, pace.warm_up, |_| Ok(())).await?;
    let at_rest = watch(&process, port, pace.every, pace.at_rest, |_| Ok(())).await?;
    let (scrape_milliseconds, series) = in_a_row(port).await?;
    let in_trouble = Cost::default();
    Ok(Measured { ready_seconds, at_rest, in_trouble, changes: 0, scrape_milliseconds, series })
}

/// Processor time: its own, and that of its children which have ended.
fn processor_seconds(process: &Process) -> Result<[f64; 2]> {
    let path = format!("/proc/{}/stat", process.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // the second field is a name, which may have spaces in it
    let (_, rest) = text.rsplit_once(')').with_context(|| format!("{path} is no stat"))?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| -> Result<f64> { Ok(fields.get(field).context("too short")?.parse()?) };
    // of which the kernel counts a hundred in a second, for programs
    Ok([(ticks(11)? + ticks(12)?) / 100.0, (ticks(13)? + ticks(14)?) / 100.0])
}

fn resident_mib(process: &Process) -> Result<f64> {
    let path = format!("/proc/{}/status", process.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    Ok(value.with_context(|| format!("no VmRSS in {path}"))?.trim().parse::<f64>()? / 1024.0)
}

fn open_files(process: &Process) -> Result<usize> {
    let path = format!("/proc/{}/fd", process.pid());
    Ok(fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?.count())
}

/// The growth of values at equal distances by the line of least squares, and its standard error.
#[expect(clippy::cast_precision_loss, reason = "there are never so many")]
fn growth(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.len() < 3 {
        return (0.0, 0.0);
    }
    let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let places = || (0..values.len()).map(|place| place as f64 - middle);
    let spread: f64 = places().map(|place| place * place).sum();
    let slope = places().zip(values).map(|(place, value)| place * (value - mean)).sum::<f64>() / spread;
    let rest = places().zip(values).map(|(place, value)| (value - mean - slope * place).powi(2)).sum::<f64>();
    let error = (rest / (count - 2.0) / spread).sqrt();
    ((count - 1.0) * slope, (count - 1.0) * error)
}

fn page(pace: Pace, agent: &Measured, other: &Measured) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = |scrapes: usize| pace.every.as_secs() * scrapes as u64;
    let row = |name: &str, cost: &Cost, measured: &Measured| {
        let (growth, error) = cost.growth_mib();
        let (first, last) = cost.descriptors_at_ends();
        let scrape = |share: usize| measured.scrape_milliseconds[(IN_A_ROW - 1) * share / 100];
        format!(
            "| {name} | {:.1} | {growth:+.2} ± {error:.2} | {:.1} + {:.1} | {first}, {last} | {:.1} | {:.1} | {} | {:.2} |\n",
            cost.most_mib(),
            cost.millicores,
            cost.millicores_of_children,
            scrape(50),
            scrape(99),
            measured.series,
            measured.ready_seconds,
        )
    };
    format!(
        "# What the node agent costs: the measurement\n\n\
         A node with {PODS} pods and {GPUS} GPUs of the stand-in for NVML, on a real API server; scraped every {} s, and {IN_A_ROW}\n\
         times in a row at the end. At rest for {} s; in trouble for {} s, in which the agent noticed {} losses and returns of\n\
         GPUs. All processes share {cores} cores. There is one profile of compilation for everything, `dev` with `opt-level = 1`.\n\n\
         | | memory MiB | growth MiB | millicores, own + children's | open files, first and last | scrape, median ms | p99 ms | series | ready s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n{}{}{}\n\
         Memory is the most that was resident; growth is that of the line that fits best, over the whole time, with its\n\
         standard error. Times of scrapes are those at rest. `prometheus-node-exporter` is Debian's as it comes.\n\n\
         Made by `make bench`, which runs `cairn-e2e footprint`.\n",
        pace.every.as_secs(),
        seconds(pace.at_rest),
        seconds(pace.in_trouble),
        agent.changes,
        row("cairn-node-agent, at rest", &agent.at_rest, agent),
        row("cairn-node-agent, in trouble", &agent.in_trouble, agent),
        row("prometheus-node-exporter", &other.at_rest, other),
    )
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn growth_is_that_of_the_line_and_its_error_that_of_the_rest() {
        assert_eq!(growth(&[1.0, 2.0, 3.0, 4.0]), (3.0, 0.0));
        assert_eq!(growth(&[5.0; 9]), (0.0, 0.0));
        let saw: Vec<_> = (0..100).map(|n| f64::from(n % 2)).collect();
        let (by, error) = growth(&saw);
        assert!(by.abs() < error && error < 0.2, "{by} {error}");
        let (by, error) = growth(&[0.0, 1.0, 0.0, 1.0, 5.0, 6.0, 5.0, 6.0]);
        assert!(by > 3.0 * error, "{by} {error}");
    }
}
