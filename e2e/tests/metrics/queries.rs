//! The queries of dashboards and alerts: Prometheus accepts them, every name and label is registered, and they have results.

use std::collections::{BTreeMap, BTreeSet};

use e2e::prometheus::Prometheus;
use serde_json::Value;

use crate::{
    alerts::{alerts, text},
    dashboards::{dashboards, each},
    documented,
};

/// Labels of the target, which the scraper adds.
const OF_TARGETS: [&str; 4] = ["job", "instance", "namespace", "pod"];
/// The series of a histogram.
const OF_HISTOGRAMS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// One query, and its location.
struct Query {
    place: String,
    expression: String,
    /// Whether it belongs to an alert, which has no result while all is well.
    waits: bool,
}

/// The metrics and labels of an expression.
#[derive(Default)]
struct About {
    names: BTreeSet<String>,
    labels: BTreeSet<String>,
    /// Whether it filters by a comparison.
    filters: bool,
}

/// The labels of each documented metric.
struct Registry(BTreeMap<String, BTreeSet<String>>);

impl Registry {
    fn new() -> Self {
        let mut all = BTreeMap::new();
        for (name, row) in ["agent", "operator", "application"].into_iter().flat_map(documented) {
            let labels: BTreeSet<String> =
                row.labels.into_iter().chain(OF_TARGETS.map(str::to_owned)).collect();
            if row.kind == "histogram" {
                let mut series = OF_HISTOGRAMS.map(|suffix| (format!("{name}{suffix}"), labels.clone()));
                series[0].1.insert("le".to_owned());
                all.extend(series);
            } else {
                all.insert(name, labels);
            }
        }
        Self(all)
    }

    /// Collects the metrics and labels of a syntax tree; panics at one that is not registered.
    fn about(&self, tree: &Value, place: &str) -> About {
        let mut about = About::default();
        let children = match tree {
            Value::Object(fields) => fields.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        for child in children {
            let inner = self.about(child, place);
            about.names.extend(inner.names);
            about.labels.extend(inner.labels);
            about.filters |= inner.filters;
        }
        let kind = tree["type"].as_str().unwrap_or_default();
        if ["vectorSelector", "matrixSelector"].contains(&kind) {
            let matchers = each(&tree["matchers"]).iter();
            let (of_name, others): (Vec<_>, Vec<_>) = matchers.partition(|it| it["name"] == "__name__");
            let names = of_name.first().and_then(|matcher| matcher["value"].as_str()).unwrap_or_default();
            for name in names.split('|') {
                let labels =
                    self.0.get(name).unwrap_or_else(|| panic!("{place}: {name:?} is not documented"));
                about.names.insert(name.to_owned());
                about.labels.extend(labels.iter().cloned());
                are_among(others.iter().map(|matcher| &matcher["name"]), labels, place);
            }
        }
        if tree["func"]["name"] == "label_replace" {
            about.labels.extend(tree["args"][1]["val"].as_str().map(str::to_owned));
        }
        let joined = [&tree["grouping"], &tree["matching"]["labels"], &tree["matching"]["include"]];
        are_among(joined.into_iter().flat_map(each), &about.labels, place);
        let compares = ["==", "!=", "<", "<=", ">", ">="].contains(&tree["op"].as_str().unwrap_or_default());
        about.filters |= kind == "binaryExpr" && compares;
        about
    }
}

fn are_among<'a>(labels: impl Iterator<Item = &'a Value>, known: &BTreeSet<String>, place: &str) {
    for label in labels {
        assert!(known.contains(label.as_str().unwrap()), "{place}: no label {label} among {known:?}");
    }
}

/// Operands of joins are aggregated first: a restarted agent has the series of its predecessor under another `instance`, and
/// duplicate series cannot be joined.
fn joins_are_of_one_each(tree: &Value, place: &str) {
    match tree {
        Value::Object(fields) => fields.values().for_each(|child| joins_are_of_one_each(child, place)),
        Value::Array(items) => items.iter().for_each(|child| joins_are_of_one_each(child, place)),
        _ => {}
    }
    let is_of_sets = ["and", "or", "unless"].contains(&tree["op"].as_str().unwrap_or_default());
    if tree["type"] == "binaryExpr" && tree["matching"].is_object() && !is_of_sets {
        let [left, right] = [&tree["lhs"], &tree["rhs"]].map(is_of_one_each);
        assert!(left && right, "{place}: a side of a join is not of one series each");
    }
}

/// Whether it is an aggregation, or consists of aggregations and numbers.
fn is_of_one_each(tree: &Value) -> bool {
    match tree["type"].as_str().unwrap_or_default() {
        "aggregation" => true,
        "parenExpr" | "unaryExpr" => is_of_one_each(&tree["expr"]),
        "binaryExpr" => ["lhs", "rhs"]
            .map(|side| &tree[side])
            .into_iter()
            .all(|side| side["type"] == "numberLiteral" || is_of_one_each(side)),
        _ => false,
    }
}

/// The expression with values for Grafana's variables.
pub fn filled(expression: &str, variables: &[Value]) -> String {
    let filled = expression.replace("$__rate_interval", "1m");
    let names = variables.iter().map(|variable| format!("${}", variable["name"].as_str().unwrap()));
    let filled = names.fold(filled, |filled, name| filled.replace(&name, ".*"));
    // A group of a regular expression is no variable.
    assert!(!filled.replace("$1", "").contains('$'), "no value for a variable of {filled}");
    filled
}

/// All queries of the chart.
fn queries() -> Vec<Query> {
    let mut all = Vec::new();
    for (file, dashboard) in dashboards() {
        let variables = each(&dashboard["templating"]["list"]);
        for variable in variables.iter().filter(|variable| variable["type"] == "query") {
            let query = variable["query"]["query"].as_str().unwrap();
            let (selector, label) = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.strip_suffix(')')?.rsplit_once(", "))
                .unwrap_or_else(|| panic!("{file}: {query}"));
            let place = format!("{file}, variable {}", variable["name"]);
            all.push(Query { place, expression: format!("count by ({label}) ({selector})"), waits: false });
        }
        for annotation in each(&dashboard["annotations"]["list"]) {
            let expression = filled(annotation["expr"].as_str().unwrap(), variables);
            all.push(Query {
                place: format!("{file}, annotation {}", annotation["name"]),
                expression,
                waits: false,
            });
        }
        for panel in each(&dashboard["panels"]) {
            for target in each(&panel["targets"]) {
                let expression = filled(target["expr"].as_str().unwrap(), variables);
                all.push(Query { place: format!("{file}, {}", panel["title"]), expression, waits: false });
            }
        }
    }
    all.extend(alerts().iter().map(|alert| Query {
        place: text(alert, "alert").to_owned(),
        expression: text(alert, "expr").to_owned(),
        waits: true,
    }));
    all
}

/// Runs all queries; one that does not filter, and whose metrics are all `at_hand`, must have a result.
pub async fn are_known_and_answered(prometheus: &Prometheus, at_hand: impl Fn(&str) -> bool) {
    let registry = Registry::new();
    let mut answered = 0;
    for Query { place, expression, waits } in queries() {
        let tree = prometheus.parsed(&expression).await.unwrap_or_else(|error| panic!("{place}: {error:#}"));
        let about = registry.about(&tree, &place);
        joins_are_of_one_each(&tree, &place);
        if waits || about.filters || !about.names.iter().all(|name| at_hand(name)) {
            prometheus.query(&expression).await.unwrap_or_else(|error| panic!("{place}: {error:#}"));
        } else {
            prometheus.seen(&expression).await.unwrap_or_else(|error| panic!("{place}: {error:#}"));
            answered += 1;
        }
    }
    assert!(answered > 30, "{answered} answered");
}
