//! When instances arrive.

use taskgraph::files::workload::{Arrivals, Arriving};

use super::runtime::mix;

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

/// A draw from the exponential distribution of this mean, by inversion of `uniform` in [0, 1).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "saturates"
)]
fn exponential(mean: u64, uniform: f64) -> u64 {
    (-(1.0 - uniform).ln() * mean as f64).floor() as u64
}
