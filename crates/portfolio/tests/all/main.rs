//! Tests of the strategy from outside: exactness, the solver process, published instances, scaling, example policies.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod anytime;
mod exact;
mod examples;
mod grandfathered_limits;
mod grandfathered_rules;
mod instances;
mod judge;
mod measurement_units;
mod scaling;
mod solver_process;

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use portfolio::{Asp, Limits};
use proptest::test_runner::Config as ProptestConfig;
use tracing::Level;

/// The strategy, with the small executable of this package as its solver; it gives up soon.
fn asp() -> Asp {
    limited(Limits::default())
}

fn limited(limits: Limits) -> Asp {
    Asp::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), limits).with_effort(300)
}

/// So many random seeds. None is shrunk: a smaller seed is no smaller world, and the world is printed.
fn seeds(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 0, ..ProptestConfig::default() }
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
