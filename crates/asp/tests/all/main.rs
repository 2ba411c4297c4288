//! Tests of the solver from outside: exactness, the process, published instances, scaling, and each policy file.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod exact;
mod instances;
mod oracle;
mod policies;
mod process;
mod scaling;
mod worlds;

use std::io;
use std::sync::{Arc, Mutex};

use asp::{Asp, Limits};
use placement::Snapshot;
use tracing::Level;

/// The strategy, with the small executable of this package as its solver.
fn asp() -> Asp {
    Asp::with_executable(env!("CARGO_BIN_EXE_asp-child"), Limits::default())
}

/// A published instance, from the examples.
fn published(name: &str) -> Snapshot {
    let path = format!("{}/../../examples/instances/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Snapshot::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What `act` returns, and what it logs up to `level`.
fn logged<T>(level: Level, act: impl FnOnce() -> T) -> (T, String) {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Log {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(level)
        .with_writer(move || writer.clone())
        .finish();
    let returned = tracing::subscriber::with_default(subscriber, act);
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (returned, said)
}
