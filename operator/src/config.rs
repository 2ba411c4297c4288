//! Command line flags, each with an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

/// Places actor applications onto the devices of a cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "cairn-operator", version, about)]
pub struct Config {
    #[command(flatten)]
    pub planning: Planning,
    #[command(flatten)]
    pub counters: CounterSource,
    #[command(flatten)]
    pub election: Election,
    #[command(flatten)]
    pub serving: Serving,
    #[command(flatten)]
    pub logging: Logging,
}

/// Planning flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Planning")]
pub struct Planning {
    /// Default policy of applications that name none
    #[arg(long, env = "CAIRN_DEFAULT_POLICY", default_value = "throughput")]
    pub default_policy: String,

    /// Random seed for tie-breaks
    #[arg(long, env = "CAIRN_SEED", default_value_t = 1)]
    pub seed: u64,

    /// Maximum number of concurrent searches [default: one per core]
    #[arg(long, env = "CAIRN_SOLVER_SLOTS")]
    pub solver_slots: Option<usize>,

    /// Longest time in seconds that a refusal by scheduler, kubelet or admission counts; it starts at 10 and doubles each time
    #[arg(long, env = "CAIRN_REFUSAL_SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub refusal_seconds: u32,

    /// Seconds after which a unit in use that is no longer offered counts as gone
    #[arg(long, env = "CAIRN_UNIT_GRACE_SECONDS", default_value_t = 30)]
    pub unit_grace_seconds: u32,

    /// Namespace of the node agents' Leases; without it every agent counts as alive
    #[arg(long, env = "CAIRN_AGENT_NAMESPACE", value_name = "NAMESPACE")]
    pub agent_namespace: Option<String>,

    /// The API server has the admission plugin `ExtendedResourceToleration`: pods tolerate taints with the names of the resources
    /// that they request
    #[arg(long, env = "CAIRN_EXTENDED_RESOURCE_TOLERATION")]
    pub extended_resource_toleration: bool,
}

impl Planning {
    pub fn unit_grace(&self) -> Duration {
        Duration::from_secs(self.unit_grace_seconds.into())
    }

    /// Maximum number of concurrent searches.
    pub fn slots(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.solver_slots.unwrap_or_else(cores).max(1)
    }
}

/// Flags about the counters of applications.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Counters of applications")]
pub struct CounterSource {
    /// URL of the Prometheus that scrapes the actors; without it no counters are read
    #[arg(long, env = "CAIRN_PROMETHEUS_URL", value_name = "URL")]
    pub prometheus_url: Option<String>,

    /// File with a bearer token for Prometheus; it is read for each query
    #[arg(long, env = "CAIRN_PROMETHEUS_TOKEN_FILE", value_name = "FILE")]
    pub prometheus_token_file: Option<PathBuf>,

    /// File with the certificates, in PEM, that sign the one of Prometheus [default: those of the system]
    #[arg(long, env = "CAIRN_PROMETHEUS_CA_FILE", value_name = "FILE")]
    pub prometheus_ca_file: Option<PathBuf>,

    /// Label matchers that select the scrapes of actors
    #[arg(
        long,
        env = "CAIRN_COUNTERS_SELECTOR",
        value_name = "MATCHERS",
        default_value = "job=~\".*cairn-actors\""
    )]
    pub counters_selector: String,
}

/// Leader election flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct Election {
    /// Whether to hold a Lease before writing anything
    #[arg(long, env = "CAIRN_LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Namespace of the operator, with its Lease and the policies
    #[arg(long, env = "POD_NAMESPACE", default_value = "cairn-system")]
    pub namespace: String,

    /// Identity with which this replica holds the Lease
    #[arg(long, env = "POD_NAME", default_value = "cairn-operator")]
    pub identity: String,

    /// Service account of the operator; it owns a Lease that is recreated after a deletion
    #[arg(long, env = "POD_SERVICE_ACCOUNT")]
    pub service_account: Option<String>,

    /// Lease duration in seconds
    #[arg(long, env = "CAIRN_LEASE_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..))]
    pub lease_seconds: u32,
}

impl Election {
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.lease_seconds.into())
    }

    /// When writes stop if the Lease cannot be renewed. The remaining fifth of the duration lets the last requests arrive
    /// before another replica can take it.
    pub fn deadline(&self) -> Duration {
        self.duration() * 4 / 5
    }

    /// An election loop without a heartbeat for this long is stuck.
    pub fn stall_limit(&self) -> Duration {
        self.duration() * 4
    }

    pub fn retry(&self) -> Duration {
        self.duration() * 2 / 15
    }
}

/// HTTP server flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Serving")]
pub struct Serving {
    /// Address of /metrics
    #[arg(long, env = "CAIRN_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,

    /// Address of /healthz and /readyz; scrapes cannot exhaust its connections
    #[arg(long, env = "CAIRN_PROBE_LISTEN", default_value = "0.0.0.0:8082")]
    pub probe_listen: SocketAddr,

    /// Address of /debug/snapshot/NAMESPACE/NAME; loopback only
    #[arg(long, env = "CAIRN_DEBUG_LISTEN", default_value = "127.0.0.1:8081", value_parser = loopback)]
    pub debug_listen: SocketAddr,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|e| format!("{e}; write ADDRESS:PORT"))?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err("snapshots show the whole cluster; use a loopback address and a port-forward".to_owned())
}

/// Logging flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct Logging {
    /// Log filter, for example `info` or `cairn_operator=debug,kube=warn`
    #[arg(long, env = "CAIRN_LOG", default_value = "info")]
    pub log: String,

    /// Log format
    #[arg(long, env = "CAIRN_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_valid() {
        Config::command().debug_assert();
    }

    #[test]
    fn debug_endpoints_listen_on_loopback_only() {
        assert!(loopback("127.0.0.1:0").is_ok());
        assert!(loopback("0.0.0.0:8081").unwrap_err().contains("use a loopback address"));
    }
}
