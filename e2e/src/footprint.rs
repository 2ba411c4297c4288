//! `cairn-e2e footprint`: the cost of the node agent on a busy node, measured from outside on a real control plane.
//!
//! The node has 110 pods that share eight GPUs of a fake NVIDIA driver. One GPU after the
//! other is lost and returns, as fast as the agent notices, and each time a pod ends and another one starts.
//! Resident memory is fitted by a line, so that leaks per scrape, loss and pod show as growth.

mod device_churn;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Cluster, Process, SimulatedNode, keeper, ports,
    process::{Launch, http_get},
    product::AGENT,
};
use device_churn::Scene;

/// The node, and the namespace of its pods.
const HERE: &str = "busy";
/// The default maximum of a kubelet.
const PODS: usize = 110;
/// The number in the largest servers.
const GPUS: usize = 8;
/// The port of the agent in its manifest.
const AGENT_PORT: u16 = 9101;
/// The limit for a condition, on a busy machine.
const LIMIT: Duration = Duration::from_mins(2);
/// The number of consecutive scrapes that are timed.
const IN_A_ROW: usize = 200;

/// The scrape interval and the duration of each phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScrapePlan {
    /// The interval of scrapes, and of memory and descriptor samples.
    pub every: Duration,
    /// The number of warm-up scrapes.
    pub warm_up: usize,
    /// The number of scrapes with all devices healthy.
    pub at_rest: usize,
    /// The number of scrapes while devices are lost and return.
    pub in_trouble: usize,
    /// Whether the CPU use of pods is counted, too.
    pub perf: bool,
}

impl ScrapePlan {
    /// The published results: two minutes idle, ten of churn, with Prometheus' default interval.
    pub const FULL: Self =
        Self { every: Duration::from_secs(15), warm_up: 8, at_rest: 8, in_trouble: 40, perf: false };
    /// A minute for a test, with many scrapes, so that a leak per scrape shows.
    pub const SHORT: Self =
        Self { every: Duration::from_millis(100), warm_up: 100, at_rest: 10, in_trouble: 500, perf: true };
    /// Ten minutes with as much churn as the agent can notice.
    pub const TROUBLE: Self =
        Self { every: Duration::from_secs(1), warm_up: 60, at_rest: 10, in_trouble: 600, perf: true };

    /// The duration of so many scrapes.
    fn lasts(self, scrapes: usize) -> Duration {
        self.every * u32::try_from(scrapes).unwrap_or(u32::MAX)
    }
}

/// The cost of a process over some scrapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessCost {
    /// Resident memory at each scrape, in MiB.
    pub memory_mib: Vec<f64>,
    /// Open descriptors before each scrape.
    pub descriptors: Vec<usize>,
    /// Its CPU time, in millicores.
    pub millicores: f64,
    /// The CPU time of its terminated children.
    pub millicores_of_children: f64,
}

/// The cost of the agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFootprint {
    /// From its start until it was ready, with its NodeTopology published.
    pub ready_seconds: f64,
    /// With all devices healthy.
    pub at_rest: ProcessCost,
    /// While devices were lost and returned.
    pub in_trouble: ProcessCost,
    /// The number of losses and returns that the agent noticed.
    pub changes: usize,
    /// The sorted durations of consecutive scrapes.
    pub scrape_milliseconds: Vec<f64>,
    /// The number of series of a scrape.
    pub series: usize,
    /// The number of series of each name before and after the churn.
    pub series_by_name: [BTreeMap<String, usize>; 2],
    /// The number of open descriptors before and after the churn.
    pub descriptors: [usize; 2],
}

impl ProcessCost {
    /// The growth of memory from the first to the last scrape by linear regression, and its standard
    /// error, in MiB.
    pub fn growth_mib(&self) -> (f64, f64) {
        growth(&self.memory_mib)
    }

    /// The minimum number of descriptors of the first scrapes, and of the last: a closing connection counts
    /// only at some moments.
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
pub async fn run(pace: ScrapePlan, commit: &str, results: &Path) -> Result<()> {
    let agent = measure(pace).await?;
    let other = node_exporter(pace).await?;
    write(&page(pace, commit, &agent, &other), results, "footprint.md")
}

/// Only churn, for ten minutes or with another `pace`: prints the memory curve, and writes `node-agent/trouble.md` into
/// `results`.
pub async fn trouble(pace: ScrapePlan, commit: &str, results: &Path) -> Result<()> {
    let text = page_of_trouble(pace, commit, &measure(pace).await?);
    write(&text, results, "trouble.md")
}

fn write(text: &str, results: &Path, name: &str) -> Result<()> {
    print!("{text}");
    let folder = results.join("node-agent");
    fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A separate control plane, the node, the agent; everything is stopped afterwards.
pub async fn measure(pace: ScrapePlan) -> Result<AgentFootprint> {
    let cluster = Cluster::start()?;
    let perf = format!("--set=agent.perf.enabled={}", pace.perf);
    // Here pods with the labels of actors are created directly.
    let anybody = "--set=admissionPolicies.install=false";
    let settings = ["--set=agent.podResources=Enabled", "--set=agent.log.level=warn", &perf, anybody];
    cluster.install(Path::new(""), &settings).await?;
    let _nodes = cluster.nodes([SimulatedNode::new(HERE)]).await?;
    let mut scene = Scene::set(&cluster, pace.perf).await?;
    let mut workload = cluster.gpu_agent(HERE, &scene.driver, &scene.kubelet).await?;
    if let Some(root) = scene.cgroup_root() {
        workload = workload.arg(format!("--cgroup-root={}", root.display()));
    }
    let started = Instant::now();
    let agent = workload.start(&keeper::built(AGENT)?).await?;
    agent.wait_ready().await?;
    let ready_seconds = started.elapsed().as_secs_f64();
    let port = agent.port(AGENT_PORT)?;
    scene.settle(port).await?;

    watch(&agent, port, pace.every, pace.warm_up, async |text| scene.go_on(&text).await).await?;
    let before = scene.settle(port).await?;
    let at_rest = watch(&agent, port, pace.every, pace.at_rest, async |_| Ok(())).await?;
    let (_, descriptors_before) = at_rest.descriptors_at_ends();
    scene.changes = 0;
    let in_trouble =
        watch(&agent, port, pace.every, pace.in_trouble, async |text| scene.go_on(&text).await).await?;
    let changes = scene.changes;
    let after = scene.settle(port).await?;
    let quiet = watch(&agent, port, Duration::from_millis(100), 10, async |_| Ok(())).await?;
    let descriptors = [descriptors_before, quiet.descriptors_at_ends().1];
    let (scrape_milliseconds, series) = in_a_row(port).await?;
    let series_by_name = [before, after];
    Ok(AgentFootprint {
        ready_seconds,
        at_rest,
        in_trouble,
        changes,
        scrape_milliseconds,
        series,
        series_by_name,
        descriptors,
    })
}

/// Scrapes a process so many times and samples it each time; `then` gets the response.
async fn watch(
    process: &Process,
    port: u16,
    every: Duration,
    scrapes: usize,
    mut then: impl AsyncFnMut(String) -> Result<()>,
) -> Result<ProcessCost> {
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
        then(text).await?;
    }
    ticks.tick().await;
    let (now, seconds) = (processor_seconds(process)?, began.elapsed().as_secs_f64());
    let millicores = |which: usize| (now[which] - before[which]) / seconds * 1000.0;
    Ok(ProcessCost {
        memory_mib,
        descriptors,
        millicores: millicores(0),
        millicores_of_children: millicores(1),
    })
}

/// The sorted durations of consecutive scrapes, and the number of series of one.
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

/// Debian's `prometheus-node-exporter` with defaults, next to a separate control plane: same machine, same load.
async fn node_exporter(pace: ScrapePlan) -> Result<AgentFootprint> {
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
    watch(&process, port, pace.every, pace.warm_up, async |_| Ok(())).await?;
    let at_rest = watch(&process, port, pace.every, pace.at_rest, async |_| Ok(())).await?;
    let (scrape_milliseconds, series) = in_a_row(port).await?;
    Ok(AgentFootprint { ready_seconds, at_rest, scrape_milliseconds, series, ..AgentFootprint::default() })
}

/// CPU time: its own, and that of its terminated children.
fn processor_seconds(process: &Process) -> Result<[f64; 2]> {
    let path = format!("/proc/{}/stat", process.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // the second field is a name, which may contain spaces
    let (_, rest) = text.rsplit_once(')').with_context(|| format!("{path} is no stat"))?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| -> Result<f64> { Ok(fields.get(field).context("too short")?.parse()?) };
    // in units of a hundredth of a second
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

/// The growth of equidistant values by linear regression, and its standard error.
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

fn page(pace: ScrapePlan, commit: &str, agent: &AgentFootprint, other: &AgentFootprint) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = |scrapes: usize| pace.lasts(scrapes).as_secs();
    let row = |name: &str, cost: &ProcessCost, measured: &AgentFootprint| {
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
        "# Footprint of the node agent\n\n\
         A node with {PODS} pods and {GPUS} GPUs (stub NVML) on a real API server, scraped every {:?}, with {IN_A_ROW} scrapes in a\n\
         row at the end. Idle for {} s; under churn for {} s with {} GPU losses and returns, each with a pod\n\
         replaced. All processes share {cores} cores; the build profile is `dev` with `opt-level = 1`. The baseline is Debian's `prometheus-node-exporter`.\n\n\
         | process | peak RSS, MiB | growth, MiB | millicores, own + children | open files, first and last | scrape median, ms | scrape p99, ms | series | time to ready, s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n{}{}{}\n\
         Growth is the slope of a least-squares line over the whole time, with its standard error. Scrape times are those of the idle phase.\n\n\
         Made at {commit} by `make bench`, which runs `cairn-e2e footprint`.\n",
        pace.every,
        seconds(pace.at_rest),
        seconds(pace.in_trouble),
        agent.changes,
        row("cairn-node-agent, idle", &agent.at_rest, agent),
        row("cairn-node-agent, under churn", &agent.in_trouble, agent),
        row("prometheus-node-exporter", &other.at_rest, other),
    )
}

fn page_of_trouble(pace: ScrapePlan, commit: &str, agent: &AgentFootprint) -> String {
    let cost = &agent.in_trouble;
    let (growth, error) = cost.growth_mib();
    let a_minute =
        usize::try_from(Duration::from_mins(1).as_millis() / pace.every.as_millis()).unwrap_or(usize::MAX);
    let lasted = pace.lasts(pace.in_trouble);
    let minutes = cost.memory_mib.chunks(a_minute).zip(cost.descriptors.chunks(a_minute)).enumerate();
    let row = |(minute, (memory, descriptors)): (usize, (&[f64], &[usize]))| {
        let (least, most) =
            memory.iter().fold((f64::MAX, 0.0), |(least, most), mib| (mib.min(least), mib.max(most)));
        let open = descriptors.iter().min().copied().unwrap_or_default();
        format!("| {} | {least:.2} | {most:.2} | {open} |\n", minute + 1)
    };
    let [before, after] = &agent.series_by_name;
    let series =
        if before == after { "as many series of each name as before," } else { "other series than before," };
    format!(
        "# Leak test of the node agent under churn\n\n\
         The node of [footprint.md](footprint.md), scraped every {:?}, with perf counters for pods enabled. For {lasted:?} a GPU is lost\n\
         or returns as soon as the agent has reported the previous change ({} times), and each time a pod is replaced.\n\n\
         Memory grew by {growth:+.2} ± {error:.2} MiB (least-squares line). Afterwards the agent exports {series} and holds\n\
         {} open files; before, {}.\n\n\
         | minute | min RSS, MiB | max RSS, MiB | min open files |\n|---:|---:|---:|---:|\n{}\n\
         Made at {commit} by `make bench`, which runs `cairn-e2e footprint --trouble`.\n",
        pace.every,
        agent.changes,
        agent.descriptors[1],
        agent.descriptors[0],
        minutes.map(row).collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn growth_and_error_are_those_of_the_regression_line() {
        assert_eq!(growth(&[1.0, 2.0, 3.0, 4.0]), (3.0, 0.0));
        assert_eq!(growth(&[5.0; 9]), (0.0, 0.0));
        let saw: Vec<_> = (0..100).map(|n| f64::from(n % 2)).collect();
        let (by, error) = growth(&saw);
        assert!(by.abs() < error && error < 0.2, "{by} {error}");
        let (by, error) = growth(&[0.0, 1.0, 0.0, 1.0, 5.0, 6.0, 5.0, 6.0]);
        assert!(by > 3.0 * error, "{by} {error}");
    }
}
