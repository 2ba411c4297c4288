//! Short-lived tools: kubectl, Helm, kubeconform.

use std::{fmt, process::Stdio};

use anyhow::{Context, Result};
use tokio::{io::AsyncWriteExt, process::Command};

/// The output of a tool. Warnings are in `stderr` even if it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its standard output, as text.
    pub stdout: String,
    /// Its standard error, as text.
    pub stderr: String,
}

/// A tool that failed. Found in an [`anyhow::Error`] by `downcast_ref`.
#[derive(Clone, Debug, thiserror::Error)]
pub struct CommandFailed {
    /// The tool and its arguments.
    pub command: String,
    /// Its exit status, in words.
    pub status: String,
    /// Its output before it failed.
    pub output: Output,
}

impl fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed ({})", self.command, self.status)?;
        for text in [&self.output.stderr, &self.output.stdout] {
            if !text.trim().is_empty() {
                write!(f, "\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

/// Runs `command` with `input` on its stdin.
///
/// An exit status other than 0 is a [`CommandFailed`]. If the future is dropped, the command is killed.
pub async fn run(mut command: Command, input: &str) -> Result<Output> {
    let shown = shown(command.as_std());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // concurrently: a tool that writes before it has read everything must not block on a full pipe
    let feed = async {
        // a tool that ignores its input closes the pipe; its exit status shows whether that is an error
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
    };
    let ((), ended) = tokio::join!(feed, child.wait_with_output());
    let ended = ended.with_context(|| format!("cannot wait for `{shown}`"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let output = Output { stdout: text(ended.stdout), stderr: text(ended.stderr) };
    if ended.status.success() {
        Ok(output)
    } else {
        Err(CommandFailed { command: shown, status: ended.status.to_string(), output }.into())
    }
}

/// The command line without the folder of the program.
fn shown(command: &std::process::Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{CommandFailed, run};

    #[tokio::test]
    async fn errors_contain_the_command_and_its_output() {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", "cat; echo no such thing >&2; exit 3"]);
        let error = run(command, "input").await.unwrap_err();
        let failed = error.downcast_ref::<CommandFailed>().unwrap();
        assert_eq!(failed.output.stderr, "no such thing\n");
        assert_eq!(
            error.to_string(),
            "`sh -c cat; echo no such thing >&2; exit 3` failed (exit status: 3)\nno such thing\ninput"
        );
    }
}
