//! NVIDIA's GPUs, by their management library NVML, which comes with the driver and is loaded if it is there.

mod counters;
mod gpus;
mod library;
mod state;
pub mod trial;
mod trouble;
mod xids;

use std::{ffi::OsString, sync::Arc, time::Duration};

use super::{
    reading::DeviceReading,
    worker::{Silence, Worker},
};
use crate::{metrics::CollectorState, source::Collector};

use gpus::Found;
use library::Library;
use state::State;
use xids::Xids;

pub use trouble::Trouble;

/// How long NVML may take: the first question loads the driver's state, which takes a second on some machines.
const LIMIT: Duration = Duration::from_secs(2);

/// What is asked.
#[derive(Clone, Copy, Debug)]
enum Question {
    Devices,
    Counters,
}

/// What is answered.
#[derive(Debug)]
enum Answer {
    Devices(Result<Found, Trouble>),
    Counters(Vec<DeviceReading>),
}

/// NVML, asked on a thread of its own: a driver in trouble lets its callers wait for minutes.
#[derive(Debug)]
pub struct Nvml {
    worker: Option<Worker<Question, Answer>>,
}

impl Nvml {
    /// Begins to try and to load the library in this file, by default the one that the system's loader finds.
    ///
    /// Whoever asks before that is done waits for it, within the limit.
    pub fn new(file: Option<OsString>) -> Self {
        let worker = Worker::start("nvml", LIMIT, move || {
            let library = Arc::new(Library::new(file));
            let mut state = State::new(Arc::clone(&library));
            // From when the driver first says what there is.
            let mut xids = None;
            move |question| match question {
                Question::Devices => {
                    let found = state.ask(gpus::read);
                    if found.is_ok() {
                        xids.get_or_insert_with(|| Xids::watch(Arc::clone(&library)));
                    }
                    Answer::Devices(found)
                }
                Question::Counters => {
                    let readings = state.ask(|nvml| counters::read(nvml, xids.as_ref()));
                    Answer::Counters(readings.unwrap_or_default())
                }
            }
        });
        Self { worker: worker.ok() }
    }

    /// The GPUs of the machine.
    pub fn devices(&self) -> Result<Found, Trouble> {
        match self.ask(Question::Devices)? {
            Answer::Devices(found) => found,
            Answer::Counters(_) => Err(Trouble::Failed("it answers another question".to_owned())),
        }
    }

    /// What the GPUs say about themselves; nothing of those that do not answer.
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

/// How NVML fares, given whether there is a GPU of NVIDIA at all.
pub fn collector(outcome: &Result<Found, Trouble>, has_gpu: bool) -> Collector {
    let (state, words) = match outcome {
        Ok(_) => (CollectorState::Ok, String::new()),
        Err(trouble) => trouble.fares(has_gpu),
    };
    Collector { name: "nvml", state, words }
}
