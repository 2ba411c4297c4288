//! Metrics about reading Prometheus; they exist only with `--prometheus-url`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::{GateVerdict, LoadJudgement};
use counters::SampleRefusal;
use metric_names::{MetricDef, operator as names};
use placement::{Assignment, Objectives, Snapshot};
use prometheus::{GaugeVec, Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry};
use strum::VariantNames;
use world::ApplicationKey;

/// The buckets of a tick, in seconds.
const TICK_SECONDS: [f64; 8] = [0.01, 0.05, 0.2, 1.0, 2.0, 5.0, 15.0, 60.0];

/// The values of the label `verdict`.
const VERDICTS: [&str; 5] = ["pays", "small", "uncertain", "few-windows", "no-gain"];

/// Metrics about reading Prometheus.
#[derive(Clone)]
pub struct LoadMetrics {
    /// Seconds of a tick.
    pub tick_seconds: Histogram,
    /// Age of the newest window with an answer, by length.
    pub age_seconds: GaugeVec,
    /// Refused samples by reason.
    pub refused: IntCounterVec,
    /// Searches by verdict.
    pub decisions: IntCounterVec,
    /// Costs by application, level and plan.
    cost: IntGaugeVec,
    /// Levels that have a cost, by application.
    levels: Arc<Mutex<BTreeMap<ApplicationKey, PlanCosts>>>,
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
        let decisions = IntCounterVec::new(opts(&names::LOAD_DECISIONS), names::LOAD_DECISIONS.labels())?;
        registry.register(Box::new(decisions.clone()))?;
        for verdict in VERDICTS {
            decisions.with_label_values(&[verdict]);
        }
        let cost = IntGaugeVec::new(opts(&names::APPLICATION_COST), names::APPLICATION_COST.labels())?;
        registry.register(Box::new(cost.clone()))?;
        Ok(Self { tick_seconds, age_seconds, refused, decisions, cost, levels: Arc::default() })
    }

    /// Counts a search for moves for measured load.
    pub fn count(&self, judgement: &LoadJudgement) {
        let verdict = match judgement.verdict() {
            Some(GateVerdict::Pays { .. }) => "pays",
            Some(GateVerdict::Small { .. }) => "small",
            Some(GateVerdict::Uncertain { .. }) => "uncertain",
            Some(GateVerdict::FewWindows { .. }) => "few-windows",
            None => "no-gain",
        };
        self.decisions.with_label_values(&[verdict]).inc();
    }

    /// Shows the cost of what runs, and of the best known plan.
    pub fn show_costs(&self, key: &ApplicationKey, costs: &PlanCosts) {
        self.forget(key);
        self.levels().insert(key.clone(), costs.clone());
        for (level, [running, best]) in &costs.0 {
            for (plan, cost) in [("running", running), ("best", best)] {
                self.cost.with_label_values(&[&*key.namespace, &*key.name, level, plan]).set(*cost);
            }
        }
    }

    /// Removes the costs of an application.
    pub fn forget(&self, key: &ApplicationKey) {
        let costs = self.levels().remove(key).unwrap_or_default();
        for level in costs.0.keys() {
            for plan in ["running", "best"] {
                // Fails only if it does not exist.
                let _ = self.cost.remove_label_values(&[&*key.namespace, &*key.name, level, plan]);
            }
        }
    }

    fn levels(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, PlanCosts>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Costs by level: of what runs, and of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanCosts(pub BTreeMap<String, [i64; 2]>);

impl PlanCosts {
    /// The costs of what runs and of the best plan, on the facts of a snapshot.
    pub fn of(snapshot: &Snapshot, plans: [&Assignment; 2]) -> Self {
        let [running, best] = plans.map(|it| snapshot.cost(it).vector(snapshot));
        let levels = snapshot.objectives().levels().iter().map(|level| Objectives::key(level));
        // The first cost counts unplaced actors.
        let costs = running.into_iter().zip(best).skip(1);
        Self(levels.zip(costs).map(|(level, (running, best))| (level, [running, best])).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_last_search() {
        let registry = Registry::new();
        let metrics = LoadMetrics::new(&registry).unwrap();
        let key = ApplicationKey { namespace: "n".to_owned(), name: "a".to_owned() };
        let snapshot = Snapshot::read(
            r#"{"version":1,"nodes":[{"id":"u"},{"id":"v"}],"units":[{"id":"u","kind":"cpu","node":"u","capacity":10},
            {"id":"v","kind":"cpu","node":"v","capacity":10}],"actors":[{"id":"a","runsOn":{"cpu":7},"current":"u"},
            {"id":"b","runsOn":{"cpu":6},"current":"u"}],"messages":[{"from":"a","to":"b","count":5}],
            "objectives":["overload","communication"],"exchangeCost":{"kinds":{"cpu":{"cpu":1}}}}"#,
        )
        .unwrap();
        let goes = [0, 1].map(|unit| Some(placement::ix::UnitIx::new(unit))).into_iter().collect();
        let costs = PlanCosts::of(&snapshot, [&snapshot.incumbent(), &goes]);
        let shown = || {
            let all = registry.gather();
            let family = all.iter().find(|family| family.name() == "cairn_operator_application_cost");
            let of = |metric: &prometheus::proto::Metric| {
                let labels: Vec<&str> =
                    metric.get_label().iter().map(prometheus::proto::LabelPair::value).collect();
                format!("{} {}", labels.join(" "), metric.get_gauge().get_value())
            };
            family.map(|family| family.get_metric().iter().map(of).collect::<Vec<_>>()).unwrap_or_default()
        };
        metrics.show_costs(&key, &costs);
        let expected = [
            "a communication n best 5",
            "a communication n running 0",
            "a overload n best 0",
            "a overload n running 3",
        ];
        assert_eq!(shown(), expected);
        metrics.show_costs(&key, &PlanCosts::default());
        assert!(shown().is_empty());
    }

    #[test]
    fn searches_are_counted_by_verdict() {
        let metrics = LoadMetrics::new(&Registry::new()).unwrap();
        metrics.count(&LoadJudgement::NoGain);
        let count = |verdict| metrics.decisions.with_label_values(&[verdict]).get();
        assert_eq!(VERDICTS.map(count), [0, 0, 0, 0, 1]);
    }
}
