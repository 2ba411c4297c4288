//! When instances arrive.

use taskgraph::files::workload::{Arrivals, Arriving};

use super::draws::{exponential, mix};

/// An instance that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds.
    pub at: u64,
    /// Of which graph of the workload.
    pub application: usize,
}

/// All arrivals of a workload in their order; at equal times, in the workload's.
///
/// Instance k = 1… of a graph arrives at k periods, or at the sum of k draws from an exponential distribution (by
/// inversion; every graph has a sequence of its own).
pub fn arrivals(dags: &[Arriving], seed: u64) -> Vec<Arrival> {
    let mut all = Vec::new();
    for (application, dag) in dags.iter().enumerate() {
        let mut rng = fastrand::Rng::with_seed(mix(&[seed, 1, application as u64]));
        let mut at = 0_u64;
        for _ in 0..dag.instances {
            at = at.saturating_add(match dag.arrivals {
                Arrivals::Periodic => dag.period_ns,
                Arrivals::Exponential => exponential(dag.period_ns, rng.f64()),
            });
            all.push(Arrival { at, application });
        }
    }
    all.sort_by_key(|arrival| (arrival.at, arrival.application));
    all
}
