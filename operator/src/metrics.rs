//! What the operator counts, on a registry of its own.

use metric_names::{Name, operator as names};
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// Why a plan was made again: the world had changed before it was committed.
pub const OVERTAKEN: &str = "overtaken";

/// Clingo and the planner did not agree on a plan.
pub const MISMATCH: &str = "mismatch";

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
    /// Plans by what clingo judged of them.
    pub judged: IntCounterVec,
    /// Writes by kind and verb.
    pub writes: IntCounterVec,
    /// Actors by state: wanted, placed, running.
    pub actors: IntGaugeVec,
    /// Whether this operator leads.
    pub leading: IntGauge,
}

/// The buckets of a search's wall clock, in seconds.
const PLAN_SECONDS: [f64; 9] = [0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0];

impl Metrics {
    /// Registers everything on `registry`, never on the global one.
    ///
    /// # Errors
    /// When a name is taken on the registry.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let opts = |name: &Name| Opts::new(name.name(), name.help());
        let counter = |name: &Name| {
            let counter = IntCounterVec::new(opts(name), name.labels())?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let reconciles = counter(&names::RECONCILES)?;
        let plans = counter(&names::PLANS)?;
        let replans = counter(&names::REPLANS)?;
        // From 0 on, or the first one would be no increase.
        replans.with_label_values(&[OVERTAKEN]);
        let judged = counter(&names::PLANS_JUDGED)?;
        judged.with_label_values(&[MISMATCH]);
        let writes = counter(&names::WRITES)?;
        let buckets = HistogramOpts::from(opts(&names::PLAN_DURATION)).buckets(PLAN_SECONDS.into());
        let plan_seconds = Histogram::with_opts(buckets)?;
        registry.register(Box::new(plan_seconds.clone()))?;
        let actors = IntGaugeVec::new(opts(&names::ACTORS), names::ACTORS.labels())?;
        registry.register(Box::new(actors.clone()))?;
        let leading = IntGauge::with_opts(opts(&names::LEADING))?;
        registry.register(Box::new(leading.clone()))?;
        Ok(Self { registry, reconciles, plan_seconds, plans, replans, judged, writes, actors, leading })
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
    use std::collections::BTreeMap;

    use super::*;
    use metric_names::operator::OPERATOR;

    #[test]
    fn every_operator_has_its_own() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        Metrics::new(Registry::new()).unwrap();
        metrics.leading.set(1);
        assert!(metrics.text().unwrap().contains("cairn_operator_leading 1\n"));
    }

    #[test]
    fn what_is_exposed_is_what_is_registered() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        metrics.reconciles.with_label_values(&["ok"]).inc();
        metrics.plans.with_label_values(&["asp", "proof"]).inc();
        metrics.writes.with_label_values(&["Placement", "apply"]).inc();
        metrics.actors.with_label_values(&["wanted"]).set(3);
        let text = metrics.text().unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let exposed: BTreeMap<_, _> = types.map(|(name, type_)| (name, type_.to_owned())).collect();
        let registered = OPERATOR.iter().map(|name| (name.name(), name.kind().to_string()));
        assert_eq!(exposed, registered.collect());
    }
}
