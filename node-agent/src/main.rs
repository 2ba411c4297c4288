//! `cairn-node-agent`: publishes a node's devices as its NodeTopology, with a Lease and metrics. It makes no decisions.
//!
//! A [`source::Source`] reads the topology of each node. The [`controller`] compares it with the API server and writes
//! differences. [`leases`] signal that the agent is alive. One process serves one node or hundreds.

mod agent;
mod allocations;
mod args;
mod backoff;
mod controller;
mod device_plugin;
mod events;
mod failure;
mod hardware;
mod http;
mod kubelet_socket;
mod leases;
mod metrics;
mod perf;
mod podresources;
mod pods;
mod problems;
#[cfg(test)]
mod proto;
mod publish;
mod roster;
mod source;
mod topology;

use std::{convert::Infallible, ffi::OsString, io, net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use kube::{Api, Client, runtime::reflector::store};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing::info;
use tracing_subscriber::EnvFilter;

use crate::{
    agent::Agent,
    allocations::{Allocations, POLL_INTERVAL},
    args::{Args, Command, LogArgs, LogFormat, SourceArgs, TopologyArgs},
    device_plugin::Plugin,
    hardware::{child, hwloc, nvml::trial, opencl},
    metrics::{CollectorState, Metrics},
    perf::Perf,
    podresources::Kubelet,
    problems::Problems,
    source::{Drivers, Source, SourceError, described::Described, machine::Machine},
};

/// Why the agent does not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(
        "the node name is missing: set --node-name NAME (or NODE_NAME, in a pod from \
         `fieldRef: {{fieldPath: spec.nodeName}}`), or --simulate FILE|DIR for described machines"
    )]
    NoNode,
    #[error("cannot start the runtime: {0}")]
    Runtime(io::Error),
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    #[error(transparent)]
    Topology(#[from] topology::RenderError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("there is no valid description:\n{0}")]
    NoValidDescription(String),
    #[error("--log-level: {0}")]
    LogFilter(#[from] tracing_subscriber::filter::ParseError),
    #[error("cannot listen on {address} ({flag}): {source}")]
    Listen { address: SocketAddr, flag: &'static str, source: io::Error },
    #[error("cannot find the API server: {0}; run in a pod, or set KUBECONFIG")]
    Config(#[from] kube::config::InferConfigError),
    #[error("cannot create the client of the API server: {0}")]
    Client(#[from] kube::Error),
    #[error("cannot register the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{0}: run the command again to load the new library")]
    Outdated(String),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.command {
        Some(Command::ProbeHwloc) => {
            child::serve(Some(hwloc::MEMORY), |machine| hwloc::probe(&machine)).map_err(StartError::Output)
        }
        Some(Command::ProbeOpencl) => child::serve(None, |()| opencl::probe()).map_err(StartError::Output),
        Some(Command::ProbeNvml) => {
            child::serve(None, |file: Option<OsString>| trial::run(file.as_ref())).map_err(StartError::Output)
        }
        Some(Command::Topology(args)) => show(args),
        None => run_agent(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cairn-node-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the topology, once or on every change.
fn show(args: TopologyArgs) -> Result<(), StartError> {
    let TopologyArgs { output, counters, watch, mut source } = args;
    if source.node_name.as_deref().is_none_or(str::is_empty) {
        source.node_name = Some(topology::host_name());
    }
    let mut source = choose_source(source)?;
    source.use_drivers(Drivers::Used);
    let mut last = None;
    loop {
        let reading = source.read_all()?;
        let counters = if counters { source.counters() } else { Vec::new() };
        if let Some(why) = &reading.outdated {
            return Err(StartError::Outdated(why.clone()));
        }
        let text = topology::render(&reading, &counters, output)?;
        if last.as_ref() != Some(&text) {
            let mut out = io::stdout().lock();
            io::Write::write_all(&mut out, text.as_bytes()).map_err(StartError::Output)?;
            io::Write::flush(&mut out).map_err(StartError::Output)?;
            last = Some(text);
        }
        if !watch {
            return Ok(());
        }
        // Drivers emit no change events, so they are polled, as in the agent.
        std::thread::sleep(agent::POLL_INTERVAL);
    }
}

fn run_agent(args: Args) -> Result<(), StartError> {
    // A single thread keeps memory independent of the node's number of cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(StartError::Runtime)?.block_on(run(args))
}

async fn run(args: Args) -> Result<(), StartError> {
    let Args { command: _, source, cluster, kubelet, http, log } = args;
    set_up_log(&log)?;
    let mut stopped = Stopped::new().map_err(StartError::Signals)?;
    let allocations = Allocations::new(source.node_name.as_deref());
    let mut source = choose_source(source)?;
    let metrics = Metrics::new()?;

    let first = source.read()?;
    if first.topologies.is_empty() && !first.problems.is_empty() {
        let lines = first.problems.iter().map(|(place, problem)| format!("  {place}: {problem}"));
        return Err(StartError::NoValidDescription(lines.collect::<Vec<_>>().join("\n")));
    }
    let mut problems = Problems::default();
    let first = Ok(first);
    problems.note(source.name(), &first, &metrics);

    let perf = kubelet.perf.then(|| {
        let max = perf::shared::max_descriptors();
        perf::shared::SharedPerf::new(Perf::new(Box::new(perf::Kernel), &kubelet.cgroup_root, max, &metrics))
    });
    if perf.is_none() {
        for collector in [perf::SOFTWARE, perf::HARDWARE] {
            metrics.record_collector(collector, CollectorState::Absent, "not enabled: set --perf");
        }
    }
    let client = Client::try_from(kube::Config::infer().await?)?;
    let plugin = kubelet.device_plugins.map(|folder| Plugin::new(folder, kubelet.numa_slots));
    let (agent, caches) = Agent::new(client.clone(), metrics, allocations, perf, source.node());
    agent.roster.describe(&first?.topologies);

    let (listener, address) = listen(http.listen, "--listen").await?;
    let (probe_listener, probes) = listen(http.probe_listen, "--probe-listen").await?;
    info!(version = env!("CARGO_PKG_VERSION"), %address, %probes, nodes = agent.roster.names().len(), "started");

    let leases = leases::Settings {
        namespace: cluster.lease_namespace.clone(),
        seconds: cluster.lease_seconds,
        renew_every: cluster.renew_every(),
    };
    let lease_api = Api::namespaced(client.clone(), &cluster.lease_namespace);
    // Shutdown may abandon writes in flight: each is atomic, and the next agent reads before it writes.
    tokio::select! {
        signal = stopped.wait() => info!(signal, "stopping; the published NodeTopologies are kept"),
        why = agent.outdated() => info!("stopping: {why}; a restarted agent loads the new library"),
        never = controller::run(client.clone(), agent.clone(), caches, source, problems) => match never {},
        never = follow_pods(client.clone(), kubelet.pod_resources, &agent) => match never {},
        never = serve_domains(plugin, &agent) => match never {},
        never = leases::run(lease_api, leases, agent.clone()) => match never {},
        never = serving::serve(listener, http::pages(agent.clone())) => match never {},
        never = serving::serve(probe_listener, http::probes(agent.clone())) => match never {},
    }
    Ok(())
}

/// Binds the address of a flag, and returns it with the actual port.
async fn listen(address: SocketAddr, flag: &'static str) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { address, flag, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Follows the pods of the agent's own node: allocations and CPU counters. Never returns.
async fn follow_pods(client: Client, socket: Option<PathBuf>, agent: &Agent) -> Infallible {
    if socket.is_none() {
        let message = "not enabled: set --pod-resources to the kubelet's socket";
        agent.metrics.record_collector(allocations::COLLECTOR, CollectorState::Absent, message);
    }
    let is_enabled = socket.is_some() || agent.perf.is_some();
    let Some(node) = agent.allocations.node().filter(|_| is_enabled) else {
        return std::future::pending().await;
    };
    let (pods, writer) = store();
    let list = async {
        let Some(socket) = socket else { return std::future::pending().await };
        let kubelet = Kubelet::new(socket);
        allocations::poll(&agent.allocations, &agent.metrics, kubelet, pods.clone(), POLL_INTERVAL).await
    };
    let count = async {
        let Some(perf) = &agent.perf else { return std::future::pending().await };
        perf.run(&pods, &agent.metrics).await
    };
    tokio::select! {
        never = pods::watch(client, node, writer) => never,
        never = list => never,
        never = count => never,
    }
}

/// Offers the NUMA domains of the agent's own node to the kubelet. Never returns.
async fn serve_domains(plugin: Option<Plugin>, agent: &Agent) -> Infallible {
    let Some((plugin, node)) = plugin.zip(agent.allocations.node()) else {
        let message = "not enabled: set --device-plugins to the kubelet's folder";
        agent.metrics.record_collector(device_plugin::COLLECTOR, CollectorState::Absent, message);
        return std::future::pending().await;
    };
    let topology = || agent.roster.topologies().remove(node);
    plugin.run(topology, &agent.metrics, device_plugin::CHECK_INTERVAL).await
}

/// The source that the flags select.
fn choose_source(args: SourceArgs) -> Result<Box<dyn Source>, StartError> {
    if let Some(path) = args.simulate {
        return Ok(Box::new(Described::new(path)));
    }
    let node = args.node_name.filter(|name| !name.is_empty()).ok_or(StartError::NoNode)?;
    Ok(Box::new(Machine::new(node, args.topology_file, args.nvml_library, args.network_root)))
}

fn set_up_log(args: &LogArgs) -> Result<(), StartError> {
    // The agent logs errors such as lost connections itself, so those of the libraries are suppressed.
    let filter = format!("kube_client=off,kube_runtime=error,{}", args.log_level);
    let filter = EnvFilter::builder().parse(filter)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(io::stderr);
    match args.log_format {
        LogFormat::Text => log.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// The signals that stop the agent.
struct Stopped {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stopped {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
