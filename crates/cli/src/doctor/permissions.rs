//! The permissions that operator and agents require. A test compares them with the chart's roles.

use super::findings::{AGENT, OPERATOR};

/// The scope of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionScope {
    /// All namespaces and cluster-scoped objects.
    Cluster,
    OperatorNamespace,
    /// The namespace of the agents' Leases.
    AgentNamespace,
}

/// One rule of a role.
struct RoleRule {
    account: &'static str,
    scope: PermissionScope,
    group: &'static str,
    resources: &'static [&'static str],
    /// Restricts the rule to the object with this name.
    name: Option<&'static str>,
    verbs: &'static [&'static str],
}

const fn rule(
    account: &'static str,
    scope: PermissionScope,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> RoleRule {
    RoleRule { account, scope, group, resources, name: None, verbs }
}

const LIST_WATCH: &[&str] = &["list", "watch"];
const CAIRN: &str = "cairn.dev";
const COORDINATION: &str = "coordination.k8s.io";

const RULES: [RoleRule; 28] = {
    use PermissionScope::{AgentNamespace, Cluster, OperatorNamespace};
    let nodes: &[&str] = &["nodes", "pods", "resourcequotas", "limitranges", "namespaces"];
    let volumes: &[&str] = &["serviceaccounts", "persistentvolumeclaims", "persistentvolumes"];
    let storage: &[&str] = &["storageclasses", "csinodes", "csidrivers", "csistoragecapacities"];
    let devices: &[&str] = &["resourceclaimtemplates", "resourceclaims", "deviceclasses", "resourceslices"];
    let kinds: &[&str] = &["actorapplications", "devicepools", "nodetopologies", "placements", "instances"];
    let statuses: &[&str] =
        &["actorapplications/status", "devicepools/status", "placements/status", "instances/status"];
    [
        rule(OPERATOR, Cluster, "", nodes, LIST_WATCH),
        rule(OPERATOR, Cluster, "", volumes, LIST_WATCH),
        rule(OPERATOR, Cluster, "node.k8s.io", &["runtimeclasses"], LIST_WATCH),
        rule(OPERATOR, Cluster, "scheduling.k8s.io", &["priorityclasses"], LIST_WATCH),
        rule(OPERATOR, Cluster, "storage.k8s.io", storage, LIST_WATCH),
        rule(OPERATOR, Cluster, "resource.k8s.io", devices, LIST_WATCH),
        rule(OPERATOR, Cluster, "resource.k8s.io", &["resourceclaims"], &["create", "delete"]),
        rule(OPERATOR, Cluster, "", &["nodes"], &["get"]),
        rule(OPERATOR, Cluster, CAIRN, kinds, LIST_WATCH),
        rule(OPERATOR, Cluster, CAIRN, &["placements"], &["create", "patch"]),
        rule(OPERATOR, Cluster, CAIRN, &["instances"], &["create", "patch", "delete"]),
        rule(OPERATOR, Cluster, CAIRN, statuses, &["patch"]),
        rule(OPERATOR, Cluster, "", &["pods"], &["create", "delete"]),
        rule(OPERATOR, Cluster, "", &["pods/eviction"], &["create"]),
        rule(OPERATOR, Cluster, "", &["services"], &["list", "watch", "create", "patch"]),
        rule(OPERATOR, Cluster, "", &["configmaps"], &["list", "watch", "create", "patch"]),
        rule(
            OPERATOR,
            Cluster,
            "apps",
            &["controllerrevisions"],
            &["list", "watch", "create", "patch", "delete"],
        ),
        rule(OPERATOR, Cluster, "events.k8s.io", &["events"], &["create", "patch"]),
        RoleRule {
            name: Some(OPERATOR),
            ..rule(OPERATOR, OperatorNamespace, COORDINATION, &["leases"], &["get", "update"])
        },
        rule(OPERATOR, OperatorNamespace, COORDINATION, &["leases"], &["create"]),
        RoleRule {
            name: Some(OPERATOR),
            ..rule(OPERATOR, OperatorNamespace, "", &["serviceaccounts"], &["get"])
        },
        rule(OPERATOR, AgentNamespace, COORDINATION, &["leases"], LIST_WATCH),
        rule(AGENT, Cluster, "", &["nodes"], LIST_WATCH),
        rule(AGENT, Cluster, "", &["pods"], LIST_WATCH),
        rule(AGENT, Cluster, CAIRN, &["nodetopologies"], LIST_WATCH),
        rule(AGENT, Cluster, CAIRN, &["nodetopologies"], &["get", "create", "patch"]),
        rule(AGENT, Cluster, CAIRN, &["nodetopologies/status"], &["patch"]),
        rule(AGENT, AgentNamespace, COORDINATION, &["leases"], &["create", "patch"]),
    ]
};

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub account: &'static str,
    pub scope: PermissionScope,
    pub group: &'static str,
    pub resource: &'static str,
    pub name: Option<&'static str>,
    pub verb: &'static str,
}

/// The required permissions; `agents`: agents are installed, `agents_watch_pods`: they watch pods.
pub fn required(agents: bool, agents_watch_pods: bool) -> Vec<Permission> {
    let is_required = |rule: &&RoleRule| {
        let of_agents = rule.account == AGENT || rule.scope == PermissionScope::AgentNamespace;
        let is_watching_pods = rule.account == AGENT && rule.resources.contains(&"pods");
        (agents || !of_agents) && (agents_watch_pods || !is_watching_pods)
    };
    let permissions = |rule: &'static RoleRule| {
        let RoleRule { account, scope, group, resources, name, verbs } = rule;
        resources.iter().flat_map(move |resource| {
            let permission =
                move |verb| Permission { account, scope: *scope, group, resource, name: *name, verb };
            verbs.iter().map(move |verb| permission(verb))
        })
    };
    RULES.iter().filter(is_required).flat_map(permissions).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde::Deserialize as _;

    use super::*;

    /// The permissions that a template of the chart grants with all features enabled, one per line.
    fn granted(file: &str) -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/cairn/templates").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let plain: Vec<String> = (text.lines().filter(|line| !line.trim_start().starts_with("{{")))
            .map(|line| line.replace("{{ .Release.Namespace }}", "operators"))
            .collect();
        let mut granted = BTreeSet::new();
        for document in serde_yaml::Deserializer::from_str(&plain.join("\n")) {
            let value = serde_json::Value::deserialize(document).unwrap();
            let text = |pointer: &str| value.pointer(pointer).and_then(serde_json::Value::as_str);
            if !["Role", "ClusterRole"].contains(&text("/kind").unwrap_or_default()) {
                continue;
            }
            let account = text("/metadata/name").unwrap();
            let scope = match text("/metadata/namespace") {
                None => PermissionScope::Cluster,
                Some("operators") => PermissionScope::OperatorNamespace,
                Some(_) => PermissionScope::AgentNamespace,
            };
            let rules: Vec<PolicyRule> = serde_json::from_value(value["rules"].clone()).unwrap();
            for rule in rules {
                let names = rule.resource_names.unwrap_or_default().join(",");
                for group in rule.api_groups.iter().flatten() {
                    for resource in rule.resources.iter().flatten() {
                        for verb in &rule.verbs {
                            granted.insert(format!("{account} {scope:?} {verb} {group}/{resource} {names}"));
                        }
                    }
                }
            }
        }
        granted
    }

    #[test]
    fn required_permissions_match_the_chart() {
        let mut chart = granted("operator/rbac.yaml");
        chart.extend(granted("agent/rbac.yaml"));
        let line = |it: &Permission| {
            let Permission { account, scope, group, resource, name, verb } = it;
            format!("{account} {scope:?} {verb} {group}/{resource} {}", name.unwrap_or_default())
        };
        assert_eq!(required(true, true).iter().map(line).collect::<BTreeSet<_>>(), chart);
        let is_operators =
            |it: &Permission| it.account == OPERATOR && it.scope != PermissionScope::AgentNamespace;
        assert!(required(false, false).iter().all(is_operators));
        assert!(!required(true, false).iter().any(|it| it.account == AGENT && it.resource == "pods"));
    }
}
