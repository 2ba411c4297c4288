//! Execution traces in the trace-event format, which Perfetto and `chrome://tracing` open.
//!
//! One complete event for each uninterrupted run of a task on a worker
//! (`docs/adr/0082-traces-in-the-trace-event-format.md`).

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Instant,
};

use crate::model::wait::lock;

struct Stretch {
    /// Index into the worker's names.
    name: usize,
    begin: Instant,
    end: Instant,
}

/// The events of one worker, on cache lines of its own and with its own names, so that workers do not contend.
#[derive(Default)]
#[repr(align(128))]
struct Lane(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    names: Vec<Arc<str>>,
    stretches: Vec<Stretch>,
}

/// The recorded runs of all workers.
pub struct Trace {
    begin: Instant,
    workers: Vec<Lane>,
}

impl Trace {
    pub(super) fn new(workers: usize) -> Self {
        Self { begin: Instant::now(), workers: (0..workers).map(|_| Lane::default()).collect() }
    }

    pub(super) fn ran(&self, worker: usize, name: &Arc<str>, begin: Instant) {
        let mut recorded = lock(&self.workers[worker].0);
        // Usually the previous name; cloning it would contend on a shared reference count.
        if !recorded.names.last().is_some_and(|last| Arc::ptr_eq(last, name)) {
            recorded.names.push(Arc::clone(name));
        }
        let name = recorded.names.len() - 1;
        recorded.stretches.push(Stretch { name, begin, end: Instant::now() });
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.workers.iter().map(|worker| lock(&worker.0).stretches.len()).sum()
    }

    /// Whether it has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The events as a JSON list, with times in microseconds and one thread per worker.
    pub fn to_json(&self) -> String {
        let mut text = String::from("[");
        for (index, worker) in self.workers.iter().enumerate() {
            let _ = write!(
                text,
                r#"{}{{"ph":"M","pid":1,"tid":{index},"name":"thread_name","args":{{"name":"worker {index}"}}}}"#,
                if index == 0 { "\n" } else { ",\n" }
            );
            let Recorded { names, stretches } = &*lock(&worker.0);
            for Stretch { name, begin, end } in stretches {
                let at = (*begin - self.begin).as_nanos();
                let long = (*end - *begin).as_nanos();
                let name = serde_json::Value::from(&*names[*name]);
                let _ = write!(
                    text,
                    ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{index},\"name\":{name},\"ts\":{}.{:03},\"dur\":{}.{:03}}}",
                    at / 1000,
                    at % 1000,
                    long / 1000,
                    long % 1000
                );
            }
        }
        text.push_str("\n]\n");
        text
    }
}
