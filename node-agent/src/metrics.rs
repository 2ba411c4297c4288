//! The agent's metrics. All names are in [`names`].

mod collectors;
pub mod devices;
mod series;
mod topology;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use crds::NodeTopologySpec;
use jiff::Timestamp;
use metric_names::{MetricDef, agent as names};
use prometheus::{IntCounter, IntCounterVec, Opts, Registry, TextEncoder};
use tracing::{info, warn};

pub use series::Series;

use crate::failure::Reason;

/// The metrics of one agent, in a registry of their own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    collectors: Mutex<BTreeMap<String, CollectorRecord>>,
    collect_errors: IntCounterVec,
    topology_changes: IntCounter,
    last_change: Mutex<Option<Timestamp>>,
    last_probe: Mutex<Option<Timestamp>>,
    publish_errors: IntCounterVec,
    /// Successful Lease renewals.
    pub lease_renewals: IntCounter,
    lease_errors: IntCounterVec,
}

/// The state of a collector: the values of the `state` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum CollectorState {
    /// It reports.
    Ok,
    /// This machine has nothing for it.
    Absent,
    /// A permission is missing.
    Denied,
    /// It fails, completely or in part.
    Error,
}

/// The record of a collector.
#[derive(Debug)]
struct CollectorRecord {
    state: CollectorState,
    /// Why, and the remedy; empty if there is nothing to report.
    message: String,
    took: Option<Duration>,
    /// When it was last healthy.
    last_ok: Option<Timestamp>,
}

impl CollectorRecord {
    /// The updated record, given the previous one.
    fn after(before: Option<&Self>, state: CollectorState, message: &str) -> Self {
        let is_ok = state == CollectorState::Ok;
        Self {
            state,
            message: message.to_owned(),
            took: before.and_then(|before| before.took),
            last_ok: is_ok.then(Timestamp::now).or_else(|| before.and_then(|before| before.last_ok)),
        }
    }
}

impl Metrics {
    /// Registers everything on a registry of its own, so that every test has its own.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counters = |name: &MetricDef| {
            let counters = IntCounterVec::new(Opts::new(name.name(), name.help()), name.labels())?;
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, prometheus::Error>(counters)
        };
        let counter = |name: &MetricDef| {
            let counter = IntCounter::new(name.name(), name.help())?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let failures = |name: &MetricDef| {
            let failures = counters(name)?;
            // From 0 on; otherwise the first failure of a kind would not be an increase.
            for &reason in <Reason as strum::VariantArray>::VARIANTS {
                failures.with_label_values(&[<&str>::from(reason)]);
            }
            Ok::<_, prometheus::Error>(failures)
        };
        Ok(Self {
            collectors: Mutex::default(),
            collect_errors: counters(&names::COLLECT_ERRORS)?,
            topology_changes: counter(&names::TOPOLOGY_CHANGES)?,
            last_change: Mutex::default(),
            last_probe: Mutex::default(),
            publish_errors: failures(&names::PUBLISH_ERRORS)?,
            lease_renewals: counter(&names::LEASE_RENEWALS)?,
            lease_errors: failures(&names::LEASE_ERRORS)?,
            registry,
        })
    }

    /// Records the state of a collector that needs no explanation.
    pub fn set_collector(&self, collector: &str, now: CollectorState) {
        let mut collectors = self.collectors();
        let now = CollectorRecord::after(collectors.get(collector), now, "");
        self.insert(&mut collectors, collector, now);
    }

    /// Records the state of a collector with reason and remedy; logs changes, and returns whether it changed.
    pub fn record_collector(&self, collector: &str, now: CollectorState, message: &str) -> bool {
        let mut collectors = self.collectors();
        let before = collectors.get(collector);
        let is_new = before.is_none_or(|before| before.state != now || before.message != message);
        if is_new {
            let (state, said) = (<&str>::from(now), if message.is_empty() { "it reports" } else { message });
            match now {
                CollectorState::Ok | CollectorState::Absent => info!(collector, state, "{said}"),
                CollectorState::Denied | CollectorState::Error => warn!(collector, state, "{said}"),
            }
        }
        let now = CollectorRecord::after(before, now, message);
        self.insert(&mut collectors, collector, now);
        is_new
    }

    /// The same, and counts new failures and denied permissions.
    pub fn note_collector(&self, collector: &str, now: CollectorState, message: &str) {
        let is_new = self.record_collector(collector, now, message);
        if is_new && matches!(now, CollectorState::Denied | CollectorState::Error) {
            self.count_collect_error(collector, now.into());
        }
    }

    fn insert(&self, collectors: &mut BTreeMap<String, CollectorRecord>, name: &str, now: CollectorRecord) {
        if collectors.insert(name.to_owned(), now).is_none() {
            // From 0 on; otherwise the first problem of a kind would not be an increase.
            for reason in collectors::reasons(name) {
                self.collect_errors.with_label_values(&[name, reason]);
            }
        }
    }

    /// Records the duration of a collector's last probe, for collectors with a state.
    pub fn set_collect_duration(&self, collector: &str, took: Duration) {
        if let Some(collector) = self.collectors().get_mut(collector) {
            collector.took = Some(took);
        }
    }

    /// Counts a new problem of a collector.
    pub fn count_collect_error(&self, collector: &str, reason: &str) {
        self.collect_errors.with_label_values(&[collector, reason]).inc();
    }

    /// Counts changes of topologies.
    pub fn count_topology_changes(&self, changes: usize) {
        self.topology_changes.inc_by(changes as u64);
        *self.last_change.lock().expect("no task panics while it holds this") = Some(Timestamp::now());
    }

    /// Records a completed probe of the source.
    pub fn set_last_probe(&self) {
        *self.last_probe.lock().expect("no task panics while it holds this") = Some(Timestamp::now());
    }

    /// Counts a failed publication.
    pub fn count_publish_error(&self, reason: Reason) {
        self.publish_errors.with_label_values(&[<&str>::from(reason)]).inc();
    }

    /// Counts a failed renewal.
    pub fn count_lease_error(&self, reason: Reason) {
        self.lease_errors.with_label_values(&[<&str>::from(reason)]).inc();
    }

    /// One line per collector: name, state and reason.
    pub fn collectors_page(&self) -> String {
        let collectors = self.collectors();
        let lines = collectors.iter().map(|(name, CollectorRecord { state, message, .. })| {
            let state = <&str>::from(*state);
            if message.is_empty() {
                format!("{name} {state}\n")
            } else {
                format!("{name} {state}: {message}\n")
            }
        });
        lines.collect()
    }

    /// Everything in Prometheus' text format, version 0.0.4: own metrics, topologies by node, and the series of other
    /// modules.
    pub fn render(
        &self,
        topologies: &BTreeMap<String, Arc<NodeTopologySpec>>,
        mut series: Series,
    ) -> prometheus::Result<String> {
        series.add(&names::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
        for (name, collector) in &*self.collectors() {
            for &state in <CollectorState as strum::VariantArray>::VARIANTS {
                let is = if state == collector.state { 1.0 } else { 0.0 };
                series.add(&names::COLLECTOR_STATE, &[name, state.into()], is);
            }
            if let Some(took) = collector.took {
                series.add(&names::COLLECT_DURATION, &[name], took.as_secs_f64());
            }
            if let Some(at) = collector.last_ok {
                series.add(&names::COLLECTOR_LAST_OK, &[name], at.as_duration().as_secs_f64());
            }
        }
        if let Some(at) = *self.last_change.lock().expect("no task panics while it holds this") {
            series.add(&names::TOPOLOGY_LAST_CHANGE, &[], at.as_duration().as_secs_f64());
        }
        if let Some(at) = *self.last_probe.lock().expect("no task panics while it holds this") {
            series.add(&names::LAST_PROBE, &[], at.as_duration().as_secs_f64());
        }
        let links = topologies.iter().map(|(node, spec)| topology::add(&mut series, node, spec)).sum();
        topology::add_dropped(&mut series, links);
        series.bound();
        // Sorted by name, like the others.
        let mut counted = self.registry.gather().into_iter().peekable();
        let mut text = String::new();
        let mut write = |family| TextEncoder::new().encode_utf8(&[family], &mut text);
        for family in series.into_families() {
            while let Some(before) = counted.next_if(|before| before.name() < family.name()) {
                write(before)?;
            }
            write(family)?;
        }
        counted.try_for_each(write)?;
        Ok(text)
    }

    fn collectors(&self) -> MutexGuard<'_, BTreeMap<String, CollectorRecord>> {
        self.collectors.lock().expect("no task panics while it holds this")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::{ComputeResource, Device, Health, Link, MemorySpace};
    use metric_names::{MetricKind, agent::AGENT};

    fn machine() -> NodeTopologySpec {
        let numa = Device {
            id: "numa-0".into(),
            type_: "NUMA Domain".into(),
            compute_resources: vec![ComputeResource::new("Core", 8)],
            memory_spaces: vec![MemorySpace { type_: "RAM".into(), size_bytes: 1 << 36 }],
            ..Device::default()
        };
        let gpu = Device {
            id: "gpu-0".into(),
            type_: "GPU".into(),
            vendor: Some("nvidia".into()),
            model: Some("A \"quoted\" model".into()),
            pci_bus_id: Some("0000:3b:00.0".into()),
            uuid: Some("GPU-8f6b".into()),
            numa_node: Some(0),
            health: Health::Lost,
            ..Device::default()
        };
        let link = Link {
            source: "gpu-0".into(),
            destination: "numa-0".into(),
            kind: "PCIe".into(),
            bandwidth_bytes_per_second: Some(31_500_000_000),
            relative_latency: Some(21),
        };
        NodeTopologySpec { devices: vec![gpu, numa], links: vec![link] }
    }

    fn of_node(spec: NodeTopologySpec) -> BTreeMap<String, Arc<NodeTopologySpec>> {
        BTreeMap::from([("node-a".to_owned(), Arc::new(spec))])
    }

    #[test]
    fn the_text_has_what_there_is_and_nothing_of_what_is_gone() {
        let metrics = Metrics::new().unwrap();
        metrics.record_collector("nvml", CollectorState::Absent, "no driver here");
        metrics.set_collect_duration("nvml", Duration::from_millis(1500));
        metrics.set_collector("described", CollectorState::Ok);
        metrics.count_collect_error("described", "malformed");
        metrics.lease_renewals.inc_by(3);
        metrics.count_publish_error(Reason::Forbidden);
        let text = metrics.render(&of_node(machine()), Series::default()).unwrap();
        // timestamps vary
        let well = "cairn_agent_collector_last_ok_timestamp_seconds{collector=\"described\"}";
        let timeless = text.lines().map(|line| if line.starts_with(well) { well } else { line });
        insta::assert_snapshot!(timeless.collect::<Vec<_>>().join("\n") + "\n");
        assert_eq!(metrics.collectors_page(), "described ok\nnvml absent: no driver here\n");

        let mut spec = machine();
        spec.devices.remove(0);
        spec.links.clear();
        let one = of_node(spec);
        assert!(!metrics.render(&one, Series::default()).unwrap().contains("gpu-0"));
        let nothing = metrics.render(&BTreeMap::new(), Series::default()).unwrap();
        assert!(!nothing.contains("cairn_device") && !nothing.contains("cairn_link"), "{nothing}");
    }

    #[test]
    fn problems_of_each_collector_that_has_a_state_are_counted_from_0() {
        let metrics = Metrics::new().unwrap();
        for collector in ["described", "fpga", "hwloc", "nvml", "opencl", crate::allocations::COLLECTOR] {
            metrics.set_collector(collector, CollectorState::Ok);
        }
        for collector in [crate::perf::SOFTWARE, crate::perf::HARDWARE] {
            metrics.note_collector(collector, CollectorState::Absent, "there are no counters");
            metrics.note_collector(collector, CollectorState::Denied, "they must not be read");
            metrics.note_collector(collector, CollectorState::Denied, "they must not be read");
        }
        let text = metrics.render(&BTreeMap::new(), Series::default()).unwrap();
        let of = |family: &str| -> BTreeMap<String, u32> {
            let lines =
                text.lines().filter_map(|line| line.strip_prefix(family)?.strip_prefix("{collector=\""));
            let named = lines.map(|line| {
                let (name, rest) = line.split_once('"').unwrap();
                (name.to_owned(), rest.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap())
            });
            named.fold(BTreeMap::new(), |mut sums, (name, value)| {
                *sums.entry(name).or_default() += value;
                sums
            })
        };
        let counted = of("cairn_agent_collect_errors_total");
        assert_eq!(
            counted.keys().collect::<Vec<_>>(),
            of("cairn_agent_collector_state").keys().collect::<Vec<_>>()
        );
        let denied = r#"{collector="perf_software",reason="denied"} 1"#;
        assert!(counted["perf_software"] == 1 && counted["nvml"] == 0 && text.contains(denied), "{text}");
    }

    #[test]
    fn what_is_exposed_is_registered_as_it_is_exposed() {
        let metrics = Metrics::new().unwrap();
        metrics.set_collector("described", CollectorState::Ok);
        metrics.count_topology_changes(1);
        metrics.set_last_probe();
        metrics.count_lease_error(Reason::Server);
        let text = metrics.render(&of_node(machine()), Series::default()).unwrap();
        let families: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert!(families.len() > 10, "{text}");
        for line in families {
            let (name, type_) = line.split_once(' ').unwrap();
            let known = AGENT.iter().find(|known| known.name() == name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(type_ == "counter", known.kind() == MetricKind::Counter, "{name}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_series_and_too_many_links_are_counted() {
        let mut series = Series::default();
        series.add(&names::LINK_BANDWIDTH, &["n", "a", "b", "pcie"], f64::NAN);
        series.add(&names::LINK_BANDWIDTH, &["n", "a", "b", "pcie"], f64::INFINITY);
        assert_eq!(series.len(), 0);

        let mut spec = machine();
        let link = spec.links[0].clone();
        spec.links = (0..600).map(|n| Link { destination: format!("d-{n}"), ..link.clone() }).collect();
        let text = Metrics::new().unwrap().render(&of_node(spec), series).unwrap();
        assert!(text.contains("cairn_agent_series_dropped{limit=\"links\"} 88\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("cairn_link_bandwidth")).count(), 512);
    }
}
