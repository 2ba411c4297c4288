//! NVIDIA GPUs, by their management library NVML, which comes with the driver and is loaded if present.

mod counters;
mod gpus;
mod library;
mod state;
pub mod trial;
mod trouble;
mod xids;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    reading::DeviceReading,
    worker::{Silence, Worker},
};
use crate::{metrics::CollectorState, source::Collector};

use library::Library;
use state::State;
use xids::Xids;

pub use {
    gpus::{Found, locate_processor_links},
    library::FirstVersion,
    trouble::Trouble,
};

/// The reason while drivers may not be loaded.
pub const RELEASED: &str = "the driver is released; probes that would load it are off";

/// The time-out of NVML: the first request loads the driver's state, which takes a second on some machines.
const LIMIT: Duration = Duration::from_secs(2);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Devices,
    Counters,
}

/// An answer.
#[derive(Debug)]
enum Answer {
    Devices(Result<Found, Trouble>),
    Counters(Vec<DeviceReading>),
}

/// NVML on a thread of its own: a driver in trouble blocks its callers for minutes.
#[derive(Debug)]
pub struct Nvml {
    worker: Option<Worker<Question, Answer>>,
    in_use: Weak<()>,
}

/// The state of the NVML thread. The members are dropped in this order.
struct Asker {
    state: State,
    /// The addresses of all GPUs seen so far.
    known: BTreeSet<String>,
    /// When the driver first reported its devices.
    xids: Option<Xids>,
    library: Arc<Library>,
    /// Held while any thread may have the library loaded.
    in_use: Arc<()>,
}

impl Asker {
    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Devices => {
                let found = self.state.ask(|nvml| gpus::read(nvml, &mut self.known));
                if found.is_ok() {
                    let watch = || Xids::watch(Arc::clone(&self.library), Arc::downgrade(&self.in_use));
                    self.xids.get_or_insert_with(watch);
                }
                Answer::Devices(found)
            }
            Question::Counters => {
                let readings = self.state.ask(|nvml| counters::read(nvml, self.xids.as_ref()));
                Answer::Counters(readings.unwrap_or_default())
            }
        }
    }
}

/// Threads that may still have the library loaded after it was released.
#[derive(Debug)]
pub struct Leaving(Weak<()>);

impl Leaving {
    /// Each of them holds one of these.
    pub fn of(in_use: Weak<()>) -> Self {
        Self(in_use)
    }

    /// Whether none has it loaded.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Nvml {
    /// Starts to try and load the library in this file, by default the one that the system's loader finds.
    ///
    /// Requests before that wait for it, within the limit.
    pub fn new(file: Option<OsString>, first: FirstVersion) -> Self {
        let hold = Arc::new(());
        let in_use = Arc::downgrade(&hold);
        let worker = Worker::start("nvml", LIMIT, move || {
            let library = Arc::new(Library::new(file, first));
            let state = State::new(Arc::clone(&library));
            let mut asker = Asker { state, known: BTreeSet::new(), xids: None, library, in_use: hold };
            move |question| asker.answer(question)
        });
        Self { worker: worker.ok(), in_use }
    }

    /// Releases it: the library is closed as soon as no request is pending.
    pub fn let_go(self) -> Leaving {
        Leaving::of(self.in_use)
    }

    /// Whether there is no thread that could answer.
    pub fn is_gone(&self) -> bool {
        self.worker.as_ref().is_none_or(Worker::has_ended)
    }

    /// The GPUs of the machine.
    pub fn devices(&self) -> Result<Found, Trouble> {
        match self.ask(Question::Devices)? {
            Answer::Devices(found) => found,
            Answer::Counters(_) => Err(Trouble::Failed("it answers another question".to_owned())),
        }
    }

    /// Readings of the GPUs that answer.
    pub fn counters(&self) -> Vec<DeviceReading> {
        match self.ask(Question::Counters) {
            Ok(Answer::Counters(readings)) => readings,
            Ok(Answer::Devices(_)) | Err(_) => Vec::new(),
        }
    }

    fn ask(&self, question: Question) -> Result<Answer, Trouble> {
        let Some(worker) = &self.worker else {
            return Err(Trouble::Failed("the system gives no thread to ask it".to_owned()));
        };
        worker.ask(question).map_err(|silence| match silence {
            Silence::Hangs => Trouble::Failed(format!(
                "it does not answer within {LIMIT:?}: the driver hangs; it is not asked again before it answers (see \
                 `dmesg`, and whether `nvidia-smi` hangs too)"
            )),
            Silence::Panicked => Trouble::Failed("it answers nonsense".to_owned()),
        })
    }
}

/// The collector's state while drivers may not be loaded.
pub fn released() -> Collector {
    Collector { name: "nvml", state: CollectorState::Absent, words: RELEASED.to_owned(), took: None }
}

/// The collector's state, given whether there is an NVIDIA GPU at all.
pub fn collector(outcome: &Result<Found, Trouble>, has_gpu: bool) -> Collector {
    let (state, words) = match outcome {
        Ok(_) => (CollectorState::Ok, String::new()),
        Err(trouble) => trouble.fares(has_gpu),
    };
    Collector { name: "nvml", state, words, took: None }
}
