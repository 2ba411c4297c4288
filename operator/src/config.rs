//! What the operator is told: flags, each with an environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

/// Places actor applications onto the devices of a cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "cairn-operator", version, about)]
pub struct Config {
    #[command(flatten)]
    pub planning: Planning,
    #[command(flatten)]
    pub election: Election,
    #[command(flatten)]
    pub serving: Serving,
    #[command(flatten)]
    pub logging: Logging,
}

/// How decisions are made.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Planning")]
pub struct Planning {
    /// The policy of applications that name none
    #[arg(long, env = "CAIRN_DEFAULT_POLICY", default_value = "throughput")]
    pub default_policy: String,

    /// The seed that decides between equals
    #[arg(long, env = "CAIRN_SEED", default_value_t = 1)]
    pub seed: u64,

    /// How many plans may be searched at the same time [default: one per core]
    #[arg(long, env = "CAIRN_SOLVER_SLOTS")]
    pub solver_slots: Option<usize>,

    /// The longest that a refusal of scheduler, kubelet or admission counts, in seconds: from 10 on, twice as long each time
    #[arg(long, env = "CAIRN_REFUSAL_SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub refusal_seconds: u32,

    /// How long a unit that somebody is on must not have been offered before it is gone, in seconds
    #[arg(long, env = "CAIRN_UNIT_GRACE_SECONDS", default_value_t = 30)]
    pub unit_grace_seconds: u32,

    /// The namespace of the node agents' Leases; without it no agent is taken for silent
    #[arg(long, env = "CAIRN_AGENT_NAMESPACE", value_name = "NAMESPACE")]
    pub agent_namespace: Option<String>,
}

impl Planning {
    pub fn unit_grace(&self) -> Duration {
        Duration::from_secs(self.unit_grace_seconds.into())
    }

    /// How many plans may be searched at the same time.
    pub fn slots(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.solver_slots.unwrap_or_else(cores).max(1)
    }
}

/// Who of several operators decides.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct Election {
    /// Whether to hold a Lease before anything is written
    #[arg(long, env = "CAIRN_LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// The namespace of the operator: its Lease and the policies are there
    #[arg(long, env = "POD_NAMESPACE", default_value = "cairn-system")]
    pub namespace: String,

    /// The name by which this operator holds the Lease
    #[arg(long, env = "POD_NAME", default_value = "cairn-operator")]
    pub identity: String,

    /// The account that it runs as: a Lease that was deleted is made again and goes with it
    #[arg(long, env = "POD_SERVICE_ACCOUNT")]
    pub service_account: Option<String>,

    /// How long the Lease is valid without being renewed, in seconds
    #[arg(long, env = "CAIRN_LEASE_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..))]
    pub lease_seconds: u32,
}

impl Election {
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.lease_seconds.into())
    }

    /// When writes stop if the Lease could not be renewed: a fifth of its duration before anybody else can take it, in which what
    /// was sent last arrives. With 15 s that leaves two answers of 5 s each, and some more, to who renews it.
    pub fn deadline(&self) -> Duration {
        self.duration() * 4 / 5
    }

    /// The election turns more often than this, or it is stuck.
    pub fn stall_limit(&self) -> Duration {
        self.duration() * 4
    }

    pub fn retry(&self) -> Duration {
        self.duration() * 2 / 15
    }
}

/// Where it answers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Serving")]
pub struct Serving {
    /// Address of /metrics
    #[arg(long, env = "CAIRN_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,

    /// Address of /healthz and /readyz, which scrapes cannot occupy
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

/// What it says of itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct Logging {
    /// What is logged, as in `info` or `cairn_operator=debug,kube=warn`
    #[arg(long, env = "CAIRN_LOG", default_value = "info")]
    pub log: String,

    /// The form of the log
    #[arg(long, env = "CAIRN_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Config::command().debug_assert();
    }

    #[test]
    fn snapshots_stay_on_the_machine() {
        assert!(loopback("127.0.0.1:0").is_ok());
        assert!(loopback("0.0.0.0:8081").unwrap_err().contains("use a loopback address"));
    }
}
