//! The admission policies admit the pods of the chart itself.

use anyhow::{bail, ensure};
use e2e::{
    Output,
    product::{NAMESPACE, tree},
    wait_for,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::env::TIMEOUT;
use crate::installation::{GiveBack, cluster, product};

/// Groups of agents with what a group can add, except for a runtime class and privileges, which this cluster does not have.
const GROUPS: &str = r#"--set-json=agent.groups=[
    {"name": "plain", "nodeSelector": {"gpu": "no"}},
    {"name": "others", "nodeSelector": {"gpu": "yes"}, "hostInterfaces": true,
     "numaDomains": {"enabled": true}, "env": [{"name": "A", "value": "b"}],
     "volumes": [{"name": "lib", "mountPath": "/lib/x", "hostPath": {"path": "/opt/x"}}]}]"#;

/// Creates the pod of a rendered workload without effect, as the controller of the workload does.
async fn create_pod(workload: &Value) -> anyhow::Result<Output> {
    let controller = match workload["kind"].as_str() {
        Some("DaemonSet") => "daemon-set-controller",
        Some("Deployment") => "replicaset-controller",
        other => bail!("{other:?}"),
    };
    let mut pod = workload["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = workload["metadata"]["name"].clone();
    let user = format!("--as=system:serviceaccount:kube-system:{controller}");
    let create = ["create", "--dry-run=server", "-n", NAMESPACE, &user, "-f-"];
    cluster().kubectl_with(create, &pod.to_string()).await
}

#[tokio::test]
async fn admission_policies_admit_the_pods_of_operator_and_agents() {
    let _give_back = GiveBack;
    let _product = product().await;
    let chart = tree("charts/cairn");
    let template = ["template", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE];
    for (settings, expected) in [(vec![], 2), (vec![GROUPS], 3)] {
        let text = cluster().helm(template.into_iter().chain(settings)).await.unwrap().stdout;
        let documents = serde_yaml::Deserializer::from_str(&text).map(|it| Value::deserialize(it).unwrap());
        let mut workloads: Vec<_> = documents.filter(|it| !it["spec"]["template"].is_null()).collect();
        assert_eq!(workloads.len(), expected);
        for workload in &workloads {
            create_pod(workload).await.unwrap();
        }
        // a label of the operator's own prefix
        let refused = workloads.last_mut().unwrap();
        refused["spec"]["template"]["metadata"]["labels"]["cairn.dev/group"] = json!("a");
        wait_for("the policy is in effect", TIMEOUT, async || {
            let Err(error) = create_pod(refused).await else { bail!("it is accepted") };
            ensure!(
                error.to_string().contains("only the Cairn operator can set labels cairn.dev/*"),
                "{error}"
            );
            anyhow::Ok(())
        })
        .await;
    }
}
