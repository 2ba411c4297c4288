//! The alerts of the chart: promtool accepts them, and each of them fires on its test series.

use std::{collections::BTreeSet, fs};

use e2e::{Cluster, binaries, command, product::tree};
use serde_json::Value;
use tokio::process::Command;

use crate::rendered;

const ALERTS: &str = "charts/cairn/files/alerts.yaml";
const TESTS: &str = "e2e/tests/metrics/alerts.test.yaml";

/// Every alert of the rules file.
pub fn alerts() -> Vec<Value> {
    let groups: Value = serde_yaml::from_str(&fs::read_to_string(tree(ALERTS)).unwrap()).unwrap();
    let groups = groups["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The annotations of an alert.
pub fn text<'a>(alert: &'a Value, key: &str) -> &'a str {
    alert[key].as_str().unwrap_or_else(|| panic!("no {key}: {alert}"))
}

#[tokio::test]
async fn every_alert_fires_when_it_should_and_not_before() {
    let tools = binaries::ensure_prometheus().await.unwrap();
    for (subcommand, file) in [("check", ALERTS), ("test", TESTS)] {
        let mut promtool = Command::new(tools.path("promtool").unwrap());
        promtool.args([subcommand, "rules"]).arg(tree(file));
        command::run(promtool, "").await.unwrap();
    }
    let tests = fs::read_to_string(tree(TESTS)).unwrap();
    for alert in alerts() {
        let fired = format!("ALERTS{{alertname=\"{}\"", text(&alert, "alert"));
        let fired = tests.lines().find(|line| line.contains(&fired));
        let fired = fired.unwrap_or_else(|| panic!("no test makes {} fire", alert["alert"]));
        // everything that its annotations name exists when it fires
        let annotations = alert["annotations"].to_string();
        for named in annotations.split("$labels.").skip(1) {
            let end = named.find(|next: char| !(next.is_alphanumeric() || next == '_')).unwrap();
            let label = format!(" {}=\"", &named[..end]);
            assert!(fired.contains(&label), "{} has no label {}: {fired}", alert["alert"], &named[..end]);
        }
    }
}

#[tokio::test]
async fn the_prometheus_rule_equals_the_alert_file() {
    let settings = ["--set=metrics.prometheusRule.create=true", "--set=metrics.prometheusRule.labels.team=a"];
    let rules = rendered(Cluster::shared(), "PrometheusRule", &settings).await;
    let file: Value = serde_yaml::from_str(&fs::read_to_string(tree(ALERTS)).unwrap()).unwrap();
    assert_eq!(rules["cairn"]["spec"], file);
    assert_eq!(rules["cairn"]["metadata"]["labels"]["team"], "a");
}

#[tokio::test]
async fn runbook_urls_follow_the_chart_value() {
    let settings = [
        "--set=metrics.prometheusRule.create=true",
        "--set=metrics.prometheusRule.runbooks=https://example.com/cairn/",
    ];
    let rules = rendered(Cluster::shared(), "PrometheusRule", &settings).await;
    let first = &rules["cairn"]["spec"]["groups"][0]["rules"][0]["annotations"]["runbook_url"];
    assert_eq!(first, "https://example.com/cairn/docs/runbooks/CairnNoLeader.md");
    let settings = ["--set=metrics.prometheusRule.create=true", "--set=metrics.prometheusRule.runbooks="];
    let rules = rendered(Cluster::shared(), "PrometheusRule", &settings).await;
    let annotations = rules["cairn"]["spec"]["groups"][0]["rules"][0]["annotations"].as_object().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["description", "summary"], "no placeholder");
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let mut pages: BTreeSet<String> = fs::read_dir(tree("docs/runbooks"))
        .unwrap()
        .map(|entry| format!("docs/runbooks/{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    for alert in alerts() {
        let url = text(&alert["annotations"], "runbook_url");
        let page = url.strip_prefix("https://cairn.dev/").unwrap_or_else(|| panic!("{url} is not absolute"));
        assert!(pages.remove(page), "there is no {page}");
        let written = fs::read_to_string(tree(page)).unwrap();
        let title = format!("# {}\n", text(&alert, "alert"));
        assert!(
            written.starts_with(&title)
                && written.contains("\n## Diagnosis\n")
                && written.contains("\n## Mitigation\n"),
            "{page}"
        );
    }
    assert_eq!(pages, BTreeSet::new(), "runbooks without an alert");
}

#[test]
fn every_alert_has_severity_and_description() {
    let alerts = alerts();
    let names: BTreeSet<_> = alerts.iter().map(|alert| text(alert, "alert")).collect();
    assert_eq!(names.len(), alerts.len(), "duplicate alert names");
    for alert in &alerts {
        let severity = text(&alert["labels"], "severity");
        assert!(["critical", "warning", "info"].contains(&severity), "{alert}");
        assert!(text(&alert["annotations"], "summary").ends_with('.'), "{alert}");
        assert!(text(&alert["annotations"], "description").len() > 40, "{alert}");
    }
}
