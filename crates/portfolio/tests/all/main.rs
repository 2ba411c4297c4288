//! End-to-end tests of strategies: optimality, the solver process, published instances, scaling, example policies.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its own world should fail at once")]

mod anytime;
mod exact;
mod examples;
mod grandfathered_limits;
mod grandfathered_rules;
mod instances;
mod judge;
mod judge_scaling;
mod measurement_units;
mod scaling;
mod solver_process;

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use portfolio::{Asp, Limits};
use proptest::test_runner::Config as ProptestConfig;
use tracing::Level;

/// The strategy with this package's small executable as its solver, and a small effort.
fn asp() -> Asp {
    limited(Limits::default())
}

fn limited(limits: Limits) -> Asp {
    Asp::with_executable(env!("CARGO_BIN_EXE_portfolio-child"), limits).with_effort(300)
}

/// The number of random seeds, without shrinking: a smaller seed is no smaller snapshot.
fn seeds(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 0, ..ProptestConfig::default() }
}

thread_local! {
    /// The log of this thread.
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

/// Runs `act`, and returns its result and its log.
///
/// One global subscriber serves all threads: with one per thread, the interest cache could drop events.
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
