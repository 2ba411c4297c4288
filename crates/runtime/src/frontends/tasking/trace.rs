//! Execution traces in the trace-event format, which Perfetto and `chrome://tracing` open.
//!
//! A complete event for each stretch that a worker ran a task without a break
//! (`docs/adr/0082-traces-are-trace-events.md`).

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Instant,
};

use crate::model::wait::lock;

struct Stretch {
    name: Arc<str>,
    begin: Instant,
    end: Instant,
}

/// What each worker ran, and when.
pub struct Trace {
    begin: Instant,
    workers: Vec<Mutex<Vec<Stretch>>>,
}

impl Trace {
    pub(super) fn new(workers: usize) -> Self {
        Self { begin: Instant::now(), workers: (0..workers).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn ran(&self, worker: usize, name: &Arc<str>, begin: Instant) {
        lock(&self.workers[worker]).push(Stretch { name: Arc::clone(name), begin, end: Instant::now() });
    }

    /// How many stretches there are.
    pub fn len(&self) -> usize {
        self.workers.iter().map(|worker| lock(worker).len()).sum()
    }

    /// Whether nothing ran.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As JSON: a list of events, times in microseconds, a thread for each worker.
    pub fn to_json(&self) -> String {
        let mut text = String::from("[");
        for (index, worker) in self.workers.iter().enumerate() {
            let _ = write!(
                text,
                r#"{}{{"ph":"M","pid":1,"tid":{index},"name":"thread_name","args":{{"name":"worker {index}"}}}}"#,
                if index == 0 { "\n" } else { ",\n" }
            );
            for Stretch { name, begin, end } in lock(worker).iter() {
                let at = (*begin - self.begin).as_nanos();
                let long = (*end - *begin).as_nanos();
                let name = serde_json::Value::from(&**name);
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
