//! What the agent is told at its start: flags, each with an environment variable.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

/// Publishes what a node has: its NodeTopology, its Lease, its metrics.
///
/// It looks at the hardware of the node that it runs on, or serves described machines.
#[derive(Debug, Parser)]
#[command(name = "cairn-node-agent", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Something else than being the agent.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub kubelet: KubeletArgs,
    #[command(flatten)]
    pub http: HttpArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

/// What the program can do besides.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prints what this machine has, or a described one, without a cluster.
    Topology(TopologyArgs),
    /// Looks with hwloc, for the agent; question and answer are JSON on standard input and output.
    #[command(name = crate::hardware::PROBE_HWLOC, hide = true)]
    ProbeHwloc,
    /// Looks with OpenCL, for the agent; the answer is JSON on standard output.
    #[command(name = crate::hardware::PROBE_OPENCL, hide = true)]
    ProbeOpencl,
    /// Tries NVIDIA's library, for the agent; question and answer are JSON on standard input and output.
    #[command(name = crate::hardware::PROBE_NVML, hide = true)]
    ProbeNvml,
}

/// What is printed, and how.
#[derive(Debug, clap::Args)]
pub struct TopologyArgs {
    /// The form: for people, as a NodeTopology manifest, or as HiCR's own JSON.
    #[arg(short, long, value_enum, default_value_t = Form::Tree)]
    pub output: Form,

    /// Adds what the devices say about themselves now, to the form for people.
    #[arg(long)]
    pub counters: bool,

    /// Prints it again whenever it changes, until it is stopped.
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// The forms of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Tree,
    /// A NodeTopology manifest.
    Yaml,
    /// HiCR's own JSON, which a HiCR program reads.
    Hicr,
}

/// Where the topologies come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Machines")]
pub struct SourceArgs {
    /// A file of NodeTopology manifests, or a folder of such files.
    ///
    /// metadata.name of each is the name of its node. Changes are published as they are made.
    #[arg(long, env = "CAIRN_SIMULATE", value_name = "FILE|DIR")]
    pub simulate: Option<PathBuf>,

    /// A machine in hwloc's words instead of the one that the agent runs on.
    ///
    /// XML, as `lstopo FILE.xml` writes it, or one line such as `package:2 numa:1(memory=64GiB) core:16 pu:2`.
    /// To look at a copy of another machine's /sys and /proc, set `HWLOC_FSROOT` to the folder where they are.
    #[arg(long, env = "CAIRN_TOPOLOGY_FILE", value_name = "FILE", conflicts_with = "simulate")]
    pub topology_file: Option<PathBuf>,

    /// The library of NVIDIA's driver, where the system's loader does not find it.
    ///
    /// With --topology-file, NVML is asked only if this is given.
    #[arg(long, env = "CAIRN_NVML_LIBRARY", value_name = "FILE")]
    pub nvml_library: Option<PathBuf>,

    /// The node that the agent runs on; machines described by --simulate name their nodes themselves.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
}

/// How the agent shows that it is alive.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leases")]
pub struct ClusterArgs {
    /// The namespace of the Leases cairn-agent-NODE.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "cairn-system",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub lease_namespace: String,

    /// For how long a Lease counts, in seconds; it is renewed three times as often.
    #[arg(long, env = "CAIRN_LEASE_SECONDS", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(i32).range(3..=3600))]
    pub lease_seconds: i32,
}

impl ClusterArgs {
    /// How often a Lease is renewed: two renewals may fail before it expires.
    pub fn renew_every(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_seconds.unsigned_abs())) / 3
    }
}

/// How the agent finds out what pods hold and do.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pods of the node")]
pub struct KubeletArgs {
    /// The socket at which the kubelet tells which pod holds which devices, as in
    /// /var/lib/kubelet/pod-resources/kubelet.sock.
    #[arg(long, env = "CAIRN_POD_RESOURCES", value_name = "SOCKET", requires = "node_name")]
    pub pod_resources: Option<PathBuf>,

    /// Count what the pods of actors do with the CPUs: time, context switches, cycles, instructions, cache misses.
    ///
    /// It needs cgroup v2 and the capability PERFMON.
    #[arg(long, env = "CAIRN_PERF", requires = "node_name")]
    pub perf: bool,

    /// The hierarchy of cgroup v2 in which the kubelet's folder kubepods lies.
    #[arg(long, env = "CAIRN_CGROUP_ROOT", value_name = "DIR", default_value = "/sys/fs/cgroup")]
    pub cgroup_root: PathBuf,
}

/// Where the agent can be asked.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Probes and metrics")]
pub struct HttpArgs {
    /// The address of /metrics, /collectors and /topology; port 0 takes a free one and logs it.
    #[arg(long, env = "CAIRN_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:9101")]
    pub listen: SocketAddr,

    /// The address of /healthz and /readyz, which scrapes cannot occupy; port 0 takes a free one and logs it.
    #[arg(long, env = "CAIRN_PROBE_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:9102")]
    pub probe_listen: SocketAddr,
}

/// How the agent talks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,kube_client=debug`.
    #[arg(long, env = "CAIRN_LOG_LEVEL", value_name = "FILTER", default_value = "info")]
    pub log_level: String,

    /// How it is logged.
    #[arg(long, env = "CAIRN_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The forms of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object per line.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_well_formed_and_have_these_defaults() {
        use clap::CommandFactory;
        Args::command().debug_assert();
        for argument in
            Args::command().get_arguments().filter(|a| a.get_id() != "help" && a.get_id() != "version")
        {
            assert!(argument.get_env().is_some(), "--{} has no environment variable", argument.get_id());
        }
    }

    #[test]
    fn a_lease_is_renewed_three_times_before_it_expires() {
        let args = Args::try_parse_from(["cairn-node-agent", "--lease-seconds", "60"]).unwrap();
        assert_eq!(args.cluster.renew_every(), Duration::from_secs(20));
    }
}
