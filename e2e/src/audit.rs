//! The audit log of the API server.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde::Deserialize;
use serde_json::Value;

use crate::{Cluster, wait};

/// One request with its response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Line")]
pub struct AuditEvent {
    /// The user: `system:serviceaccount:NAMESPACE:NAME` for a `ServiceAccount`.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verb: String,
    /// The API group; empty for the core group and for non-resource paths.
    pub group: String,
    /// The resource, in the plural; empty for paths like `/readyz`.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object's name, or empty. A creation has one only if the client chose it.
    pub name: String,
    /// The path and query of the request.
    pub uri: String,
    /// The user agent.
    pub user_agent: String,
    /// The id of the token; empty for other credentials. It distinguishes two processes of one account.
    pub credential: String,
    /// The HTTP status of the response; 0 if the connection broke before.
    pub code: u16,
    /// Whether RBAC refused it. Admission answers 403 as well, with permission.
    pub is_forbidden: bool,
    /// `ResponseComplete`, `ResponseStarted` (a running watch) or `Panic`.
    pub stage: String,
    /// When the request arrived.
    pub received: Timestamp,
    /// The request body where the log contains it: for pods that are created, bound or deleted, and for applications.
    pub request: Value,
}

impl AuditEvent {
    /// Whether it is a write.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether it is a dry run.
    pub fn is_trial(&self) -> bool {
        self.uri.contains("dryRun=All")
    }

    /// Whether it is from this `ServiceAccount` in `namespace`.
    pub fn is_by_service_account(&self, namespace: &str, name: &str) -> bool {
        self.user
            .strip_prefix("system:serviceaccount:")
            .is_some_and(|account| account.split_once(':') == Some((namespace, name)))
    }
}

/// The audit log up to some moment, in order.
#[derive(Clone, Debug, Default)]
pub struct AuditLog {
    events: Vec<AuditEvent>,
}

impl AuditLog {
    /// Every event.
    pub fn events(&self) -> &[AuditEvent] {
        &self.events
    }

    /// The events after `earlier`, a previous reading of the same log.
    pub fn since(&self, earlier: &Self) -> &[AuditEvent] {
        self.events.get(earlier.events.len()..).unwrap_or_default()
    }
}

impl Cluster {
    /// Reads the audit log, with all requests that were answered before this call.
    ///
    /// It sends a marker request for a missing object, and reads until that shows up.
    pub async fn audit(&self) -> Result<AuditLog> {
        let path = &self.plane().audit_log;
        let read = |from: u64| -> std::io::Result<String> {
            let mut text = String::new();
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(from))?;
            file.read_to_string(&mut text)?;
            Ok(text)
        };
        let before = path.metadata().with_context(|| format!("no audit log in {}", path.display()))?.len();
        let marker = format!("audit-marker-{}", self.number());
        let maps = Api::<ConfigMap>::namespaced(self.client().await?, "default");
        maps.get_opt(&marker).await.context("cannot leave a mark in the audit log")?;
        let caught_up = wait::until(Duration::from_mins(3), async || {
            let text = read(before)?;
            if text.contains(&marker) { Ok(()) } else { bail!("{} bytes more, no {marker}", text.len()) }
        });
        caught_up.await.map_err(|seen| anyhow!("the audit log does not catch up: {seen}"))?;
        parse(&read(0)?)
    }
}

/// Parses events, one per line; a last line without an end is still being written.
fn parse(text: &str) -> Result<AuditLog> {
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let event =
        |line: &str| serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"));
    Ok(AuditLog { events: lines.map(event).collect::<Result<_>>()? })
}

/// The used fields of an API server's event (`audit.k8s.io/v1`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Status,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    request_received_timestamp: Timestamp,
    #[serde(default)]
    request_object: Value,
}

#[derive(Deserialize)]
struct User {
    // absent in requests without a valid identity
    #[serde(default)]
    username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

impl From<Line> for AuditEvent {
    fn from(line: Line) -> Self {
        let object = line.object_ref;
        let credential = line.user.extra.get("authentication.kubernetes.io/credential-id");
        let decision = line.annotations.get("authorization.k8s.io/decision");
        Self {
            credential: credential.and_then(|ids| ids.first()).cloned().unwrap_or_default(),
            is_forbidden: decision.is_some_and(|decision| decision == "forbid"),
            user: line.user.username,
            verb: line.verb,
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            uri: line.request_uri,
            user_agent: line.user_agent,
            code: line.response_status.code,
            stage: line.stage,
            received: line.request_received_timestamp,
            request: line.request_object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/apis/cairn.dev/v1alpha1/namespaces/n/placements/p/status","verb":"patch","user":{"username":"system:serviceaccount:cairn-system:cairn-operator","groups":["a"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=1"]}},"sourceIPs":["127.0.0.1"],"userAgent":"cairn","objectRef":{"resource":"placements","namespace":"n","name":"p","apiGroup":"cairn.dev","apiVersion":"v1alpha1","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"annotations":{"authorization.k8s.io/decision":"allow"},"requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.000002Z"}"#;

    #[test]
    fn audit_events_are_parsed() {
        let log = parse(&format!("{LINE}\n{{\"half\":")).unwrap();
        let [event] = log.events() else { panic!("one whole line: {log:?}") };
        assert!(event.is_write());
        assert!(event.is_by_service_account("cairn-system", "cairn-operator"));
        assert!(!event.is_by_service_account("cairn-system", "cairn"));
        assert_eq!((event.group.as_str(), event.resource.as_str()), ("cairn.dev", "placements"));
        assert_eq!((event.subresource.as_str(), event.code), ("status", 200));
        assert_eq!((event.credential.as_str(), event.is_forbidden), ("JTI=1", false));
    }

    #[test]
    fn since_returns_later_events() {
        let earlier = parse(&format!("{LINE}\n")).unwrap();
        let later = parse(&format!("{LINE}\n{}\n", LINE.replace("patch", "get"))).unwrap();
        assert_eq!(later.since(&earlier).len(), 1);
        assert!(!later.since(&earlier)[0].is_write());
    }
}
