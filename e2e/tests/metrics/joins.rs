//! Joins in dashboards while an agent restarts: for some minutes the series of its predecessor still exist.

use std::fs;

use e2e::{binaries, command};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    dashboards::{dashboards, each},
    queries::filled,
};

/// The series of a GPU of 100 W that an actor uses, from an agent and its successor. The counters continue, as in the GPU.
const SERIES: [(&str, &str, &str); 8] = [
    ("cairn_device_energy_joules_total", "", "COUNTER"),
    ("cairn_device_power_limit_watts", "", "400"),
    ("cairn_device_utilization_ratio", "", "0.5"),
    ("cairn_device_memory_used_bytes", "", "3"),
    ("cairn_memory_space_capacity_bytes", r#", memory_space="0""#, "6"),
    ("cairn_device_health", r#", state="ok""#, "1"),
    ("cairn_device_info", r#", vendor="acme""#, "1"),
    ("cairn_pod_device_info", r#", namespace="vision", pod="crop-0", container="actor""#, "1"),
];

/// Panels with joins, and their values for that GPU.
const PANELS: [(&str, &str, &str, f64); 6] = [
    ("cairn-actors.json", "Power", r#"{namespace="vision", pod="crop-0"}"#, 100.0),
    ("cairn-actors.json", "Utilisation", r#"{namespace="vision", pod="crop-0"}"#, 0.5),
    ("cairn-devices.json", "Memory in use", r#"{node="a", device="gpu-0"}"#, 0.5),
    ("cairn-devices.json", "Power relative to the limit", r#"{node="a", device="gpu-0"}"#, 0.25),
    ("cairn-devices.json", "Health", r#"{state="ok"}"#, 1.0),
    ("cairn-devices.json", "Devices", r#"{node="a", device="gpu-0", state="ok", vendor="acme"}"#, 1.0),
];

/// The query of the panel whose result has these labels; two panels may have the same title.
fn query(file: &str, title: &str) -> String {
    let dashboard = &dashboards()[file];
    let panels = each(&dashboard["panels"]).iter().filter(|panel| panel["title"] == title);
    let mut expressions = panels.filter_map(|panel| panel["targets"][0]["expr"].as_str());
    let joins = expressions.find(|it| it.contains(" by ") && !it.starts_with("count("));
    let joins = joins.unwrap_or_else(|| panic!("{file}: no panel {title}"));
    filled(joins, each(&dashboard["templating"]["list"]))
}

#[tokio::test]
async fn joins_are_stable_while_an_agent_is_replaced() {
    let of_agent = |instance: &str, values: &dyn Fn(&str) -> String| -> Vec<Value> {
        let series = SERIES.map(|(name, labels, value)| {
            let series = format!("{name}{{instance=\"{instance}\", node=\"a\", device=\"gpu-0\"{labels}}}");
            json!({"series": series, "values": values(value)})
        });
        series.into()
    };
    // scraped every 15 s; at the end of the five minutes both exist
    let before = of_agent("before", &|value| match value {
        "COUNTER" => "0+1500x20".to_owned(),
        value => format!("{value}x20"),
    });
    let after = of_agent("after", &|value| match value {
        "COUNTER" => "_x17 27000+1500x2".to_owned(),
        value => format!("_x17 {value}x2"),
    });
    let tests = PANELS.map(|(file, title, labels, value)| {
        json!({"expr": query(file, title), "eval_time": "5m", "exp_samples": [{"labels": labels, "value": value}]})
    });
    let series = [before, after].concat();
    let test = json!({"interval": "15s", "input_series": series, "promql_expr_test": tests});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("joins.test.yaml");
    // JSON is YAML
    fs::write(
        &file,
        json!({"rule_files": [], "evaluation_interval": "15s", "fuzzy_compare": true, "tests": [test]})
            .to_string(),
    )
    .unwrap();
    let tools = binaries::ensure_prometheus().await.unwrap();
    let mut promtool = Command::new(tools.path("promtool").unwrap());
    promtool.args(["test", "rules"]).arg(&file);
    command::run(promtool, "").await.unwrap();
}
