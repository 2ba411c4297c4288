//! Several teams on one cluster: who may do what, and who may use what.

use anyhow::ensure;
use e2e::{Cluster, SimulatedNode, product::NAMESPACE, wait_for};
use serde_json::json;

use crate::stage::{SOON, Seen, Stage, application, cpus};

/// Kubernetes' own roles have what belongs to them of Cairn.
#[tokio::test]
async fn who_may_view_edit_or_administer_a_namespace_may_do_so_with_cairns_kinds() {
    let stage = Stage::set("roles", [], []).await;
    let namespace = stage.namespace.name();
    for role in ["view", "edit", "admin", "cairn-runtime"] {
        let binding = [
            "create",
            "rolebinding",
            role,
            &format!("--clusterrole={role}"),
            &format!("--user={role}-of-{namespace}"),
        ];
        stage.namespace.kubectl(binding).await.unwrap();
    }
    let all = "get actorapplications, list placements, watch instances, get actorapplications/status, \
        create actorapplications, patch actorapplications, delete instances, \
        create instances, patch placements, delete placements, patch instances/status";
    for (role, expected) in [
        ("view", "get actorapplications, list placements, watch instances"),
        (
            "edit",
            "get actorapplications, list placements, watch instances, create actorapplications, \
             patch actorapplications, delete instances",
        ),
        (
            "admin",
            "get actorapplications, list placements, watch instances, create actorapplications, \
             patch actorapplications, delete instances",
        ),
        ("cairn-runtime", "get actorapplications, watch instances, delete instances, create instances"),
    ] {
        let user = format!("--as={role}-of-{namespace}");
        // the controller manager puts the parts of a role together a moment after they are there
        wait_for(&format!("what {role} may"), SOON, async || {
            let mut may = Vec::new();
            for right in all.split(", ") {
                let (verb, kind) = right.split_once(' ').unwrap();
                let (kind, part) = kind.split_once('/').unwrap_or((kind, ""));
                let (kind, part) = (format!("{kind}.cairn.dev"), format!("--subresource={part}"));
                let asked = ["auth", "can-i", verb, &kind, &part, &user];
                // it answers no by failing
                if stage.namespace.kubectl(asked).await.is_ok() {
                    may.push(right);
                }
            }
            ensure!(may.join(", ") == expected, "{may:?}");
            anyhow::Ok(())
        })
        .await;
    }
}

/// A policy for one team is refused to another, in words, and what runs under it goes on when it is taken away.
#[tokio::test]
async fn a_policy_is_for_the_namespaces_that_it_names() {
    let cluster = Cluster::shared();
    let stage = Stage::set("policy-of", [SimulatedNode::new("one")], [cpus()]).await;
    let mine = stage.namespace.name();
    let policy = |namespaces: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "exclusive", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}, "annotations": {"cairn.dev/namespaces": namespaces}},
            "data": {"policy.yaml": "window: 10s"}})
        .to_string()
    };
    cluster.kubectl_with(["apply", "-f-"], &policy("others")).await.unwrap();
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("exclusive");
    stage.apply(&manifest).await;
    let refused = |seen: &Seen| {
        let said = seen.message("Accepted", "False")?;
        ensure!(said.contains(&format!("policy exclusive is not for namespace {mine}")), "{said}");
        Ok(())
    };
    let seen = stage.seen("app", refused).await;
    assert!(seen.pods.is_empty());

    cluster.kubectl_with(["apply", "-f-"], &policy(&format!("others, {mine}"))).await.unwrap();
    let before = stage.settled("app", Seen::all_placed).await;
    cluster.kubectl_with(["apply", "-f-"], &policy("others")).await.unwrap();
    let seen = stage.seen("app", refused).await;
    let uids = |seen: &Seen| seen.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&seen), uids(&before), "what runs goes on running");
    cluster.kubectl(["delete", "configmap", "exclusive", "-n", NAMESPACE]).await.unwrap();
}
