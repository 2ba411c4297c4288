//! What a diagnosis says: a cluster in a few lines of YAML, and a line for each finding that is not well.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;
use world::Objects;

use super::*;
use crate::visible::{Hidden, Visible};

const NOW: &str = "2026-01-01T00:10:00Z";

/// A cluster in which all is well: one node, its agent, a pool, a policy, an application.
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

/// The cluster with some words in place of others.
fn found(change: &[(&str, &str)]) -> Found {
    let mut text = CLUSTER.to_owned();
    for (before, after) in change {
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
    Found {
        namespace: "cairn-system".to_owned(),
        visible: Visible { objects, hidden: BTreeMap::new() },
        operator: Ok(Some(serde_json::from_value(named(OPERATOR)).unwrap())),
        agent: Ok(Some(serde_json::from_value(named(AGENT)).unwrap())),
        leader: Ok(Some(lease(OPERATOR, "cairn-operator-7f", "2026-01-01T00:09:55Z"))),
        agents: Ok(vec![lease("cairn-agent-a", "a", "2026-01-01T00:09:40Z")]),
        admission: Ok(ADMISSION.map(str::to_owned).to_vec()),
        bound: Ok(ADMISSION.map(str::to_owned).to_vec()),
        lacking: Ok(Vec::new()),
    }
}

/// The findings above a level, a line each.
fn said(found: &Found, from: Level) -> String {
    let findings = diagnose(found, "throughput", NOW.parse().unwrap());
    let lines = findings.iter().filter(|finding| finding.level >= from);
    lines.map(|it| format!("{:?} {}: {}", it.level, it.area, it.text)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_cluster_is_said_to_be_well_part_by_part() {
    insta::assert_snapshot!(said(&found(&[]), Level::Well), @"
    Well operator: cairn-operator-7f leads, renewed 5 s ago
    Well agents: 1 of 1 nodes looked at lately
    Well pools: cpus: 1 units, 1 can be used, 0 host actors
    Well policies: throughput
    Well rights: operator and agents may do what they must
    Well admission: others cannot write what Cairn believes
    ");
}

#[test]
fn what_is_wrong_is_named() {
    let of = |change: &[(&str, &str)]| said(&found(change), Level::Unknown);
    insta::assert_snapshot!(of(&[("kind: cpu, serviceTime", "kind: npu, serviceTime")]), @"Wrong pools: shop/web: server runs on npu only, which no pool offers");
    insta::assert_snapshot!(of(&[("window: 30s", "window: long")]), @"Wrong policies: policy throughput: policy.yaml, window: `long` is no duration, as in 20ms or 1.5s");
    insta::assert_snapshot!(of(&[("policy.yaml: 'window: 30s'", "program.lp: 'a :- b'")]), @"Wrong policies: policy throughput: program.lp line 1 column 7: the end of the text where `.` is expected at the end of the rule");
    insta::assert_snapshot!(of(&[("metadata: {name: throughput", "metadata: {name: other")]), @"Wrong policies: shop/web names throughput, which is not there");
    insta::assert_snapshot!(of(&[("type: NUMA Domain", "type: NUMA Domain, health: lost")]), @"Warning devices: a: numa-0 lost");
    insta::assert_snapshot!(of(&[("NodeTopology, metadata: {name: a}", "NodeTopology, metadata: {name: b}")]), @"Warning agents: no topology of a");
}

#[test]
fn a_node_that_does_not_answer_and_half_an_upgrade_are_named() {
    let silent = "spec: {taints: [{key: node.kubernetes.io/unreachable, effect: NoExecute}]}, \
        status: {conditions: [{type: Ready, status: Unknown}], allocatable";
    let mut cluster = found(&[("status: {allocatable", silent)]);
    let operator = cluster.operator.as_mut().unwrap().as_mut().unwrap();
    operator.spec.as_mut().unwrap().replicas = Some(2);
    let agent = cluster.agent.as_mut().unwrap().as_mut().unwrap();
    agent.status.as_mut().unwrap().number_ready = 0;
    let pod = agent.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.containers[0].image = Some("registry:5000/agent:0.9".to_owned());
    insta::assert_snapshot!(said(&cluster, Level::Unknown), @"
    Warning operator: 1 of 2 operators are ready
    Warning agents: 0 of 1 agents are ready
    Warning versions: the operator is 1.0, the agents are 0.9
    Warning nodes: 1 of 1 do not answer: a; while there are so many nobody moves
    ");
}

#[test]
fn what_is_not_to_be_seen_is_not_taken_for_missing() {
    let mut cluster = found(&[]);
    let kinds = ["nodes", "nodetopologies", "devicepools", "configmaps"];
    for kind in kinds {
        let hidden =
            Hidden { why: format!("cannot list {kind}: forbidden"), but_one: false, is_unknown: false };
        cluster.visible.hidden.insert(kind.to_owned(), hidden);
    }
    cluster.visible.objects.nodes.clear();
    cluster.visible.objects.pools.clear();
    cluster.visible.objects.policies.clear();
    insta::assert_snapshot!(said(&cluster, Level::Unknown), @"
    Unknown nodes: could not be looked at: cannot list nodes: forbidden
    Unknown agents: could not be looked at: cannot list nodes: forbidden
    Unknown pools: could not be looked at: cannot list nodes: forbidden
    Unknown policies: could not be looked at: cannot list configmaps: forbidden
    ");
    for hidden in cluster.visible.hidden.values_mut() {
        hidden.is_unknown = true;
    }
    let told = said(&cluster, Level::Wrong);
    assert!(
        told.starts_with(
            "Wrong kinds: the cluster has no devicepools, nodetopologies: Cairn is not installed"
        ),
        "{told}"
    );
}

#[test]
fn who_is_silent_is_told_from_who_was_never_there() {
    let mut cluster = found(&[]);
    cluster.leader = Ok(Some(lease(OPERATOR, "cairn-operator-7f", "2026-01-01T00:01:00Z")));
    cluster.agents = Ok(vec![lease("cairn-agent-a", "a", "2026-01-01T00:01:00Z")]);
    cluster.bound = Ok(ADMISSION[1..].iter().map(|name| (*name).to_owned()).collect());
    let unbound = said(&cluster, Level::Unknown);
    assert!(unbound.ends_with(
        "Warning admission: no binding has cairn-agents refuse anything: others can write what Cairn believes"
    ));
    cluster.lacking = Ok(vec!["cairn-operator create pods".to_owned()]);
    cluster.admission = Ok(vec!["cairn-pods".to_owned()]);
    insta::assert_snapshot!(said(&cluster, Level::Unknown), @"
    Wrong operator: nobody leads: cairn-operator-7f renewed its lease 540 s ago
    Wrong agents: silent for longer than their lease: a
    Wrong rights: not allowed, and needed: cairn-operator create pods
    Warning admission: without cairn-agents, cairn-decisions, cairn-owners, cairn-peers, cairn-requests, others can write what Cairn believes
    ");
    cluster.operator = Ok(None);
    cluster.agent = Ok(None);
    cluster.agents = Err("forbidden".to_owned());
    cluster.lacking = Err("forbidden".to_owned());
    insta::assert_snapshot!(said(&cluster, Level::Unknown), @"
    Wrong operator: there is no Deployment cairn-operator
    Wrong agents: there is no DaemonSet cairn-node-agent
    Unknown agents: could not be looked at: forbidden
    Unknown rights: could not be looked at: forbidden
    Warning admission: without cairn-agents, cairn-decisions, cairn-owners, cairn-peers, cairn-requests, others can write what Cairn believes
    ");
}

/// What helps is done where Cairn is, and finds the pods that the chart makes.
#[test]
fn what_to_do_names_the_namespace() {
    let mut cluster = found(&[]);
    cluster.namespace = "placing".to_owned();
    cluster.agents = Ok(Vec::new());
    cluster.lacking = Ok(vec!["cairn-operator create pods".to_owned()]);
    cluster.operator = Ok(None);
    let to_do = |found: &Found| {
        let findings = diagnose(found, "throughput", NOW.parse().unwrap());
        let lines = findings.iter().filter_map(|it| Some(format!("{}: {}", it.area, it.to_do.as_ref()?)));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(to_do(&cluster), @"
    operator: helm install cairn charts/cairn -n placing, or say where it is with --operator-namespace
    agents: kubectl get pods -n placing -l app.kubernetes.io/name=cairn,app.kubernetes.io/component=node-agent -o wide, and their logs
    rights: helm upgrade --install cairn charts/cairn -n placing; somebody took them away
    ");
    cluster.agent = Ok(None);
    cluster.agents = Err("forbidden".to_owned());
    cluster.lacking = Ok(Vec::new());
    insta::assert_snapshot!(to_do(&cluster), @"
    operator: helm install cairn charts/cairn -n placing, or say where it is with --operator-namespace
    agents: helm upgrade --install cairn charts/cairn -n placing
    ");
}

/// Without agents the chart tells the operator of none, and none is missed.
#[test]
fn agents_that_are_not_meant_to_be_are_not_missed() {
    let mut cluster = found(&[("NodeTopology, metadata: {name: a}", "NodeTopology, metadata: {name: b}")]);
    cluster.agent = Ok(None);
    cluster.agents = Ok(Vec::new());
    insta::assert_snapshot!(said(&cluster, Level::Unknown), @"
    Wrong agents: there is no DaemonSet cairn-node-agent
    Warning agents: no topology of a
    ");
    let operator = cluster.operator.as_mut().unwrap().as_mut().unwrap();
    let pod = operator.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    pod.containers[0].args = Some(vec!["--default-policy=throughput".to_owned()]);
    assert_eq!(said(&cluster, Level::Unknown), "");
    let all = said(&cluster, Level::Well);
    assert!(all.contains("Well agents: none are meant to be there (agent.install=false)\n"), "{all}");
}
