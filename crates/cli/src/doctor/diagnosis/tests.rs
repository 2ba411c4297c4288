//! Findings about a small cluster and variations of it.

use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;
use world::Objects;

use super::*;
use crate::access::{AccessibleObjects, InaccessibleKind};

const NOW: &str = "2026-01-01T00:10:00Z";

/// A healthy cluster: one node, its agent, a pool, a policy, an application.
const CLUSTER: &str = r"
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: '8', memory: 16Gi, pods: '100'}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: a}, spec: {devices: [{id: numa-0, type: NUMA Domain}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: cpus}, spec: {kind: cpu, unit: Node, sharing: {maxInstances: 8}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: throughput, labels: {cairn.dev/policy: 'true'}}, data: {policy.yaml: 'window: 30s'}}
---
apiVersion: cairn.dev/v1alpha1
kind: ActorApplication
metadata: {name: web, namespace: shop}
spec:
  actors:
  - {name: server, replicas: 1, stateBytes: 0, implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: []}}}]}
";

fn lease(name: &str, holder: &str, renewed: &str) -> Lease {
    let mut lease: Lease = serde_json::from_value(json!({"metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60}}))
    .unwrap();
    lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(renewed.parse().unwrap()));
    lease
}

/// The state of the cluster after text replacements.
fn state(replacements: &[(&str, &str)]) -> InstallationState {
    let mut text = CLUSTER.to_owned();
    for (before, after) in replacements {
        assert!(text.contains(before), "{before}");
        text = text.replace(before, after);
    }
    let mut objects = Objects::default();
    objects.read("cluster.yaml", &text).unwrap();
    let named = |name: &str| {
        let program = json!({"name": "program", "image": format!("registry:5000/{name}:1.0"), "args": ["--agent-namespace=cairn-agents"]});
        let pod = json!({"containers": [program]});
        json!({"metadata": {"name": name}, "spec": {"selector": {}, "template": {"spec": pod}}, "status": {"readyReplicas": 1,
            "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1}})
    };
    InstallationState {
        namespace: "cairn-system".to_owned(),
        accessible: AccessibleObjects { objects, inaccessible: BTreeMap::new() },
        operator: Ok(Some(serde_json::from_value(named(OPERATOR)).unwrap())),
        agent: Ok(vec![serde_json::from_value(named(AGENT)).unwrap()]),
        leader: Ok(Some(lease(OPERATOR, "cairn-operator-7f", "2026-01-01T00:09:55Z"))),
        agents: Ok(vec![lease("cairn-agent-a", "a", "2026-01-01T00:09:40Z")]),
        admission: Ok(ADMISSION.map(str::to_owned).to_vec()),
        bound: Ok(ADMISSION.map(str::to_owned).to_vec()),
        missing_permissions: Ok(Vec::new()),
    }
}

/// The findings from a level on, one per line.
fn findings(state: &InstallationState, from: Level) -> String {
    let findings = diagnose(state, "throughput", NOW.parse().unwrap());
    let lines = findings.iter().filter(|finding| finding.level >= from);
    lines.map(|it| format!("{:?} {}: {}", it.level, it.area, it.text)).collect::<Vec<_>>().join("\n")
}

#[test]
fn healthy_cluster() {
    insta::assert_snapshot!(findings(&state(&[]), Level::Ok), @"
    Ok operator: cairn-operator-7f is the leader, lease renewed 5 s ago
    Ok agents: 1 of 1 nodes report
    Ok pools: cpus: 1 units, 1 healthy, 0 allocated
    Ok policies: throughput
    Ok rights: operator and agents have all required permissions
    Ok admission: admission policies are enforced
    ");
}

#[test]
fn problems_are_reported() {
    let of = |change: &[(&str, &str)]| findings(&state(change), Level::Unknown);
    insta::assert_snapshot!(of(&[("kind: cpu, serviceTime", "kind: npu, serviceTime")]), @"Error pools: shop/web: no pool has a kind that server runs on (npu)");
    insta::assert_snapshot!(of(&[("window: 30s", "window: long")]), @"Error policies: policy throughput: policy.yaml, window: `long` is not a duration, as in 20ms or 1.5s");
    insta::assert_snapshot!(of(&[("policy.yaml: 'window: 30s'", "program.lp: 'a :- b'")]), @"Error policies: policy throughput: program.lp line 1 column 7: the end of the text where `.` is expected at the end of the rule");
    insta::assert_snapshot!(of(&[("metadata: {name: throughput", "metadata: {name: other")]), @"Error policies: shop/web: policy throughput does not exist");
    insta::assert_snapshot!(of(&[("type: NUMA Domain", "type: NUMA Domain, health: lost")]), @"Warning devices: a: numa-0 lost");
    insta::assert_snapshot!(of(&[("NodeTopology, metadata: {name: a}", "NodeTopology, metadata: {name: b}")]), @"Warning agents: nodes without a NodeTopology: a");
}

#[test]
fn a_pool_that_selects_no_device_is_reported_with_the_devices() {
    let found = findings(
        &state(&[
            ("pods: '100'", "pods: '100', acme.com/gpu: '1'"),
            ("type: NUMA Domain", "type: GPU, model: A100"),
            (
                "kind: cpu, unit: Node, sharing: {maxInstances: 8}",
                "kind: gpu, devices: {model: H100}, resource: {devicePlugin: acme.com/gpu}",
            ),
        ]),
        Level::Warning,
    );
    let expected = "Warning pools: cpus: NoMatchingDevice: a offers acme.com/gpu, but the pool selects none of its devices: it has \
                    1 GPU A100, and the pool wants kind gpu, model H100";
    assert!(found.contains(expected), "{found}");
}

#[test]
fn gpus_without_the_library_of_their_driver_are_reported_once() {
    let with = |driver: &str| {
        let gpu = format!("{{id: gpu-0, type: GPU, vendor: nvidia, health: unknown{driver}}}, {{id: numa-0");
        findings(&state(&[("{id: numa-0", &gpu)]), Level::Unknown)
    };
    insta::assert_snapshot!(with(""), @"Warning devices: agents lack the NVIDIA driver library for 1 GPU: a");
    insta::assert_snapshot!(with(", driver: nvidia 580.65.06"), @"Warning devices: a: gpu-0 unknown");
}

#[test]
fn drivers_of_claimed_devices_are_counted() {
    let of_claims = |cluster: &InstallationState| {
        let found = findings(cluster, Level::Ok);
        found.lines().filter(|line| line.contains(" claims: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let class = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus}, spec: {}}";
    let slice = |node: &str, devices: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {node}}}, spec: {{driver: gpu.example.com, \
             nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}, devices: [{devices}]}}}}"
        )
    };
    let with = |more: &[&str]| {
        let node = "{apiVersion: v1, kind: Node,";
        state(&[(node, &[more, &[node]].concat().join("\n---\n"))])
    };
    let (a, b) = (slice("a", "{name: x}, {name: y}"), slice("b", "{name: x}"));
    assert_eq!(of_claims(&with(&[])), Vec::<String>::new());
    assert_eq!(of_claims(&with(&[class])), ["Ok claims: 1 DeviceClasses; no ResourceSlices"]);
    let mut both = with(&[class, &a, &b]);
    let counted = "Ok claims: 1 DeviceClasses; gpu.example.com: 3 devices on 2 nodes";
    assert_eq!(of_claims(&both), [counted]);
    both.accessible.objects.scheduling.set_served::<ResourceSlice>(false);
    let absent = "Ok claims: the cluster has no dynamic resource allocation (resource.k8s.io/v1): pools need device plugins";
    assert_eq!(of_claims(&both), [absent]);
    let why = "cannot list resourceslices: forbidden".to_owned();
    let forbidden = InaccessibleKind { why, except_one_namespace: false, is_unknown: false };
    both.accessible.inaccessible.insert("resourceslices".to_owned(), forbidden);
    assert_eq!(of_claims(&both), ["Unknown claims: not checked: cannot list resourceslices: forbidden"]);
}

#[test]
fn agents_of_each_group_are_counted() {
    let mut cluster = state(&[]);
    let agents = cluster.agent.as_mut().unwrap();
    let mut other = agents[0].clone();
    other.metadata.name = Some("cairn-node-agent-nvidia".into());
    other.status.as_mut().unwrap().number_ready = 0;
    agents.push(other);
    let found = diagnose(&cluster, "throughput", NOW.parse().unwrap());
    let of_group = found.iter().find(|finding| finding.level == Level::Warning).unwrap();
    assert!(of_group.to_do.as_ref().unwrap().contains("daemonset cairn-node-agent-nvidia"), "{of_group:?}");
}

#[test]
fn unreachable_nodes_and_incomplete_upgrades_are_reported() {
    let unreachable = "spec: {taints: [{key: node.kubernetes.io/unreachable, effect: NoExecute}]}, \
        status: {conditions: [{type: Ready, status: Unknown}], allocatable";
    let mut cluster = state(&[("status: {allocatable", unreachable)]);
    let operator = cluster.operator.as_mut().unwrap().as_mut().unwrap();
    operator.spec.as_mut().unwrap().replicas = Some(2);
    let agent = cluster.agent.as_mut().unwrap().first_mut().unwrap();
    agent.status.as_mut().unwrap().number_ready = 0;
    let pod = agent.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.containers[0].image = Some("registry:5000/agent:0.9".to_owned());
    insta::assert_snapshot!(findings(&cluster, Level::Unknown), @"
    Warning operator: 1 of 2 operators are ready
    Warning agents: 0 of 1 agents are ready
    Warning versions: the operator has version 1.0, the agents have version 0.9
    Warning nodes: 1 of 1 are unreachable: a
    ");
}

#[test]
fn inaccessible_objects_are_not_reported_as_missing() {
    let mut cluster = state(&[]);
    let kinds = ["nodes", "nodetopologies", "devicepools", "configmaps"];
    for kind in kinds {
        let why = format!("cannot list {kind}: forbidden");
        let inaccessible = InaccessibleKind { why, except_one_namespace: false, is_unknown: false };
        cluster.accessible.inaccessible.insert(kind.to_owned(), inaccessible);
    }
    cluster.accessible.objects.nodes.clear();
    cluster.accessible.objects.pools.clear();
    cluster.accessible.objects.policies.clear();
    insta::assert_snapshot!(findings(&cluster, Level::Unknown), @"
    Unknown nodes: not checked: cannot list nodes: forbidden
    Unknown agents: not checked: cannot list nodes: forbidden
    Unknown pools: not checked: cannot list nodes: forbidden
    Unknown policies: not checked: cannot list configmaps: forbidden
    ");
    for kind in cluster.accessible.inaccessible.values_mut() {
        kind.is_unknown = true;
    }
    let text = findings(&cluster, Level::Error);
    let expected = "Error kinds: CustomResourceDefinitions are missing: devicepools, nodetopologies";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn expired_and_missing_components_are_distinguished() {
    let mut cluster = state(&[]);
    cluster.leader = Ok(Some(lease(OPERATOR, "cairn-operator-7f", "2026-01-01T00:01:00Z")));
    cluster.agents = Ok(vec![lease("cairn-agent-a", "a", "2026-01-01T00:01:00Z")]);
    cluster.bound = Ok(ADMISSION[1..].iter().map(|name| (*name).to_owned()).collect());
    let unbound = findings(&cluster, Level::Unknown);
    assert!(
        unbound.ends_with(
            "Warning admission: admission policies without a binding with action Deny: cairn-agents"
        )
    );
    cluster.missing_permissions = Ok(vec!["cairn-operator create pods".to_owned()]);
    cluster.admission = Ok(vec!["cairn-pods".to_owned()]);
    insta::assert_snapshot!(findings(&cluster, Level::Unknown), @"
    Error operator: there is no leader: the lease of cairn-operator-7f was renewed 540 s ago
    Error agents: the lease expired on a
    Error rights: missing permissions: cairn-operator create pods
    Warning admission: missing admission policies: cairn-agents, cairn-claims, cairn-decisions, cairn-owners, cairn-peers, cairn-requests
    ");
    cluster.operator = Ok(None);
    cluster.agent = Ok(Vec::new());
    cluster.agents = Err("forbidden".to_owned());
    cluster.missing_permissions = Err("forbidden".to_owned());
    insta::assert_snapshot!(findings(&cluster, Level::Unknown), @"
    Error operator: the Deployment cairn-operator does not exist
    Error agents: the DaemonSet cairn-node-agent does not exist
    Unknown agents: not checked: forbidden
    Unknown rights: not checked: forbidden
    Warning admission: missing admission policies: cairn-agents, cairn-claims, cairn-decisions, cairn-owners, cairn-peers, cairn-requests
    ");
}

/// A plain `helm upgrade` would reset image names to the defaults of the chart.
#[test]
fn every_proposed_upgrade_keeps_the_values_of_the_release() {
    let mut cluster = state(&[]);
    let operator = cluster.operator.as_mut().unwrap().as_mut().unwrap();
    operator.metadata.annotations = Some([(RELEASE_NAME.to_owned(), "placer".to_owned())].into());
    cluster.admission = Ok(Vec::new());
    cluster.missing_permissions = Ok(vec!["cairn-operator create pods".to_owned()]);
    let upgrades = |cluster: &InstallationState| {
        let findings = diagnose(cluster, "throughput", NOW.parse().unwrap());
        let to_do: Vec<String> = findings.into_iter().filter_map(|finding| finding.to_do).collect();
        let upgrades: Vec<String> =
            to_do.into_iter().filter(|to_do| to_do.contains("helm upgrade")).collect();
        for command in &upgrades {
            let kept = "helm upgrade --install placer charts/cairn -n cairn-system --reset-then-reuse-values";
            assert!(command.contains(kept), "{command}");
        }
        upgrades.len()
    };
    assert_eq!(upgrades(&cluster), 2, "roles and admission policies");
    cluster
        .agent
        .as_mut()
        .unwrap()
        .first_mut()
        .unwrap()
        .spec
        .as_mut()
        .unwrap()
        .template
        .spec
        .as_mut()
        .unwrap()
        .containers[0]
        .image = Some("registry:5000/agent:0.9".to_owned());
    assert_eq!(upgrades(&cluster), 3, "versions, too");
    cluster.agent = Ok(Vec::new());
    assert_eq!(upgrades(&cluster), 3, "the missing DaemonSet");
}

#[test]
fn remedies_use_the_operator_namespace() {
    let mut cluster = state(&[]);
    cluster.namespace = "placing".to_owned();
    cluster.agents = Ok(Vec::new());
    cluster.missing_permissions = Ok(vec!["cairn-operator create pods".to_owned()]);
    cluster.operator = Ok(None);
    let to_do = |state: &InstallationState| {
        let findings = diagnose(state, "throughput", NOW.parse().unwrap());
        let lines = findings.iter().filter_map(|it| Some(format!("{}: {}", it.area, it.to_do.as_ref()?)));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(to_do(&cluster), @"
    operator: set --operator-namespace, or run helm upgrade --install cairn charts/cairn -n placing --reset-then-reuse-values
    agents: run kubectl get pods -n placing -l app.kubernetes.io/name=cairn,app.kubernetes.io/component=node-agent -o wide, and check their logs
    rights: restore the roles with helm upgrade --install cairn charts/cairn -n placing --reset-then-reuse-values
    ");
    cluster.agent = Ok(Vec::new());
    cluster.agents = Err("forbidden".to_owned());
    cluster.missing_permissions = Ok(Vec::new());
    insta::assert_snapshot!(to_do(&cluster), @"
    operator: set --operator-namespace, or run helm upgrade --install cairn charts/cairn -n placing --reset-then-reuse-values --create-namespace --set operator.image.repository=IMAGE,agent.image.repository=IMAGE
    agents: run helm upgrade --install cairn charts/cairn -n placing --reset-then-reuse-values --create-namespace --set operator.image.repository=IMAGE,agent.image.repository=IMAGE
    ");
}

#[test]
fn disabled_agents_are_not_reported_as_missing() {
    let mut cluster = state(&[("NodeTopology, metadata: {name: a}", "NodeTopology, metadata: {name: b}")]);
    cluster.agent = Ok(Vec::new());
    cluster.agents = Ok(Vec::new());
    insta::assert_snapshot!(findings(&cluster, Level::Unknown), @"
    Error agents: the DaemonSet cairn-node-agent does not exist
    Warning agents: nodes without a NodeTopology: a
    ");
    let operator = cluster.operator.as_mut().unwrap().as_mut().unwrap();
    let pod = operator.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.containers[0].args = Some(vec!["--default-policy=throughput".to_owned()]);
    assert_eq!(findings(&cluster, Level::Unknown), "");
    let all = findings(&cluster, Level::Ok);
    assert!(all.contains("Ok agents: disabled (agent.install=false)\n"), "{all}");
}
