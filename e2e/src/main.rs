//! `cairn-e2e`: builds the tools, holds a control plane, keeps processes, shows the product.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::{
    bench, beside, binaries, chaos, control_plane, demo, footprint, gpus, keeper, planning, real_nodes,
    release, scale, upgrade,
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
    /// Build the tools that are not in the cache, and print where each one is.
    Binaries {
        /// Also those of real nodes.
        #[arg(long)]
        real_nodes: bool,
    },
    /// Start a control plane, print it as one line of JSON, and hold it until stdin closes or Ctrl-C.
    Up {
        /// How many nodes with a kubelet and containerd it has; they need root.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        real_nodes: usize,
    },
    /// Write the images of operator and node agent, made of the programs that were built, as OCI archives.
    Images {
        /// The folder for them.
        #[arg(long, default_value = "images")]
        out: PathBuf,
        /// What comes before the program's name in an image's.
        #[arg(long, default_value = "registry.local")]
        registry: String,
        /// What comes after it.
        #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
        tag: String,
    },
    /// Show the product: install it, place an application, take a node away, and say what happened and why.
    Demo {
        /// Keep everything running until Ctrl-C, and say how to look around.
        #[arg(long, env = "DEMO_HOLD", value_parser = clap::builder::FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
        hold: bool,
    },
    /// Measure how fast applications are placed and bound, with how much memory and how many writes.
    Bench {
        /// How many applications, applied at once.
        #[arg(long, default_value_t = bench::Size::FULL.applications)]
        applications: usize,
        /// How many actors each has.
        #[arg(long, default_value_t = bench::Size::FULL.actors)]
        actors: usize,
        /// How many nodes of four cores there are.
        #[arg(long, default_value_t = bench::Size::FULL.nodes)]
        nodes: usize,
        /// The commit that is measured; what was measured at it already is not measured again.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for e2e.md and e2e.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure a thousand applications on a thousand nodes: until all is bound, while strangers come and go, and after a change.
    Scale {
        /// How many applications of ten actors, applied at once.
        #[arg(long, default_value_t = scale::Size::FULL.applications)]
        applications: usize,
        /// How many nodes of eight cores there are.
        #[arg(long, default_value_t = scale::Size::FULL.nodes)]
        nodes: usize,
        /// How long foreign pods come and go.
        #[arg(long, default_value_t = scale::Size::FULL.minutes)]
        minutes: u64,
        /// The commit that is measured; what was measured at it already is not measured again.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for scale.md and scale.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure how fast pods are bound by way of the operator and by kube-scheduler alone, in turn.
    Beside {
        /// How many runs of each.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// The commit that is measured; runs that were made at it already are not made again.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for beside.md and beside.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Kill and stop the operator that leads at random moments, and read in the audit log what came of it.
    Chaos {
        /// How many batches, each with a control plane and a seed of its own.
        #[arg(long, default_value_t = 10)]
        batches: u64,
        /// How often the leader is killed in each, and how often it is stopped.
        #[arg(long, default_value_t = chaos::Size::FULL.strikes)]
        strikes: usize,
        /// How many nodes of four cores there are.
        #[arg(long, default_value_t = chaos::Size::FULL.nodes)]
        nodes: usize,
        /// How many actors each of ten applications has at most.
        #[arg(long, default_value_t = chaos::Size::FULL.actors)]
        actors: u32,
        /// The commit that is measured; a batch that was run at it already is not run again.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for chaos.md and chaos.json [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Upgrade an older release that runs applications to the one of this tree, and go back: no actor is started anew.
    Upgrade {
        /// The source tree of the older release.
        #[arg(long)]
        older: PathBuf,
        /// The folder of its programs.
        #[arg(long)]
        programs: PathBuf,
        /// What it is called in the results, its commit for example.
        #[arg(long)]
        name: String,
        /// The commit of this tree.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for upgrade.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure how long the command line takes to plan small worlds, and how much memory.
    Planning {
        /// The commit that is measured.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for planning.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Measure what a node agent costs: memory, processor time, scrapes, beside prometheus-node-exporter.
    Footprint {
        /// A minute instead of a quarter of an hour, with a scrape every 100 ms.
        #[arg(long)]
        short: bool,
        /// Ten minutes, or a minute, of nothing but GPUs that are lost and come back, and pods that end and start: what stays of it.
        #[arg(long)]
        trouble: bool,
        /// The commit that is measured.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for node-agent/footprint.md or trouble.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Compare what a node agent says of this machine's GPUs with what nvidia-smi says of them.
    Gpus {
        /// How long to let the GPUs count energy between the two moments that are compared.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The commit that is measured.
        #[arg(long, env = "CAIRN_COMMIT", default_value = "unknown")]
        commit: String,
        /// The folder for node-agent/gpus.md [default: docs/results of the source tree]
        #[arg(long)]
        results: Option<PathBuf>,
    },
    /// Run a program until it ends, obey signals named on stdin, and stop it when stdin closes.
    #[command(hide = true)]
    Keep {
        /// The file for what the program prints.
        #[arg(long)]
        log: PathBuf,
        /// The program.
        program: PathBuf,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Make namespaces, be a node in them until stdin closes, and remove what is left of it.
    #[command(hide = true)]
    Node {
        /// The name of its cgroups.
        cgroup: String,
    },
    /// Be the first process in the namespaces of a node.
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
    /// Become a program that the kernel kills when the process PARENT dies.
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

// one thread: the kernel ties children to the thread that started them
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
            Ok(())
        }
        Command::Images { out, registry, tag } => {
            print!("{}", release::make(&out, &registry, &tag)?);
            Ok(())
        }
        Command::Up { real_nodes } => control_plane::up(real_nodes).await,
        Command::Planning { commit, results } => {
            planning::run(&commit, &results.unwrap_or_else(bench::results))
        }
        Command::Bench { applications, actors, nodes, commit, results } => {
            let size = bench::Size { applications, actors, nodes };
            bench::run(size, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Scale { applications, nodes, minutes, commit, results } => {
            let size = scale::Size { applications, nodes, minutes };
            scale::run(size, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Beside { runs, commit, results } => {
            beside::run(runs, &commit, &results.unwrap_or_else(bench::results)).await
        }
        Command::Chaos { batches, strikes, nodes, actors, commit, results } => {
            let size = chaos::Size { nodes, actors, strikes, ..chaos::Size::FULL };
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
                (true, _) => footprint::Pace::SHORT,
                (false, true) => footprint::Pace::TROUBLE,
                (false, false) => footprint::Pace::FULL,
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
