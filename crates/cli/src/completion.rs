//! Completion of `kubectl cairn`, from the definition of the commands and the names in the cluster.
//!
//! kubectl runs `kubectl_complete-cairn` with the words after `kubectl cairn`, the last of which is completed. The output
//! follows cobra: one candidate per line, its description after a tab, and the shell directive in the last line.

use std::collections::BTreeMap;
use std::fmt;

use clap::{Arg, Command, CommandFactory as _, ValueHint};
use portfolio::Purpose;

use crate::args::Cli;
use crate::error::CliError;
use crate::names::{self, NameKind, NameQuery};
use crate::{Outcome, print};

/// The hidden command that the completion script runs.
const COMMAND: &str = "__complete";
/// The script that kubectl runs as `kubectl_complete-cairn`.
pub const KUBECTL_SCRIPT: &str = "#!/bin/sh\nexec kubectl-cairn __complete \"$@\"\n";
/// Shell directive: also complete files.
const DIRECTIVE_DEFAULT: u8 = 0;
/// Shell directive: do not complete files.
const DIRECTIVE_NO_FILES: u8 = 4;

/// The words to complete, if the program was started for completion.
pub fn requested_words() -> Option<Vec<String>> {
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    (words.next().as_deref() == Some(COMMAND)).then(|| words.collect())
}

/// Prints the candidates for the last word.
pub fn run(words: &[String]) -> Result<Outcome, CliError> {
    print(&complete(words, &names::lookup).to_string())?;
    Ok(Outcome::Ok)
}

/// The candidates for a word.
#[derive(Debug, Default)]
struct Completion {
    /// Words with their descriptions.
    candidates: Vec<(String, String)>,
    /// Whether files are candidates too.
    files: bool,
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, description) in &self.candidates {
            match description.lines().next() {
                Some(description) => writeln!(f, "{word}\t{description}")?,
                None => writeln!(f, "{word}")?,
            }
        }
        writeln!(f, ":{}", if self.files { DIRECTIVE_DEFAULT } else { DIRECTIVE_NO_FILES })
    }
}

/// Completes the last of these words; `names` looks up names in the cluster.
fn complete(words: &[String], names: &dyn Fn(NameQuery) -> Vec<String>) -> Completion {
    let Some((word, before)) = words.split_last() else { return Completion::default() };
    let mut commands = Cli::command();
    commands.build();
    let mut line = CommandLine::of(&commands);
    for word in before {
        line.parse(word);
    }
    // Complete only the value in `--option=value`.
    let word = match word.split_once('=') {
        Some((option, value)) if line.is_option(word) => {
            line.parse(option);
            value
        }
        _ => word,
    };
    let mut completion = line.complete(word, names);
    completion.candidates.retain(|(candidate, _)| candidate.starts_with(word));
    completion
}

/// The parsed command line before the completed word.
struct CommandLine<'a> {
    command: &'a Command,
    /// The option that expects the next word as its value.
    open: Option<&'a Arg>,
    /// The number of positional arguments so far.
    positionals: usize,
    /// Whether `--` has ended the options.
    no_options: bool,
    /// The last value of each argument, by its id; empty for flags.
    values: BTreeMap<&'a str, String>,
}

impl<'a> CommandLine<'a> {
    fn of(command: &'a Command) -> Self {
        Self { command, open: None, positionals: 0, no_options: false, values: BTreeMap::new() }
    }

    fn is_option(&self, word: &str) -> bool {
        !self.no_options && word.len() > 1 && word.starts_with('-')
    }

    /// Parses the next word.
    fn parse(&mut self, word: &str) {
        if self.is_option(word) {
            self.open = None;
            match word.strip_prefix("--") {
                Some("") => self.no_options = true,
                Some(long) => self.parse_long(long),
                None => self.parse_short(&word[1..]),
            }
        } else if let Some(option) = self.open {
            self.set(option, word);
            self.open = self.open.filter(|option| takes_several(option));
        } else if let Some(command) = self.command.find_subcommand(word) {
            self.command = command;
        } else if let Some(positional) = self.positional() {
            self.set(positional, word);
            self.positionals += 1;
        }
    }

    fn parse_long(&mut self, word: &str) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let Some(option) = self.command.get_arguments().find(|it| it.get_long() == Some(name)) else {
            return;
        };
        self.set(option, value.unwrap_or_default());
        self.open = Some(option).filter(|option| value.is_none() && takes_value(option));
    }

    /// Flags, of which the last may have a value: `-A`, `-nshop`.
    fn parse_short(&mut self, letters: &str) {
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let mut options = self.command.get_arguments();
            let Some(option) = options.find(|it| it.get_short() == Some(letter)) else { return };
            let value = if takes_value(option) { letters.as_str() } else { "" };
            self.set(option, value.strip_prefix('=').unwrap_or(value));
            if takes_value(option) {
                self.open = Some(option).filter(|_| value.is_empty());
                return;
            }
        }
    }

    fn set(&mut self, argument: &'a Arg, value: &str) {
        self.values.insert(argument.get_id().as_str(), value.to_owned());
    }

    /// The next positional argument.
    fn positional(&self) -> Option<&'a Arg> {
        self.command.get_positionals().nth(self.positionals)
    }

    /// The value of an argument, or its default.
    fn value(&self, id: &str) -> Option<String> {
        let default = || {
            let argument = self.command.get_arguments().find(|it| it.get_id() == id)?;
            Some(argument.get_default_values().first()?.to_string_lossy().into_owned())
        };
        self.values.get(id).cloned().or_else(default)
    }

    /// Candidates for the next word, of which `word` is the beginning.
    fn complete(&self, word: &str, names: &dyn Fn(NameQuery) -> Vec<String>) -> Completion {
        if !self.no_options && word.starts_with('-') {
            Completion { candidates: self.options(), files: false }
        } else if let Some(argument) = self.open.or_else(|| self.positional()) {
            self.argument_values(argument, word, names)
        } else {
            let commands = self.command.get_subcommands().filter(|it| !it.is_hide_set());
            let about = |it: &Command| it.get_about().map(ToString::to_string).unwrap_or_default();
            let candidates = commands.map(|it| (it.get_name().to_owned(), about(it))).collect();
            Completion { candidates, files: false }
        }
    }

    /// The options that can still be set.
    fn options(&self) -> Vec<(String, String)> {
        let is_set = |it: &&Arg| self.values.contains_key(it.get_id().as_str()) && !takes_several(it);
        let options = self.command.get_arguments().filter(|it| !it.is_hide_set() && !is_set(it));
        let both = options.flat_map(|it| {
            let help = it.get_help().map(ToString::to_string).unwrap_or_default();
            let names =
                [it.get_long().map(|long| format!("--{long}")), it.get_short().map(|it| format!("-{it}"))];
            names.into_iter().flatten().map(move |name| (name, help.clone()))
        });
        both.collect()
    }

    /// Candidates for the value of an argument.
    fn argument_values(
        &self,
        argument: &Arg,
        word: &str,
        names: &dyn Fn(NameQuery) -> Vec<String>,
    ) -> Completion {
        let listed = argument.get_possible_values();
        let listed = listed.iter().filter(|value| !value.is_hide_set());
        let help =
            |help: Option<&clap::builder::StyledStr>| help.map(ToString::to_string).unwrap_or_default();
        let mut candidates: Vec<(String, String)> =
            listed.map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect();
        if argument.get_id() == "strategy" {
            let all = portfolio::strategies(Purpose::Offline);
            candidates.extend(all.map(|entry| (entry.name().to_owned(), entry.summary().to_owned())));
        }
        // With files as input, names in the cluster are irrelevant.
        let uses_cluster = !["files", "snapshot"].iter().any(|id| self.values.contains_key(id));
        if let Some(kind) = NameKind::of_argument(argument.get_id().as_str()).filter(|_| uses_cluster) {
            let found = names(self.query(kind, word));
            candidates.extend(found.into_iter().map(|name| (name, String::new())));
        }
        let is_path = matches!(argument.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath);
        Completion { candidates, files: is_path }
    }

    /// The query for names in the cluster.
    fn query(&self, kind: NameKind, word: &str) -> NameQuery {
        let cluster = crate::args::ClusterArgs {
            kubeconfig: self.value("kubeconfig").map(Into::into),
            context: self.value("context"),
            operator_namespace: self.value("operator_namespace").unwrap_or_default(),
        };
        let prefix = word.split_once('/').map(|(namespace, _)| namespace.to_owned());
        NameQuery {
            kind,
            qualified: prefix.is_some(),
            namespace: prefix.or_else(|| self.value("namespace")),
            cluster,
        }
    }
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

fn takes_several(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|values| values.max_values() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster with two applications; other names reflect the query.
    fn names(query: NameQuery) -> Vec<String> {
        let NameQuery { kind, namespace, qualified, cluster } = query;
        match kind {
            NameKind::Application if qualified => {
                vec!["shop/web".to_owned(), "vision/surveillance".to_owned()]
            }
            NameKind::Application => vec!["web".to_owned(), format!("of-{}", namespace.unwrap_or_default())],
            NameKind::Policy => vec![format!("policy-in-{}", cluster.operator_namespace)],
            NameKind::Context => vec![format!("of-{}", cluster.kubeconfig.unwrap_or_default().display())],
            NameKind::Node => vec![format!("node-of-{}", cluster.context.unwrap_or_default())],
            NameKind::Qualified | NameKind::Namespace => vec![format!("{kind:?}").to_lowercase()],
        }
    }

    /// The candidates for the last word of a command line; `''` is an empty word.
    fn candidates(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(|word| word.replace("''", "")).collect();
        let completion = complete(&words, &names);
        let mut words: Vec<&str> = completion.candidates.iter().map(|(word, _)| word.as_str()).collect();
        words.extend(completion.files.then_some("(files)"));
        words.join(" ")
    }

    #[test]
    fn candidates_follow_the_command_definitions() {
        let rows = [
            ("''", "plan explain check-policy topology status history doctor completion help"),
            ("t", "topology"),
            ("--v", "--version"),
            ("x", ""),
            ("help t", "topology"),
            // options that are not repeated
            ("status --a", "--all-namespaces --all"),
            ("status --all --a", "--all-namespaces"),
            ("status -A --a", "--all"),
            ("topology node-0 -f a.yaml --f", "--filename"),
            ("status -- --a", ""),
            // values
            ("status -o ''", "table yaml json"),
            ("status --output=j", "json"),
            ("topology -o h", "hicr"),
            ("plan --explain -o s", "snapshot"),
            ("plan --strategy ''", "asp greedy local clingo round-robin random exhaustive"),
            ("check-policy rules.lp --strategy g", "greedy"),
            ("explain ''", "actorapp"),
            ("completion ''", "kubectl bash elvish fish powershell zsh"),
            ("plan --seed ''", ""),
            // files, completed by the shell
            ("plan -f ''", "(files)"),
            ("plan -f a.yaml b", "(files)"),
            ("check-policy ''", "(files)"),
            // names in the cluster
            ("status ''", "web of-"),
            ("status -n shop ''", "web of-shop"),
            ("status -nshop o", "of-shop"),
            ("status --namespace=shop o", "of-shop"),
            ("status vision/", "vision/surveillance"),
            ("status web ''", ""),
            ("status -n ''", "namespace"),
            ("explain actorapp w", "web"),
            ("explain actorapp web --default-policy ''", "policy-in-cairn-system"),
            ("plan --operator-namespace here --default-policy ''", "policy-in-here"),
            ("plan --application ''", "qualified"),
            ("plan -f a.yaml --application ''", ""),
            ("topology --context there ''", "node-of-there"),
            ("doctor --kubeconfig file --context ''", "of-file"),
        ];
        for (line, expected) in rows {
            assert_eq!(candidates(line), expected, "{line}");
        }
    }

    #[test]
    fn output_has_descriptions_and_a_directive() {
        let output = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            complete(&words, &names).to_string()
        };
        assert_eq!(
            output("doc"),
            "doctor\tCheck the installation: operator, agents, devices, pools, policies, permissions\n:4\n"
        );
        assert_eq!(output("status w"), "web\n:4\n");
        assert_eq!(
            output("status --al"),
            "--all-namespaces\tShow the applications of all namespaces; the default without a name and a namespace\n--all\tShow all actors, units and problems, even if they do not fit on a screen\n:4\n"
        );
        assert_eq!(output("plan -f x"), ":0\n");
    }

    /// Fails if an argument that names an object is renamed.
    #[test]
    fn arguments_with_names_in_the_cluster_are_recognized() {
        let mut commands = Cli::command();
        commands.build();
        let named = |command: &Command| {
            let named = command.get_arguments().filter_map(|it| NameKind::of_argument(it.get_id().as_str()));
            (command.get_name().to_owned(), named.map(|it| format!("{it:?}")).collect::<Vec<_>>().join(" "))
        };
        let found: Vec<_> =
            commands.get_subcommands().map(named).filter(|(_, named)| !named.is_empty()).collect();
        let expected = [
            ("plan", "Qualified Policy Context Namespace"),
            ("explain", "Application Namespace Policy Context Namespace"),
            ("topology", "Node Context Namespace"),
            ("status", "Application Namespace Context Namespace"),
            ("history", "Application Namespace Context Namespace"),
            ("doctor", "Context Namespace Namespace Policy"),
        ];
        assert_eq!(found, expected.map(|(command, named)| (command.to_owned(), named.to_owned())));
    }
}
