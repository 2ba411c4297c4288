//! The dashboards of the chart, parsed as by Grafana.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use e2e::{Cluster, product::tree};
use serde_json::{Value, json};

use crate::rendered;

/// Each dashboard, by file name.
pub fn dashboards() -> BTreeMap<String, Value> {
    let files =
        fs::read_dir(tree("charts/cairn/files/dashboards")).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|file| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap())
    });
    let all: BTreeMap<_, _> = named.collect();
    assert_eq!(all.len(), 5);
    all
}

/// The elements of a list.
pub fn each(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn panels_do_not_overlap_and_are_described() {
    for (name, dashboard) in dashboards() {
        assert_eq!(dashboard["uid"], name.trim_end_matches(".json"));
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in each(&dashboard["panels"]) {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{name}, {title}: duplicate id");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
            assert!(x + w <= 24, "{name}, {title}: wider than the page");
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(cell), "{name}, {title}: overlaps another panel");
            }
            if panel["type"] == "row" {
                continue;
            }
            assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}, {title}");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{name}, {title}: no unit");
            let targets = each(&panel["targets"]);
            assert!(!targets.is_empty(), "{name}, {title}: no query");
            let source = json!({"type": "prometheus", "uid": "${datasource}"});
            assert!(targets.iter().chain([panel]).all(|it| it["datasource"] == source), "{name}, {title}");
        }
    }
}

#[tokio::test]
async fn the_chart_labels_dashboards_for_the_sidecar() {
    let settings =
        ["--set=metrics.dashboards.create=true", "--set=metrics.dashboards.annotations.grafana_folder=a"];
    let maps = rendered(Cluster::shared(), "ConfigMap", &settings).await;
    for (file, dashboard) in dashboards() {
        let map = &maps[&file.replace(".json", "-dashboard")];
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
        assert_eq!(map["metadata"]["annotations"]["grafana_folder"], "a");
        let data: Value = serde_json::from_str(map["data"][&file].as_str().unwrap()).unwrap();
        assert_eq!(data, dashboard);
    }
}
