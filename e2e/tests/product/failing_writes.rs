//! An API server that answers 500 to renewals of the leader's Lease.

use e2e::SimulatedNode;
use e2e::product::NAMESPACE;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, failing_webhook, webhooks};
use crate::installation::cluster;

/// An operator whose Lease cannot be renewed ends before another may take it, as after a lost election. What runs goes on running,
/// and the next operator goes on where it ended.
#[tokio::test]
async fn an_operator_whose_lease_cannot_be_renewed_ends_in_order() {
    let mut env = TestEnv::new("failing-lease", [SimulatedNode::new("one")], [cpus()]).await;
    env.apply(&application("before", &[("a", 1, &[("cpu", "1ms")])])).await;
    let before = env.wait_reconciled("before", AppState::all_placed).await;
    let its_lease = format!("request.namespace == '{NAMESPACE}' && object.metadata.name == 'cairn-operator'");
    let name = format!("{}-fails", env.namespace.name());
    let hook = failing_webhook("lease", ("coordination.k8s.io", "leases"), &its_lease);
    env.apply(&webhooks(&name, &[hook])).await;
    let exit = env.product.operator.wait_ended(TIMEOUT).await.unwrap();
    assert_eq!(exit.code, Some(1), "it neither panics nor is killed: {exit}");
    env.apply(&application("during", &[("a", 1, &[("cpu", "1ms")])])).await;
    cluster().kubectl(["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
    env.product.operator = cluster().start_operator().await.unwrap();
    env.wait_reconciled("during", AppState::all_placed).await;
    let after = env.observe("before").await.unwrap();
    let uids = |state: &AppState| state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&after), uids(&before));
}
