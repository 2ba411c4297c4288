//! The operator's Prometheus metrics, on their own registry.

use std::sync::{Arc, Mutex, PoisonError};

use control::PlanReason;
use crds::OutcomeVerdict;
use metric_names::{MetricDef, operator as names};
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use strum::VariantNames;

use crate::error::Error;

/// Label of replans: the cluster changed before the plan was committed.
pub const OVERTAKEN: &str = "overtaken";

/// Label of judged plans: clingo and the planner disagree.
pub const MISMATCH: &str = "mismatch";

/// The operator's metrics.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// Reconciles by result: `ok`, or the reason of the error.
    pub reconciles: IntCounterVec,
    /// Seconds of a search.
    pub plan_seconds: Histogram,
    /// Plans by strategy and stop reason.
    pub plans: IntCounterVec,
    /// Searches by trigger.
    pub searches: IntCounterVec,
    /// Moved actors, by trigger of the search.
    pub moves: IntCounterVec,
    /// Seconds that each step of an elective move took.
    pub move_step_seconds: HistogramVec,
    /// Decisions with elective moves, by outcome.
    pub move_outcomes: IntCounterVec,
    /// Gain of the last elective moves of an application, expected and realised.
    pub gain_ratio: GaugeVec,
    /// Replans because the cluster changed.
    pub replans: IntCounterVec,
    /// Plans by clingo's verdict.
    pub judged: IntCounterVec,
    /// Failed list and watch requests by kind.
    pub watch_errors: IntCounterVec,
    /// Writes by kind and verb.
    pub writes: IntCounterVec,
    /// Actors by state: wanted, placed, running, ready.
    pub actors: IntGaugeVec,
    /// Nodes whose agent's Lease expired.
    agent_lease_expired: IntGaugeVec,
    /// Pods of actors.
    pub pods: IntGaugeVec,
    /// Whether this replica leads.
    pub leading: IntGauge,
    /// One scrape at a time, as each rewrites the pods.
    scrape: Arc<Mutex<()>>,
}

/// The buckets of a search's wall clock, in seconds.
const PLAN_SECONDS: [f64; 9] = [0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0];

/// The buckets of a step of a move, in seconds.
const STEP_SECONDS: [f64; 8] = [0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 120.0, 600.0];

impl Metrics {
    /// Registers all metrics on `registry`, never on the global one.
    ///
    /// # Errors
    /// When a name is already registered.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let opts = |name: &MetricDef| Opts::new(name.name(), name.help());
        let counter = |name: &MetricDef| {
            let counter = IntCounterVec::new(opts(name), name.labels())?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let reconciles = counter(&names::RECONCILES)?;
        let plans = counter(&names::PLANS)?;
        let (searches, moves) = (counter(&names::SEARCHES)?, counter(&names::MOVES)?);
        // Start at 0, or the first increment would be invisible to `increase()`.
        for why in PlanReason::VARIANTS {
            searches.with_label_values(&[why]);
            moves.with_label_values(&[why]);
        }
        let move_outcomes = counter(&names::MOVE_OUTCOMES)?;
        for verdict in OutcomeVerdict::VARIANTS {
            move_outcomes.with_label_values(&[verdict]);
        }
        let buckets = HistogramOpts::from(opts(&names::MOVE_STEP)).buckets(STEP_SECONDS.into());
        let move_step_seconds = HistogramVec::new(buckets, names::MOVE_STEP.labels())?;
        registry.register(Box::new(move_step_seconds.clone()))?;
        let gain_ratio = GaugeVec::new(opts(&names::GAIN_RATIO), names::GAIN_RATIO.labels())?;
        registry.register(Box::new(gain_ratio.clone()))?;
        let replans = counter(&names::REPLANS)?;
        // Start at 0, or the first increment would be invisible to `increase()`.
        replans.with_label_values(&[OVERTAKEN]);
        let judged = counter(&names::PLANS_JUDGED)?;
        judged.with_label_values(&[MISMATCH]);
        let writes = counter(&names::WRITES)?;
        let watch_errors = counter(&names::WATCH_ERRORS)?;
        let buckets = HistogramOpts::from(opts(&names::PLAN_DURATION)).buckets(PLAN_SECONDS.into());
        let plan_seconds = Histogram::with_opts(buckets)?;
        registry.register(Box::new(plan_seconds.clone()))?;
        let actors = IntGaugeVec::new(opts(&names::ACTORS), names::ACTORS.labels())?;
        registry.register(Box::new(actors.clone()))?;
        let leading = IntGauge::with_opts(opts(&names::LEADING))?;
        registry.register(Box::new(leading.clone()))?;
        let agent_lease_expired =
            IntGaugeVec::new(opts(&names::AGENT_LEASE_EXPIRED), names::AGENT_LEASE_EXPIRED.labels())?;
        registry.register(Box::new(agent_lease_expired.clone()))?;
        let pods = IntGaugeVec::new(opts(&names::POD_INFO), names::POD_INFO.labels())?;
        registry.register(Box::new(pods.clone()))?;
        // Start at 0, or the first error would be invisible to `increase()`.
        for result in Error::VARIANTS.iter().chain(&["ok"]) {
            reconciles.with_label_values(&[result]);
        }
        let scrape = Arc::default();
        Ok(Self {
            registry,
            reconciles,
            plan_seconds,
            plans,
            searches,
            moves,
            move_step_seconds,
            move_outcomes,
            gain_ratio,
            replans,
            judged,
            watch_errors,
            writes,
            actors,
            agent_lease_expired,
            pods,
            leading,
            scrape,
        })
    }

    /// The registry of this operator.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The text exposition, with the labels of each pod of an actor, and the nodes whose agent is silent.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub fn text(&self, pods: &[[String; 7]], silent: &[String]) -> prometheus::Result<String> {
        let _scrape = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        self.agent_lease_expired.reset();
        for node in silent {
            self.agent_lease_expired.with_label_values(&[node]).set(1);
        }
        self.pods.reset();
        for pod in pods {
            self.pods.with_label_values(pod).set(1);
        }
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::counters::{LoadMetrics, PlanCosts};
    use metric_names::{MetricKind, operator::OPERATOR};

    #[test]
    fn each_operator_has_its_own_registry() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        Metrics::new(Registry::new()).unwrap();
        metrics.leading.set(1);
        assert!(metrics.text(&[], &[]).unwrap().contains("cairn_operator_leading 1\n"));
    }

    #[test]
    fn exposed_metrics_are_those_registered() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        metrics.reconciles.with_label_values(&["ok"]).inc();
        metrics.plans.with_label_values(&["asp", "proof"]).inc();
        metrics.writes.with_label_values(&["Placement", "patch"]).inc();
        metrics.watch_errors.with_label_values(&["Pod"]);
        metrics.actors.with_label_values(&["wanted"]).set(3);
        let without = metrics.text(&[], &[]).unwrap();
        assert!(!without.contains("counters") && !without.contains("tick"), "without Prometheus");
        let load = LoadMetrics::new(metrics.registry()).unwrap();
        load.age_seconds.with_label_values(&["30s"]).set(1.0);
        let key = world::ApplicationKey { namespace: "ns".to_owned(), name: "app".to_owned() };
        metrics.gain_ratio.with_label_values(&["ns", "app", "expected"]).set(0.5);
        metrics.move_step_seconds.with_label_values(&["Starting"]).observe(1.0);
        load.show_costs(&key, &PlanCosts([("overload".to_owned(), [1, 0])].into()));
        let text = metrics
            .text(&[["1", "ns", "app-a-0", "app", "a-0", "n", "n/u-0"].map(str::to_owned)], &["n".to_owned()])
            .unwrap();
        assert!(
            text.contains("cairn_operator_reconciles_total{result=\"Policy\"} 0\n"),
            "errors count from 0"
        );
        assert!(text.contains("cairn_operator_agent_lease_expired{node=\"n\"} 1\n"));
        assert!(
            !metrics.text(&[], &[]).unwrap().contains("cairn_operator_agent_lease_expired{"),
            "it is heard again"
        );
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let exposed: BTreeMap<_, _> = types.map(|(name, type_)| (name, type_.to_owned())).collect();
        // The text exposition has no info type; infos are gauges of 1.
        let type_of =
            |kind: MetricKind| if kind == MetricKind::Info { MetricKind::Gauge } else { kind }.to_string();
        let registered = OPERATOR.iter().map(|name| (name.name(), type_of(name.kind())));
        assert_eq!(exposed, registered.collect());
    }
}
