//! An API server that answers 500 to lists of one kind, as with an object in etcd that cannot be decoded: it is counted, everything
//! else continues, and the kind is read again afterwards.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{SimulatedNode, process::http, wait_for};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// Within this time a failure is counted.
const COUNTED_WITHIN: Duration = Duration::from_mins(1);
/// Failed requests that are more than the end of a watch; the alert `CairnWatchFails` needs more of them.
const REPEATED: f64 = 2.0;

/// Kinds with the keys of their objects. Without some others, such as `LimitRange`, the API server itself admits no pod.
const KINDS: [(&str, &str); 5] = [
    ("PriorityClass", "priorityclasses"),
    ("StorageClass", "storageclasses"),
    ("RuntimeClass", "runtimeclasses"),
    ("NodeTopology", "cairn.dev/nodetopologies"),
    ("DevicePool", "cairn.dev/devicepools"),
];

/// Failed requests of the operator for a kind.
async fn errors(env: &TestEnv, kind: &str) -> anyhow::Result<f64> {
    let text = http(env.product.operator.port(8080)?, "/metrics").await?.body;
    let name = format!("cairn_operator_watch_errors_total{{kind=\"{kind}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    Ok(line.with_context(|| format!("no {name}"))?.parse()?)
}

#[tokio::test]
async fn a_kind_that_cannot_be_read_is_counted_and_planning_continues() {
    let env = TestEnv::new("failing-reads", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    for (kind, prefix) in KINDS {
        let object = format!("{prefix}/broken");
        let before = errors(&env, kind).await.unwrap();
        cluster().corrupt(&object).await.unwrap();
        wait_for(&format!("{kind} cannot be read"), COUNTED_WITHIN, async || {
            let failed = errors(&env, kind).await? - before;
            ensure!(failed >= REPEATED, "{failed} requests failed");
            anyhow::Ok(())
        })
        .await;
        let name = kind.to_lowercase();
        env.apply(&application(&name, &[("a", 1, &[("cpu", "1ms")])])).await;
        env.wait_reconciled(&name, AppState::all_placed).await;
        cluster().remove_corrupt(&object).await.unwrap();
        wait_for(&format!("{kind} is read again"), TIMEOUT, async || {
            cluster().kubectl(["get", kind, "-A"]).await.map(drop)
        })
        .await;
    }
    // A pool that is applied afterwards is read, and reported.
    let mut pool = cpus();
    pool["metadata"]["name"] = "later".into();
    env.apply(&pool).await;
    wait_for("the later pool is reported", TIMEOUT, async || {
        let status =
            cluster().kubectl(["get", "devicepool", "later", "-o", "jsonpath={.status}"]).await?.stdout;
        ensure!(!status.is_empty(), "no status");
        anyhow::Ok(())
    })
    .await;
    assert!(env.product.operator.exit().is_none(), "it runs");
}
