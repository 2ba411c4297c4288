//! A real Prometheus scrapes agents and operator as the chart configures it, and finds every documented metric.

#![expect(clippy::unwrap_used, reason = "tests")]

mod alerts;
mod dashboards;
mod forged;
mod gpus;
mod joins;
mod queries;

use std::{collections::BTreeMap, fs, time::Duration};

use e2e::{
    Cluster, Process, SimulatedNode,
    product::{AGENT, NAMESPACE, OPERATOR, tree},
    prometheus::{Job, Prometheus},
    wait_for,
};
use serde::Deserialize as _;
use serde_json::Value;

const SOON: Duration = Duration::from_mins(3);

/// A machine description with every possible field.
const MACHINE: &str = r#"{"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": "metered"},
    "spec": {"devices": [
        {"id": "gpu-0", "type": "GPU", "vendor": "acme", "model": "one", "health": "degraded",
         "computeResources": [{"type": "Streaming Multiprocessor", "count": 108}],
         "memorySpaces": [{"type": "Device RAM", "sizeBytes": 42949672960}]},
        {"id": "numa-0", "type": "NUMA Domain"}],
     "links": [{"source": "gpu-0", "destination": "numa-0", "kind": "PCIe",
         "bandwidthBytesPerSecond": 31500000000, "relativeLatency": 21}]}}"#;

/// An application for the operator to place, so that all its metrics have values.
const APPLICATION: &str = r"
apiVersion: cairn.dev/v1alpha1
kind: DevicePool
metadata: {name: cpus}
spec: {kind: cpu}
---
apiVersion: cairn.dev/v1alpha1
kind: ActorApplication
metadata: {name: counted}
spec:
  actors:
  - name: one
    replicas: 1
    arrivals: 1/s
    implementations:
    - kind: cpu
      serviceTime: 5ms
      template: {spec: {containers: [{name: actor, image: none, resources: {requests: {cpu: 500m, memory: 64Mi}}}]}}
";

/// The device metrics that a machine description can provide; all others with these prefixes come from a driver.
const DESCRIBED: [&str; 3] = ["cairn_device_info", "cairn_device_health", "cairn_device_compute_resources"];

/// The pod metrics that the kernel provides on every machine with cgroups v2.
const SOFTWARE: [&str; 2] = ["cairn_pod_cpu_task_clock_seconds_total", "cairn_pod_context_switches_total"];

/// The collector that reports whether the machine provides a metric, and what the machine would need for it. This applies
/// to the metrics of whole pods.
fn needs(name: &str, row: &Documented) -> Option<(&'static str, &'static str)> {
    let is_counted = name.starts_with("cairn_pod_") && row.labels == ["node", "namespace", "pod"];
    let needed = if SOFTWARE.contains(&name) {
        ("perf_software", "a hierarchy of cgroup v2")
    } else {
        ("perf_hardware", "counters of the processor")
    };
    is_counted.then_some(needed)
}

/// Whether the metric needs hardware, a kubelet or cgroups of pods.
fn is_elsewhere(name: &str) -> bool {
    name.starts_with("cairn_pod_")
        || name == "cairn_agent_perf_open_fds"
        || (name.starts_with("cairn_device_") && !DESCRIBED.contains(&name))
}

/// A metric as documented in `docs/reference/metrics.md`.
struct Documented {
    kind: String,
    labels: Vec<String>,
}

/// The rows of the tables in `docs/reference/metrics.md`, by metric name.
fn documented(table: &str) -> BTreeMap<String, Documented> {
    let text = fs::read_to_string(tree("docs/reference/metrics.md")).unwrap();
    let (_, rest) = text.split_once(&format!("<!-- {table}:")).unwrap();
    let (rows, _) = rest.split_once("<!-- end -->").unwrap();
    let rows = rows.lines().filter(|row| row.starts_with("| `"));
    let parse = |row: &str| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let labels = cells[4].split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        (cells[1].trim_matches('`').to_owned(), Documented { kind: cells[2].to_owned(), labels })
    };
    rows.map(parse).collect()
}

/// The chart's rendered objects of a kind, by name.
async fn rendered(cluster: &Cluster, kind: &str, settings: &[&str]) -> BTreeMap<String, Value> {
    let chart = tree("charts/cairn");
    let arguments = ["template", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE];
    let text = cluster.helm(arguments.iter().chain(settings)).await.unwrap().stdout;
    let documents = serde_yaml::Deserializer::from_str(&text).map(|one| Value::deserialize(one).unwrap());
    let of_kind = documents.filter(|object| object["kind"] == kind);
    of_kind.map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object)).collect()
}

/// The scrape jobs that find a program: by the chart's `PodMonitor`, and by the annotations of its pods.
async fn jobs_of(cluster: &Cluster, kind: &str, name: &str) -> [Job; 2] {
    let monitored = ["--set=metrics.podMonitor.create=true", "--set=agent.simulate=/machines"];
    let monitors = rendered(cluster, "PodMonitor", &monitored).await;
    let template = &rendered(cluster, kind, &monitored).await[name]["spec"]["template"];
    let mut of_monitors = monitors.values().filter_map(|monitor| Job::of_monitor(monitor, template).ok());
    let of_monitor = of_monitors.next().unwrap_or_else(|| panic!("no PodMonitor of {name}: {monitors:#?}"));
    let template = &rendered(cluster, kind, &monitored[1..]).await[name]["spec"]["template"];
    [of_monitor, Job::of_annotations(name, template).unwrap()]
}

/// A pod below carries the labels of an actor's pod, which the admission policies refuse. They are not installed at all,
/// because an API server still evaluates a deleted policy for a moment.
const NO_ADMISSION_POLICIES: &str = "--set=admissionPolicies.install=false";

#[tokio::test]
async fn every_documented_metric_is_scraped() {
    let cluster = Cluster::shared();
    let machines = cluster.plane().state.join("run/metered");
    fs::create_dir_all(&machines).unwrap();
    fs::write(machines.join("metered.yaml"), MACHINE.replace("degraded", "ok")).unwrap();
    let _nodes = cluster.nodes(["metered", "new", "old"].map(SimulatedNode::new)).await.unwrap();
    // nothing answers there, but the operator has the metrics of its reader
    let unreachable = "--set=counters.prometheusUrl=http://127.0.0.1:9";
    cluster.install(&machines, &[NO_ADMISSION_POLICIES, unreachable]).await.unwrap();
    let agent = cluster.start_agent().await.unwrap();
    let operator = cluster.start_operator().await.unwrap();
    // a change and a problem, so that their counters have values
    fs::write(machines.join("metered.yaml"), MACHINE).unwrap();
    fs::write(machines.join("broken.yaml"), "devices: none").unwrap();
    let namespace = cluster.namespace("metrics").await.unwrap();
    namespace.apply(APPLICATION).await.unwrap();
    let gpus = gpus::Gpus::start(cluster, &namespace).await;

    let described = jobs_of(cluster, "DaemonSet", AGENT).await;
    let operators = jobs_of(cluster, "Deployment", OPERATOR).await;
    let mut jobs: Vec<(Job, &Process)> = Vec::new();
    jobs.extend(described.iter().map(|job| (job.clone(), &agent)));
    jobs.extend(operators.iter().map(|job| (job.clone(), &operator)));
    jobs.extend(
        gpus.agents
            .iter()
            .map(|(node, process)| (Job { name: format!("gpus/{node}"), ..described[0].clone() }, process)),
    );
    assert_eq!(jobs.len(), 6);
    let prometheus = cluster.prometheus(&jobs).await.unwrap();
    for (job, _) in &jobs {
        prometheus.seen(&format!("up{{job=\"{}\"}} == 1", job.name)).await.unwrap();
    }

    let names = documented("agent");
    let each = described.clone().map(|job| format!("job=\"{}\"", job.name));
    let all_described = names.iter().filter(|(name, _)| !is_elsewhere(name));
    are_seen(&prometheus, all_described, &each).await;
    let of_gpus = names.iter().filter(|(name, row)| is_elsewhere(name) && needs(name, row).is_none());
    are_seen(&prometheus, of_gpus, &["job=~\"gpus/.*\"".to_owned()]).await;
    assert!(SOFTWARE.iter().all(|name| names.contains_key(*name)), "not documented");
    let counted = names.iter().filter_map(|(name, row)| Some((name, needs(name, row)?)));
    for (name, (collector, need)) in counted {
        let works = gpus.collector(collector).await == "ok";
        let expression = format!("{name}{{job=\"gpus/new\"}}");
        if works {
            prometheus.seen(&expression).await.unwrap();
        } else {
            let series = prometheus.query(&expression).await.unwrap();
            assert!(series.is_empty(), "without {need}: {series:?}");
        }
    }
    let of_operator = documented("operator");
    // No agent is silent here, and no load is measured; the cases of the alerts and tests of the operator have series of them.
    let is_elsewhere = [
        "cairn_operator_agent_lease_expired",
        "cairn_operator_application_cost",
        "cairn_operator_gain_ratio",
        "cairn_operator_move_step_seconds",
    ];
    let seen_here = of_operator.iter().filter(|(name, _)| !is_elsewhere.contains(&name.as_str()));
    are_seen(&prometheus, seen_here, &operators.map(|job| format!("job=\"{}\"", job.name))).await;

    // every scraped metric is documented, with its type
    for (job, _) in &jobs {
        for (name, type_) in prometheus.types(&job.name).await.unwrap() {
            let row = names.get(&name).or_else(|| of_operator.get(&name));
            let kind = row.unwrap_or_else(|| panic!("{name} is not documented")).kind.as_str();
            let has_own = ["counter", "histogram"].contains(&kind);
            assert_eq!(type_, if has_own { kind } else { "gauge" }, "{name}");
        }
    }
    values_arrive(&prometheus, &described[0].name).await;
    let is_needy = |name: &str| names.get(name).is_some_and(|row| needs(name, row).is_some());
    queries::are_known_and_answered(&prometheus, |name| {
        let needs_moves =
            name.starts_with("cairn_operator_move_step_") || name == "cairn_operator_gain_ratio";
        !is_needy(name)
            && !name.starts_with("actor_")
            && !needs_moves
            && name != "cairn_operator_application_cost"
    })
    .await;

    // a removed machine has no series, while the agent is still scraped
    fs::remove_file(machines.join("metered.yaml")).unwrap();
    wait_for("its series are removed", SOON, async || {
        let left = prometheus.query("cairn_device_info{node=\"metered\"}").await?;
        anyhow::ensure!(left.is_empty(), "{left:?}");
        anyhow::Ok(())
    })
    .await;
    namespace.kubectl(["delete", "actorapplications", "--all"]).await.unwrap();
    cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
}

/// Waits until each of these metrics, by kind, has series that match each of `selectors`.
async fn are_seen(
    prometheus: &Prometheus,
    names: impl IntoIterator<Item = (&String, &Documented)>,
    selectors: &[String],
) {
    let mut seen = 0;
    for (name, Documented { kind, .. }) in names {
        let family = if kind == "histogram" { format!("{name}_count") } else { name.clone() };
        for selector in selectors {
            let series = prometheus.seen(&format!("{family}{{{selector}}}")).await.unwrap();
            if kind == "info" {
                let is_one = |value: f64| (value - 1.0).abs() < f64::EPSILON;
                assert!(series.iter().all(|(_, value)| is_one(*value)), "{name}: {series:?}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 7, "{seen} names");
}

/// Values and labels arrive as reported, so that series can be joined.
async fn values_arrive(prometheus: &Prometheus, described: &str) {
    let join = format!(
        "cairn_memory_space_capacity_bytes{{job=\"{described}\"}} \
         * on (node, device) group_left (vendor) cairn_device_info{{job=\"{described}\"}}"
    );
    let joined = prometheus.seen(&join).await.unwrap();
    let [(labels, value)] = joined.as_slice() else { panic!("{joined:?}") };
    assert_eq!((labels["vendor"].as_str(), *value), ("acme", 42_949_672_960.0));
    prometheus.seen("cairn_device_health{device=\"gpu-0\", state=\"degraded\"} == 1").await.unwrap();
    prometheus.seen("cairn_operator_leading == 1").await.unwrap();
    prometheus.seen("cairn_operator_actors{state=\"placed\"} == 1").await.unwrap();

    // as in docs/reference/node-agent.md, but without the rate: the values of a stub GPU are constant
    let energy = "max by (node, device) (cairn_device_energy_joules_total) * on (node, device) group_right () \
                  max by (node, namespace, pod, device) (cairn_pod_device_info)";
    // collectors have the same names in all their metrics
    let families = ["collector_state", "collect_errors_total"];
    for (one, other) in [(families[0], families[1]), (families[1], families[0])] {
        let missing = format!("cairn_agent_{one} unless on (collector, instance) cairn_agent_{other}");
        let missing = prometheus.query(&missing).await.unwrap();
        assert!(missing.is_empty(), "{one} without {other}: {missing:?}");
    }
    let xids = prometheus.seen("cairn_device_xid_errors_total == 2").await.unwrap();
    let [(labels, _)] = xids.as_slice() else { panic!("{xids:?}") };
    assert_eq!((labels["device"].as_str(), labels["xid"].as_str()), ("gpu-0000:18:00.0", "48"));

    let energies = prometheus.seen(&format!("sum by (pod) ({energy})")).await.unwrap();
    let [(labels, joules)] = energies.as_slice() else { panic!("{energies:?}") };
    assert_eq!((labels["pod"].as_str(), *joules), ("crop-0", 3000.0));
}
