//! The Leases of node agents whose Node is gone: a Node that goes takes its agent with it, and nobody else tidies up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::error::Error;
use crate::reconcile::Context;

/// What the names of agents' Leases begin with; the rest is the name of the Node.
const PREFIX: &str = "cairn-agent-";
/// How often they are looked at.
const EVERY: Duration = Duration::from_mins(5);

/// Removes them, now and then; ends only with the process.
pub async fn run(ctx: Arc<Context>, namespace: String) {
    loop {
        if let Err(e) = tidy(&ctx, &namespace).await {
            tracing::warn!(error = e.chain(), "Leases of nodes that are gone could not be removed");
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn tidy(ctx: &Context, namespace: &str) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(ctx.writer.client.clone(), namespace);
    let leases = api.list(&ListParams::default()).await;
    let leases = leases.map_err(|source| Error::Observe { what: "the Leases of node agents", source })?;
    // In this order: the agent of a Node that is new has renewed its Lease.
    let nodes: BTreeSet<String> = ctx.caches.nodes.state().iter().map(|node| node.name_any()).collect();
    let now = Timestamp::now();
    for lease in leases.items.iter().filter(|lease| is_left_behind(lease, &nodes, now)) {
        ctx.writer
            .delete::<Lease>(namespace, &lease.name_any(), &lease.uid().unwrap_or_default(), false)
            .await?;
    }
    Ok(())
}

/// Whether it is of an agent whose Node is gone, and nobody renews it any more.
fn is_left_behind(lease: &Lease, nodes: &BTreeSet<String>, now: Timestamp) -> bool {
    let name = lease.name_any();
    let Some(node) = name.strip_prefix(PREFIX) else { return false };
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map_or(0, |time| time.0.as_second());
    !nodes.contains(node) && renewed.saturating_add(seconds.into()) < now.as_second()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_expired_lease_of_a_node_that_is_gone_is_left_behind() {
        let nodes = BTreeSet::from(["here".to_owned()]);
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let check = |name: &str, renewed: &str| {
            let lease = json!({"metadata": {"name": name}, "spec": {"leaseDurationSeconds": 60,
                "renewTime": format!("2026-01-01T00:{renewed}.000000Z")}});
            is_left_behind(&serde_json::from_value(lease).unwrap(), &nodes, now)
        };
        assert!(check("cairn-agent-gone", "08:59"));
        assert!(!check("cairn-agent-gone", "09:30"));
        assert!(!check("cairn-agent-here", "08:59"));
        assert!(!check("cairn-operator", "08:59"));
    }
}
