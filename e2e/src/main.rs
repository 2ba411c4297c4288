//! `cairn-e2e`: builds the tools, runs control planes and processes, and contains demo and benchmarks.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::{
    bench, binaries, chaos,
    control_plane::{self, RealNodes},
    demo, demo_loop, footprint, gpus, keeper, planning, real_nodes, release, scale, upgrade,
    versus_kube_scheduler,
};

/// A real Kubernetes on loopback, for the end-to-end tests and the demo.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build missing tools, and print their paths.
    Binaries {
        /// Also those of real nodes, and Prometheus.
        #[arg(long)]
        real_nodes: bool,
    },
    /// Start a control plane, print it as one line of JSON, and run it until stdin is closed or Ctrl-C.
    Up {
        /// The number of nodes with a kubelet and containerd; they need root.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        real_nodes: usize,
        /// The delay of packets between two of these nodes, in each direction.
        #[arg(long)]
        delay_microseconds: Option<u64>,
        /// Pods of each of these nodes run on one core, each node on another one.
        #[arg(long)]
        one_core: bool,
        /// The Kubernetes version whose APIs and features it has [default: that of the programs]
        #[arg(long, value_name = "MAJOR.MINOR")]
        emulated_version: Option<String>,
    },
    /// Write the images of operator and node agent as OCI archives, from the built programs.
    Images {
        /// The folder for them.
        #[arg(long, default_value = "images")]
        out: PathBuf,
        /// The registry and path before the program's name.
        #[arg(long, default_value = "registry.local")]
        registry: String,
        /// The tag.
        #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
        tag: String,
    },
    /// Demonstrate the product: install it, place an application, delete a node, and explain the moves.
    Demo {
        /// Keep everything running until Ctrl-C, and print how to access it.
        #[arg(long, env = "DEMO_HOLD", value_parser = clap::builder::FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
        hold: bool,
    },
    /// Demonstrate the loop: actors whose hot pair changes on two real nodes, with and without moves for measured load.
    DemoLoop {
        /// The number of phases, each with another hot pair.
        #[arg(long, default_value_t = 5)]
        phases: usize,
        /// The measured commit.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for the figures, demo-loop.md, and the output, demo-loop.txt; nothing is written without it.
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure how fast applications are placed and bound, with which memory and how many writes.
    Bench {
        /// The number of applications, applied at once.
        #[arg(long, default_value_t = bench::BenchSize::FULL.applications)]
        applications: usize,
        /// The number of actors per application.
        #[arg(long, default_value_t = bench::BenchSize::FULL.actors)]
        actors: usize,
        /// The number of nodes with four cores.
        #[arg(long, default_value_t = bench::BenchSize::FULL.nodes)]
        nodes: usize,
        /// The measured commit; its existing results are kept.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for e2e.md and e2e.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure a thousand applications on a thousand nodes: until all pods are bound, under churn, and after a change.
    Scale {
        /// The number of applications with ten actors, applied at once.
        #[arg(long, default_value_t = scale::ScaleSize::FULL.applications)]
        applications: usize,
        /// The number of nodes with eight cores.
        #[arg(long, default_value_t = scale::ScaleSize::FULL.nodes)]
        nodes: usize,
        /// The duration of the churn.
        #[arg(long, default_value_t = scale::ScaleSize::FULL.minutes)]
        minutes: u64,
        /// The measured commit; its existing results are kept.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for scale.md and scale.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Compare how fast pods are bound through the operator and by kube-scheduler alone.
    Beside {
        /// The number of runs of each.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// The measured commit; its existing runs are kept.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for beside.md and beside.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Kill and stop the leading operator at random moments, and check the audit log for violations.
    Chaos {
        /// The number of batches, each with its own control plane and seed.
        #[arg(long, default_value_t = 10)]
        batches: u64,
        /// How often the leader is killed, and how often it is stopped, per batch.
        #[arg(long, default_value_t = chaos::ChaosSize::FULL.strikes)]
        strikes: usize,
        /// The number of nodes with four cores.
        #[arg(long, default_value_t = chaos::ChaosSize::FULL.nodes)]
        nodes: usize,
        /// The maximum number of actors of each of ten applications.
        #[arg(long, default_value_t = chaos::ChaosSize::FULL.actors)]
        actors: u32,
        /// The measured commit; its existing batches are kept.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for chaos.md and chaos.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Upgrade an older release with running applications to this tree, and roll back: no actor is restarted.
    Upgrade {
        /// The source tree of the older release.
        #[arg(long)]
        older: PathBuf,
        /// The folder of its programs.
        #[arg(long)]
        programs: PathBuf,
        /// Its name in the results, for example its commit.
        #[arg(long)]
        name: String,
        /// The commit of this tree.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for upgrade.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure time and memory of the command line for small instances.
    Planning {
        /// The measured commit.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for planning.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure the cost of a node agent: memory, CPU time and scrapes, compared with prometheus-node-exporter.
    Footprint {
        /// One minute instead of a quarter of an hour, with a scrape every 100 ms.
        #[arg(long)]
        short: bool,
        /// Ten minutes, or one minute, of device and pod churn only, to find leaks.
        #[arg(long)]
        trouble: bool,
        /// The measured commit.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for node-agent/footprint.md or trouble.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Compare a node agent's values of this machine's GPUs with those of nvidia-smi.
    Gpus {
        /// The time between the two compared moments, during which the GPUs count energy.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The measured commit.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for node-agent/gpus.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Run a program until it ends, send it the signals ordered on stdin, and stop it when stdin is closed.
    #[command(hide = true)]
    Keep {
        /// The file for the program's output.
        #[arg(long)]
        log: PathBuf,
        /// The program.
        program: PathBuf,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Create namespaces, run a node in them until stdin is closed, and clean up.
    #[command(hide = true)]
    Node {
        /// The name of its cgroups.
        cgroup: String,
    },
    /// Run as the first process in the namespaces of a node.
    #[command(hide = true)]
    NodeFirst {
        /// The name of its cgroups.
        cgroup: String,
    },
    /// Run containerd and the kubelet of a node, in its namespaces.
    #[command(hide = true)]
    NodeRun {
        /// The name of its cgroups.
        cgroup: String,
    },
    /// Execute a program that the kernel kills when the process PARENT dies.
    #[command(hide = true)]
    DieWithParent {
        /// The process id of the caller.
        parent: i32,
        /// The program.
        program: OsString,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

// single-threaded: the kernel ties children to the thread that started them
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Binaries { real_nodes } => {
            for (name, path) in binaries::ensure(real_nodes).await?.iter() {
                println!("{name:<24} {}", path.display());
            }
            if real_nodes {
                // What runs on real nodes is measured; samples of a test would be old after a build.
                binaries::ensure_prometheus().await?;
            }
            Ok(())
        }
        Command::Images { out, registry, tag } => {
            print!("{}", release::make(&out, &registry, &tag)?);
            Ok(())
        }
        Command::Up { real_nodes, delay_microseconds, one_core, emulated_version } => {
            let delay = delay_microseconds.map(Duration::from_micros);
            control_plane::up(RealNodes { count: real_nodes, delay, one_core }, emulated_version).await
        }
        Command::Planning { commit, results } => {
            planning::run(&commit, &results.unwrap_or_else(bench::results))
        }
        Command::Bench { applications, actors, nodes, commit, results } => {
            let size = bench::BenchSize { applications, actors, nodes };
            bench::run(size, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Scale { applications, nodes, minutes, commit, results } => {
            let size = scale::ScaleSize { applications, nodes, minutes };
            scale::run(size, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Beside { runs, commit, results } => {
            versus_kube_scheduler::run(runs, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Chaos { batches, strikes, nodes, actors, commit, results } => {
            let size = chaos::ChaosSize { nodes, actors, strikes, ..chaos::ChaosSize::FULL };
            chaos::run(size, batches, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Upgrade { older, programs, name, commit, results } => {
            let older = upgrade::Release { name, tree: older, programs };
            let newer = upgrade::Release::of_this_tree(&commit)?;
            upgrade::run(&older, &newer, &results.unwrap_or_else(bench::results)).await
        }
        Command::Footprint { short, trouble, commit, results } => {
            let results = results.unwrap_or_else(bench::results);
            let pace = match (short, trouble) {
                (true, _) => footprint::ScrapePlan::SHORT,
                (false, true) => footprint::ScrapePlan::TROUBLE,
                (false, false) => footprint::ScrapePlan::FULL,
            };
            if trouble {
                footprint::trouble(pace, &commit, &results).await
            } else {
                footprint::run(pace, &commit, &results).await
            }
        }
        Command::Gpus { seconds, commit, results } => {
            gpus::run(Duration::from_secs(seconds), &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::DemoLoop { phases, commit, results } => {
            demo_loop::run(phases, &commit, results.as_deref()).await
        }
        Command::Demo { hold } => demo::run(hold).await,
        Command::Keep { log, program, arguments } => keeper::keep(&log, &program, &arguments).await,
        Command::Node { cgroup } => real_nodes::become_node(&cgroup),
        Command::NodeFirst { cgroup } => real_nodes::first_process(&cgroup),
        Command::NodeRun { cgroup } => real_nodes::run(&cgroup).await,
        Command::DieWithParent { parent, program, arguments } => {
            keeper::die_with_parent(parent, &program, &arguments)
        }
    }
}
