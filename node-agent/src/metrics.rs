//! What the agent counts, and what it tells Prometheus of devices. The names are an interface.

use std::{collections::BTreeMap, sync::Arc};

use crds::{Device, Health, NodeTopologySpec};
use prometheus::{
    Encoder, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder, core::Collector,
    proto::MetricFamily,
};

use crate::failure::Reason;

/// The metrics of one agent, in a registry of their own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// How each collector fares: a state set.
    collector_state: IntGaugeVec,
    /// New problems of a collector.
    pub collect_errors: IntCounterVec,
    /// Topologies that changed.
    pub topology_changes: IntCounter,
    /// Publications that failed.
    pub publish_errors: IntCounterVec,
    /// Lease renewals that went through.
    pub lease_renewals: IntCounter,
    /// Lease renewals that failed.
    pub lease_errors: IntCounterVec,
}

/// How a collector fares: one value of the `state` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum CollectorState {
    /// It reports.
    Ok,
    /// There is nothing for it on this machine.
    Absent,
    /// It lacks a permission.
    Denied,
    /// It fails, in whole or in part.
    Error,
}

impl Metrics {
    /// Registers everything on a registry of its own, so that every test has its own.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, label: &str| {
            let counters = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, prometheus::Error>(counters)
        };
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone()))?;
            Ok::<_, prometheus::Error>(gauges)
        };
        gauges("cairn_agent_build_info", "The version of the agent; always 1.", &["version"])?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let metrics = Self {
            collector_state: gauges(
                "cairn_agent_collector_state",
                "The state that a collector of topologies is in has 1, the others 0.",
                &["collector", "state"],
            )?,
            collect_errors: counters(
                "cairn_agent_collect_errors_total",
                "Problems that a collector found, each counted when it appeared.",
                "reason",
            )?,
            topology_changes: counter(
                "cairn_agent_topology_changes_total",
                "Changes of a node's topology that were noticed since the start.",
            )?,
            publish_errors: counters(
                "cairn_agent_topology_publish_errors_total",
                "Attempts to publish a topology that failed.",
                "reason",
            )?,
            lease_renewals: counter("cairn_agent_lease_renewals_total", "Leases renewed.")?,
            lease_errors: counters(
                "cairn_agent_lease_errors_total",
                "Attempts to renew a Lease that failed.",
                "reason",
            )?,
            registry,
        };
        Ok(metrics)
    }

    /// Notes how a collector fares.
    pub fn set_collector(&self, collector: &str, now: CollectorState) {
        for &state in <CollectorState as strum::VariantArray>::VARIANTS {
            self.collector_state.with_label_values(&[collector, state.into()]).set(i64::from(state == now));
        }
    }

    /// Counts a publication that failed.
    pub fn count_publish_error(&self, reason: Reason) {
        self.publish_errors.with_label_values(&[<&str>::from(reason)]).inc();
    }

    /// Counts a renewal that failed.
    pub fn count_lease_error(&self, reason: Reason) {
        self.lease_errors.with_label_values(&[<&str>::from(reason)]).inc();
    }

    /// Everything in Prometheus' text format, version 0.0.4.
    ///
    /// The series of devices are made anew each time: a device that is gone has none.
    pub fn render(&self, topologies: &BTreeMap<String, Arc<NodeTopologySpec>>) -> prometheus::Result<String> {
        let mut families = self.registry.gather();
        families.extend(device_families(topologies)?);
        families.retain(|family| !family.get_metric().is_empty());
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        String::from_utf8(text).map_err(|error| prometheus::Error::Msg(error.to_string()))
    }
}

fn device_families(
    topologies: &BTreeMap<String, Arc<NodeTopologySpec>>,
) -> prometheus::Result<Vec<MetricFamily>> {
    const INFO: [&str; 9] =
        ["node", "device", "kind", "vendor", "model", "pci_bus_id", "driver", "numa_node", "parent"];
    const STATES: [Health; 4] = [Health::Ok, Health::Degraded, Health::Lost, Health::Unknown];

    let info = Opts::new("cairn_device_info", "What is known of a device and does not change; always 1.");
    let info = IntGaugeVec::new(info, &INFO)?;
    let health = Opts::new("cairn_device_health", "The state that the device is in has 1, the others 0.");
    let health = IntGaugeVec::new(health, &["node", "device", "state"])?;
    for (node, spec) in topologies {
        for device in &spec.devices {
            info.with_label_values(&info_values(node, device)).set(1);
            for state in STATES {
                let values = [node.as_str(), &device.id, state.into()];
                health.with_label_values(&values).set(i64::from(state == device.health));
            }
        }
    }
    let mut families = health.collect();
    families.extend(info.collect());
    for family in &mut families {
        family.mut_metric().sort_by_cached_key(|metric| {
            metric.get_label().iter().map(|label| label.value().to_owned()).collect::<Vec<_>>()
        });
    }
    Ok(families)
}

/// The values of the labels of `cairn_device_info`; what is not known is empty, which Prometheus reads as
/// no label.
fn info_values(node: &str, device: &Device) -> [String; 9] {
    [
        node.to_owned(),
        device.id.clone(),
        kind(&device.type_),
        device.vendor.clone().unwrap_or_default(),
        device.model.clone().unwrap_or_default(),
        device.pci_bus_id.clone().unwrap_or_default(),
        device.driver.clone().unwrap_or_default(),
        device.numa_node.map(|numa| numa.to_string()).unwrap_or_default(),
        device.parent.clone().unwrap_or_default(),
    ]
}

/// A type as Prometheus' users write it: `NUMA Domain` is `numa_domain`.
fn kind(type_: &str) -> String {
    type_.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_there_is_and_nothing_of_what_is_gone() {
        let metrics = Metrics::new().unwrap();
        metrics.set_collector("described", CollectorState::Ok);
        metrics.topology_changes.inc();
        metrics.lease_renewals.inc_by(3);
        metrics.count_publish_error(Reason::Forbidden);
        let numa = Device { id: "numa-0".into(), type_: "NUMA Domain".into(), ..Device::default() };
        let gpu = Device {
            id: "gpu-0".into(),
            type_: "GPU".into(),
            vendor: Some("nvidia".into()),
            model: Some("A \"quoted\" model".into()),
            pci_bus_id: Some("0000:3b:00.0".into()),
            numa_node: Some(0),
            health: Health::Lost,
            ..Device::default()
        };
        let spec = NodeTopologySpec { devices: vec![gpu, numa.clone()], links: Vec::new() };
        let both = BTreeMap::from([("node-a".to_owned(), Arc::new(spec))]);
        insta::assert_snapshot!(metrics.render(&both).unwrap());

        let spec = NodeTopologySpec { devices: vec![numa], links: Vec::new() };
        let one = BTreeMap::from([("node-a".to_owned(), Arc::new(spec))]);
        assert!(!metrics.render(&one).unwrap().contains("gpu-0"));
        assert!(!metrics.render(&BTreeMap::new()).unwrap().contains("cairn_device"));
    }
}
