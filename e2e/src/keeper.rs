//! Processes that cannot outlive the one that started them.
//!
//! Two guarantees, for two ways to die. A process that *ends* stops its children in order, because its stdin
//! closed or a signal asked for it. A process that is *killed* takes its children along, because the kernel
//! sends them SIGKILL on its death ([`die_with_parent`]).
//!
//! The kernel watches the *thread* that started a child, so [`Child::spawn`] must be called from a thread that
//! lives as long as its process: `cairn-e2e` does everything on its main thread. A test cannot promise that;
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

/// How long a process may take to end after SIGTERM before it is killed.
pub const GRACE: Duration = Duration::from_secs(5);

/// Becomes `program`, after asking the kernel to kill it when the process `parent` dies.
///
/// Returns only when that fails, or when `parent` is already gone.
pub fn die_with_parent(parent: i32, program: &OsStr, arguments: &[OsString]) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot set the parent-death signal")?;
    // a parent that died before the line above sends nothing any more
    ensure!(getppid() == Pid::from_raw(parent), "process {parent} is gone: not starting");
    Err(Command::new(program).args(arguments).exec())
        .with_context(|| format!("cannot run {}", program.display()))
}

/// This package's executable, `cairn-e2e`: it runs itself, and tests find it where cargo put it.
pub fn executable() -> Result<PathBuf> {
    built("cairn-e2e")
}

/// An executable of the workspace, built for the profile and the target folder of whoever asks.
///
/// Cargo puts test programs into `deps/` beside the executables. The error says how to build what is missing.
pub fn built(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe().context("cannot find out which program this is")?;
    let found = me.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| {
        let folder = me.parent().unwrap_or(&me).display();
        format!("there is no {name} in {folder} or the folder above: run `cargo build --bins` first")
    })
}

/// A command that runs `program`, to be given arguments, which dies with this process.
///
/// Start it on a thread that lives as long as the command, see [the module](self).
pub(crate) fn dying_with_us(program: &Path) -> Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(executable()?);
    command.arg("die-with-parent").arg(std::process::id().to_string()).arg(program);
    Ok(command)
}

/// A running child process, with its output in a file.
pub struct Child {
    /// What it is called in messages.
    pub name: String,
    /// The file that holds its stdout and stderr.
    pub log: PathBuf,
    process: tokio::process::Child,
    /// Of one that ends in order when this closes.
    stdin: Option<tokio::process::ChildStdin>,
}

impl Child {
    /// Starts `program`, which dies with this process. Call this on the main thread, see [the module](self).
    ///
    /// The child gets a process group of its own: Ctrl-C at a terminal reaches only the one who stops the
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
    /// The kernel closes that pipe when this process is killed, so even then what it does is put back.
    pub fn spawn_held(name: &str, log: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = tokio::process::Command::new(executable()?);
        command.args(arguments).stdin(Stdio::piped());
        let mut child = Self::start(name, log, command)?;
        child.stdin = child.process.stdin.take();
        Ok(child)
    }

    fn start(name: &str, log: &Path, mut command: tokio::process::Command) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        // one open file for both streams: they share its offset, so neither overwrites the other
        command.stdout(out.try_clone()?).stderr(out);
        command.process_group(0).kill_on_drop(true);
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), process, stdin: None })
    }

    /// Writes a line to the stdin of one that is held.
    pub async fn tell(&mut self, what: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(what).context("cannot write JSON")? + "\n";
        let stdin = self.stdin.as_mut().with_context(|| format!("{} does not listen", self.name))?;
        stdin.write_all(line.as_bytes()).await.with_context(|| format!("cannot reach {}", self.name))
    }

    /// Its process id; none once it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits until it ends.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        self.process.wait().await.with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Sends a signal; nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // the only error left is that it is gone, and until it is waited for its id is not given again
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, kills it after [`GRACE`], and waits until it is gone.
    ///
    /// One that is held has more to put back, and gets four times as long.
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

    /// The last lines of its log, to show when it failed.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// Why a process that holds others stops holding them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Its stdin closed: who started it has ended, or died.
    Stdin,
    /// SIGTERM or SIGINT.
    Signal,
}

/// What comes in from whoever holds the other end of stdin.
pub struct Orders {
    lines: mpsc::UnboundedReceiver<String>,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Orders {
    /// Starts to listen to stdin and to the signals. At most once per process.
    pub fn listen() -> Result<Self> {
        let (send, lines) = mpsc::unbounded_channel();
        // a thread of its own, as a read from stdin cannot be interrupted; it ends with the process
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

    /// The next line, or why there will be none.
    pub async fn next(&mut self) -> Result<String, Release> {
        tokio::select! {
            line = self.lines.recv() => line.ok_or(Release::Stdin),
            _ = self.terminate.recv() => Err(Release::Signal),
            _ = self.interrupt.recv() => Err(Release::Signal),
        }
    }

    /// Waits until there is a reason to stop; lines are read and forgotten.
    pub async fn release(&mut self) -> Release {
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
    /// The process runs under this id.
    Running(u32),
    /// The process ended, described in words; `code` is none when a signal ended it.
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
    /// End in order.
    Term,
    /// End at once.
    Kill,
    /// Freeze.
    Stop,
    /// Go on.
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

/// Runs one process until it ends, passing on the signals that stdin asks for.
///
/// Prints a [`Report`] when the process runs and one when it has ended, and takes an [`Order`] per line.
/// When stdin closes, the process is stopped.
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
        // whoever wanted to know is gone
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said.context("cannot write to stdout"),
    }
}
