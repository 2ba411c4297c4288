//! A process of the product, controlled by a test.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{BufRead, BufReader, Write},
    net::Ipv4Addr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    Cluster,
    keeper::{self, GRACE, Order, Report},
    wait,
};

/// The limit for a process's readiness probe to succeed.
const READY_LIMIT: Duration = Duration::from_mins(3);

/// The start parameters of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment: nothing is inherited from the test.
    pub environment: BTreeMap<String, String>,
    /// Its ports, by their number in the manifest.
    pub ports: BTreeMap<u16, u16>,
    /// The local port and path of its readiness probe, if any.
    pub readiness: Option<(u16, String)>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("no status"),
        }
    }
}

/// A running process. Stopped on drop, and killed by the kernel when the test dies.
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    launch: Launch,
    keeper: std::process::Child,
    exit: Arc<OnceLock<Exit>>,
}

impl Cluster {
    /// Starts `program` next to the cluster. Its output goes to `log/NAME-NUMBER.log` in the state folder.
    pub fn run(&self, name: &str, program: &Path, launch: Launch) -> Result<Process> {
        ensure!(program.is_file(), "there is no program {}: build it first", program.display());
        let name = format!("{name}-{}", self.number());
        let log = self.plane().state.join("log").join(format!("{name}.log"));
        let mut keeper = Command::new(keeper::executable()?)
            .args(["keep", "--log"])
            .arg(&log)
            .arg(program)
            .args(&launch.arguments)
            .env_clear()
            .envs(&launch.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start the keeper of {name}"))?;
        let mut reports = BufReader::new(keeper.stdout.take().expect("stdout is piped")).lines();
        let first = reports.next().with_context(|| format!("the keeper of {name} failed; see stderr"))?;
        let Report::Running(pid) = serde_json::from_str(&first.context("cannot read from the keeper")?)?
        else {
            bail!("the keeper of {name} did not start it")
        };
        let exit = Arc::new(OnceLock::new());
        let seen = Arc::clone(&exit);
        // ends with the keeper
        std::thread::spawn(move || {
            for line in reports.map_while(Result::ok) {
                if let Ok(Report::Ended { code, signal }) = serde_json::from_str(&line) {
                    let _ = seen.set(Exit { code, signal }); // it ends once
                }
            }
        });
        Ok(Process { name, pid, log, launch, keeper, exit })
    }
}

impl Process {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its output so far.
    pub fn printed(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("cannot read {}", self.log.display()))
    }

    /// Its exit, if it ended.
    pub fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }

    /// The local port for `declared`, a port in its manifest.
    pub fn port(&self, declared: u16) -> Result<u16> {
        let known = &self.launch.ports;
        known
            .get(&declared)
            .copied()
            .with_context(|| format!("{} declares no port {declared}: {known:?}", self.name))
    }

    /// Waits at most half a minute until its readiness probe answers 200; fails at once if it ends.
    pub async fn wait_ready(&self) -> Result<()> {
        let (port, path) = self
            .launch
            .readiness
            .as_ref()
            .with_context(|| format!("{} has no readiness probe", self.name))?;
        let looked = wait::until(READY_LIMIT, async || {
            if let Some(exit) = self.exit() {
                return Ok(Err(format!("it ended ({exit})")));
            }
            match http_get(*port, path).await? {
                (200, _) => Ok(Ok(())),
                (status, body) => bail!("{path} answers {status} {}", body.trim()),
            }
        });
        looked.await.and_then(|ready| ready).map_err(|seen| {
            let printed = self.printed().unwrap_or_default();
            anyhow!("{} is not ready: {seen}\n{printed}(from {})", self.name, self.log.display())
        })
    }

    /// Sends `GET path` to the port of its readiness probe: the status and the body.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let readiness = self.launch.readiness.as_ref();
        let (port, _) =
            readiness.with_context(|| format!("{} has no readiness probe: use `http_get`", self.name))?;
        http_get(*port, path).await
    }

    /// Its peak memory in KiB (`VmHWM`); it must be running.
    pub fn rss_peak_kib(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid);
        let text = fs::read_to_string(&path).with_context(|| format!("{} does not run", self.name))?;
        let value = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = value.and_then(|value| value.trim().strip_suffix(" kB")?.trim().parse().ok());
        number.with_context(|| format!("no VmHWM in {path}"))
    }

    /// Sends SIGTERM and waits until it ends; after the limit it is killed, which is an error.
    pub async fn stop(&mut self) -> Result<Exit> {
        self.order(Order::Term)?;
        if let Ok(exit) = self.wait_ended(GRACE * 2).await {
            return Ok(exit);
        }
        self.kill9().await?;
        bail!(
            "{} did not end within {:?} of SIGTERM; its log is {}",
            self.name,
            GRACE * 2,
            self.log.display()
        )
    }

    /// Sends SIGKILL and waits until it is gone.
    pub async fn kill9(&mut self) -> Result<Exit> {
        self.order(Order::Kill)?;
        self.wait_ended(GRACE).await
    }

    /// Freezes it with SIGSTOP: it keeps its connections and does nothing, like a hanging node.
    pub fn freeze(&mut self) -> Result<()> {
        self.order(Order::Stop)
    }

    /// Resumes a frozen process with SIGCONT.
    pub fn thaw(&mut self) -> Result<()> {
        self.order(Order::Cont)
    }

    /// Waits until it ends by itself.
    pub async fn wait_ended(&self, limit: Duration) -> Result<Exit> {
        let ended = wait::until(limit, async || self.exit().ok_or("it runs"));
        ended.await.map_err(|_| anyhow!("{} still runs after {limit:?}", self.name))
    }

    fn order(&mut self, order: Order) -> Result<()> {
        if self.exit().is_some() {
            return Ok(());
        }
        let line = serde_json::to_string(&order)? + "\n";
        let stdin = self.keeper.stdin.as_mut().expect("stdin is piped and closed only by drop");
        match stdin.write_all(line.as_bytes()) {
            // it has just ended, and its keeper with it
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.with_context(|| format!("cannot reach the keeper of {}", self.name)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // it stops the process within its own limits
        if let Err(error) = self.keeper.wait() {
            eprintln!("cannot wait for the keeper of {}: {error}", self.name);
        }
    }
}

/// A server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, by name in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, as text.
    pub body: String,
}

/// Sends `GET path` to 127.0.0.1 at `port`: the status and the body.
pub async fn http_get(port: u16, path: &str) -> Result<(u16, String)> {
    http(port, path).await.map(|answer| (answer.status, answer.body))
}

/// Sends `GET path` to 127.0.0.1 at `port`.
///
/// HTTP/1.0, so that the body ends with the connection and is never chunked.
pub async fn http(port: u16, path: &str) -> Result<Answer> {
    request(port, ("GET", path), "").await
}

/// Sends `POST path` with a body in JSON to 127.0.0.1 at `port`, likewise.
pub async fn http_post(port: u16, path: &str, body: &str) -> Result<Answer> {
    request(port, ("POST", path), body).await
}

async fn request(port: u16, (method, path): (&str, &str), body: &str) -> Result<Answer> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all((head + body).as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = ask.await.with_context(|| format!("http://127.0.0.1:{port}{path}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    let status =
        status.with_context(|| format!("http://127.0.0.1:{port}{path} does not speak HTTP: {head}"))?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
    Ok(Answer { status, headers, body: body.to_owned() })
}
