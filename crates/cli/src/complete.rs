//! `kubectl cairn <TAB>`: what could come next, from the definition of the commands and from the cluster.
//!
//! kubectl runs `kubectl_complete-cairn` with the words after `kubectl cairn`, the last of them the one that is completed,
//! and reads a candidate a line, what it is behind a tab, and at last what the shell does beside, as cobra numbers it.

use std::collections::BTreeMap;
use std::fmt;

use clap::{Arg, Command, CommandFactory as _, ValueHint};
use portfolio::Use;

use crate::arguments::Arguments;
use crate::error::CliError;
use crate::names::{self, Asked, Named};
use crate::{Outcome, print};

/// The command by which it is asked for: not one of those that people type, and so not listed among them.
const COMMAND: &str = "__complete";
/// What kubectl runs, once it is on the PATH as `kubectl_complete-cairn`.
pub const FOR_KUBECTL: &str = "#!/bin/sh\nexec kubectl-cairn __complete \"$@\"\n";
/// The shell offers what it would offer anyway: files.
const FILES: u8 = 0;
/// The shell offers nothing else.
const NO_FILES: u8 = 4;

/// The words to complete, where that is what the program was started for.
pub fn asked() -> Option<Vec<String>> {
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    (words.next().as_deref() == Some(COMMAND)).then(|| words.collect())
}

/// Prints what could come next.
pub fn run(words: &[String]) -> Result<Outcome, CliError> {
    print(&answer(words, &names::known).to_string())?;
    Ok(Outcome::Done)
}

/// What could come next.
#[derive(Debug, Default)]
struct Answer {
    /// Words, and what is said of each.
    candidates: Vec<(String, String)>,
    /// Whether a file could, too.
    files: bool,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, says) in &self.candidates {
            match says.lines().next() {
                Some(says) => writeln!(f, "{word}\t{says}")?,
                None => writeln!(f, "{word}")?,
            }
        }
        writeln!(f, ":{}", if self.files { FILES } else { NO_FILES })
    }
}

/// What could be the last of these words; `names` knows those of the cluster.
fn answer(words: &[String], names: &dyn Fn(Asked) -> Vec<String>) -> Answer {
    let Some((word, before)) = words.split_last() else { return Answer::default() };
    let mut commands = Arguments::command();
    commands.build();
    let mut line = Line::of(&commands);
    for word in before {
        line.take(word);
    }
    // What comes behind `--option=` is completed alone.
    let word = match word.split_once('=') {
        Some((option, value)) if line.is_option(word) => {
            line.take(option);
            value
        }
        _ => word,
    };
    let mut answer = line.next(word, names);
    answer.candidates.retain(|(candidate, _)| candidate.starts_with(word));
    answer
}

/// The command line before the word that is completed.
struct Line<'a> {
    command: &'a Command,
    /// The option that the next word is a value of.
    open: Option<&'a Arg>,
    /// How many words stand for themselves.
    positionals: usize,
    /// Nothing is an option behind `--`.
    no_options: bool,
    /// The last value of each argument, by its id; none of a switch.
    given: BTreeMap<&'a str, String>,
}

impl<'a> Line<'a> {
    fn of(command: &'a Command) -> Self {
        Self { command, open: None, positionals: 0, no_options: false, given: BTreeMap::new() }
    }

    fn is_option(&self, word: &str) -> bool {
        !self.no_options && word.len() > 1 && word.starts_with('-')
    }

    /// Reads a word.
    fn take(&mut self, word: &str) {
        if self.is_option(word) {
            self.open = None;
            match word.strip_prefix("--") {
                Some("") => self.no_options = true,
                Some(long) => self.take_long(long),
                None => self.take_short(&word[1..]),
            }
        } else if let Some(option) = self.open {
            self.give(option, word);
            self.open = self.open.filter(|option| takes_several(option));
        } else if let Some(command) = self.command.find_subcommand(word) {
            self.command = command;
        } else if let Some(positional) = self.positional() {
            self.give(positional, word);
            self.positionals += 1;
        }
    }

    fn take_long(&mut self, word: &str) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let Some(option) = self.command.get_arguments().find(|it| it.get_long() == Some(name)) else {
            return;
        };
        self.give(option, value.unwrap_or_default());
        self.open = Some(option).filter(|option| value.is_none() && takes_value(option));
    }

    /// Switches, and at last what may be a value: `-A`, `-nshop`.
    fn take_short(&mut self, letters: &str) {
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let mut options = self.command.get_arguments();
            let Some(option) = options.find(|it| it.get_short() == Some(letter)) else { return };
            let value = if takes_value(option) { letters.as_str() } else { "" };
            self.give(option, value.strip_prefix('=').unwrap_or(value));
            if takes_value(option) {
                self.open = Some(option).filter(|_| value.is_empty());
                return;
            }
        }
    }

    fn give(&mut self, argument: &'a Arg, value: &str) {
        self.given.insert(argument.get_id().as_str(), value.to_owned());
    }

    /// The argument that the next word is, where it stands for itself.
    fn positional(&self) -> Option<&'a Arg> {
        self.command.get_positionals().nth(self.positionals)
    }

    /// What was given for an argument, or is taken where nothing is.
    fn value(&self, id: &str) -> Option<String> {
        let default = || {
            let argument = self.command.get_arguments().find(|it| it.get_id() == id)?;
            Some(argument.get_default_values().first()?.to_string_lossy().into_owned())
        };
        self.given.get(id).cloned().or_else(default)
    }

    /// What could come next and begins like this word.
    fn next(&self, word: &str, names: &dyn Fn(Asked) -> Vec<String>) -> Answer {
        if !self.no_options && word.starts_with('-') {
            Answer { candidates: self.options(), files: false }
        } else if let Some(argument) = self.open.or_else(|| self.positional()) {
            self.values(argument, word, names)
        } else {
            let commands = self.command.get_subcommands().filter(|it| !it.is_hide_set());
            let says = |it: &Command| it.get_about().map(ToString::to_string).unwrap_or_default();
            let candidates = commands.map(|it| (it.get_name().to_owned(), says(it))).collect();
            Answer { candidates, files: false }
        }
    }

    /// The options that may still be given.
    fn options(&self) -> Vec<(String, String)> {
        let is_given = |it: &&Arg| self.given.contains_key(it.get_id().as_str()) && !takes_several(it);
        let options = self.command.get_arguments().filter(|it| !it.is_hide_set() && !is_given(it));
        let both = options.flat_map(|it| {
            let says = it.get_help().map(ToString::to_string).unwrap_or_default();
            let names =
                [it.get_long().map(|long| format!("--{long}")), it.get_short().map(|it| format!("-{it}"))];
            names.into_iter().flatten().map(move |name| (name, says.clone()))
        });
        both.collect()
    }

    /// What an argument may be.
    fn values(&self, argument: &Arg, word: &str, names: &dyn Fn(Asked) -> Vec<String>) -> Answer {
        let listed = argument.get_possible_values();
        let listed = listed.iter().filter(|value| !value.is_hide_set());
        let says =
            |help: Option<&clap::builder::StyledStr>| help.map(ToString::to_string).unwrap_or_default();
        let mut candidates: Vec<(String, String)> =
            listed.map(|value| (value.get_name().to_owned(), says(value.get_help()))).collect();
        if argument.get_id() == "strategy" {
            let all = portfolio::strategies(Use::Desk);
            candidates.extend(all.map(|entry| (entry.name().to_owned(), entry.summary().to_owned())));
        }
        // What is read from files has no names that a cluster knows.
        let of_cluster = !["files", "snapshot"].iter().any(|id| self.given.contains_key(id));
        if let Some(what) = Named::by(argument.get_id().as_str()).filter(|_| of_cluster) {
            let found = names(self.asked(what, word));
            candidates.extend(found.into_iter().map(|name| (name, String::new())));
        }
        let is_path = matches!(argument.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath);
        Answer { candidates, files: is_path }
    }

    /// What the cluster is asked for.
    fn asked(&self, what: Named, word: &str) -> Asked {
        let cluster = crate::arguments::ClusterArguments {
            kubeconfig: self.value("kubeconfig").map(Into::into),
            context: self.value("context"),
            operator_namespace: self.value("operator_namespace").unwrap_or_default(),
        };
        let of_word = word.split_once('/').map(|(namespace, _)| namespace.to_owned());
        Asked {
            what,
            qualified: of_word.is_some(),
            namespace: of_word.or_else(|| self.value("namespace")),
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

    /// A cluster of two applications, whose names say how they were asked for.
    fn names(asked: Asked) -> Vec<String> {
        let Asked { what, namespace, qualified, cluster } = asked;
        match what {
            Named::Application if qualified => vec!["shop/web".to_owned(), "vision/surveillance".to_owned()],
            Named::Application => vec!["web".to_owned(), format!("of-{}", namespace.unwrap_or_default())],
            Named::Policy => vec![format!("policy-in-{}", cluster.operator_namespace)],
            Named::Context => vec![format!("of-{}", cluster.kubeconfig.unwrap_or_default().display())],
            Named::Node => vec![format!("node-of-{}", cluster.context.unwrap_or_default())],
            Named::Qualified | Named::Namespace => vec![format!("{what:?}").to_lowercase()],
        }
    }

    /// What may come next of a command line: the last word is the one that is completed, `''` an empty one.
    fn next(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(|word| word.replace("''", "")).collect();
        let answer = answer(&words, &names);
        let mut said: Vec<&str> = answer.candidates.iter().map(|(word, _)| word.as_str()).collect();
        said.extend(answer.files.then_some("(files)"));
        said.join(" ")
    }

    #[test]
    fn what_may_come_next_is_what_the_commands_take() {
        let rows = [
            ("''", "plan explain check-policy topology status doctor completion help"),
            ("t", "topology"),
            ("--v", "--version"),
            ("x", ""),
            ("help t", "topology"),
            // options, once each
            ("status --a", "--all-namespaces --all"),
            ("status --all --a", "--all-namespaces"),
            ("status -A --a", "--all"),
            ("topology node-0 -f a.yaml --f", "--filename"),
            ("status -- --a", ""),
            // what they may be
            ("status -o ''", "table yaml json"),
            ("status --output=j", "json"),
            ("topology -o h", "hicr"),
            ("plan --explain -o s", "snapshot"),
            ("plan --strategy ''", "asp greedy local clingo round-robin random exhaustive"),
            ("check-policy rules.lp --strategy g", "greedy"),
            ("explain ''", "actorapp"),
            ("completion ''", "kubectl bash elvish fish powershell zsh"),
            ("plan --seed ''", ""),
            // files, which the shell knows
            ("plan -f ''", "(files)"),
            ("plan -f a.yaml b", "(files)"),
            ("check-policy ''", "(files)"),
            // and what the cluster has
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
            assert_eq!(next(line), expected, "{line}");
        }
    }

    #[test]
    fn kubectl_is_told_what_each_is_and_whether_a_file_would_do() {
        let says = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            answer(&words, &names).to_string()
        };
        assert_eq!(
            says("doc"),
            "doctor\tSay how Cairn itself is: operator, agents, devices, pools, policies, rights\n:4\n"
        );
        assert_eq!(says("status w"), "web\n:4\n");
        assert_eq!(
            says("status --al"),
            "--all-namespaces\tThe applications of all namespaces, as without a name and a namespace\n--all\tEvery actor, every slot and everything that is wrong, also where that is more than a screen\n:4\n"
        );
        assert_eq!(says("plan -f x"), ":0\n");
    }

    /// An argument that is called otherwise one day is not forgotten here.
    #[test]
    fn what_has_names_in_the_cluster_is_found_by_the_arguments() {
        let mut commands = Arguments::command();
        commands.build();
        let named = |command: &Command| {
            let named = command.get_arguments().filter_map(|it| Named::by(it.get_id().as_str()));
            (command.get_name().to_owned(), named.map(|it| format!("{it:?}")).collect::<Vec<_>>().join(" "))
        };
        let found: Vec<_> =
            commands.get_subcommands().map(named).filter(|(_, named)| !named.is_empty()).collect();
        let expected = [
            ("plan", "Qualified Policy Context Namespace"),
            ("explain", "Application Namespace Policy Context Namespace"),
            ("topology", "Node Context Namespace"),
            ("status", "Application Namespace Context Namespace"),
            ("doctor", "Context Namespace Namespace Policy"),
        ];
        assert_eq!(found, expected.map(|(command, named)| (command.to_owned(), named.to_owned())));
    }
}
