//! Several teams on one cluster: permissions and policies.

use anyhow::ensure;
use e2e::{SimulatedNode, product::NAMESPACE, wait_for};
use serde_json::json;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// Kubernetes' aggregated roles include Cairn's kinds.
#[tokio::test]
async fn aggregated_roles_cover_cairns_kinds() {
    let env = TestEnv::new("roles", [], []).await;
    let namespace = env.namespace.name();
    for role in ["view", "edit", "admin", "cairn-runtime"] {
        let binding = [
            "create",
            "rolebinding",
            role,
            &format!("--clusterrole={role}"),
            &format!("--user={role}-of-{namespace}"),
        ];
        env.namespace.kubectl(binding).await.unwrap();
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
        // the controller manager aggregates roles after a moment
        wait_for(&format!("the permissions of {role}"), TIMEOUT, async || {
            let mut may = Vec::new();
            for right in all.split(", ") {
                let (verb, kind) = right.split_once(' ').unwrap();
                let (kind, part) = kind.split_once('/').unwrap_or((kind, ""));
                let (kind, part) = (format!("{kind}.cairn.dev"), format!("--subresource={part}"));
                let asked = ["auth", "can-i", verb, &kind, &part, &user];
                // a refusal is a failure
                if env.namespace.kubectl(asked).await.is_ok() {
                    may.push(right);
                }
            }
            ensure!(may.join(", ") == expected, "{may:?}");
            anyhow::Ok(())
        })
        .await;
    }
}

/// R55: a policy of another team is refused with the reason, and actors under it keep running when access is withdrawn.
#[tokio::test]
async fn policies_apply_only_to_their_namespaces() {
    let cluster = cluster();
    let env = TestEnv::new("policy-of", [SimulatedNode::new("one")], [cpus()]).await;
    let mine = env.namespace.name();
    let policy = |namespaces: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "exclusive", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}, "annotations": {"cairn.dev/namespaces": namespaces}},
            "data": {"policy.yaml": "window: 10s"}})
        .to_string()
    };
    cluster.kubectl_with(["apply", "-f-"], &policy("others")).await.unwrap();
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("exclusive");
    env.apply(&manifest).await;
    let refused = |state: &AppState| {
        let message = state.message("Accepted", "False")?;
        ensure!(
            message.contains(&format!("policy exclusive is not available in namespace {mine}")),
            "{message}"
        );
        Ok(())
    };
    let state = env.wait_until("app", refused).await;
    assert!(state.pods.is_empty());

    cluster.kubectl_with(["apply", "-f-"], &policy(&format!("others, {mine}"))).await.unwrap();
    let before = env.wait_reconciled("app", AppState::all_placed).await;
    cluster.kubectl_with(["apply", "-f-"], &policy("others")).await.unwrap();
    let state = env.wait_until("app", refused).await;
    let uids = |state: &AppState| state.pods.iter().map(kube::ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&state), uids(&before), "running pods stay");
    cluster.kubectl(["delete", "configmap", "exclusive", "-n", NAMESPACE]).await.unwrap();
}

/// With view permission on one namespace, `status` describes its application and names inaccessible objects.
#[tokio::test]
async fn status_works_with_view_permission_on_one_namespace() {
    let cluster = cluster();
    let env = TestEnv::new("own-view", [SimulatedNode::new("one")], [cpus()]).await;
    env.apply(&application("app", &[("a", 2, &[("cpu", "1ms")])])).await;
    env.wait_reconciled("app", |state| state.message("Ready", "True").map(drop)).await;
    let name = env.namespace.name();
    env.namespace.kubectl(["create", "serviceaccount", "member"]).await.unwrap();
    let member = format!("--serviceaccount={name}:member");
    env.namespace.kubectl(["create", "rolebinding", "member", "--clusterrole=view", &member]).await.unwrap();
    let token = env.namespace.kubectl(["create", "token", "member"]).await.unwrap().stdout;
    let raw = cluster.kubectl(["config", "view", "--raw", "-ojson"]).await.unwrap().stdout;
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&raw).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let file = cluster.plane().state.join("run").join(format!("{name}.kubeconfig"));
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let asked = async |arguments: &[&str]| {
        let mut command = cluster.kubectl_cairn()?;
        command.env("KUBECONFIG", &file).args(arguments);
        let output = command.output().await?;
        anyhow::Ok((
            output.status.code(),
            String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?,
        ))
    };
    // a new binding takes effect after a moment
    let output = wait_for("the status is printed", TIMEOUT, async || {
        let (code, output) = asked(&["status", "app", "-n", name]).await?;
        ensure!(code == Some(0), "{output}");
        anyhow::Ok(output)
    })
    .await;
    for part in [
        "2 of 2 actors placed, 2 running, 2 ready",
        "one/cpus-0",
        "not accessible with your permissions",
        "devicepools",
        "in other namespaces: ",
    ] {
        assert!(output.to_lowercase().contains(&part.to_lowercase()), "no {part} in {output}");
    }
    let (code, output) = asked(&["explain", "actorapp", "app", "-n", name]).await.unwrap();
    assert!(
        code == Some(1) && output.contains("this command needs read access to the whole cluster"),
        "{output}"
    );
}
