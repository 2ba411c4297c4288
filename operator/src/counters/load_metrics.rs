//! Metrics about reading Prometheus; they exist only with `--prometheus-url`.

use counters::SampleRefusal;
use metric_names::{MetricDef, operator as names};
use prometheus::{GaugeVec, Histogram, HistogramOpts, IntCounterVec, Opts, Registry};
use strum::VariantNames;

/// The buckets of a tick, in seconds.
const TICK_SECONDS: [f64; 8] = [0.01, 0.05, 0.2, 1.0, 2.0, 5.0, 15.0, 60.0];

/// Metrics about reading Prometheus.
#[derive(Clone)]
pub struct LoadMetrics {
    /// Seconds of a tick.
    pub tick_seconds: Histogram,
    /// Age of the newest window with an answer, by length.
    pub age_seconds: GaugeVec,
    /// Refused samples by reason.
    pub refused: IntCounterVec,
}

impl LoadMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// When a name is already registered.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let opts = |name: &MetricDef| Opts::new(name.name(), name.help());
        let buckets = HistogramOpts::from(opts(&names::TICK_DURATION)).buckets(TICK_SECONDS.into());
        let tick_seconds = Histogram::with_opts(buckets)?;
        registry.register(Box::new(tick_seconds.clone()))?;
        let age_seconds = GaugeVec::new(opts(&names::COUNTERS_AGE), names::COUNTERS_AGE.labels())?;
        registry.register(Box::new(age_seconds.clone()))?;
        let refused = IntCounterVec::new(opts(&names::COUNTERS_REFUSED), names::COUNTERS_REFUSED.labels())?;
        registry.register(Box::new(refused.clone()))?;
        // Start at 0, or the first increment would be invisible to `increase()`.
        for reason in SampleRefusal::VARIANTS {
            refused.with_label_values(&[reason]);
        }
        Ok(Self { tick_seconds, age_seconds, refused })
    }
}
