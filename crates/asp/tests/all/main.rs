//! Tests of the solver from outside: exactness, the process, published instances, scaling, and each policy file.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod branched;
mod derived;
mod exact;
mod examples;
mod instances;
mod oracle;
mod policies;
mod process;
mod refused;
mod scaling;
mod why;
mod worlds;

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use asp::{Asp, Limits};
use placement::Snapshot;
use placement::file::{Actor, Drag, Message, Node, SnapshotFile, Unit};
use proptest::test_runner::Config as ProptestConfig;
use tracing::Level;

/// The strategy, with the small executable of this package as its solver; it gives up soon.
fn asp() -> Asp {
    limited(Limits::default())
}

fn limited(limits: Limits) -> Asp {
    Asp::with_executable(env!("CARGO_BIN_EXE_asp-child"), limits).with_pieces(300)
}

/// So many random seeds. None is shrunk: a smaller seed is no smaller world, and the world is printed.
fn seeds(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 0, ..ProptestConfig::default() }
}

/// A published instance, from the examples.
fn published(name: &str) -> Snapshot {
    let path = format!("{}/../../examples/instances/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Snapshot::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// So many copies of a published instance, side by side, with messages from each to the next: too large to be proven, and
/// solved in no time by parts.
fn several(name: &str, copies: usize) -> Snapshot {
    let one = published(name).file().clone();
    let mut file = SnapshotFile {
        nodes: vec![],
        units: vec![],
        actors: vec![],
        messages: vec![],
        annoyance: vec![],
        ..one.clone()
    };
    for copy in 0..copies {
        let named = |id: &String| format!("{id}-{copy}");
        file.nodes.extend(one.nodes.iter().map(|node| Node { id: named(&node.id), ..node.clone() }));
        file.units.extend(one.units.iter().map(|unit| Unit {
            id: named(&unit.id),
            node: named(&unit.node),
            ..unit.clone()
        }));
        file.actors.extend(one.actors.iter().map(|actor| Actor { id: named(&actor.id), ..actor.clone() }));
        let message = |m: &Message| Message { from: named(&m.from), to: named(&m.to), count: m.count };
        file.messages.extend(one.messages.iter().map(message));
        let drag = |pair: &Drag| Drag { a: named(&pair.a), b: named(&pair.b), drag: pair.drag };
        file.annoyance.extend(one.annoyance.iter().map(drag));
        let next = format!("{}-{}", one.actors[0].id, (copy + 1) % copies);
        file.messages.push(Message { from: named(&one.actors[0].id), to: next, count: 1 });
    }
    Snapshot::new(file).unwrap()
}

thread_local! {
    /// What this thread has logged.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Log;

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(text));
        Ok(text.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `act` returns, and what it logs in this thread.
///
/// One subscriber serves all threads: one for each thread could miss what another thread's was not interested in.
fn logged<T>(act: impl FnOnce() -> T) -> (T, String) {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let log = tracing_subscriber::fmt().with_ansi(false).with_max_level(Level::DEBUG);
        log.with_writer(|| Log).init();
    });
    LOG.with_borrow_mut(Vec::clear);
    let returned = act();
    (returned, String::from_utf8(LOG.take()).unwrap())
}
