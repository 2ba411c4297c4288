//! `kubectl cairn` and the operator build the same snapshot and make the same plan.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use anyhow::ensure;
use e2e::{SimulatedNode, command};
use serde_json::Value;

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus, gpus};
use crate::installation::cluster;

#[tokio::test]
async fn a_cluster_dump_is_planned_as_by_the_operator() {
    let cluster = cluster();
    let nodes = [
        SimulatedNode::new("one").zone("a"),
        SimulatedNode::new("two").zone("b").resource("acme.com/gpu", 1).taint("quiet", "yes", "NoSchedule"),
        SimulatedNode::new("three").zone("a").label("disk", "fast"),
    ];
    let env = TestEnv::new("decisions", nodes, [cpus(), gpus()]).await;
    env.describe_devices("two", &[("gpu-0", "GPU")]);
    env.wait_offered("gpus", 1).await;
    env.apply(&application("other", &[("b", 3, &[("cpu", "20ms")])])).await;
    env.wait_reconciled("other", AppState::all_placed).await;
    let mut manifest =
        application("app", &[("a", 3, &[("cpu", "5ms"), ("gpu", "1ms")]), ("c", 2, &[("cpu", "3ms")])]);
    manifest["spec"]["actors"][1]["avoid"] = serde_json::json!(["a"]);
    manifest["spec"]["channels"] = serde_json::json!([{"from": "a", "to": "c", "rate": "50/s", "messageBytes": "4Ki", "pattern": "AllToAll", "drag": 2}]);
    env.apply(&manifest).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let app = format!("{}/app", env.namespace);

    // byte-identical snapshots, once the operator has observed everything
    let debug = env.product.operator.port(8081).unwrap();
    let kinds = concat!(
        "nodes,pods,resourcequotas,limitranges,namespaces,actorapplications,devicepools,nodetopologies,placements,",
        "instances,configmaps,leases,runtimeclasses,priorityclasses,serviceaccounts,persistentvolumeclaims,",
        "persistentvolumes,storageclasses,csinodes,csidrivers,csistoragecapacities,resourceclaimtemplates,",
        "resourceclaims,deviceclasses,resourceslices"
    );
    let from_dump = e2e::wait_for("both snapshots are equal", TIMEOUT, async || {
        let answer = e2e::process::http(debug, &format!("/debug/snapshot/{app}")).await?;
        ensure!(answer.status == 200, "{}", answer.body);
        let now = &answer.headers["x-cairn-now"];
        let dump = cluster.kubectl(["get", kinds, "-A", "-oyaml"]).await?.stdout;
        let mut plan = cluster.kubectl_cairn()?;
        plan.args(["plan", "-f", "-", "--application", &app, "--now", now, "-o", "snapshot"]);
        let from_dump = command::run(plan, &dump).await?.stdout;
        ensure!(from_dump == answer.body, "the dump:\n{from_dump}\nthe operator:\n{}", answer.body);
        anyhow::Ok(from_dump)
    })
    .await;
    assert!(from_dump.contains("taint") || from_dump.contains("NoSchedule"), "{from_dump}");

    // planned again, from the snapshot and on the live cluster, nothing changes
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json");
    std::fs::write(&file, &from_dump).unwrap();
    let mut plan = cluster.kubectl_cairn().unwrap();
    plan.args(["plan", "-o", "json", "--snapshot"]).arg(&file);
    let replayed: Value = serde_json::from_str(&command::run(plan, "").await.unwrap().stdout).unwrap();
    let mut plan = cluster.kubectl_cairn().unwrap();
    plan.args(["plan", "-o", "json", "--application", &app]);
    let live: Value = serde_json::from_str(&command::run(plan, "").await.unwrap().stdout).unwrap();
    let decided = env.wait_reconciled("app", AppState::all_placed).await;
    for plan in [&replayed, &live] {
        assert_eq!(plan["moves"], serde_json::json!([]), "{plan:#}");
        for (actor, unit) in decided.places() {
            assert_eq!(plan["assignments"][format!("{app}/{actor}")], unit, "{plan:#}");
        }
    }
    let mut plan = cluster.kubectl_cairn().unwrap();
    plan.args(["plan", "--application", &app]);
    let output = command::run(plan, "").await.unwrap().stdout;
    assert!(output.contains("stays") && !output.contains("moves"), "{output}");
}

#[tokio::test]
async fn status_and_doctor_describe_the_cluster() {
    let cluster = cluster();
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 1)];
    let env = TestEnv::new("status", nodes, [cpus(), gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU")]);
    env.apply(&application("app", &[("a", 1, &[("gpu", "1ms")]), ("b", 1, &[("cpu", "3ms")])])).await;
    let namespace = env.namespace.to_string();
    let prints = async |arguments: &[&str], part: &str| {
        e2e::wait_for(&format!("`{part}` is printed"), TIMEOUT, async || {
            let mut asked = cluster.kubectl_cairn()?;
            asked.args(arguments);
            // findings about a cluster without pods of the product are output, too
            let output = asked.output().await?;
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(output.contains(part), "{output}");
            anyhow::Ok(output)
        })
        .await
    };
    let screen = prints(&["status", "app", "-n", &namespace], "2 of 2 actors placed, 2 running").await;
    for part in ["a-0", "one/", "proven optimal"] {
        assert!(screen.contains(part), "{screen}");
    }
    let doctor = prints(&["doctor"], "is the leader, lease renewed").await;
    for part in [
        "1 units, 1 healthy",
        "operator and agents have all required permissions",
        "admission policies are enforced",
    ] {
        assert!(doctor.contains(part), "{doctor}");
    }
}

#[tokio::test]
async fn topology_describes_a_node() {
    let cluster = cluster();
    let env =
        TestEnv::new("topology", [SimulatedNode::new("cairn-gpu").resource("nvidia.com/gpu", 2)], []).await;
    env.describe_example_devices();
    let topology = e2e::wait_for("the topology is published", TIMEOUT, async || {
        let mut topology = cluster.kubectl_cairn()?;
        topology.args(["topology", "cairn-gpu"]);
        let output = command::run(topology, "").await?.stdout;
        ensure!(output.contains("gpu-1"), "{output}");
        anyhow::Ok(output)
    })
    .await;
    for part in ["gpu-0", "numa-0", "NVLink", "A100"] {
        assert!(topology.contains(part), "{topology}");
    }
}

/// With the plugin's folder on the PATH, as on a user's machine.
#[tokio::test]
async fn shell_completion_works_through_kubectl() {
    let cluster = cluster();
    let env = TestEnv::new("tab", [SimulatedNode::new("one")], [cpus()]).await;
    env.describe_devices("one", &[]);
    env.apply(&application("app", &[("a", 1, &[("cpu", "3ms")])])).await;
    env.wait_reconciled("app", AppState::all_placed).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut plug_in = cluster.kubectl_cairn().unwrap();
    symlink(plug_in.as_std().get_program(), file("kubectl-cairn")).unwrap();
    plug_in.args(["completion", "kubectl"]);
    let asks = command::run(plug_in, "").await.unwrap().stdout;
    std::fs::write(file("kubectl_complete-cairn"), asks).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(file("kubectl_complete-cairn"), executable).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let next = async |words: &[&str]| {
        let mut kubectl = cluster.command("kubectl");
        kubectl.env("PATH", &path).args(["__complete", "cairn"]).args(words);
        command::run(kubectl.into(), "").await.unwrap().stdout
    };

    // Completion has a short time limit, and the machine may be busy.
    let completes = async |words: &[&str], expected: &str| {
        e2e::wait_for(&format!("{words:?} is completed"), TIMEOUT, async || {
            let output = next(words).await;
            ensure!(output == expected, "{output}");
            anyhow::Ok(())
        })
        .await;
    };

    let namespace = env.namespace.name();
    let output = next(&["sta"]).await;
    assert!(
        output.starts_with("status\tShow the status of applications") && output.ends_with("\n:4\n"),
        "{output}"
    );
    let whole = format!("{namespace}/app\n:4\n");
    completes(&["status", ""], &whole).await;
    completes(&["status", "-n", namespace, ""], "app\n:4\n").await;
    completes(&["explain", "actorapp", &format!("{namespace}/")], &whole).await;
    completes(&["status", "-n", namespace], &format!("{namespace}\n:4\n")).await;
    completes(&["plan", "--default-policy", "thr"], "throughput\n:4\n").await;
    completes(&["topology", "on"], "one\n:4\n").await;
}
