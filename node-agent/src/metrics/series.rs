//! The series of one scrape, made anew each time: what is gone has none.

use std::collections::BTreeMap;

use metric_names::agent::SERIES_DROPPED;
use metric_names::{MetricDef, MetricKind};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// How many series of one kind one node may have: a device of which there are thousands is a mistake, and the whole of a
/// Prometheus suffers from it.
const MOST_OF_A_KIND: usize = 1_000;

/// Series by family and values of labels, both sorted, so that equal states have equal text.
#[derive(Debug, Default)]
pub struct Series(BTreeMap<&'static str, (&'static MetricDef, BTreeMap<Vec<String>, f64>)>);

impl Series {
    /// Adds a series, `labels` in the order of the name's own; one with the same labels is replaced.
    ///
    /// What is no number is left out: "unknown" has no series.
    ///
    /// # Panics
    /// When there are more or fewer labels than the name has.
    pub fn add(&mut self, name: &'static MetricDef, labels: &[&str], value: f64) {
        assert_eq!(labels.len(), name.labels().len(), "labels of {}", name.name());
        if value.is_finite() {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            self.0.entry(name.name()).or_insert_with(|| (name, BTreeMap::new())).1.insert(labels, value);
        }
    }

    /// The same for how many there are of something.
    #[expect(clippy::cast_precision_loss, reason = "there are never so many")]
    pub fn add_count(&mut self, name: &'static MetricDef, labels: &[&str], count: usize) {
        self.add(name, labels, count as f64);
    }

    /// Adds all of another's.
    pub fn extend(&mut self, other: Self) {
        for (family, (name, series)) in other.0 {
            self.0.entry(family).or_insert_with(|| (name, BTreeMap::new())).1.extend(series);
        }
    }

    /// Leaves out what is more than a thousand of a kind and node, the last ones in their order, and counts that.
    pub fn bound(&mut self) {
        let mut dropped = 0;
        for (name, series) in self.0.values_mut() {
            let node = name.labels().iter().position(|label| *label == "node");
            let mut of_node: BTreeMap<String, usize> = BTreeMap::new();
            series.retain(|labels, _| {
                let node = node.map(|node| labels[node].clone()).unwrap_or_default();
                let count = of_node.entry(node).or_default();
                *count += 1;
                dropped += usize::from(*count > MOST_OF_A_KIND);
                *count <= MOST_OF_A_KIND
            });
        }
        self.add_count(&SERIES_DROPPED, &["series"], dropped);
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.values().map(|(_, series)| series.len()).sum()
    }

    /// As the crate `prometheus` writes them, sorted by name, each made when it is its turn: all at once take several times
    /// the room of the text.
    pub fn into_families(self) -> impl Iterator<Item = MetricFamily> {
        self.0.into_values().map(|(name, series)| family(name, series))
    }
}

fn family(name: &MetricDef, series: BTreeMap<Vec<String>, f64>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.name().to_owned());
    family.set_help(name.help().to_owned());
    let is_counter = name.kind() == MetricKind::Counter;
    family.set_field_type(if is_counter { MetricType::COUNTER } else { MetricType::GAUGE });
    let metrics = series.into_iter().map(|(values, value)| {
        let pairs = name.labels().iter().zip(values).map(|(label, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*label).to_owned());
            pair.set_value(value);
            pair
        });
        let mut metric = Metric::from_label(pairs.collect());
        if is_counter {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        metric
    });
    family.set_metric(metrics.collect());
    family
}

#[cfg(test)]
mod tests {
    use super::*;
    use metric_names::agent::{COLLECT_DURATION, DEVICE_UTILIZATION};

    #[test]
    fn a_thousand_of_a_kind_and_node_are_told_and_the_others_counted() {
        let mut series = Series::default();
        for number in 0..1_200 {
            series.add(&DEVICE_UTILIZATION, &["node-a", &format!("gpu-{number:04}")], 1.0);
        }
        for number in 0..900 {
            series.add(&DEVICE_UTILIZATION, &["node-b", &format!("gpu-{number:04}")], 1.0);
        }
        series.add(&COLLECT_DURATION, &["nvml"], 1.0);
        series.bound();
        let count = |series: &Series, name: &MetricDef| series.0[name.name()].1.len();
        assert_eq!(count(&series, &DEVICE_UTILIZATION), 1_900);
        assert_eq!(count(&series, &COLLECT_DURATION), 1);
        let dropped = &series.0[SERIES_DROPPED.name()].1;
        assert_eq!(dropped.iter().collect::<Vec<_>>(), [(&vec!["series".to_owned()], &200.0)]);
        let text = |series: &Series| format!("{series:?}");
        assert!(
            text(&series).contains("gpu-0999") && !text(&series).contains("gpu-1000"),
            "the first ones stay"
        );
    }
}
