//! What the operator counts, on a registry of its own.

use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The operator's metrics.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// Reconciles by result: `ok`, or the reason of the error.
    pub reconciles: IntCounterVec,
    /// Seconds of a search.
    pub plan_seconds: Histogram,
    /// Plans by strategy and what ended them.
    pub plans: IntCounterVec,
    /// Plans made again because the world had changed.
    pub replans: IntCounterVec,
    /// Writes by kind and verb.
    pub writes: IntCounterVec,
    /// Actors by state: wanted, placed, running.
    pub actors: IntGaugeVec,
    /// Whether this operator leads.
    pub leading: IntGauge,
}

impl Metrics {
    /// Registers everything on `registry`, never on the global one.
    ///
    /// # Errors
    /// When a name is taken on the registry.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let reconciles =
            counter("cairn_operator_reconciles_total", "Reconciles of applications by result.", &["result"])?;
        let plans = counter(
            "cairn_operator_plans_total",
            "Plans by strategy and what ended the search.",
            &["strategy", "stopped_by"],
        )?;
        let replans = counter(
            "cairn_operator_replans_total",
            "Plans made again before they were committed.",
            &["reason"],
        )?;
        let writes = counter(
            "cairn_operator_writes_total",
            "Writes to the API server by kind and verb.",
            &["kind", "verb"],
        )?;
        let buckets = vec![0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0];
        let opts =
            HistogramOpts::new("cairn_operator_plan_seconds", "Wall clock of one search.").buckets(buckets);
        let plan_seconds = Histogram::with_opts(opts)?;
        registry.register(Box::new(plan_seconds.clone()))?;
        let actors = IntGaugeVec::new(
            Opts::new("cairn_operator_actors", "Actors of all applications by state."),
            &["state"],
        )?;
        registry.register(Box::new(actors.clone()))?;
        let leading = IntGauge::new("cairn_operator_leading", "1 while this operator holds the lease.")?;
        registry.register(Box::new(leading.clone()))?;
        Ok(Self { registry, reconciles, plan_seconds, plans, replans, writes, actors, leading })
    }

    /// The text that Prometheus scrapes.
    ///
    /// # Errors
    /// When a metric cannot be written as text.
    pub fn text(&self) -> prometheus::Result<String> {
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_has_its_own() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        Metrics::new(Registry::new()).unwrap();
        metrics.leading.set(1);
        assert!(metrics.text().unwrap().contains("cairn_operator_leading 1\n"));
    }
}
