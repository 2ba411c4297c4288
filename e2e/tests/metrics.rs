//! A real Prometheus scrapes agent and operator as the chart says, and every name of the documentation is there.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fs, time::Duration};

use e2e::{
    Cluster, SimulatedNode,
    product::{AGENT, NAMESPACE, OPERATOR, tree},
    prometheus::Job,
    wait_for,
};
use serde::Deserialize as _;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(30);

/// A machine with all that a description can have.
const MACHINE: &str = r#"{"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": "metered"},
    "spec": {"devices": [
        {"id": "gpu-0", "type": "GPU", "vendor": "acme", "model": "one", "health": "degraded",
         "computeResources": [{"type": "Streaming Multiprocessor", "count": 108}],
         "memorySpaces": [{"type": "Device RAM", "sizeBytes": 42949672960}]},
        {"id": "numa-0", "type": "NUMA Domain"}],
     "links": [{"source": "gpu-0", "destination": "numa-0", "kind": "PCIe",
         "bandwidthBytesPerSecond": 31500000000, "relativeLatency": 21}]}}"#;

/// What a description says of a device; every other name that begins as these do comes from a driver.
const DESCRIBED: [&str; 3] = ["cairn_device_info", "cairn_device_health", "cairn_device_compute_resources"];

/// Whether only hardware, a kubelet or cgroups of pods could tell it.
fn is_elsewhere(name: &str) -> bool {
    name.starts_with("cairn_pod_")
        || name == "cairn_agent_perf_open_fds"
        || (name.starts_with("cairn_device_") && !DESCRIBED.contains(&name))
}

/// Name and kind of each row of a table of `docs/metrics.md`.
fn documented(table: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(tree("docs/metrics.md")).unwrap();
    let (_, rest) = text.split_once(&format!("<!-- {table}:")).unwrap();
    let (rows, _) = rest.split_once("<!-- end -->").unwrap();
    let cells =
        rows.lines().filter(|row| row.starts_with("| `")).map(|row| row.split(" | ").collect::<Vec<_>>());
    cells.map(|cells| (cells[0].trim_matches(['|', ' ', '`']).to_owned(), cells[1].to_owned())).collect()
}

/// What the chart renders of a kind, by name.
async fn rendered(cluster: &Cluster, kind: &str, settings: &[&str]) -> BTreeMap<String, Value> {
    let chart = tree("charts/cairn");
    let arguments = ["template", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE];
    let text = cluster.helm(arguments.iter().chain(settings)).await.unwrap().stdout;
    let documents = serde_yaml::Deserializer::from_str(&text).map(|one| Value::deserialize(one).unwrap());
    let of_kind = documents.filter(|object| object["kind"] == kind);
    of_kind.map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object)).collect()
}

#[tokio::test]
async fn every_name_of_the_documentation_is_scraped() {
    let cluster = Cluster::shared();
    let machines = cluster.plane().state.join("run/metered");
    fs::create_dir_all(&machines).unwrap();
    fs::write(machines.join("metered.yaml"), MACHINE.replace("degraded", "ok")).unwrap();
    let _nodes = cluster.nodes([SimulatedNode::new("metered")]).await.unwrap();
    cluster.install(&machines, &[]).await.unwrap();
    let agent = cluster.start_agent().await.unwrap();
    let operator = cluster.start_operator().await.unwrap();
    // a change and a problem, so that there is something to be counted
    fs::write(machines.join("metered.yaml"), MACHINE).unwrap();
    fs::write(machines.join("broken.yaml"), "devices: none").unwrap();

    let monitored = ["--set=metrics.podMonitor.create=true", "--set=agent.simulate=/machines"];
    let monitors = rendered(cluster, "PodMonitor", &monitored).await;
    let annotated = ["--set=agent.simulate=/machines"];
    let mut jobs = Vec::new();
    for (kind, name, process) in [("DaemonSet", AGENT, &agent), ("Deployment", OPERATOR, &operator)] {
        let template = &rendered(cluster, kind, &monitored).await[name]["spec"]["template"];
        let monitor = monitors.values().find(|monitor| Job::of_monitor(monitor, template).is_ok());
        let monitor = monitor.unwrap_or_else(|| panic!("no PodMonitor of {name}: {monitors:#?}"));
        jobs.push((Job::of_monitor(monitor, template).unwrap(), process));
        let template = &rendered(cluster, kind, &annotated).await[name]["spec"]["template"];
        jobs.push((Job::of_annotations(name, template).unwrap(), process));
    }
    assert_eq!(jobs.len(), 4);
    let prometheus = cluster.prometheus(&jobs).await.unwrap();

    for job in jobs.iter().map(|(job, _)| &job.name) {
        prometheus.seen(&format!("up{{job=\"{job}\"}} == 1")).await.unwrap();
    }
    let names = documented("agent");
    let mut queried = 0;
    for (name, kind) in &names {
        if is_elsewhere(name) {
            continue;
        }
        for job in jobs.iter().map(|(job, _)| &job.name).filter(|job| job.contains("agent")) {
            let series = prometheus.seen(&format!("{name}{{job=\"{job}\"}}")).await.unwrap();
            if kind == "info" {
                assert!(
                    series.iter().all(|(_, value)| (value - 1.0).abs() < f64::EPSILON),
                    "{name}: {series:?}"
                );
            }
        }
        queried += 1;
    }
    assert!(queried >= 15, "{queried} of {names:?}");

    // what is scraped is documented, with the type that it has
    let agents = jobs.iter().map(|(job, _)| &job.name).find(|job| job.contains("agent")).unwrap();
    for (name, type_) in prometheus.types(agents).await.unwrap() {
        let kind = names.get(&name).unwrap_or_else(|| panic!("{name} is not documented"));
        assert_eq!(type_ == "counter", kind == "counter", "{name} is a {type_}");
    }
    // values and labels arrive as they were described: a join by node and device
    let join = format!(
        "cairn_memory_space_capacity_bytes{{job=\"{agents}\"}} \
         * on (node, device) group_left (vendor) cairn_device_info{{job=\"{agents}\"}}"
    );
    let joined = prometheus.seen(&join).await.unwrap();
    let [(labels, value)] = joined.as_slice() else { panic!("{joined:?}") };
    assert_eq!((labels["vendor"].as_str(), *value), ("acme", 42_949_672_960.0));
    prometheus.seen("cairn_device_health{device=\"gpu-0\", state=\"degraded\"} == 1").await.unwrap();
    prometheus.seen("cairn_operator_leading == 1").await.unwrap();

    // a machine that is gone has no series, while the agent is scraped on
    fs::remove_file(machines.join("metered.yaml")).unwrap();
    wait_for("its series are gone", SOON, async || {
        let left = prometheus.query("cairn_device_info").await?;
        anyhow::ensure!(left.is_empty(), "{left:?}");
        anyhow::Ok(())
    })
    .await;
    cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
}
