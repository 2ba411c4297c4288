//! The chart under Helm and a real API server: what it installs, rejects and leaves behind.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, time::Duration};

use anyhow::bail;
use e2e::{
    Cluster,
    product::{AGENT, NAMESPACE, OPERATOR, tree},
    wait_for,
};

const SOON: Duration = Duration::from_mins(3);

/// The kinds in the release's namespace that an uninstall removes.
const ALL: &str =
    "deployments,daemonsets,replicasets,pods,configmaps,serviceaccounts,roles,rolebindings,leases,secrets";

/// Pod security is enforced, with warnings: an unrestricted container is refused.
const STRICT: &str = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cairn-system", "labels": {
    "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}}"#;

/// A pod of a user's application, not managed here.
const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "surveillance-crop-0"}, "spec": {
    "containers": [{"name": "actor", "image": "none"}]}}"#;

#[tokio::test]
async fn install_upgrade_and_uninstall_keep_user_objects() {
    let cluster = Cluster::shared();
    cluster.kubectl_with(["create", "-f-"], STRICT).await.unwrap();

    let installed =
        cluster.install(&tree("examples/topologies"), &["--set=operator.replicas=1"]).await.unwrap();
    assert_eq!(installed.stderr, "", "a warning");
    assert!(installed.stdout.contains("custom resources and running pods stay"), "{}", installed.stdout);
    wait_for("the operator's pod is admitted", SOON, async || {
        let seen = cluster.kubectl(["get", "pods", "-n", NAMESPACE, "-oname"]).await?.stdout;
        if seen.contains(OPERATOR) { Ok(()) } else { bail!("{seen}") }
    })
    .await;
    for account in [OPERATOR, AGENT] {
        let grants = cluster.grants(NAMESPACE, account).await.unwrap();
        assert!(!grants.is_empty());
        let wild: Vec<_> =
            grants.iter().filter(|grant| grant.is_wildcard()).map(ToString::to_string).collect();
        assert_eq!(wild, Vec::<String>::new(), "{account}");
    }

    let users = cluster.namespace("chart").await.unwrap();
    let application = fs::read_to_string(tree("examples/surveillance.yaml")).unwrap();
    users.apply(&application.replace("namespace: vision", "")).await.unwrap();
    cluster
        .kubectl(["create".as_ref(), "-f".as_ref(), tree("examples/pools.yaml").as_os_str()])
        .await
        .unwrap();
    users.apply(POD).await.unwrap();
    let theirs = async || {
        let mine = users.kubectl(["get", "actorapplications,pods", "-oname"]).await.unwrap().stdout;
        mine + &cluster.kubectl(["get", "devicepools,crds", "-oname"]).await.unwrap().stdout
    };
    let before = theirs().await;
    assert_eq!(before.lines().count(), 1 + 1 + 4 + 5, "{before}");

    // The agents' Leases are in a namespace of their own, which the uninstall deletes.
    let nodes = tree("examples/nodes.yaml");
    cluster.kubectl(["create".as_ref(), "-f".as_ref(), nodes.as_os_str()]).await.unwrap();
    let mut agent = cluster.start_agent().await.unwrap();
    wait_for("the agent's leases", SOON, async || {
        let seen = cluster.kubectl(["get", "leases", "-n", "cairn-agents", "-oname"]).await?.stdout;
        let kept = seen.lines().filter(|name| name.contains("/cairn-agent-")).count();
        if kept == 4 { Ok(()) } else { bail!("{seen}") }
    })
    .await;
    agent.stop().await.unwrap();

    // Without the agent its objects are removed.
    let chart = tree("charts/cairn");
    let settings = ["--set=operator.replicas=1", "--set=agent.install=false"];
    let upgrade = ["upgrade", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE].into_iter().chain(settings);
    let upgraded = cluster.helm(upgrade).await.unwrap();
    assert_eq!(upgraded.stderr, "", "a warning");
    assert!(upgraded.stdout.contains("Node agents are not installed"), "{}", upgraded.stdout);
    assert_eq!(cluster.grants(NAMESPACE, AGENT).await.unwrap(), []);
    assert_eq!(cluster.kubectl(["get", "daemonsets", "-n", NAMESPACE, "-oname"]).await.unwrap().stdout, "");

    let gone = cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
    assert_eq!(gone.stderr, "", "a warning");
    assert_eq!(theirs().await, before);
    wait_for("nothing of the chart is left but the definitions", SOON, async || {
        let here = cluster.kubectl(["get", ALL, "-n", NAMESPACE, "-oname"]).await?.stdout;
        let all = "namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                   validatingadmissionpolicybindings";
        let all = cluster.kubectl(["get", all, "-oname"]).await?.stdout;
        let everybodys = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
        let mut left = here.lines().filter(|name| !everybodys.contains(name)).collect::<Vec<_>>();
        let release = format!("namespace/{NAMESPACE}");
        left.extend(all.lines().filter(|name| name.contains("cairn") && *name != release));
        if left.is_empty() { Ok(()) } else { bail!("{left:?}") }
    })
    .await;

    // Remaining objects do not block a new installation.
    let again = cluster.install(&tree("examples/topologies"), &[]).await.unwrap();
    assert_eq!(again.stderr, "", "a warning");
    assert_eq!(theirs().await, before);
    cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
}

#[tokio::test]
async fn rendered_manifests_have_no_unknown_fields() {
    let cluster = Cluster::shared();
    let namespace = cluster.namespace("rendered").await.unwrap();
    let chart = tree("charts/cairn");
    let values = tree("e2e/tests/chart/every-value.yaml");
    let (chart, values) = (chart.to_str().unwrap(), values.to_str().unwrap());
    let domains = ["--set=agent.numaDomains.enabled=true", "--set=agent.podResources=Disabled"];
    for given in [vec![], vec!["--values", values], domains.into()] {
        let lint = ["lint", "--strict", chart].into_iter().chain(given.clone());
        cluster.helm(lint).await.unwrap();
        let template = ["template", "cairn", chart, "-n", namespace.name()].into_iter().chain(given);
        let rendered = cluster.helm(template).await.unwrap();
        assert_eq!(rendered.stderr, "", "a warning");
        // applied, not created, because another test may have installed the same names; and in an existing namespace, because one
        // from a dry run contains nothing
        let rendered = rendered.stdout.replace("cairn-agents", namespace.name());
        let apply =
            ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f-"];
        let accepted = namespace.kubectl_with(apply, &rendered).await.unwrap();
        assert_eq!(accepted.stderr, "", "a warning");
    }
}

#[tokio::test]
async fn values_that_kubernetes_accepts_are_accepted() {
    let cluster = Cluster::shared();
    let chart = tree("charts/cairn");
    let digest = format!("operator.image.digest=sha256:{}", "0".repeat(64));
    let image = format!("image: \"cairn-operator@sha256:{}\"", "0".repeat(64));
    let cases = [
        (digest.as_str(), image.as_str()),
        ("metrics.podMonitor.create=true,metrics.podMonitor.interval=1m30s", "interval: 1m30s"),
        ("operator.tolerations[0].key=a,operator.tolerations[0].operator=Gt", "operator: Gt"),
        ("imagePullSecrets[0]=a,imagePullSecrets[1].name=b", "- name: a\n        - name: b\n"),
        ("operator.podSecurityContext.runAsUser=null", "securityContext:\n        runAsGroup: 65532\n"),
        (
            "agent.runtimeClassName=a,agent.env[0].name=NVIDIA_VISIBLE_DEVICES",
            "- name: NVIDIA_VISIBLE_DEVICES\n",
        ),
    ];
    for (value, expected) in cases {
        let template = cluster.helm(["template", "cairn", chart.to_str().unwrap(), "--set", value]).await;
        let rendered = template.unwrap().stdout;
        assert!(rendered.contains(expected), "{value}: {rendered}");
    }
}

#[tokio::test]
async fn unknown_values_are_rejected() {
    let cluster = Cluster::shared();
    let cases = [
        ("operator.replica=1", "at '/operator': additional properties 'replica' not allowed"),
        ("operator.replicas=6", "at '/operator/replicas': maximum: got 6, want 5"),
        ("operator.log.format=xml", "at '/operator/log/format': value must be one of 'text', 'json'"),
        ("metrics.podMonitor.interval=15", "at '/metrics/podMonitor/interval': got number, want string"),
        ("metrics.dashboards.create=yes", "at '/metrics/dashboards/create': got string, want boolean"),
        (
            "agent.podResources=yes",
            "at '/agent/podResources': value must be one of 'Auto', 'Enabled', 'Disabled'",
        ),
        ("agent.resources.limit.cpu=1", "at '/agent/resources': additional properties 'limit' not allowed"),
        ("agent.nodeSelector.gpu=true", "at '/agent/nodeSelector/gpu': got boolean, want string"),
        (
            "agent.topologies=a,agent.simulate=/b",
            "agent.topologies and agent.simulate are mutually exclusive",
        ),
        ("agent.numaDomains.slots=0", "at '/agent/numaDomains/slots': minimum: got 0, want 1"),
        (
            "agent.numaDomains.enabled=true,agent.simulate=/b",
            "agent.numaDomains offers the domains of the real nodes",
        ),
        ("agent.groups[0].runtimeClassName=nvidia", "at '/agent/groups/0': missing property 'name'"),
        (
            "agent.groups[0].name=a,agent.groups[0].nodeSelector.b=c,agent.groups[1].name=d",
            "agent.groups: group d has neither nodeSelector nor affinity",
        ),
        (
            "agent.groups[0].name=a,agent.groups[0].nodeSelector.b=c,agent.groups[1].name=a,agent.groups[1].nodeSelector.b=d",
            "agent.groups has two groups named a",
        ),
        ("agent.volumes[0].name=cgroup", "at '/agent/volumes/0'"),
        ("agent.volumes[0].name=sys-devices", "at '/agent/volumes/0'"),
        ("agent.privileged=all", "at '/agent/privileged': got string, want null or boolean"),
        ("agent.podAnnotations.cairn\\.dev/a=b", "at '/agent/podAnnotations/cairn.dev~1a'"),
        ("operator.podAnnotations.cairn\\.dev/a=b", "at '/operator/podAnnotations/cairn.dev~1a'"),
        ("operator=null", "at '': missing property 'operator'"),
        ("agent.perf=null", "at '/agent': missing property 'perf'"),
        ("metrics.podMonitor.interval=0s", "at '/metrics/podMonitor/interval'"),
        ("operator.image.tag=sha256:01", "at '/operator/image/tag'"),
        ("operator.image.digest=01", "at '/operator/image/digest'"),
        ("agent.updateStrategy.rollingUpdate.maxSurge=1", "additional properties 'maxSurge' not allowed"),
        ("agent.resources.limits.cpu=abc", "at '/agent/resources/limits/cpu'"),
        ("agent.env[0].name=NODE_NAME", "at '/agent/env/0/name'"),
        ("agent.env[0].name=A,agent.env[1].name=A", "agent.env has A twice"),
        (
            "agent.volumes[0].name=a,agent.volumes[0].mountPath=/a,agent.volumes[1].name=a,agent.volumes[1].mountPath=/b",
            "agent.volumes has a twice",
        ),
    ];
    for (value, expected) in cases {
        let chart = tree("charts/cairn");
        let template = cluster.helm(["template", "cairn", chart.to_str().unwrap(), "--set", value]).await;
        let said = template.expect_err(value).to_string();
        assert!(said.contains(expected), "{value}: {said}");
    }
}

/// The rendered `DaemonSets` of the agents.
async fn daemon_sets(values: &[&str]) -> Vec<serde_json::Value> {
    let chart = tree("charts/cairn");
    let arguments = ["template", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE, "-s"];
    let arguments = arguments.into_iter().chain(["templates/agent/daemonset.yaml"]);
    let text = Cluster::shared().helm(arguments.chain(values.iter().copied())).await.unwrap().stdout;
    let documents = serde_yaml::Deserializer::from_str(&text);
    let documents = documents.map(|it| <serde_json::Value as serde::Deserialize>::deserialize(it).unwrap());
    documents.filter(|it| !it.is_null()).collect()
}

/// A runtime class that a node lacks keeps the agent's pod from starting: nodes that differ have agents that differ.
#[tokio::test]
async fn each_group_of_agents_is_a_daemon_set() {
    let [all] = &daemon_sets(&[]).await[..] else { panic!("one for all nodes") };
    assert_eq!(all["metadata"]["name"], AGENT);
    assert_eq!(
        all["spec"]["template"]["spec"]["nodeSelector"],
        serde_json::json!({"kubernetes.io/os": "linux"})
    );
    let groups = daemon_sets(&[
        "--set-json=agent.groups=[\
         {\"name\": \"nvidia\", \"runtimeClassName\": \"nvidia\", \"nodeSelector\": {\"gpu\": \"yes\"}, \"tolerations\": [], \
          \"env\": [{\"name\": \"A\", \"value\": \"b\"}], \
          \"volumes\": [{\"name\": \"lib\", \"mountPath\": \"/lib/x\", \"hostPath\": {\"path\": \"/opt/x\"}}]}, \
         {\"name\": \"others\", \"affinity\": {\"nodeAffinity\": {}}, \"updateStrategy\": {\"type\": \"OnDelete\"}, \
          \"numaDomains\": {\"enabled\": true}, \"privileged\": true, \"hostInterfaces\": true}]",
        "--set=agent.numaDomains.slots=64",
        "--set=agent.kubeletFolder=/data/kubelet",
    ])
    .await;
    let [nvidia, others] = &groups[..] else { panic!("{groups:?}") };
    let pod = |set: &serde_json::Value| set["spec"]["template"]["spec"].clone();
    assert_eq!(nvidia["metadata"]["name"], "cairn-node-agent-nvidia");
    assert_eq!(pod(nvidia)["runtimeClassName"], "nvidia");
    assert_eq!(pod(nvidia)["nodeSelector"], serde_json::json!({"gpu": "yes", "kubernetes.io/os": "linux"}));
    assert_eq!(pod(nvidia)["tolerations"], serde_json::Value::Null);
    let container = &pod(nvidia)["containers"][0];
    assert!(container["env"].as_array().unwrap().contains(&serde_json::json!({"name": "A", "value": "b"})));
    assert!(container["volumeMounts"].as_array().unwrap().iter().any(|it| it["mountPath"] == "/lib/x"));
    assert!(pod(nvidia)["volumes"].as_array().unwrap().iter().any(|it| it["hostPath"]["path"] == "/opt/x"));
    assert_eq!(others["spec"]["updateStrategy"]["type"], "OnDelete");
    let plugins = |set: &serde_json::Value| {
        let (pod, mut found) = (pod(set), Vec::new());
        let arguments = pod["containers"][0]["args"].as_array().unwrap().iter();
        found.extend(
            arguments.filter_map(|it| it.as_str()).filter(|it| it.contains("numa") || it.contains("plugins")),
        );
        let paths =
            pod["volumes"].as_array().unwrap().iter().filter_map(|it| it["hostPath"]["path"].as_str());
        found.extend(paths.filter(|path| path.contains("plugins")));
        found.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plugins(nvidia), [""; 0]);
    let rights = |set: &serde_json::Value| pod(set)["containers"][0]["securityContext"].clone();
    let none = serde_json::json!(
        {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}
    );
    assert_eq!((rights(all), rights(nvidia)), (none.clone(), none));
    let privileged = serde_json::json!({"privileged": true, "readOnlyRootFilesystem": true});
    assert_eq!(rights(others), privileged, "the API server rejects it with allowPrivilegeEscalation: false");
    let interfaces = |set: &serde_json::Value| {
        let pod = pod(set);
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap().iter();
        let paths = mounts.filter_map(|it| it["mountPath"].as_str()).filter(|it| it.starts_with("/host/"));
        let arguments = pod["containers"][0]["args"].as_array().unwrap().iter().filter_map(|it| it.as_str());
        let roots = arguments.filter(|it| it.starts_with("--network-root"));
        paths.chain(roots).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((interfaces(all), interfaces(nvidia)), (vec![], vec![]));
    let mounted = ["/host/sys/class/net", "/host/sys/devices", "--network-root=/host"];
    assert_eq!(interfaces(others), mounted);
    let folders = [
        "--device-plugins=/var/lib/kubelet/device-plugins",
        "--numa-slots=64",
        "/data/kubelet/device-plugins",
    ];
    assert_eq!(plugins(others), folders);
    assert_eq!(pod(others)["runtimeClassName"], serde_json::Value::Null);
    assert_eq!(pod(others)["tolerations"], serde_json::json!([{"operator": "Exists"}]));
    let label =
        |set: &serde_json::Value| set["spec"]["selector"]["matchLabels"]["agents.cairn.dev/group"].clone();
    assert_eq!((label(nvidia), label(others)), ("nvidia".into(), "others".into()), "no pod has two owners");
}

#[tokio::test]
async fn a_group_keeps_what_its_maps_do_not_set() {
    let groups = daemon_sets(&[
        "--set=agent.numaDomains.enabled=true,agent.runtimeClassName=nvidia",
        "--set-json=agent.groups=[\
         {\"name\": \"large\", \"nodeSelector\": {\"size\": \"large\"}, \"numaDomains\": {\"slots\": 220}, \
          \"resources\": {\"limits\": {\"memory\": \"192Mi\"}}, \"updateStrategy\": {\"type\": \"OnDelete\"}}, \
         {\"name\": \"small\", \"nodeSelector\": {\"size\": \"small\"}, \"numaDomains\": {\"enabled\": false}, \
          \"runtimeClassName\": null, \"tolerations\": null}]",
    ])
    .await;
    let [large, small] = &groups[..] else { panic!("{groups:?}") };
    let slots = |set: &serde_json::Value| {
        let arguments = set["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        let mut arguments = arguments.as_array().unwrap().iter().filter_map(|it| it.as_str());
        arguments.find_map(|it| it.strip_prefix("--numa-slots=")).map(str::to_owned)
    };
    assert_eq!((slots(large), slots(small)), (Some("220".to_owned()), None));
    let container = &large["spec"]["template"]["spec"]["containers"][0];
    let resources =
        serde_json::json!({"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "192Mi"}});
    assert_eq!(container["resources"], resources);
    assert_eq!(large["spec"]["updateStrategy"], serde_json::json!({"type": "OnDelete"}));
    assert_eq!(large["spec"]["template"]["spec"]["runtimeClassName"], "nvidia");
    let pod = &small["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["runtimeClassName"], &pod["tolerations"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

#[test]
fn every_rbac_rule_is_commented() {
    for component in ["operator", "agent"] {
        let file = tree("charts/cairn/templates").join(component).join("rbac.yaml");
        let text = fs::read_to_string(file).unwrap();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let rules = lines.windows(2).filter(|pair| pair[1].starts_with("- apiGroups"));
        let bare: Vec<_> = rules.clone().filter(|pair| !pair[0].starts_with("# ")).collect();
        assert!(rules.count() > 0 && bare.is_empty(), "{component}: {bare:?}");
    }
}
