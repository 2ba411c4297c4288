//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::Timestamp;
use placement::file::Levels;
use world::ApplicationKey;

const EXAMPLES: &str = "\
Examples:
  kubectl cairn status                                   how all applications are
  kubectl cairn status surveillance -n vision            one of them: actors, slots, what is wrong, what to do
  kubectl cairn doctor                                   how Cairn itself is
  kubectl cairn plan                                     what the operator would change now, and why
  kubectl cairn plan -f cluster.yaml -f app.yaml         the same on manifests, without a cluster
  kubectl cairn plan --snapshot world.json -o json       replay a decision
  kubectl cairn explain actorapp surveillance -n vision  why it runs where it runs
  kubectl cairn check-policy rules.lp --snapshot w.json  whether a policy is sound, and what it would change
  kubectl cairn topology node-0                          what a node has
  kubectl cairn topology node-0 -o hicr                  the same as a HiCR program reads it";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  kubectl cairn explain actorapp surveillance -n vision
      For each actor what it would cost to be elsewhere; what is full, and which rule is in the way of a better plan.

  kubectl cairn explain actorapp vision/surveillance --actor crop-0
      One actor, every alternative.

Exit status: 0 everything has a place; 2 something has none, the reasons are printed; 1 anything else.";

const PLAN_EXAMPLES: &str = "\
Examples:
  kubectl cairn plan --application vision/surveillance
      What the operator would change now: a dry run on the cluster of your kubeconfig.

  kubectl get nodes,pods,resourcequotas,limitranges,namespaces,actorapplications,devicepools,nodetopologies,placements,instances,configmaps -A -o yaml \\
    | kubectl cairn plan -f - -f new-application.yaml
      The same on a dump of the cluster, with an application that is not there yet.

  kubectl cairn plan --snapshot world.json --strategy greedy --effort 1000 -o json
      The same bytes on every machine.

Exit status: 0 everything has a place; 2 something has none, the reasons are printed; 1 anything else.";

const CHECK_EXAMPLES: &str = "\
Examples:
  kubectl cairn check-policy rules.lp
      Whether the program says only what a policy may say; faults with line and column.

  kubectl cairn check-policy throughput.yaml --snapshot world.json
      The program of a ConfigMap, what it takes to write it out for this world, and what it would change there.

Exit status: 0 the policy is sound; 1 it is not, or anything else went wrong.";

const WELL: &str = "\
Exit status: 0 all is well; 2 something is wrong, it is printed; 1 anything else.";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  kubectl-cairn completion kubectl > ~/.local/bin/kubectl_complete-cairn && chmod +x ~/.local/bin/kubectl_complete-cairn
      What kubectl asks when `kubectl cairn` is completed; any folder of the PATH will do.

  kubectl-cairn completion bash > /etc/bash_completion.d/kubectl-cairn

  kubectl-cairn completion zsh > \"${fpath[1]}/_kubectl-cairn\"";

/// Says where the actors of Cairn's applications would be placed, and why. Changes nothing.
#[derive(Debug, Parser)]
#[command(name = "kubectl-cairn", bin_name = "kubectl cairn", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a placement and say what would move, and why
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanArguments>),
    /// Say why the actors of an application are where they are, and why some have no place
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArguments>),
    /// Check a policy's program: its faults by line, what it takes, what it would change
    #[command(after_help = CHECK_EXAMPLES)]
    CheckPolicy(Box<CheckArguments>),
    /// Show the devices of a node and the links between them
    Topology(TopologyArguments),
    /// Say how an application is: actors, slots with their devices, what is wrong, what to do
    #[command(after_help = WELL)]
    Status(StatusArguments),
    /// Say how Cairn itself is: operator, agents, devices, pools, policies, rights
    #[command(after_help = WELL)]
    Doctor(DoctorArguments),
    /// Print what kubectl, or a shell, needs to complete these commands
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion {
        /// Who completes them: kubectl those of `kubectl cairn`, with the names in the cluster; a shell those of `kubectl-cairn`
        #[arg(value_enum, value_name = "SHELL")]
        asks: Completes,
    },
}

/// Who completes commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completes {
    /// kubectl, in whichever shell.
    Kubectl,
    /// A shell, without kubectl.
    Shell(Shell),
}

impl ValueEnum for Completes {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Kubectl,
            Self::Shell(Shell::Bash),
            Self::Shell(Shell::Elvish),
            Self::Shell(Shell::Fish),
            Self::Shell(Shell::PowerShell),
            Self::Shell(Shell::Zsh),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Kubectl => Some(PossibleValue::new("kubectl")),
            Self::Shell(shell) => shell.to_possible_value(),
        }
    }
}

/// How `status` is asked.
#[derive(Args, Debug)]
pub struct StatusArguments {
    /// Which application (default: a line for each)
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: Option<String>,
    /// Its namespace (default: that of the kubeconfig's context; without a name: all namespaces)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The applications of all namespaces, as without a name and a namespace
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    pub all_namespaces: bool,
    /// Every actor, every slot and everything that is wrong, also where that is more than a screen
    #[arg(long, requires = "name")]
    pub all: bool,
    /// Manifests instead of a cluster, as `kubectl get -o yaml` dumps them; a folder stands for the manifests in it, - for
    /// standard input
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// How `doctor` is asked.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Where the node agents keep their Leases
    #[arg(long, value_name = "NAME", default_value = "cairn-agents", help_heading = "The cluster")]
    pub agents_namespace: String,
    /// The policy of applications that name none
    #[arg(long, value_name = "NAME", default_value = "throughput")]
    pub default_policy: String,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// How `plan` is asked.
#[derive(Args, Debug)]
pub struct PlanArguments {
    #[command(flatten)]
    pub subject: SubjectArguments,
    #[command(flatten)]
    pub search: SearchArguments,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// How to print it; `snapshot` prints what would be planned from instead, for --snapshot
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Printing")]
    pub output: PlanOutput,
    /// Also say what it would cost each actor to be elsewhere, what is full, and which rules are in the way
    #[arg(long, help_heading = "Printing")]
    pub explain: bool,
}

/// How `explain` is asked.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// What kind of thing
    #[arg(value_enum, value_name = "KIND")]
    pub kind: ExplainedKind,
    /// Which one
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: String,
    /// Its namespace (default: that of the kubeconfig's context)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only this actor, with every alternative
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Manifests instead of a cluster, as for `plan`
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1.., id = "files")]
    pub files: Vec<PathBuf>,
    /// The policy of applications that name none
    #[arg(long, value_name = "NAME", default_value = "throughput")]
    pub default_policy: String,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Printing")]
    pub output: Output,
}

/// What can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainedKind {
    /// An application
    #[value(aliases = ["actorapplication", "actorapplications"])]
    Actorapp,
}

impl ExplainArguments {
    /// The same application, asked as `plan` asks.
    pub fn as_plan(&self, application: ApplicationKey) -> PlanArguments {
        PlanArguments {
            subject: SubjectArguments {
                snapshot: None,
                files: self.files.clone(),
                application: Some(application),
                now: None,
                default_policy: self.default_policy.clone(),
            },
            search: SearchArguments { seed: 1, ..SearchArguments::default() },
            cluster: self.cluster.clone(),
            output: PlanOutput::default(),
            explain: true,
        }
    }
}

/// What is planned.
#[derive(Args, Debug)]
#[command(next_help_heading = "What is planned (default: what runs on the cluster)")]
pub struct SubjectArguments {
    /// A snapshot file, as the operator's /debug/snapshot gives it, or a gzip of one; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "application", "now"])]
    pub snapshot: Option<PathBuf>,
    /// Manifests instead of a cluster, nodes included, as `kubectl get -o yaml` dumps them; a folder stands for the
    /// manifests in it, - for standard input
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1.., id = "files")]
    pub files: Vec<PathBuf>,
    /// Only this application (default: all of them, by name, each seeing those before it)
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub application: Option<ApplicationKey>,
    /// The time that refusals are judged at (default: the newest timestamp in the files)
    #[arg(long, value_name = "TIME", requires = "files")]
    pub now: Option<Timestamp>,
    /// The policy of applications that name none
    #[arg(long, value_name = "NAME", default_value = "throughput")]
    pub default_policy: String,
}

/// How it is searched.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "How it is searched (default: as the policy says)")]
pub struct SearchArguments {
    /// The strategy; `list` prints them with one line each
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Wall clock for one plan, such as 5s or 500ms (default: 2s, and none with --effort)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Pieces of work that may be finished; with the same seed the answer is the same on every machine
    #[arg(long, value_name = "N")]
    pub effort: Option<u64>,
    /// Decides between equals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A policy: its ConfigMap, or the policy.yaml or program.lp in it, in place of what the application or the snapshot names
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Levels of criteria, the most important first, as in overload,communication+migration,annoyance; or adaptive
    #[arg(long, value_name = "LEVELS")]
    pub objectives: Option<Levels>,
}

/// Which cluster is asked.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The cluster")]
pub struct ClusterArguments {
    /// The kubeconfig (default: as kubectl finds it)
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Where the operator runs; policies are read there
    #[arg(long, value_name = "NAME", default_value = "cairn-system")]
    pub operator_namespace: String,
}

/// How `check-policy` is asked.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// A program (.lp), or the ConfigMap that holds one as program.lp; - is standard input
    pub policy: PathBuf,
    /// A snapshot file, or a gzip of one: the program is written out for it, and planned with and without
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// The strategy of both plans
    #[arg(long, value_name = "NAME", default_value = "asp")]
    pub strategy: String,
    /// Wall clock for one plan; what the program may take is measured against it
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Pieces of work of one plan; with the same seed the answers are the same on every machine
    #[arg(long, value_name = "N")]
    pub effort: Option<u64>,
    /// Decides between equals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// How `topology` is asked.
#[derive(Args, Debug)]
pub struct TopologyArguments {
    /// The node
    pub node: String,
    /// Manifests instead of a cluster; a folder stands for the manifests in it, - for standard input
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: TopologyOutput,
}

/// How a topology is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopologyOutput {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Yaml,
    /// For programs.
    Json,
    /// HiCR's own JSON, which a HiCR program reads.
    Hicr,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Yaml,
    /// For programs.
    Json,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Yaml,
    /// For programs.
    Json,
    /// What would be planned from.
    Snapshot,
}

/// A length of time above zero.
fn duration(text: &str) -> Result<Duration, String> {
    let exact = world::duration(text).map_err(|error| error.to_string())?;
    match u64::try_from(exact.to_integer()) {
        Ok(microseconds) if microseconds > 0 => Ok(Duration::from_micros(microseconds)),
        _ => Err("give a length of time above zero, such as 5s".to_owned()),
    }
}
