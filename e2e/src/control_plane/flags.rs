//! The flags of each process. Everything listens on 127.0.0.1 and nothing needs root.

use std::path::Path;

use super::ControlPlane;

/// Request metadata without bodies, once per request (a watch has a start and an end).
pub(super) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
# what the checker of chaos reads: where a pod is, how it goes, who is wanted
- level: Request
  verbs: [create, update, patch, delete]
  resources: [{group: cairn.dev, resources: [actorapplications]}]
- level: Request
  verbs: [create, delete]
  resources: [{group: '', resources: [pods, pods/binding]}]
# and who cordons a node
- level: Request
  verbs: [patch]
  resources: [{group: '', resources: [nodes]}]
- level: Metadata
";

/// The range is never routed: only the API server's own Service is in it, at its first address, which real nodes
/// have themselves.
const SERVICES: &str = "10.0.0.0/16";

pub(super) fn etcd(plane: &ControlPlane) -> Vec<String> {
    let (client, peer) = (url(plane, "etcd"), url(plane, "etcd-peer"));
    vec![
        "--name=e2e".into(),
        format!("--data-dir={}/etcd", plane.state.display()),
        "--unsafe-no-fsync".into(), // the data dies with the run
        "--log-level=warn".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=e2e={peer}"),
    ]
}

pub(super) fn apiserver(plane: &ControlPlane) -> Vec<String> {
    let pki = plane.state.join("pki");
    let pki = pki.display();
    let mut flags = vec![
        format!("--etcd-servers={}", url(plane, "etcd")),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(), // it refuses to publish a loopback address
        format!("--secure-port={}", plane.ports["kube-apiserver"]),
        format!("--service-cluster-ip-range={SERVICES}"),
        format!("--tls-cert-file={pki}/kube-apiserver.crt"),
        format!("--tls-private-key-file={pki}/kube-apiserver.key"),
        format!("--client-ca-file={pki}/ca.crt"),
        format!("--kubelet-client-certificate={pki}/kubelet-client.crt"),
        format!("--kubelet-client-key={pki}/kubelet-client.key"),
        "--kubelet-preferred-address-types=InternalIP".into(), // no name of a node can be resolved
        "--anonymous-auth=false".into(),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={pki}/service-accounts.pub"),
        format!("--service-account-signing-key-file={pki}/service-accounts.key"),
        // without these, controller manager and scheduler log endless errors
        format!("--requestheader-client-ca-file={pki}/ca.crt"),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        format!("--proxy-client-cert-file={pki}/front-proxy.crt"),
        format!("--proxy-client-key-file={pki}/front-proxy.key"),
        format!("--audit-policy-file={}/audit-policy.yaml", plane.state.display()),
        format!("--audit-log-path={}", plane.audit_log.display()),
        "--audit-log-mode=blocking".into(), // an event is in the file about when its answer is sent
        "--audit-log-maxsize=4096".into(),  // MiB: never rotated
        "--max-requests-inflight=1000".into(),
        "--max-mutating-requests-inflight=500".into(),
    ];
    flags.extend(emulated_version(plane));
    flags
}

/// The flag of API server, controller manager and scheduler for the version that they emulate.
fn emulated_version(plane: &ControlPlane) -> Option<String> {
    plane.emulated_version.as_ref().map(|version| format!("--emulated-version={version}"))
}

pub(super) fn controller_manager(plane: &ControlPlane) -> Vec<String> {
    let pki = plane.state.join("pki");
    let pki = pki.display();
    let mut flags = component(plane, "kube-controller-manager");
    flags.extend([
        "--use-service-account-credentials=true".into(),
        format!("--service-account-private-key-file={pki}/service-accounts.key"),
        format!("--root-ca-file={pki}/ca.crt"),
        format!("--cluster-signing-cert-file={pki}/ca.crt"),
        format!("--cluster-signing-key-file={pki}/ca.key"),
        // the default is a folder under /usr, which it would create
        format!("--flex-volume-plugin-dir={}/flexvolume", plane.state.display()),
    ]);
    flags
}

pub(super) fn scheduler(plane: &ControlPlane) -> Vec<String> {
    component(plane, "kube-scheduler")
}

pub(super) fn kwok(plane: &ControlPlane, stages: &Path) -> Vec<String> {
    let port = plane.ports["kwok"];
    vec![
        format!("--kubeconfig={}/kwok.kubeconfig", plane.state.display()),
        format!("--config={}", stages.display()),
        "--manage-all-nodes=false".into(),
        format!(
            "--manage-nodes-with-annotation-selector={}={}",
            crate::nodes::ANNOTATION.0,
            crate::nodes::ANNOTATION.1
        ),
        "--node-lease-duration-seconds=40".into(),
        "--cidr=10.200.0.0/16".into(),
        "--node-ip=127.0.0.1".into(),
        format!("--node-port={port}"),
        format!("--server-address=127.0.0.1:{port}"),
    ]
}

/// The common flags of controller manager and scheduler.
fn component(plane: &ControlPlane, name: &str) -> Vec<String> {
    let kubeconfig = format!("{}/{name}.kubeconfig", plane.state.display());
    let mut flags = vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", plane.ports[name]),
        "--leader-elect=false".into(), // there is one, and it starts at once
        "--kube-api-qps=500".into(),   // with the default of 50, a thousand pods take a minute
        "--kube-api-burst=1000".into(),
    ];
    flags.extend(emulated_version(plane));
    flags
}

fn url(plane: &ControlPlane, port: &str) -> String {
    format!("http://127.0.0.1:{}", plane.ports[port])
}
