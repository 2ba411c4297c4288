//! Runs probes that may crash, hang, or leave a driver's libraries in memory in a child process.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    process::{self, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

/// The maximum size of a child's output.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// How long a killed child may take to exit.
const TO_DIE: Duration = Duration::from_millis(500);

/// The prefix of an answer that reports a panic.
const PANICKED: &str = "the probe process panicked at ";

/// Held while a child runs: each may use all memory that the agent leaves, so two at once would exceed it.
static TURN: Mutex<()> = Mutex::new(());

/// The share of a container's memory that is reserved for the agent, in bytes.
const OF_THE_AGENT: u64 = 40 * 1024 * 1024;

/// The minimum memory of a child, in bytes; with less it would not start.
const LEAST: u64 = 32 * 1024 * 1024;

/// The answer of a child on its standard output, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// The result.
    Found(T),
    /// Nothing of the kind exists here, and why.
    Absent(String),
    /// A permission is missing, and the remedy.
    Denied(String),
    /// The probe failed, and why.
    Failed(String),
}

/// A probe that runs repeatedly, each time in a new process: this executable with a hidden subcommand.
#[derive(Debug)]
pub struct Child {
    subcommand: &'static str,
    limit: Duration,
    /// A killed child that has not exited: while it lives no other is started.
    undead: Option<process::Child>,
}

impl Child {
    /// `limit` is the time-out of an answer.
    pub fn new(subcommand: &'static str, limit: Duration) -> Self {
        Self { subcommand, limit, undead: None }
    }

    /// Whether a killed child has not exited.
    pub fn is_undead(&mut self) -> bool {
        if self.undead.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            self.undead = None;
        }
        self.undead.is_some()
    }

    /// Waits until it has exited, without a limit.
    pub fn bury(&mut self) {
        if let Some(mut child) = self.undead.take() {
            // a child that cannot be waited for has exited
            let _ = child.wait();
        }
    }

    /// Sends a request to a new child, and returns its answer; waits until no other child runs.
    ///
    /// The other child may take its whole time-out: call it on threads that may block.
    pub fn ask<T: DeserializeOwned>(&mut self, input: &impl Serialize) -> Answer<T> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask_of(itself(self.subcommand), input)
    }

    /// The same without waiting: returns `None` at once while another child runs.
    pub fn try_ask<T: DeserializeOwned>(&mut self, input: &impl Serialize) -> Option<Answer<T>> {
        let _turn = match TURN.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.ask_of(itself(self.subcommand), input))
    }

    fn ask_of<T: DeserializeOwned>(&mut self, command: Command, input: &impl Serialize) -> Answer<T> {
        if self.is_undead() {
            return Answer::Failed(self.undead_words());
        }
        let input = match serde_json::to_vec(input) {
            Ok(input) => input,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        let (mut child, said) = match start(command, self.subcommand, input) {
            Ok(started) => started,
            Err(error) => return Answer::Failed(format!("cannot start a process for it: {error}")),
        };
        let answered = said.recv_timeout(self.limit);
        if answered.is_err() {
            // An error means that it has exited, and needs no kill.
            let _ = child.kill();
            let _ = said.recv_timeout(TO_DIE);
        }
        // A child that has answered, or was killed, exits in a moment; the wait is for it, not for a driver.
        let status = ended(&mut child);
        if status.is_none() {
            // Its answer is complete.
            let _ = child.kill();
            self.undead = Some(child);
        }
        let read = match answered {
            Err(_) => Err(format!("there was no answer within {:?}: a driver hangs", self.limit)),
            Ok(Err(error)) => Err(format!("cannot read the answer: {error}")),
            Ok(Ok(text)) => serde_json::from_slice(&text).map_err(|error| match status {
                Some(status) if !status.success() => {
                    format!("a library crashed: the probe process ended with {status}")
                }
                _ => format!("the answer makes no sense: {error}"),
            }),
        };
        match read {
            // A complete answer is valid, however long the child takes to exit.
            Ok(answer) => answer,
            Err(_) if self.undead.is_some() => Answer::Failed(self.undead_words()),
            Err(words) => Answer::Failed(words),
        }
    }

    fn undead_words(&self) -> String {
        format!(
            "there was no answer within {:?}, and the process that looks does not end though it was killed: a driver \
             hangs in the kernel; it is not retried before that exits",
            self.limit
        )
    }
}

/// This executable with a subcommand.
fn itself(subcommand: &str) -> Command {
    // This path remains valid if the file was replaced or removed.
    let mut command = Command::new("/proc/self/exe");
    command.arg(subcommand);
    command
}

/// A child's output: its answer, or everything if it closed its output before the answer was complete.
type Said = Receiver<io::Result<Vec<u8>>>;

/// Starts the child, and a thread of this name that reads from it.
fn start(mut command: Command, name: &str, input: Vec<u8>) -> io::Result<(process::Child, Said)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(128 * 1024);
    let listener = thread.spawn(move || {
        let talk = || -> io::Result<Vec<u8>> {
            if let Some(mut to) = to {
                // A child that closes its input early says why in its answer.
                let _ = to.write_all(&input);
            }
            from.map_or(Ok(Vec::new()), |from| read_answer(BufReader::new(from.take(MAX_BYTES))))
        };
        // The receiver is gone after a time-out.
        let _ = sender.send(talk());
    });
    if let Err(error) = listener {
        // Nothing would read its output, nor notice its exit. It has no request yet: no driver blocks it.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok((child, receiver))
}

/// Reads up to the end of the first line that completes a JSON value, or to the end.
///
/// A library that hangs at process exit keeps the output open.
fn read_answer(mut from: impl BufRead) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    while from.read_until(b'\n', &mut text)? > 0 {
        if serde_json::from_slice::<IgnoredAny>(&text).is_ok() {
            break;
        }
    }
    Ok(text)
}

/// The exit status of a child that has finished; `None` if it does not exit.
fn ended(child: &mut process::Child) -> Option<process::ExitStatus> {
    // The standard library has no wait with a time-out; a process exits within a millisecond or hangs for minutes.
    let mut pause = Duration::from_micros(100);
    let mut waited = Duration::ZERO;
    while waited < TO_DIE {
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

/// The files with a container's memory limit, as seen from inside: bytes, or `max` (cgroup v2), or a number larger than any
/// machine's memory (v1).
const CONTAINER: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// The memory limit of a child, given the limit of its kind and the content of [`CONTAINER`].
fn memory_limit(memory: Option<u64>, container: Option<&str>) -> Option<u64> {
    let container = container.and_then(|text| text.trim().parse::<u64>().ok());
    let left = container.map(|bytes| bytes.saturating_sub(OF_THE_AGENT).max(LEAST.min(bytes)));
    match (memory, left) {
        (Some(memory), Some(left)) => Some(memory.min(left)),
        (one, other) => one.or(other),
    }
}

/// The child's side: answers each request on standard input with the result of `look`. It is the whole process.
///
/// A panic is an answer, too. `memory` is its limit in bytes; in a smaller container, the limit is what the container
/// leaves beside the agent.
pub fn answer<I: DeserializeOwned, T: Serialize>(
    memory: Option<u64>,
    mut look: impl FnMut(I) -> Answer<T>,
) -> io::Result<()> {
    // A hanging driver would keep this process alive after the agent has exited.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let container = CONTAINER.iter().find_map(|path| fs::read_to_string(path).ok());
    if let Some(bytes) = memory_limit(memory, container.as_deref()) {
        // The OOM killer may kill the whole container: allocations fail instead.
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        setrlimit(Resource::Data, limit)?;
    }
    // Nothing is printed: the location is part of the answer.
    let place = Arc::new(Mutex::new(String::new()));
    let panicked = Arc::clone(&place);
    std::panic::set_hook(Box::new(move |panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        *panicked.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }));
    let questions = serde_json::Deserializer::from_reader(io::BufReader::new(io::stdin())).into_iter();
    let mut out = io::stdout().lock();
    for question in questions {
        let answer = match question {
            Err(error) => Answer::Failed(format!("the question makes no sense: {error}")),
            Ok(question) => {
                let look = std::panic::AssertUnwindSafe(|| look(question));
                std::panic::catch_unwind(look).unwrap_or_else(|panic| {
                    let words = panic.downcast_ref::<String>().map(String::as_str);
                    let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
                    let place = place.lock().unwrap_or_else(PoisonError::into_inner);
                    Answer::Failed(format!("{PANICKED}{place}: {words}"))
                })
            }
        };
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_even_if_the_child_does_not_exit() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        // `tail` would exit without a reader: the output stays open as another descriptor
        let open = "exec 3>&1 >/dev/null";
        let closed = "exec >/dev/null";
        let whole = r#"{"found":7}"#;
        for (said, output, expected) in [(whole, open, Some(7)), (whole, closed, Some(7)), ("", closed, None)]
        {
            let mut child = Child::new("test", Duration::from_mins(1));
            let stays = shell(&format!("echo '{said}'; {output}; exec tail -f /dev/null"));
            let answer = child.ask_of::<u32>(stays, &());
            match expected {
                Some(found) => assert_eq!(answer, Answer::Found(found)),
                None => assert_eq!(answer, Answer::Failed(child.undead_words())),
            }
            assert!(child.undead.is_some(), "no other one starts beside it");
            while child.is_undead() {
                thread::yield_now();
            }
            assert_eq!(child.ask_of(shell("echo '{\"found\":8}'"), &()), Answer::Found(8));
        }
    }

    #[test]
    fn an_answer_ends_with_the_line_that_completes_it() {
        for (said, read) in [
            ("7\n8\n", "7\n"),
            ("{\n\"found\": 7\n}\nmore", "{\n\"found\": 7\n}\n"),
            ("{\"found\":7", "{\"found\":7"),
            ("a library talks\n7\n", "a library talks\n7\n"),
            ("", ""),
        ] {
            assert_eq!(read_answer(said.as_bytes()).unwrap(), read.as_bytes(), "{said}");
        }
    }

    #[test]
    fn try_ask_returns_at_once_while_another_child_runs() {
        let mut child = Child::new("test", Duration::from_mins(1));
        let turn = TURN.lock().unwrap();
        assert_eq!(child.try_ask::<u32>(&()), None);
        drop(turn);
    }

    #[test]
    fn a_child_is_given_less_than_its_container_has() {
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
        assert_eq!(limit(Some(192), Some("52428800")), Some(32), "of 50 MiB");
        assert_eq!(limit(Some(192), Some("20971520")), Some(20), "never more than there is");
    }
}
