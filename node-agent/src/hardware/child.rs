//! Asks in a process of its own what may crash, hang, or leave a driver's libraries in memory.

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

/// The most that a child may say.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// How long a child that was killed may take to end.
const TO_DIE: Duration = Duration::from_millis(500);

/// How the words begin of an answer that is a panic.
const PANICKED: &str = "the process that looked panicked at ";

/// Who has it runs a child: each is given all that the agent leaves, so two at once would be too much.
static TURN: Mutex<()> = Mutex::new(());

/// What is left of a container's memory for the agent itself, in bytes.
const OF_THE_AGENT: u64 = 40 * 1024 * 1024;

/// The least that a child is given, in bytes: with less it would not even start.
const LEAST: u64 = 32 * 1024 * 1024;

/// What a child answers on its standard output, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// What it found.
    Found(T),
    /// There is nothing of the kind here; why.
    Absent(String),
    /// It is not allowed to look; what to do.
    Denied(String),
    /// It cannot find out; why.
    Failed(String),
}

/// A question that is asked now and then, each time in a new process: this very program with a hidden subcommand.
#[derive(Debug)]
pub struct Child {
    subcommand: &'static str,
    limit: Duration,
    /// The one that does not end though it was killed: while it lives no other is started.
    undead: Option<process::Child>,
}

impl Child {
    /// `limit` is how long an answer may take.
    pub fn new(subcommand: &'static str, limit: Duration) -> Self {
        Self { subcommand, limit, undead: None }
    }

    /// Whether the last one does not end though it was killed.
    pub fn is_undead(&mut self) -> bool {
        if self.undead.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            self.undead = None;
        }
        self.undead.is_some()
    }

    /// Waits until it has ended, for ever if need be.
    pub fn bury(&mut self) {
        if let Some(mut child) = self.undead.take() {
            // who cannot be waited for has ended
            let _ = child.wait();
        }
    }

    /// The answer to what is put on the standard input of the child, which starts when no other one runs.
    ///
    /// That may take as long as the other one has: it is for threads that may be kept waiting.
    pub fn ask<T: DeserializeOwned>(&mut self, input: &impl Serialize) -> Answer<T> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask_of(itself(self.subcommand), input)
    }

    /// The same without waiting for others: none, at once, while another child runs.
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
            // An error says that it has ended: then it needs no killing.
            let _ = child.kill();
            let _ = said.recv_timeout(TO_DIE);
        }
        // Who has said all, or was killed, ends in a moment; the wait is for it, not for a driver.
        let status = ended(&mut child);
        if status.is_none() {
            // It has said all that it had to say.
            let _ = child.kill();
            self.undead = Some(child);
        }
        let read = match answered {
            Err(_) => Err(format!("there was no answer within {:?}: a driver hangs", self.limit)),
            Ok(Err(error)) => Err(format!("cannot read the answer: {error}")),
            Ok(Ok(text)) => serde_json::from_slice(&text).map_err(|error| match status {
                Some(status) if !status.success() => {
                    format!("a library crashed: the process that looked ended by {status}")
                }
                _ => format!("the answer makes no sense: {error}"),
            }),
        };
        match read {
            // What was said whole counts, however long who said it takes to end.
            Ok(answer) => answer,
            Err(_) if self.undead.is_some() => Answer::Failed(self.undead_words()),
            Err(words) => Answer::Failed(words),
        }
    }

    fn undead_words(&self) -> String {
        format!(
            "there was no answer within {:?}, and the process that looks does not end though it was killed: a driver \
             hangs in the kernel; nobody asks again before it ends",
            self.limit
        )
    }
}

/// This very program with a subcommand.
fn itself(subcommand: &str) -> Command {
    // By this path the program is found when its file was replaced or removed since, too.
    let mut command = Command::new("/proc/self/exe");
    command.arg(subcommand);
    command
}

/// What a child says, as one piece: its answer, or all that it said if it closed its output before that was whole.
type Said = Receiver<io::Result<Vec<u8>>>;

/// Starts the child, and a thread of this name that listens to it.
fn start(mut command: Command, name: &str, input: Vec<u8>) -> io::Result<(process::Child, Said)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(128 * 1024);
    let listener = thread.spawn(move || {
        let talk = || -> io::Result<Vec<u8>> {
            if let Some(mut to) = to {
                // A child that does not listen to the end says why in its answer.
                let _ = to.write_all(&input);
            }
            from.map_or(Ok(Vec::new()), |from| read_answer(BufReader::new(from.take(MAX_BYTES))))
        };
        // Nobody listens any more when it took too long.
        let _ = sender.send(talk());
    });
    if let Err(error) = listener {
        // Nobody would hear it, nor know of its end. It was asked nothing: no driver keeps it.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok((child, receiver))
}

/// Reads up to the end of the first line that completes a JSON value, or all that there is.
///
/// A library that hangs while its process ends keeps the output open.
fn read_answer(mut from: impl BufRead) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    while from.read_until(b'\n', &mut text)? > 0 {
        if serde_json::from_slice::<IgnoredAny>(&text).is_ok() {
            break;
        }
    }
    Ok(text)
}

/// How a child ended that has nothing more to do; none when it does not end.
fn ended(child: &mut process::Child) -> Option<process::ExitStatus> {
    // There is no wait with a limit in the standard library; a process ends within a millisecond or hangs for minutes.
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

/// Where a container's limit is told, as the container sees it: in bytes, or as `max` (cgroup v2) or a number that no
/// machine has (v1).
const CONTAINER: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// The most that a child may allocate, given the most for its kind, and what [`CONTAINER`] says.
fn memory_limit(memory: Option<u64>, container: Option<&str>) -> Option<u64> {
    let container = container.and_then(|text| text.trim().parse::<u64>().ok());
    let left = container.map(|bytes| bytes.saturating_sub(OF_THE_AGENT).max(LEAST.min(bytes)));
    match (memory, left) {
        (Some(memory), Some(left)) => Some(memory.min(left)),
        (one, other) => one.or(other),
    }
}

/// The child's side: prints what `look` answers to each question on the standard input. To be the whole of the process.
///
/// A panic is an answer, too. `memory` is the most that it may allocate, in bytes; in a container with less, it is what
/// the container leaves beside the agent.
pub fn answer<I: DeserializeOwned, T: Serialize>(
    memory: Option<u64>,
    mut look: impl FnMut(I) -> Answer<T>,
) -> io::Result<()> {
    // A driver that hangs would keep this process for ever after the agent has ended.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let container = CONTAINER.iter().find_map(|path| fs::read_to_string(path).ok());
    if let Some(bytes) = memory_limit(memory, container.as_deref()) {
        // Whoever is killed for using too much may take the whole container along: it is refused the memory instead.
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        setrlimit(Resource::Data, limit)?;
    }
    // Nothing is printed: where it happened is a part of the answer.
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
    fn an_answer_counts_though_who_gave_it_does_not_end() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        // `tail` would end when nobody reads what it writes: the output stays open as another descriptor
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
    fn who_will_not_wait_is_told_at_once_that_another_child_runs() {
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
