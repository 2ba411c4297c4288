//! The collector of NVIDIA GPUs. Their library NVML is part of the driver, and is loaded if present.

mod counters;
mod failure;
mod gpus;
mod library;
mod state;
pub mod trial;
mod xids;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    reading::DeviceReading,
    worker::{self, NoResponse, Request, Worker},
};
use crate::{metrics::CollectorState, source::Collector};

use library::Library;
use state::Session;
use xids::Xids;

pub use {
    failure::NvmlFailure,
    gpus::{C2C, NvmlDevices, locate_processor_links},
    library::FirstVersion,
};

/// The collector's reason while drivers may not be loaded.
pub const RELEASED: &str = "the driver is released; probes that load it are disabled";

/// The timeout of NVML. The first request initializes the driver, which takes a second on some machines.
const LIMIT: Duration = Duration::from_secs(2);

type Response = worker::Response<Result<NvmlDevices, NvmlFailure>>;

/// NVML on its own thread, as a failing driver may block its callers for minutes.
#[derive(Debug)]
pub struct Nvml {
    worker: Option<Worker<Request, Response>>,
    in_use: Weak<()>,
}

/// The request handler of the NVML thread. Its fields are dropped in this order.
struct Handler {
    session: Session,
    /// The addresses of all GPUs listed so far.
    known: BTreeSet<String>,
    /// The XID counters, from the first successful device list on.
    xids: Option<Xids>,
    library: Arc<Library>,
    /// Held while any thread may have the library loaded.
    in_use: Arc<()>,
}

impl Handler {
    fn handle(&mut self, request: Request) -> Response {
        match request {
            Request::Devices => {
                let found = self.session.query(|nvml| gpus::read(nvml, &mut self.known));
                if found.is_ok() {
                    let watch = || Xids::watch(Arc::clone(&self.library), Arc::downgrade(&self.in_use));
                    self.xids.get_or_insert_with(watch);
                }
                Response::Devices(found)
            }
            Request::Counters => {
                let readings = self.session.query(|nvml| counters::read(nvml, self.xids.as_ref()));
                Response::Counters(readings.unwrap_or_default())
            }
        }
    }
}

/// Tracks the threads that may still have the library loaded after its release.
#[derive(Debug)]
pub struct Unloading(Weak<()>);

impl Unloading {
    /// Each such thread holds a strong reference.
    pub fn of(in_use: Weak<()>) -> Self {
        Self(in_use)
    }

    /// Whether no thread has the library loaded.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Nvml {
    /// Starts to try and load the library in `file`, by default the one that the system's loader finds.
    ///
    /// Earlier requests wait for this, within their timeout.
    pub fn new(file: Option<OsString>, first: FirstVersion) -> Self {
        let hold = Arc::new(());
        let in_use = Arc::downgrade(&hold);
        let worker = Worker::start("nvml", LIMIT, move || {
            let library = Arc::new(Library::new(file, first));
            let session = Session::new(Arc::clone(&library));
            let mut handler = Handler { session, known: BTreeSet::new(), xids: None, library, in_use: hold };
            move |request| handler.handle(request)
        });
        Self { worker: worker.ok(), in_use }
    }

    /// Releases the library: it is closed as soon as no request is pending.
    pub fn release(self) -> Unloading {
        Unloading::of(self.in_use)
    }

    /// Whether the NVML thread does not exist or has exited.
    pub fn is_gone(&self) -> bool {
        self.worker.as_ref().is_none_or(Worker::has_ended)
    }

    /// The GPUs of the machine.
    pub fn devices(&self) -> Result<NvmlDevices, NvmlFailure> {
        match self.query(Request::Devices)? {
            Response::Devices(found) => found,
            Response::Counters(_) => Err(NvmlFailure::Failed("unexpected response".to_owned())),
        }
    }

    /// The readings of the GPUs that respond.
    pub fn counters(&self) -> Vec<DeviceReading> {
        match self.query(Request::Counters) {
            Ok(Response::Counters(readings)) => readings,
            Ok(Response::Devices(_)) | Err(_) => Vec::new(),
        }
    }

    fn query(&self, request: Request) -> Result<Response, NvmlFailure> {
        let Some(worker) = &self.worker else {
            return Err(NvmlFailure::Failed("cannot start the NVML thread".to_owned()));
        };
        worker.request(request).map_err(|failure| match failure {
            NoResponse::Hangs => NvmlFailure::Failed(format!(
                "no response within {LIMIT:?}: the driver hangs; the next request is sent after it responds (see \
                 `dmesg`, and whether `nvidia-smi` hangs too)"
            )),
            NoResponse::Panicked => NvmlFailure::Failed("the NVML thread panicked".to_owned()),
        })
    }
}

/// The collector's state while drivers may not be loaded.
pub fn released() -> Collector {
    Collector { name: "nvml", state: CollectorState::Absent, message: RELEASED.to_owned(), took: None }
}

/// The collector's state, given whether there is an NVIDIA GPU at all.
pub fn collector(outcome: &Result<NvmlDevices, NvmlFailure>, has_gpu: bool) -> Collector {
    let (state, message) = match outcome {
        Ok(_) => (CollectorState::Ok, String::new()),
        Err(failure) => failure.collector_state(has_gpu),
    };
    Collector { name: "nvml", state, message, took: None }
}
