//! Runs probes in child processes, as they may crash, hang, or leave a driver's libraries in memory.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::FileExt,
    process::{self, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit},
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

/// The maximum size of a child's output.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The maximum size of a child's error output; a library's last words are at its end.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The maximum length of a line of the error output in a message.
const MAX_LINE: usize = 300;

/// How long a killed child may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The prefix of a response that reports a panic.
const PANIC_PREFIX: &str = "the probe process panicked at ";

/// Held while a child runs. One child may use all memory that the agent leaves, so two must not run at once.
static RUNNING: Mutex<()> = Mutex::new(());

/// The part of a container's memory that is reserved for the agent, in bytes.
const AGENT_BYTES: u64 = 40 * 1024 * 1024;

/// The minimum memory limit of a child, in bytes. With less it does not start.
const MIN_BYTES: u64 = 32 * 1024 * 1024;

/// The response of a child on its standard output, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// The result.
    Found(T),
    /// There is nothing to probe; the reason.
    Absent(String),
    /// A permission is missing; the remedy.
    Denied(String),
    /// The probe failed; the reason.
    Failed(String),
}

/// A probe that runs repeatedly, each time in a new process: this executable with a hidden subcommand.
#[derive(Debug)]
pub struct Child {
    subcommand: &'static str,
    limit: Duration,
    /// The likely cause of a crash.
    crash: &'static str,
    /// The likely cause of no response.
    timeout: &'static str,
    /// A killed child that has not exited. No other child is started meanwhile.
    stuck: Option<process::Child>,
}

impl Child {
    /// `limit` is the timeout of a response.
    pub fn new(subcommand: &'static str, limit: Duration) -> Self {
        Self { subcommand, limit, crash: "a library crashed", timeout: "a driver hangs", stuck: None }
    }

    /// A probe of a description, which loads no driver.
    pub fn of_description(self) -> Self {
        Self {
            crash: "the description contradicts itself (an object is missing or listed twice) or is too large",
            timeout: "the description is too large",
            ..self
        }
    }

    /// Whether a killed child has not exited.
    pub fn is_stuck(&mut self) -> bool {
        if self.stuck.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            self.stuck = None;
        }
        self.stuck.is_some()
    }

    /// Waits without a timeout until a killed child has exited.
    pub fn reap(&mut self) {
        if let Some(mut child) = self.stuck.take() {
            // `wait` fails only if the child has exited.
            let _ = child.wait();
        }
    }

    /// Sends a request to a new child, and returns its response. Waits until no other child runs.
    ///
    /// Call it on a thread that may block: the other child may take its whole timeout.
    pub fn request<T: DeserializeOwned>(&mut self, input: &impl Serialize) -> Answer<T> {
        let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(own_executable(self.subcommand), input)
    }

    /// Like [`Self::request`], but returns `None` immediately while another child runs.
    pub fn try_request<T: DeserializeOwned>(&mut self, input: &impl Serialize) -> Option<Answer<T>> {
        let _running = match RUNNING.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.run(own_executable(self.subcommand), input))
    }

    fn run<T: DeserializeOwned>(&mut self, command: Command, input: &impl Serialize) -> Answer<T> {
        if self.is_stuck() {
            return Answer::Failed(self.stuck_message());
        }
        let input = match serde_json::to_vec(input) {
            Ok(input) => input,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        // Without the file, a crash has no message.
        let errors = errors_file().ok();
        let (mut child, output) = match start(command, self.subcommand, input, errors.as_ref()) {
            Ok(started) => started,
            Err(error) => return Answer::Failed(format!("cannot start the probe process: {error}")),
        };
        let received = output.recv_timeout(self.limit);
        if received.is_err() {
            // `kill` fails only if the child has exited.
            let _ = child.kill();
            let _ = output.recv_timeout(EXIT_TIMEOUT);
        }
        // A child that has responded or was killed exits within milliseconds, unless a driver hangs.
        let status = wait_for_exit(&mut child);
        if status.is_none() {
            // Its response is complete, or it was killed.
            let _ = child.kill();
            self.stuck = Some(child);
        }
        let response = match received {
            Err(_) => Err(format!("no response within {:?}: {}", self.limit, self.timeout)),
            Ok(Err(error)) => Err(format!("cannot read the response: {error}")),
            Ok(Ok(text)) => serde_json::from_slice(&text).map_err(|error| match status {
                Some(status) if !status.success() => {
                    let line = errors.as_ref().map(last_line).unwrap_or_default();
                    let separator = if line.is_empty() { "" } else { ": " };
                    format!("{}: the probe process ended with {status}{separator}{line}", self.crash)
                }
                _ => format!("cannot parse the response: {error}"),
            }),
        };
        match response {
            // A complete response is valid, however long the child takes to exit.
            Ok(answer) => answer,
            Err(_) if self.stuck.is_some() => Answer::Failed(self.stuck_message()),
            Err(message) => Answer::Failed(message),
        }
    }

    fn stuck_message(&self) -> String {
        format!(
            "no response within {:?}, and the killed probe process does not exit: a driver hangs in the kernel; the \
             probe is retried after the process exits",
            self.limit
        )
    }
}

/// This executable with a subcommand.
fn own_executable(subcommand: &str) -> Command {
    // This path remains valid if the file is replaced or removed.
    let mut command = Command::new("/proc/self/exe");
    command.arg(subcommand);
    command
}

/// A child's output: its response, or everything before it closed its output.
type Output = Receiver<io::Result<Vec<u8>>>;

/// A file in memory for the error output of a child.
///
/// It has a fixed size: neither much output nor a process that outlives the child can block, or take memory.
fn errors_file() -> io::Result<File> {
    let file = File::from(memfd_create("errors", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(MAX_ERROR_BYTES as u64)?;
    fcntl_add_seals(&file, SealFlags::GROW)?;
    Ok(file)
}

/// The last line of a child's error output, at most [`MAX_LINE`] characters of it.
fn last_line(errors: &File) -> String {
    let mut bytes = vec![0; MAX_ERROR_BYTES];
    let length = errors.read_at(&mut bytes, 0).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[..length]);
    let written = text.trim_end_matches('\0');
    let last = written.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    last.chars().take(MAX_LINE).collect()
}

/// Starts the child, and a thread of this name that reads its output.
fn start(
    mut command: Command,
    name: &str,
    input: Vec<u8>,
    errors: Option<&File>,
) -> io::Result<(process::Child, Output)> {
    let errors = errors.and_then(|file| file.try_clone().ok()).map_or_else(Stdio::null, Stdio::from);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn()?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(128 * 1024);
    let reader = thread.spawn(move || {
        let exchange = || -> io::Result<Vec<u8>> {
            if let Some(mut to) = to {
                // The response of a child that closes its input early contains the reason.
                let _ = to.write_all(&input);
            }
            from.map_or(Ok(Vec::new()), |from| read_response(BufReader::new(from.take(MAX_BYTES))))
        };
        // The receiver is dropped after a timeout.
        let _ = sender.send(exchange());
    });
    if let Err(error) = reader {
        // The child has no request yet, so no driver blocks its exit.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok((child, receiver))
}

/// Reads up to the end of the first line that completes a JSON value, or to the end.
///
/// A library that hangs at process exit keeps the output open.
fn read_response(mut from: impl BufRead) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    while from.read_until(b'\n', &mut text)? > 0 {
        if serde_json::from_slice::<IgnoredAny>(&text).is_ok() {
            break;
        }
    }
    Ok(text)
}

/// The exit status of a child that has finished; `None` if it does not exit.
fn wait_for_exit(child: &mut process::Child) -> Option<process::ExitStatus> {
    // The standard library has no wait with a timeout. A process exits within a millisecond, or hangs for minutes.
    let mut pause = Duration::from_micros(100);
    let mut waited = Duration::ZERO;
    while waited < EXIT_TIMEOUT {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Err(_) => return None,
            Ok(None) => thread::sleep(pause),
        }
        waited += pause;
        pause *= 2;
    }
    None
}

/// The files with the memory limit of the own container, in bytes. Without a limit they contain `max` (cgroup v2), or a
/// number larger than any machine's memory (v1).
const LIMIT_FILES: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// The memory limit of a child, given the limit of its kind and the content of [`LIMIT_FILES`].
fn memory_limit(memory: Option<u64>, container: Option<&str>) -> Option<u64> {
    let container = container.and_then(|text| text.trim().parse::<u64>().ok());
    let left = container.map(|bytes| bytes.saturating_sub(AGENT_BYTES).max(MIN_BYTES.min(bytes)));
    match (memory, left) {
        (Some(memory), Some(left)) => Some(memory.min(left)),
        (one, other) => one.or(other),
    }
}

/// The child's side: responds to each request on standard input with the result of `probe`, or with a panic's message.
///
/// `memory` is its memory limit in bytes. In a smaller container, the limit is the memory that the agent leaves.
pub fn serve<I: DeserializeOwned, T: Serialize>(
    memory: Option<u64>,
    mut probe: impl FnMut(I) -> Answer<T>,
) -> io::Result<()> {
    // Otherwise a hanging driver could keep this process alive after the agent has exited.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let container = LIMIT_FILES.iter().find_map(|path| fs::read_to_string(path).ok());
    if let Some(bytes) = memory_limit(memory, container.as_deref()) {
        // Allocations fail before the OOM killer, which may kill the whole container, becomes active.
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        setrlimit(Resource::Data, limit)?;
    }
    // The hook prints nothing: the location is part of the response.
    let location = Arc::new(Mutex::new(String::new()));
    let panicked = Arc::clone(&location);
    std::panic::set_hook(Box::new(move |panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        *panicked.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }));
    let requests = serde_json::Deserializer::from_reader(io::BufReader::new(io::stdin())).into_iter();
    let mut out = io::stdout().lock();
    for request in requests {
        let response = match request {
            Err(error) => Answer::Failed(format!("cannot parse the request: {error}")),
            Ok(request) => {
                let probe = std::panic::AssertUnwindSafe(|| probe(request));
                std::panic::catch_unwind(probe).unwrap_or_else(|panic| {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                    let location = location.lock().unwrap_or_else(PoisonError::into_inner);
                    Answer::Failed(format!("{PANIC_PREFIX}{location}: {text}"))
                })
            }
        };
        serde_json::to_writer(&mut out, &response)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_crash_or_no_response_is_reported_with_its_likely_cause() {
        let driver = || Child::new("test", Duration::from_mins(1));
        // much output is cut, and does not block
        let many = "yes 0123456789abcdef | head -c 1000000 >&2; kill -KILL $$";
        for (mut child, script, expected) in [
            (
                driver(),
                "kill -KILL $$",
                "a library crashed: the probe process ended with signal: 9 (SIGKILL)",
            ),
            (
                driver(),
                "echo first >&2; printf 'topology.c:7: failed.\\n\\n' >&2; kill -KILL $$",
                "a library crashed: the probe process ended with signal: 9 (SIGKILL): topology.c:7: failed.",
            ),
            (
                driver().of_description(),
                "echo failed >&2; exit 3",
                "the description contradicts itself (an object is missing or listed twice) or is too large: the probe \
                 process ended with exit status: 3: failed",
            ),
            (
                Child::new("test", Duration::from_millis(10)),
                "exec sleep 60",
                "no response within 10ms: a driver hangs",
            ),
            (
                Child::new("test", Duration::from_millis(10)).of_description(),
                "exec sleep 60",
                "no response within 10ms: the description is too large",
            ),
        ] {
            assert_eq!(child.run::<u32>(shell(script), &()), Answer::Failed(expected.to_owned()), "{script}");
        }
        let Answer::Failed(message) = driver().run::<u32>(shell(many), &()) else { panic!("it crashes") };
        assert!(message.starts_with("a library crashed"), "{message}");
        assert!(message.len() < 500, "{message}");
        let found = driver().run(shell("echo warning >&2; echo '{\"found\":8}'"), &());
        assert_eq!(found, Answer::Found(8), "error output alone is no failure");
    }

    #[test]
    fn a_response_is_valid_even_if_the_child_does_not_exit() {
        // `tail` exits without a reader, so the output stays open as another descriptor
        let open = "exec 3>&1 >/dev/null";
        let closed = "exec >/dev/null";
        let whole = r#"{"found":7}"#;
        for (text, output, expected) in [(whole, open, Some(7)), (whole, closed, Some(7)), ("", closed, None)]
        {
            let mut child = Child::new("test", Duration::from_mins(1));
            let hanging = shell(&format!("echo '{text}';  {output}; exec tail -f /dev/null"));
            let answer = child.run::<u32>(hanging, &());
            match expected {
                Some(found) => assert_eq!(answer, Answer::Found(found)),
                None => assert_eq!(answer, Answer::Failed(child.stuck_message())),
            }
            assert!(child.stuck.is_some(), "no other child is started");
            while child.is_stuck() {
                thread::yield_now();
            }
            assert_eq!(child.run(shell("echo '{\"found\":8}'"), &()), Answer::Found(8));
        }
    }

    #[test]
    fn a_response_ends_with_the_line_that_completes_it() {
        for (output, expected) in [
            ("7\n8\n", "7\n"),
            ("{\n\"found\": 7\n}\nmore", "{\n\"found\": 7\n}\n"),
            ("{\"found\":7", "{\"found\":7"),
            ("output of a library\n7\n", "output of a library\n7\n"),
            ("", ""),
        ] {
            assert_eq!(read_response(output.as_bytes()).unwrap(), expected.as_bytes(), "{output}");
        }
    }

    #[test]
    fn try_ask_returns_immediately_while_another_child_runs() {
        let mut child = Child::new("test", Duration::from_mins(1));
        let running = RUNNING.lock().unwrap();
        assert_eq!(child.try_request::<u32>(&()), None);
        drop(running);
    }

    #[test]
    fn the_memory_limit_of_a_child_is_below_that_of_its_container() {
        const MIB: u64 = 1024 * 1024;
        let limit = |memory: Option<u64>, container: Option<&str>| {
            memory_limit(memory.map(|mib| mib * MIB), container).map(|bytes| bytes / MIB)
        };
        assert_eq!(limit(Some(192), Some("134217728\n")), Some(88), "the chart's 128 MiB");
        assert_eq!(limit(None, Some("134217728\n")), Some(88));
        assert_eq!(limit(Some(192), Some("1073741824\n")), Some(192));
        for unlimited in [None, Some("max\n"), Some("")] {
            assert_eq!((limit(Some(192), unlimited), limit(None, unlimited)), (Some(192), None));
        }
        assert_eq!(limit(Some(192), Some("9223372036854771712\n")), Some(192), "no limit in cgroup v1");
        assert_eq!(limit(Some(192), Some("52428800")), Some(32), "a container of 50 MiB");
        assert_eq!(limit(Some(192), Some("20971520")), Some(20), "never more than the container's limit");
    }
}
