//! What `kubectl cairn doctor` proposes is run as it is printed, on a release with image names of its own.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use e2e::{Cluster, product::NAMESPACE, product::tree};

const OPERATOR_IMAGE: &str = "registry.example.com/placing/operator";
const AGENT_IMAGE: &str = "registry.example.com/placing/agent";

/// The images of operator and agents.
async fn images(cluster: &Cluster) -> String {
    let path = "-ojsonpath={.items[*].spec.template.spec.containers[*].image}";
    cluster.kubectl(["get", "deployments,daemonsets", "-n", NAMESPACE, path]).await.unwrap().stdout
}

/// The commands of Helm that are proposed.
async fn proposed(cluster: &Cluster) -> Vec<String> {
    let mut doctor = cluster.kubectl_cairn().unwrap();
    // Findings are errors of the command, too.
    let output = doctor.arg("doctor").output().await.unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let commands = output.lines().filter_map(|line| Some(line[line.find("helm upgrade")?..].to_owned()));
    commands.collect()
}

#[tokio::test]
async fn a_proposed_upgrade_restores_what_is_missing_and_keeps_the_images() {
    let cluster = Cluster::shared();
    let topologies = cluster.plane().state.join("run/topologies");
    fs::create_dir_all(&topologies).unwrap();
    let set = |what: &str, image: &str| format!("--set={what}.image.repository={image}");
    let settings = [set("operator", OPERATOR_IMAGE), set("agent", AGENT_IMAGE)];
    cluster.install(&topologies, &settings.each_ref().map(String::as_str)).await.unwrap();
    let before = images(cluster).await;
    assert!(before.contains(OPERATOR_IMAGE) && before.contains(AGENT_IMAGE), "{before}");
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster.kubectl(["delete", kind, "cairn-pods"]).await.unwrap();
    }
    cluster.kubectl(["delete", "daemonset", "-n", NAMESPACE, "cairn-node-agent"]).await.unwrap();
    let commands = proposed(cluster).await;
    assert_eq!(commands.len(), 2, "the DaemonSet, the admission policy: {commands:?}");
    for command in commands {
        let arguments = command.split_whitespace().skip(1).map(|argument| match argument {
            "charts/cairn" => tree(argument).into_os_string(),
            other => other.into(),
        });
        cluster.helm(arguments.collect::<Vec<_>>()).await.unwrap();
        assert_eq!(images(cluster).await, before, "{command}");
    }
    assert_eq!(proposed(cluster).await, Vec::<String>::new());
}
