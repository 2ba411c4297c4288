//! Arrival times of application instances.

use taskgraph::files::workload::{Arrivals, Arriving};

use super::draws::{exponential, mix};

/// The arrival of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time in nanoseconds.
    pub at: u64,
    /// Index of its graph in the workload.
    pub application: usize,
}

/// All arrivals of a workload by time; ties in workload order.
///
/// Instance k = 1… of a graph arrives after k periods, or after the sum of k exponential draws (by inversion; every graph
/// has its own random stream).
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
