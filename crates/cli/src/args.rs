//! The command-line interface.

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
  kubectl cairn status                                          Show the status of all applications
  kubectl cairn status surveillance -n vision                   Show one application: actors, units, problems and remedies
  kubectl cairn history surveillance -n vision                  Show which moves were made for a gain, and what they brought
  kubectl cairn doctor                                          Check the installation of Cairn
  kubectl cairn plan                                            Show what the operator would change now, and why
  kubectl cairn plan -f cluster.yaml -f app.yaml                Plan from manifests, without a cluster
  kubectl cairn plan --snapshot snapshot.json -o json           Reproduce a decision
  kubectl cairn explain actorapp surveillance -n vision         Explain the placement of an application
  kubectl cairn check-policy rules.lp --snapshot snapshot.json  Validate a policy and show what it would change
  kubectl cairn topology node-0                                 Show the devices of a node
  kubectl cairn topology node-0 -o hicr                         Show them in HiCR's JSON format";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  kubectl cairn explain actorapp surveillance -n vision
      Show the alternatives of each actor with their cost, full units, and the rules that prevent a better plan.

  kubectl cairn explain actorapp vision/surveillance --actor crop-0
      Show all alternatives of one actor.

Exit status: 0 all actors are placed; 2 some actors are unplaced, the reasons are printed; 1 error.";

const PLAN_EXAMPLES: &str = "\
Examples:
  kubectl cairn plan --application vision/surveillance
      Show what would change now by the manifest's numbers: a dry run on the cluster of the kubeconfig.

  kubectl get nodes,pods,resourcequotas,limitranges,namespaces,actorapplications,devicepools,nodetopologies,placements,instances,configmaps -A -o yaml > cluster.yaml
  kubectl get runtimeclasses,priorityclasses,serviceaccounts,persistentvolumeclaims,persistentvolumes,storageclasses,csinodes,csidrivers,csistoragecapacities,resourceclaimtemplates,resourceclaims,deviceclasses,resourceslices -A -o yaml > references.yaml
  kubectl cairn plan -f cluster.yaml -f references.yaml -f new-application.yaml
      Plan from a dump of the cluster, with an application that is not deployed yet. What a template names and no file has does not exist.

  kubectl cairn plan --snapshot snapshot.json --strategy greedy --effort 1000 -o json
      Print the same output on every machine.

Exit status: 0 all actors are placed; 2 some actors are unplaced, the reasons are printed; 1 error.";

const CHECK_EXAMPLES: &str = "\
Examples:
  kubectl cairn check-policy rules.lp
      Validate a program; print errors with line and column.

  kubectl cairn check-policy throughput.yaml --snapshot snapshot.json
      Validate the program in a ConfigMap; show the cost of grounding it for a snapshot, and what it would change.

Exit status: 0 the policy is valid; 1 the policy is invalid, or another error.";

const HEALTH_EXIT_STATUS: &str = "\
Exit status: 0 healthy; 2 problems were found and printed; 1 error.";

const DOCTOR_EXIT_STATUS: &str = "\
Levels: ok; ! warning, Cairn works, but a part is degraded or unprotected; ? not checked; error.

Exit status: 0 no errors, with or without warnings; 2 errors were found and printed; 1 the command failed, or nothing could be checked.";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  kubectl-cairn completion kubectl > ~/.local/bin/kubectl_complete-cairn && chmod +x ~/.local/bin/kubectl_complete-cairn
      The script that kubectl runs to complete `kubectl cairn`; it must be on the PATH.

  kubectl-cairn completion bash > /etc/bash_completion.d/kubectl-cairn

  kubectl-cairn completion zsh > \"${fpath[1]}/_kubectl-cairn\"";

/// Plans, explains and inspects the placement of actor applications. Read-only.
#[derive(Debug, Parser)]
#[command(name = "kubectl-cairn", bin_name = "kubectl cairn", version, after_help = EXAMPLES)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a placement and show the changes with reasons
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Explain the placement of an application and why actors are unplaced
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
    /// Validate the program of a policy and show its cost and effect
    #[command(after_help = CHECK_EXAMPLES)]
    CheckPolicy(Box<CheckPolicyArgs>),
    /// Show the devices of a node and the links between them
    Topology(TopologyArgs),
    /// Show the status of applications: actors, units with their devices, problems and remedies
    #[command(after_help = HEALTH_EXIT_STATUS)]
    Status(StatusArgs),
    /// Show the decisions that moved the actors of an application, and their outcomes
    History(HistoryArgs),
    /// Check the installation: operator, agents, devices, pools, policies, permissions
    #[command(after_help = DOCTOR_EXIT_STATUS)]
    Doctor(DoctorArgs),
    /// Print a completion script for kubectl or a shell
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion {
        /// `kubectl` completes `kubectl cairn`, including names in the cluster; a shell completes `kubectl-cairn`
        #[arg(value_enum, value_name = "SHELL")]
        target: CompletionTarget,
    },
}

/// The program that completes commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionTarget {
    /// kubectl, in any shell.
    Kubectl,
    /// A shell, without kubectl.
    Shell(Shell),
}

impl ValueEnum for CompletionTarget {
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

/// The arguments of `status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The application (default: all applications, one per line)
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: Option<String>,
    /// The namespace (default: that of the kubeconfig's context; without a name: all namespaces)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Show the applications of all namespaces; the default without a name and a namespace
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    pub all_namespaces: bool,
    /// Show all actors, units and problems, even if they do not fit on a screen
    #[arg(long, requires = "name")]
    pub all: bool,
    /// Manifests instead of a cluster, as printed by `kubectl get -o yaml`; a directory is read whole, - is standard input
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// The arguments of `history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// The application
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: String,
    /// The namespace (default: that of the kubeconfig's context)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// The arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The namespace of the node agents' Leases
    #[arg(long, value_name = "NAME", default_value = "cairn-agents", help_heading = "Cluster")]
    pub agents_namespace: String,
    /// The policy of applications that do not set spec.policy
    #[arg(long, value_name = "NAME", default_value = "throughput")]
    pub default_policy: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// The arguments of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Repeat the operator's last search for measured load: the response of its /debug/load/NAMESPACE/NAME, with the
    /// response of /debug/snapshot/NAMESPACE/NAME/manifest as --snapshot
    #[arg(
        long,
        value_name = "FILE",
        requires = "snapshot",
        conflicts_with_all = ["strategy", "budget", "effort", "seed", "policy", "objectives"],
        help_heading = "Input (default: the cluster)"
    )]
    pub windows: Option<PathBuf>,
    #[command(flatten)]
    pub search: SearchArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format; `snapshot` prints the planning snapshot, for --snapshot, and does not plan
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    pub output: PlanOutput,
    /// Also show the alternatives of each actor with their cost, full units, and limiting rules
    #[arg(long, help_heading = "Output")]
    pub explain: bool,
}

/// The arguments of `explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The kind of object
    #[arg(value_enum, value_name = "KIND")]
    pub kind: ExplainedKind,
    /// The name of the object
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: String,
    /// The namespace (default: that of the kubeconfig's context)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Explain only this actor, with all alternatives
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Manifests instead of a cluster, as for `plan`
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1.., id = "files")]
    pub files: Vec<PathBuf>,
    /// The policy of applications that do not set spec.policy
    #[arg(long, value_name = "NAME", default_value = "throughput")]
    pub default_policy: String,
    /// The API server has the admission plugin `ExtendedResourceToleration`, as for `plan`
    #[arg(long)]
    pub extended_resource_toleration: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    pub output: Output,
}

/// The kinds of objects that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainedKind {
    /// An application
    #[value(aliases = ["actorapplication", "actorapplications"])]
    Actorapp,
}

impl ExplainArgs {
    /// The equivalent arguments of `plan`.
    pub fn as_plan(&self, application: ApplicationKey) -> PlanArgs {
        PlanArgs {
            input: InputArgs {
                snapshot: None,
                files: self.files.clone(),
                application: Some(application),
                now: None,
                default_policy: self.default_policy.clone(),
                extended_resource_toleration: self.extended_resource_toleration,
            },
            windows: None,
            search: SearchArgs { seed: 1, ..SearchArgs::default() },
            cluster: self.cluster.clone(),
            output: PlanOutput::default(),
            explain: true,
        }
    }
}

/// The input of a plan.
#[derive(Args, Debug)]
#[command(next_help_heading = "Input (default: the cluster)")]
pub struct InputArgs {
    /// A snapshot file, such as the response of the operator's /debug/snapshot, or a gzip of it; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "application", "now"])]
    pub snapshot: Option<PathBuf>,
    /// Manifests instead of a cluster, including nodes, as printed by `kubectl get -o yaml`; a directory is read whole, -
    /// is standard input
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1.., id = "files")]
    pub files: Vec<PathBuf>,
    /// Plan only this application (default: all applications in order of their names, each after the previous one)
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub application: Option<ApplicationKey>,
    /// The time at which the expiry of refusals is evaluated (default: the newest timestamp in the files)
    #[arg(long, value_name = "TIME", requires = "files", value_parser = time)]
    pub now: Option<Timestamp>,
    /// The policy of applications that do not set spec.policy
    #[arg(long, value_name = "NAME", default_value = "throughput")]
    pub default_policy: String,
    /// The API server has the admission plugin `ExtendedResourceToleration`: pods tolerate taints with the names of the
    /// resources that they request
    #[arg(long, conflicts_with = "snapshot")]
    pub extended_resource_toleration: bool,
}

/// The settings of the search.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Search (default: the settings of the policy)")]
pub struct SearchArgs {
    /// The search strategy; `list` prints all strategies
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Time limit of one plan, such as 5s or 500ms (default: 2s; none with --effort)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Effort limit of one plan in units of work; with the same seed the result is the same on every machine
    #[arg(long, value_name = "N", value_parser = number)]
    pub effort: Option<u64>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number)]
    pub seed: u64,
    /// Override the policy of the application or snapshot: a ConfigMap, a policy.yaml or a program.lp
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Levels of criteria, highest priority first, such as overload,communication+migration,annoyance; or adaptive
    #[arg(long, value_name = "LEVELS")]
    pub objectives: Option<Levels>,
}

/// The connection to the cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig (default: as for kubectl)
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of the operator and of policies
    #[arg(long, value_name = "NAME", default_value = "cairn-system")]
    pub operator_namespace: String,
}

/// The arguments of `check-policy`.
#[derive(Args, Debug)]
pub struct CheckPolicyArgs {
    /// A program (.lp), or a ConfigMap with a program.lp; - is standard input
    pub policy: PathBuf,
    /// A snapshot file, or a gzip of it: ground the program for it, and plan with and without the program
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// The search strategy of both plans
    #[arg(long, value_name = "NAME", default_value = "asp")]
    pub strategy: String,
    /// Time limit of one plan, which also determines the grounding budget
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Effort limit of one plan in units of work; with the same seed the results are the same on every machine
    #[arg(long, value_name = "N", value_parser = number)]
    pub effort: Option<u64>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number)]
    pub seed: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// The arguments of `topology`.
#[derive(Args, Debug)]
pub struct TopologyArgs {
    /// The node
    pub node: String,
    /// Manifests instead of a cluster; a directory is read whole, - is standard input
    #[arg(short, long = "filename", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: TopologyOutput,
}

/// The output formats of `topology`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopologyOutput {
    /// Human-readable.
    #[default]
    Table,
    /// Machine-readable.
    Yaml,
    /// Machine-readable.
    Json,
    /// HiCR's JSON format.
    Hicr,
}

/// The output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Human-readable.
    #[default]
    Table,
    /// Machine-readable.
    Yaml,
    /// Machine-readable.
    Json,
}

/// The output formats of `plan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// Human-readable.
    #[default]
    Table,
    /// Machine-readable.
    Yaml,
    /// Machine-readable.
    Json,
    /// The planning snapshot.
    Snapshot,
}

/// Parses a whole number.
fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("must be a whole number from 0 to {}, such as 1000", u64::MAX))
}

/// Parses a time.
fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "must be a time, such as 2026-01-31T12:00:00Z".to_owned())
}

/// Parses a positive duration.
fn duration(text: &str) -> Result<Duration, String> {
    let exact = world::duration(text).map_err(|error| error.to_string())?;
    match u64::try_from(exact.to_integer()) {
        Ok(microseconds) if microseconds > 0 => Ok(Duration::from_micros(microseconds)),
        _ => Err("must be a positive duration, such as 5s".to_owned()),
    }
}
