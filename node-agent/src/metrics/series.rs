//! The series of one scrape, built from scratch each time.

use std::collections::BTreeMap;

use metric_names::agent::SERIES_DROPPED;
use metric_names::{MetricDef, MetricKind};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// The maximum number of series per family and node. It protects Prometheus from an implausible number of devices.
const MAX_PER_FAMILY: usize = 1_000;

/// Series by family and label values, both sorted, so that equal states have equal text.
#[derive(Debug, Default)]
pub struct Series(BTreeMap<&'static str, (&'static MetricDef, BTreeMap<Vec<String>, f64>)>);

impl Series {
    /// Adds a series with the values of its labels in the order of their names. Replaces one with equal values.
    ///
    /// Values that are not finite are skipped: an unknown value has no series.
    ///
    /// # Panics
    /// If the number of values differs from the number of labels.
    pub fn add(&mut self, name: &'static MetricDef, labels: &[&str], value: f64) {
        assert_eq!(labels.len(), name.labels().len(), "labels of {}", name.name());
        if value.is_finite() {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            self.0.entry(name.name()).or_insert_with(|| (name, BTreeMap::new())).1.insert(labels, value);
        }
    }

    /// The same for a count.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn add_count(&mut self, name: &'static MetricDef, labels: &[&str], count: usize) {
        self.add(name, labels, count as f64);
    }

    /// Adds all series of another set.
    pub fn extend(&mut self, other: Self) {
        for (family, (name, series)) in other.0 {
            self.0.entry(family).or_insert_with(|| (name, BTreeMap::new())).1.extend(series);
        }
    }

    /// Drops the last series in order beyond the limit per family and node, and counts them.
    pub fn bound(&mut self) {
        let mut dropped = 0;
        for (name, series) in self.0.values_mut() {
            let node = name.labels().iter().position(|label| *label == "node");
            let mut of_node: BTreeMap<String, usize> = BTreeMap::new();
            series.retain(|labels, _| {
                let node = node.map(|node| labels[node].clone()).unwrap_or_default();
                let count = of_node.entry(node).or_default();
                *count += 1;
                dropped += usize::from(*count > MAX_PER_FAMILY);
                *count <= MAX_PER_FAMILY
            });
        }
        self.add_count(&SERIES_DROPPED, &["series"], dropped);
    }

    /// The number of series.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.values().map(|(_, series)| series.len()).sum()
    }

    /// The families of the crate `prometheus`, sorted by name. One at a time limits the peak memory.
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
    fn series_beyond_a_thousand_per_family_and_node_are_counted() {
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
            "the first ones are kept"
        );
    }
}
