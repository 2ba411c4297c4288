//! Runs the built `kubectl-cairn` and checks its output and exit status.
#![expect(clippy::unwrap_used, reason = "a test that cannot start the binary should fail at once")]

mod channels;
mod check_policy;
mod cluster;
mod corpus;
mod load;
mod manifests;
mod pod_rules;
mod policies;
mod reference;
mod snapshots;
mod status;
mod usage;
mod validation;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// Exit status, standard output and standard error in one text, for snapshots.
    fn all(&self) -> String {
        let mut text = format!("exit {}\n{}", self.code.unwrap(), self.out);
        if !self.err.is_empty() {
            text = format!("{text}{}{}", if text.ends_with('\n') { "" } else { "\n" }, self.err);
        }
        // Durations vary between runs.
        text.lines().map(without_seconds).collect::<Vec<_>>().join("\n")
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}{}", self.out, self.err))
    }
}

fn without_seconds(line: &str) -> String {
    match line.rsplit_once(" · ") {
        Some((before, time)) if time.ends_with(" s") => format!("{before} · (time)"),
        _ => line.to_owned(),
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-cairn"));
    command.args(arguments).current_dir(root());
    // Do not use a cluster of the machine that runs the tests.
    command.env("KUBECONFIG", "/does/not/exist").env_remove("KUBERNETES_SERVICE_HOST");
    command
}

/// Runs the binary in the root of the repository.
fn cairn(arguments: &[&str]) -> Ran {
    cairn_fed(arguments, "")
}

/// Runs the binary with standard input.
fn cairn_fed(arguments: &[&str], input: &str) -> Ran {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file in a temporary directory that is deleted with it.
struct File(tempfile::TempDir, PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Self(folder, path)
    }

    fn path(&self) -> &str {
        self.1.to_str().unwrap()
    }

    /// Removes the directory of the file from a text.
    fn without_path(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}
