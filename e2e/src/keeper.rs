//! Processes that cannot outlive their parent.
//!
//! Two guarantees, for two ways to end. A process that *exits* stops its children in order, because its stdin
//! was closed or it got a signal. When a process is *killed*, the kernel
//! kills its children ([`die_with_parent`]).
//!
//! The kernel watches the *thread* that started a child, so [`Child::spawn`] must be called on a thread that
//! lives as long as its process: `cairn-e2e` does everything on its main thread. A test cannot guarantee that;
//! it starts `cairn-e2e keep`, which runs [`keep`].

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufRead, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncWriteExt,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// The time between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// Executes `program`, which the kernel kills when the process `parent` dies.
///
/// Returns only if that fails, or if `parent` is already gone.
pub fn die_with_parent(parent: i32, program: &OsStr, arguments: &[OsString]) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot set the parent-death signal")?;
    // if the parent died before the line above, no signal will arrive
    ensure!(getppid() == Pid::from_raw(parent), "process {parent} is gone: not starting");
    Err(Command::new(program).args(arguments).exec())
        .with_context(|| format!("cannot run {}", program.display()))
}

/// This package's executable, `cairn-e2e`, next to the test programs.
pub fn executable() -> Result<PathBuf> {
    built("cairn-e2e")
}

/// An executable of the workspace, with the caller's profile and target folder.
///
/// Cargo puts test programs into `deps/` next to the executables. The error explains how to build a missing one.
pub fn built(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe().context("cannot find out which program this is")?;
    let found = me.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| {
        let folder = me.parent().unwrap_or(&me).display();
        format!("there is no {name} in {folder} or the folder above: run `cargo build --bins` first")
    })
}

/// A command without arguments that runs `program` and is killed with this process.
///
/// Start it on a thread that lives as long as the command, see [the module](self).
pub(crate) fn dying_with_us(program: &Path) -> Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(executable()?);
    command.arg("die-with-parent").arg(std::process::id().to_string()).arg(program);
    Ok(command)
}

/// A running child process, with its output in a file.
pub struct Child {
    /// Its name in messages.
    pub name: String,
    /// The file that holds its stdout and stderr.
    pub log: PathBuf,
    process: tokio::process::Child,
    /// The stdin of a child that stops when it is closed.
    stdin: Option<tokio::process::ChildStdin>,
}

impl Child {
    /// Starts `program`, which is killed with this process. Call this on the main thread, see [the module](self).
    ///
    /// The child gets its own process group: Ctrl-C at a terminal reaches only this process, which stops the
    /// others in order.
    pub fn spawn(
        name: &str,
        log: &Path,
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self> {
        let mut command = dying_with_us(program)?;
        command.args(arguments).stdin(Stdio::null());
        Self::start(name, log, command)
    }

    /// Starts this executable with `arguments`, to be something that cleans up when its stdin closes.
    ///
    /// The kernel closes that pipe when this process is killed, so that the child cleans up even then.
    pub fn spawn_held(name: &str, log: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = tokio::process::Command::new(executable()?);
        command.args(arguments).stdin(Stdio::piped());
        let mut child = Self::start(name, log, command)?;
        child.stdin = child.process.stdin.take();
        Ok(child)
    }

    fn start(name: &str, log: &Path, mut command: tokio::process::Command) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        // one open file for both streams with a shared offset, so that neither overwrites the other
        command.stdout(out.try_clone()?).stderr(out);
        command.process_group(0).kill_on_drop(true);
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), process, stdin: None })
    }

    /// Writes a line to the child's stdin.
    pub async fn tell(&mut self, what: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(what).context("cannot write JSON")? + "\n";
        let stdin = self.stdin.as_mut().with_context(|| format!("{} does not listen", self.name))?;
        stdin.write_all(line.as_bytes()).await.with_context(|| format!("cannot reach {}", self.name))
    }

    /// Its process id; none after it ended.
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits until it ends.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        self.process.wait().await.with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Sends a signal; no effect after it ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // the only possible error is that it ended, and its id is not reused before the wait
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends SIGTERM, then SIGKILL after [`GRACE`], and waits until it ended.
    ///
    /// A child with a stdin pipe has to clean up, and gets four times as long.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        let grace = if self.stdin.take().is_some() {
            GRACE * 4
        } else {
            self.signal(Signal::TERM);
            GRACE
        };
        if let Ok(ended) = tokio::time::timeout(grace, self.ended()).await {
            return ended;
        }
        self.signal(Signal::KILL);
        self.ended().await
    }

    /// The last lines of its log, for error messages.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// Why a supervisor stops its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Its stdin was closed: the parent ended.
    Stdin,
    /// SIGTERM or SIGINT.
    Signal,
}

/// The orders on stdin.
pub struct Orders {
    lines: mpsc::UnboundedReceiver<String>,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Orders {
    /// Starts to read stdin and signals. At most once per process.
    pub fn listen() -> Result<Self> {
        let (send, lines) = mpsc::unbounded_channel();
        // a separate thread, as a read from stdin cannot be interrupted; it ends with the process
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            lines,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
        })
    }

    /// The next line, or the reason to stop.
    pub async fn next(&mut self) -> Result<String, StopCause> {
        tokio::select! {
            line = self.lines.recv() => line.ok_or(StopCause::Stdin),
            _ = self.terminate.recv() => Err(StopCause::Signal),
            _ = self.interrupt.recv() => Err(StopCause::Signal),
        }
    }

    /// Waits for a reason to stop; lines are ignored.
    pub async fn release(&mut self) -> StopCause {
        loop {
            if let Err(release) = self.next().await {
                return release;
            }
        }
    }
}

/// A line on the stdout of `cairn-e2e keep`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The process runs with this id.
    Running(u32),
    /// The process ended; `code` is none after a signal.
    Ended {
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

/// An order on the stdin of `cairn-e2e keep`: a signal for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Order {
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Cont,
}

impl From<Order> for Signal {
    fn from(order: Order) -> Self {
        match order {
            Order::Term => Self::TERM,
            Order::Kill => Self::KILL,
            Order::Stop => Self::STOP,
            Order::Cont => Self::CONT,
        }
    }
}

/// Runs one process until it ends, and sends it the signals that are ordered on stdin.
///
/// Prints a [`Report`] when the process runs and one when it has ended, and reads an [`Order`] per line.
/// When stdin is closed, the process is stopped.
pub async fn keep(log: &Path, program: &Path, arguments: &[OsString]) -> Result<()> {
    let mut orders = Orders::listen()?;
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let mut child = Child::spawn(&name, log, program, arguments)?;
    say(&Report::Running(child.pid().expect("it has not been waited for")))?;
    let status = loop {
        tokio::select! {
            status = child.ended() => break status?,
            order = orders.next() => {
                let Ok(line) = order else {
                    child.signal(Signal::CONT); // a frozen process could not end in order
                    break child.stop().await?;
                };
                let order: Order = serde_json::from_str(&line).with_context(|| format!("no order: {line}"))?;
                child.signal(order.into());
            }
        }
    };
    say(&Report::Ended { code: status.code(), signal: status.signal() })
}

/// Prints one JSON line.
pub(crate) fn say(what: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(what).context("cannot write JSON")?;
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        // the reader is gone
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said.context("cannot write to stdout"),
    }
}
