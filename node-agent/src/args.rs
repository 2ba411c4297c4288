//! Command-line flags, each with an environment variable.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

/// Publishes the devices of a node as its NodeTopology, with a Lease and metrics.
///
/// Probes the hardware of the node that it runs on, or serves described machines.
#[derive(Debug, Parser)]
#[command(name = "cairn-node-agent", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// A subcommand instead of the agent.
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

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prints the topology of this machine, or of a described one, without a cluster.
    Topology(TopologyArgs),
    /// Probes with hwloc for the agent; request and response are JSON on standard input and output.
    #[command(name = crate::hardware::PROBE_HWLOC, hide = true)]
    ProbeHwloc,
    /// Probes with OpenCL for the agent; the response is JSON on standard output.
    #[command(name = crate::hardware::PROBE_OPENCL, hide = true)]
    ProbeOpencl,
    /// Tries NVML for the agent; request and response are JSON on standard input and output.
    #[command(name = crate::hardware::PROBE_NVML, hide = true)]
    ProbeNvml,
}

/// What to print, and how.
#[derive(Debug, clap::Args)]
pub struct TopologyArgs {
    /// The output format: a table, a NodeTopology manifest, or HiCR's JSON.
    #[arg(short, long, value_enum, default_value_t = Form::Tree)]
    pub output: Form,

    /// Adds current device readings to the table.
    #[arg(long)]
    pub counters: bool,

    /// Prints again on every change, until interrupted.
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub source: SourceArgs,
}

/// The output formats of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table.
    Tree,
    /// A NodeTopology manifest.
    Yaml,
    /// HiCR's JSON, for HiCR programs.
    Hicr,
}

/// The source of topologies.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Machines")]
pub struct SourceArgs {
    /// A file of NodeTopology manifests, or a folder of such files.
    ///
    /// The metadata.name of each is the name of its node. Changes are published immediately.
    #[arg(long, env = "CAIRN_SIMULATE", value_name = "FILE|DIR")]
    pub simulate: Option<PathBuf>,

    /// A machine described in hwloc's format instead of the local one.
    ///
    /// XML, as `lstopo FILE.xml` writes it, or one line such as `package:2 numa:1(memory=64GiB) core:16 pu:2`.
    /// To probe a copy of another machine's /sys and /proc, set `HWLOC_FSROOT` to its folder.
    #[arg(long, env = "CAIRN_TOPOLOGY_FILE", value_name = "FILE", conflicts_with = "simulate")]
    pub topology_file: Option<PathBuf>,

    /// The path of NVML, if the system's loader does not find it.
    ///
    /// With --topology-file, NVML is used only if this is given.
    #[arg(long, env = "CAIRN_NVML_LIBRARY", value_name = "FILE")]
    pub nvml_library: Option<PathBuf>,

    /// The folder in which the host's /sys/class/net and /sys/devices are mounted, such as /host.
    ///
    /// The /sys of a container has only the interfaces of its own network namespace.
    #[arg(long, env = "CAIRN_NETWORK_ROOT", value_name = "DIR", conflicts_with = "topology_file")]
    pub network_root: Option<PathBuf>,

    /// The node that the agent runs on; machines described by --simulate name their nodes themselves.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
}

/// Liveness of the agent.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leases")]
pub struct ClusterArgs {
    /// The namespace of the Leases cairn-agent-NODE, which contains no other Leases.
    #[arg(long, env = "CAIRN_LEASE_NAMESPACE", value_name = "NAMESPACE", default_value = "cairn-agents",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub lease_namespace: String,

    /// The duration of a Lease in seconds; it is renewed three times as often.
    #[arg(long, env = "CAIRN_LEASE_SECONDS", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(i32).range(3..=3600))]
    pub lease_seconds: i32,
}

impl ClusterArgs {
    /// The renewal interval of a Lease: two renewals may fail before it expires.
    pub fn renew_every(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_seconds.unsigned_abs())) / 3
    }
}

/// Observation of pods.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pods of the node")]
pub struct KubeletArgs {
    /// The kubelet's PodResources socket, such as
    /// /var/lib/kubelet/pod-resources/kubelet.sock.
    #[arg(long, env = "CAIRN_POD_RESOURCES", value_name = "SOCKET", requires = "node_name")]
    pub pod_resources: Option<PathBuf>,

    /// The kubelet's folder of device plugins, such as
    /// /var/lib/kubelet/device-plugins.
    ///
    /// Offers each NUMA domain of the node as the resource cairn.dev/numa-N, for pools with unit `NumaDomain`.
    #[arg(long, env = "CAIRN_DEVICE_PLUGINS", value_name = "DIR", requires = "node_name",
          conflicts_with_all = ["simulate", "topology_file"])]
    pub device_plugins: Option<PathBuf>,

    /// The number of devices of each resource cairn.dev/numa-N: how many actors a NUMA domain can have.
    #[arg(long, env = "CAIRN_NUMA_SLOTS", value_name = "COUNT", default_value_t = 110,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub numa_slots: u32,

    /// Counts CPU time, context switches, cycles, instructions and cache misses of actors' pods.
    ///
    /// Requires cgroup v2 and the capability PERFMON.
    #[arg(long, env = "CAIRN_PERF", requires = "node_name")]
    pub perf: bool,

    /// The root of the cgroup v2 hierarchy that contains the kubelet's kubepods.
    #[arg(long, env = "CAIRN_CGROUP_ROOT", value_name = "DIR", default_value = "/sys/fs/cgroup")]
    pub cgroup_root: PathBuf,
}

/// HTTP endpoints.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Probes and metrics")]
pub struct HttpArgs {
    /// The address of /metrics, /collectors and /topology; port 0 selects a free one, which is logged.
    #[arg(long, env = "CAIRN_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:9101")]
    pub listen: SocketAddr,

    /// The address of /healthz and /readyz, separate from scrapes; port 0 selects a free one, which is logged.
    #[arg(long, env = "CAIRN_PROBE_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:9102")]
    pub probe_listen: SocketAddr,
}

/// Logging.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// The log level or filter: error, warn, info, debug, trace, or for example `info,kube_client=debug`.
    #[arg(long, env = "CAIRN_LOG_LEVEL", value_name = "FILTER", default_value = "info")]
    pub log_level: String,

    /// The log format.
    #[arg(long, env = "CAIRN_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The formats of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A plain line.
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
