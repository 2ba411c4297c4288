//! What the operator and the agents must be allowed to do: the rules of the chart's roles. A test holds them to each other.

use super::found::{AGENT, OPERATOR};

/// Where a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Everywhere,
    /// In the operator's namespace.
    Operators,
    /// In the namespace of the agents' Leases.
    Agents,
}

/// One rule of a role.
struct Rule {
    who: &'static str,
    place: Place,
    group: &'static str,
    resources: &'static [&'static str],
    /// Of the one object of this name alone.
    name: Option<&'static str>,
    verbs: &'static [&'static str],
}

const fn rule(
    who: &'static str,
    place: Place,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule { who, place, group, resources, name: None, verbs }
}

const LOOK: &[&str] = &["list", "watch"];
const OURS: &str = "cairn.dev";
const LEASES: &str = "coordination.k8s.io";

const RULES: [Rule; 23] = {
    use Place::{Agents, Everywhere, Operators};
    let nodes: &[&str] = &["nodes", "pods", "resourcequotas", "limitranges", "namespaces"];
    let kinds: &[&str] = &["actorapplications", "devicepools", "nodetopologies", "placements", "instances"];
    let statuses: &[&str] =
        &["actorapplications/status", "devicepools/status", "placements/status", "instances/status"];
    [
        rule(OPERATOR, Everywhere, "", nodes, LOOK),
        rule(OPERATOR, Everywhere, "", &["nodes"], &["get"]),
        rule(OPERATOR, Everywhere, OURS, kinds, LOOK),
        rule(OPERATOR, Everywhere, OURS, &["placements"], &["create", "patch"]),
        rule(OPERATOR, Everywhere, OURS, &["instances"], &["create", "patch", "delete"]),
        rule(OPERATOR, Everywhere, OURS, statuses, &["patch"]),
        rule(OPERATOR, Everywhere, "", &["pods"], &["create", "delete"]),
        rule(OPERATOR, Everywhere, "", &["pods/eviction"], &["create"]),
        rule(OPERATOR, Everywhere, "", &["services"], &["list", "watch", "create"]),
        rule(OPERATOR, Everywhere, "", &["configmaps"], &["list", "watch", "create", "patch"]),
        rule(OPERATOR, Everywhere, "apps", &["controllerrevisions"], &["list", "watch", "create", "delete"]),
        rule(OPERATOR, Everywhere, "events.k8s.io", &["events"], &["create", "patch"]),
        rule(OPERATOR, Operators, "", &["configmaps"], LOOK),
        Rule { name: Some(OPERATOR), ..rule(OPERATOR, Operators, LEASES, &["leases"], &["get", "update"]) },
        rule(OPERATOR, Operators, LEASES, &["leases"], &["create"]),
        Rule { name: Some(OPERATOR), ..rule(OPERATOR, Operators, "", &["serviceaccounts"], &["get"]) },
        rule(OPERATOR, Agents, LEASES, &["leases"], LOOK),
        rule(AGENT, Everywhere, "", &["nodes"], LOOK),
        rule(AGENT, Everywhere, "", &["pods"], LOOK),
        rule(AGENT, Everywhere, OURS, &["nodetopologies"], LOOK),
        rule(AGENT, Everywhere, OURS, &["nodetopologies"], &["get", "create", "patch"]),
        rule(AGENT, Everywhere, OURS, &["nodetopologies/status"], &["patch"]),
        rule(AGENT, Agents, LEASES, &["leases"], &["create", "patch"]),
    ]
};

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub who: &'static str,
    pub place: Place,
    pub group: &'static str,
    pub resource: &'static str,
    pub name: Option<&'static str>,
    pub verb: &'static str,
}

/// Every right that is needed: those of agents and of their Leases where agents are installed, and to look at pods where they
/// ask who holds what.
pub fn needed(agents: bool, pods_by_agents: bool) -> Vec<Right> {
    let is_needed = |rule: &&Rule| {
        let of_agents = rule.who == AGENT || rule.place == Place::Agents;
        (agents || !of_agents) && (pods_by_agents || rule.who != AGENT || !rule.resources.contains(&"pods"))
    };
    let each = |rule: &'static Rule| {
        let Rule { who, place, group, resources, name, verbs } = rule;
        resources.iter().flat_map(move |resource| {
            verbs.iter().map(move |verb| Right { who, place: *place, group, resource, name: *name, verb })
        })
    };
    RULES.iter().filter(is_needed).flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde::Deserialize as _;

    use super::*;

    /// What a template of the chart grants, whatever is installed: a line for each verb on each resource.
    fn granted(file: &str) -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/cairn/templates").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let plain: Vec<String> = (text.lines().filter(|line| !line.trim_start().starts_with("{{")))
            .map(|line| line.replace("{{ .Release.Namespace }}", "operators"))
            .collect();
        let mut granted = BTreeSet::new();
        for document in serde_yaml::Deserializer::from_str(&plain.join("\n")) {
            let value = serde_json::Value::deserialize(document).unwrap();
            let text = |at: &str| value.pointer(at).and_then(serde_json::Value::as_str);
            if !["Role", "ClusterRole"].contains(&text("/kind").unwrap_or_default()) {
                continue;
            }
            let who = text("/metadata/name").unwrap();
            let place = match text("/metadata/namespace") {
                None => Place::Everywhere,
                Some("operators") => Place::Operators,
                Some(_) => Place::Agents,
            };
            let rules: Vec<PolicyRule> = serde_json::from_value(value["rules"].clone()).unwrap();
            for rule in rules {
                let names = rule.resource_names.unwrap_or_default().join(",");
                for group in rule.api_groups.iter().flatten() {
                    for resource in rule.resources.iter().flatten() {
                        for verb in &rule.verbs {
                            granted.insert(format!("{who} {place:?} {verb} {group}/{resource} {names}"));
                        }
                    }
                }
            }
        }
        granted
    }

    #[test]
    fn they_are_those_that_the_chart_grants() {
        let mut chart = granted("operator/rbac.yaml");
        chart.extend(granted("agent/rbac.yaml"));
        let told = |it: &Right| {
            let Right { who, place, group, resource, name, verb } = it;
            format!("{who} {place:?} {verb} {group}/{resource} {}", name.unwrap_or_default())
        };
        assert_eq!(needed(true, true).iter().map(told).collect::<BTreeSet<_>>(), chart);
        assert!(needed(false, false).iter().all(|it| it.who == OPERATOR && it.place != Place::Agents));
        assert!(!needed(true, false).iter().any(|it| it.who == AGENT && it.resource == "pods"));
    }
}
