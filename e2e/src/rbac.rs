//! RBAC: the permissions of a `ServiceAccount`, and which of them were used.

use std::{collections::BTreeSet, fmt};

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::{AuditEvent, Cluster};

/// One permission: a single verb on a single resource, or on a path.
///
/// It is printed as `patch cairn.dev/placements/status in vision` or `get /metrics`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The verb, for example `list`.
    pub verb: String,
    /// `group/resource` or `group/resource/subresource`, the core group without its slash; or a path, which
    /// begins with a slash.
    pub target: String,
    /// The namespace; none for all.
    pub namespace: Option<String>,
}

impl Grant {
    /// Whether any part of it is a wildcard, which allows too much.
    pub fn is_wildcard(&self) -> bool {
        self.verb == "*" || self.target.split('/').any(|part| part == "*")
    }

    /// Whether it is the permission that `event` needs.
    ///
    /// A server-side apply of a missing object needs the permission to create it as well, and is logged as
    /// a patch that is answered with 201.
    pub fn covers(&self, event: &AuditEvent) -> bool {
        let path = event.uri.split('?').next().unwrap_or_default();
        let here = self.namespace.as_ref().is_none_or(|namespace| *namespace == event.namespace);
        let target = if event.resource.is_empty() {
            path.to_owned()
        } else {
            target(&event.group, &joined(&event.resource, &event.subresource))
        };
        let made = self.verb == "create" && event.verb == "patch" && event.code == 201;
        here && (self.verb == event.verb || made) && self.target == target
    }

    /// Whether the request was allowed by this permission.
    pub fn allowed(&self, event: &AuditEvent) -> bool {
        !event.is_forbidden && self.covers(event)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, " in {namespace}"))
    }
}

impl Cluster {
    /// All permissions of a `ServiceAccount` from its bindings, sorted.
    ///
    /// Without those of every authenticated user (discovery, self reviews).
    pub async fn grants(&self, namespace: &str, account: &str) -> Result<Vec<Grant>> {
        let client = self.client().await?;
        let all = ListParams::default();
        let is_it = |subjects: &Option<Vec<Subject>>| {
            subjects.iter().flatten().any(|subject| {
                (subject.kind.as_str(), subject.name.as_str()) == ("ServiceAccount", account)
                    && subject.namespace.as_deref() == Some(namespace)
            })
        };
        let mut grants = BTreeSet::new();
        for binding in Api::<ClusterRoleBinding>::all(client.clone()).list(&all).await? {
            if is_it(&binding.subjects) {
                let rules = rules(&client, &binding.role_ref, "").await?;
                grants.extend(rules.iter().flat_map(|rule| expand(rule, None)));
            }
        }
        for binding in Api::<RoleBinding>::all(client.clone()).list(&all).await? {
            if is_it(&binding.subjects) {
                let here = binding.namespace().unwrap_or_default();
                let rules = rules(&client, &binding.role_ref, &here).await?;
                grants.extend(rules.iter().flat_map(|rule| expand(rule, Some(&here))));
            }
        }
        Ok(grants.into_iter().collect())
    }
}

/// The rules of the role that a binding refers to; `namespace` is the binding's.
async fn rules(client: &Client, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>> {
    let rules = if role.kind == "ClusterRole" {
        Api::<ClusterRole>::all(client.clone()).get(&role.name).await.map(|role| role.rules)
    } else {
        Api::<Role>::namespaced(client.clone(), namespace).get(&role.name).await.map(|role| role.rules)
    };
    let rules = rules.with_context(|| format!("cannot read {} {namespace}/{}", role.kind, role.name))?;
    Ok(rules.unwrap_or_default())
}

/// Every single permission of a rule.
fn expand(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Grant> {
    let groups = || rule.api_groups.iter().flatten();
    let resources = rule.resources.iter().flatten();
    let targets = resources.flat_map(|resource| groups().map(move |group| target(group, resource)));
    let paths = rule.non_resource_urls.iter().flatten().cloned();
    let targets: Vec<_> = targets.chain(paths).collect();
    let grant = |verb: &String, target: &String| Grant {
        verb: verb.clone(),
        target: target.clone(),
        namespace: namespace.map(str::to_owned),
    };
    rule.verbs
        .iter()
        .flat_map(|verb| targets.iter().map(|target| grant(verb, target)).collect::<Vec<_>>())
        .collect()
}

fn target(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}

fn joined(resource: &str, subresource: &str) -> String {
    if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::PolicyRule;

    use super::{Grant, expand};

    fn shown(rule: serde_json::Value) -> Vec<String> {
        let rule: PolicyRule = serde_json::from_value(rule).unwrap();
        expand(&rule, Some("n")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_expands_to_every_combination() {
        let rule = serde_json::json!({"apiGroups": ["", "cairn.dev"], "resources": ["pods/status"], "verbs": ["get", "patch"]});
        assert_eq!(
            shown(rule),
            [
                "get pods/status in n",
                "get cairn.dev/pods/status in n",
                "patch pods/status in n",
                "patch cairn.dev/pods/status in n"
            ]
        );
        assert_eq!(
            shown(serde_json::json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})),
            ["get /metrics in n"]
        );
    }

    #[test]
    fn wildcards_are_detected_in_every_field() {
        let grant =
            |verb: &str, target: &str| Grant { verb: verb.into(), target: target.into(), namespace: None };
        assert!(grant("*", "pods").is_wildcard());
        assert!(grant("get", "*/pods").is_wildcard());
        assert!(grant("get", "apps/*").is_wildcard());
        assert!(!grant("get", "pods/log").is_wildcard());
    }
}
