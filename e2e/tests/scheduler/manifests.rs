//! Fixed worlds through the installed operator: kube-scheduler binds each pod at the first attempt, and actors that it would refuse
//! get no pod but a reason.

use crate::installed::{Env, read};

/// A world, and what becomes of its application `app`.
struct Case {
    /// Prefix of all names; `WORLD` stands for it in the manifests.
    name: &'static str,
    /// The objects; pool and namespace are added.
    manifests: &'static str,
    /// The nodes of the placed actors, sorted, without the prefix.
    nodes: &'static [&'static str],
    /// The number of unplaced actors.
    unplaced: usize,
    /// A word of the reason.
    why: &'static str,
}

impl Case {
    async fn check(self) {
        let (world, others) = read(self.name, self.manifests);
        let env = Env::new(&world, &others).await;
        env.apply(&world.application).await;
        let state = env.wait_placed("app", self.nodes.len(), self.unplaced).await;
        let expected: Vec<String> = self.nodes.iter().map(|node| format!("{}-{node}", self.name)).collect();
        assert_eq!(state.nodes, expected, "unplaced: {:?}", state.unplaced);
        for (actor, reason) in &state.unplaced {
            assert!(reason.to_lowercase().contains(self.why), "{actor}: {reason:?} lacks {:?}", self.why);
        }
        let says_why = self.unplaced == 0 || state.message.to_lowercase().contains(self.why);
        assert!(says_why, "the condition Placed lacks {:?}: {}", self.why, state.message);
        env.assert_undisturbed().await;
        env.end().await;
    }
}

/// Two nodes with four cores each.
macro_rules! two_nodes {
    ($($rest:expr),*) => {
        concat!(
            "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n1, labels: {topology.kubernetes.io/zone: WORLD-east}},",
            " status: {allocatable: {cpu: '4', memory: 8Gi, pods: '50'}}}\n---\n",
            "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n2, labels: {topology.kubernetes.io/zone: WORLD-west}},",
            " status: {allocatable: {cpu: '4', memory: 8Gi, pods: '50'}}}\n---\n",
            $($rest),*
        )
    };
}

/// An application with one group `worker`: its replicas, and its pod template.
macro_rules! workers {
    ($replicas:literal, $template:literal) => {
        concat!(
            "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: app}, spec: {actors: [{name: worker, replicas: ",
            $replicas,
            ", implementations: [{kind: WORLD, serviceTime: 1ms, template: ",
            $template,
            "}]}], channels: [{from: worker, to: worker, rate: 10/s, pattern: AllToAll}]}}\n---\n"
        )
    };
}

#[tokio::test]
async fn anti_affinity_by_host_name() {
    let manifests = two_nodes!(workers!(
        "3",
        "{metadata: {labels: {app: solo}}, spec: {containers: [{name: actor, image: none}], affinity: {podAntiAffinity:
          {requiredDuringSchedulingIgnoredDuringExecution: [
            {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: solo}}}]}}}}"
    ));
    Case { name: "solo", manifests, nodes: &["n1", "n2"], unplaced: 1, why: "anti-affinity" }.check().await;
}

#[tokio::test]
async fn spread_over_zones() {
    let manifests = two_nodes!(workers!(
        "4",
        "{metadata: {labels: {app: even}}, spec: {
          containers: [{name: actor, image: none, resources: {requests: {cpu: 900m}}}],
          topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone,
            whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: even}}}]}}"
    ));
    let nodes = &["n1", "n1", "n2", "n2"];
    Case { name: "even", manifests, nodes, unplaced: 0, why: "" }.check().await;
}

#[tokio::test]
async fn a_host_port_that_a_foreign_pod_uses() {
    let manifests = two_nodes!(
        "{apiVersion: v1, kind: Pod, metadata: {name: exporter}, spec: {nodeName: WORLD-n1, containers: [
            {name: c, image: none, ports: [{containerPort: 9090, hostPort: 9090}]}]}}\n---\n",
        workers!(
            "2",
            "{spec: {containers: [{name: actor, image: none, ports: [{containerPort: 80, hostPort: 9090}]}]}}"
        )
    );
    Case { name: "ports", manifests, nodes: &["n2"], unplaced: 1, why: "port" }.check().await;
}

#[tokio::test]
async fn a_scheduling_gate() {
    let manifests = two_nodes!(workers!(
        "1",
        "{spec: {schedulingGates: [{name: example.org/approval}], containers: [{name: actor, image: none}]}}"
    ));
    Case { name: "gated", manifests, nodes: &[], unplaced: 1, why: "gate" }.check().await;
}

#[tokio::test]
async fn overhead_and_nodes_of_a_runtime_class() {
    let manifests = concat!(
        "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: WORLD-sandbox}, handler: sandbox,
          overhead: {podFixed: {cpu: '2', memory: 100Mi}}, scheduling: {nodeSelector: {runtime: sandbox}}}\n---\n",
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n1, labels: {}}, status: {allocatable: {cpu: '8', memory: 8Gi, pods: '50'}}}\n---\n",
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n2, labels: {runtime: sandbox}}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '50'}}}\n---\n",
        workers!(
            "2",
            "{spec: {runtimeClassName: WORLD-sandbox, containers: [{name: actor, image: none, resources: {requests: {cpu: 1500m}}}]}}"
        )
    );
    Case { name: "sandboxed", manifests, nodes: &["n2"], unplaced: 1, why: "cpu" }.check().await;
}

#[tokio::test]
async fn a_resource_claim_without_a_device() {
    let manifests = two_nodes!(workers!(
        "1",
        "{spec: {resourceClaims: [{name: card, resourceClaimTemplateName: any-card}],
          containers: [{name: actor, image: none, resources: {claims: [{name: card}]}}]}}"
    ));
    Case { name: "claims", manifests, nodes: &[], unplaced: 1, why: "claim" }.check().await;
}

#[tokio::test]
async fn init_containers_and_sidecars_count() {
    let manifests = two_nodes!(
        "{apiVersion: v1, kind: Pod, metadata: {name: busy}, spec: {nodeName: WORLD-n1, containers: [
            {name: c, image: none, resources: {requests: {cpu: 100m}}}]}}\n---\n",
        workers!(
            "2",
            "{spec: {initContainers: [
              {name: proxy, image: none, restartPolicy: Always, resources: {requests: {cpu: '1'}}},
              {name: migrate, image: none, resources: {requests: {cpu: '3'}}}],
              containers: [{name: actor, image: none, resources: {requests: {cpu: 500m}}}]}}"
        )
    );
    Case { name: "sidecars", manifests, nodes: &["n2"], unplaced: 1, why: "cpu" }.check().await;
}

#[tokio::test]
async fn requests_of_the_whole_pod() {
    let manifests = two_nodes!(workers!(
        "3",
        "{spec: {resources: {requests: {cpu: '3', memory: 1Gi}},
          containers: [{name: actor, image: none, resources: {requests: {cpu: 500m, memory: 64Mi}}}]}}"
    ));
    Case { name: "whole", manifests, nodes: &["n1", "n2"], unplaced: 1, why: "cpu" }.check().await;
}

#[tokio::test]
async fn limits_of_the_whole_pod_are_no_requests_of_its_containers() {
    let manifests = two_nodes!(workers!(
        "2",
        "{spec: {resources: {limits: {cpu: '16', memory: 1Gi}},
          containers: [{name: actor, image: none, resources: {requests: {cpu: '1', memory: 64Mi}}}]}}"
    ));
    Case { name: "limits", manifests, nodes: &["n1", "n1"], unplaced: 0, why: "" }.check().await;
}

#[tokio::test]
async fn anti_affinity_of_a_foreign_pod() {
    let manifests = two_nodes!(
        "{apiVersion: v1, kind: Pod, metadata: {name: recluse}, spec: {nodeName: WORLD-n1, containers: [{name: c, image: none}],
          affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
            {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: noisy}}}]}}}}\n---\n",
        workers!(
            "2",
            "{metadata: {labels: {app: noisy}}, spec: {containers: [{name: actor, image: none}]}}"
        )
    );
    Case { name: "recluse", manifests, nodes: &["n2", "n2"], unplaced: 0, why: "" }.check().await;
}

#[tokio::test]
async fn affinity_to_a_foreign_pod() {
    let manifests = two_nodes!(
        "{apiVersion: v1, kind: Pod, metadata: {name: cache, labels: {app: cache}}, spec: {nodeName: WORLD-n2,
          containers: [{name: c, image: none}]}}\n---\n",
        workers!(
            "2",
            "{spec: {containers: [{name: actor, image: none}], affinity: {podAffinity:
              {requiredDuringSchedulingIgnoredDuringExecution: [
                {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: cache}}}]}}}}"
        )
    );
    Case { name: "cached", manifests, nodes: &["n2", "n2"], unplaced: 0, why: "" }.check().await;
}

#[tokio::test]
async fn affinity_to_a_pod_that_does_not_exist() {
    let manifests = two_nodes!(workers!(
        "1",
        "{spec: {containers: [{name: actor, image: none}], affinity: {podAffinity:
          {requiredDuringSchedulingIgnoredDuringExecution: [
            {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: missing}}}]}}}}"
    ));
    Case { name: "lonely", manifests, nodes: &[], unplaced: 1, why: "affinity" }.check().await;
}

#[tokio::test]
async fn a_resize_in_progress_still_counts() {
    let manifests = concat!(
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n1, labels: {}}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '50'}}}\n---\n",
        "{apiVersion: v1, kind: Pod, metadata: {name: shrinking}, spec: {nodeName: WORLD-n1, containers: [
            {name: c, image: none, resources: {requests: {cpu: 500m}}}]},
          status: {conditions: [{type: PodResizeInProgress, status: 'True'}], containerStatuses: [
            {name: c, image: none, imageID: none, ready: true, restartCount: 0, state: {running: {}}, allocatedResources: {cpu: '3'},
             resources: {requests: {cpu: '3'}}}]}}\n---\n",
        workers!(
            "1",
            "{spec: {containers: [{name: actor, image: none, resources: {requests: {cpu: '2'}}}]}}"
        )
    );
    Case { name: "shrinking", manifests, nodes: &[], unplaced: 1, why: "cpu" }.check().await;
}

#[tokio::test]
async fn an_infeasible_resize_does_not_count() {
    let manifests = concat!(
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n1, labels: {}}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '50'}}}\n---\n",
        "{apiVersion: v1, kind: Pod, metadata: {name: growing}, spec: {nodeName: WORLD-n1, containers: [
            {name: c, image: none, resources: {requests: {cpu: '6'}}}]},
          status: {conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}], containerStatuses: [
            {name: c, image: none, imageID: none, ready: true, restartCount: 0, state: {running: {}}, allocatedResources: {cpu: '1'},
             resources: {requests: {cpu: '1'}}}]}}\n---\n",
        workers!(
            "1",
            "{spec: {containers: [{name: actor, image: none, resources: {requests: {cpu: '2'}}}]}}"
        )
    );
    Case { name: "growing", manifests, nodes: &["n1"], unplaced: 0, why: "" }.check().await;
}

#[tokio::test]
async fn a_volume_on_one_node() {
    let manifests = two_nodes!(
        "{apiVersion: v1, kind: PersistentVolume, metadata: {name: WORLD-disk}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
          storageClassName: '', local: {path: /data}, claimRef: {namespace: WORLD, name: data}, nodeAffinity: {required: {nodeSelectorTerms: [
            {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [WORLD-n2]}]}]}}}}\n---\n",
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: '',
          volumeName: WORLD-disk, resources: {requests: {storage: 1Gi}}}}\n---\n",
        workers!(
            "2",
            "{spec: {containers: [{name: actor, image: none}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}"
        )
    );
    Case { name: "disk", manifests, nodes: &["n2", "n2"], unplaced: 0, why: "" }.check().await;
}

#[tokio::test]
async fn a_volume_claim_that_does_not_exist() {
    let manifests = two_nodes!(workers!(
        "1",
        "{spec: {containers: [{name: actor, image: none}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}"
    ));
    Case { name: "claimless", manifests, nodes: &[], unplaced: 1, why: "claim" }.check().await;
}

/// The node evicts the pod after a minute, and there is no other. A toleration without a key tolerates all taints of its effect.
#[tokio::test]
async fn a_toleration_without_a_key_tolerates_taints_of_its_effect() {
    let manifests = concat!(
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n1, labels: {}}, spec: {taints: [
          {key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}]},
          status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}}}\n---\n",
        workers!(
            "1",
            "{spec: {tolerations: [{operator: Exists, effect: NoSchedule}, 
              {key: c, operator: Exists, effect: NoExecute, tolerationSeconds: 60}],
              containers: [{name: actor, image: none, resources: {requests: {cpu: '1'}}}]}}"
        )
    );
    Case { name: "keyless", manifests, nodes: &["n1"], unplaced: 0, why: "" }.check().await;
}

/// The pod would be evicted from the tainted node after a minute.
#[tokio::test]
async fn a_toleration_for_a_minute_is_not_used_while_another_node_is_free() {
    let manifests = concat!(
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n1, labels: {}}, spec: {taints: [{key: maintenance, effect: NoExecute}]},
          status: {allocatable: {cpu: '16', memory: 8Gi, pods: '50'}}}\n---\n",
        "{apiVersion: v1, kind: Node, metadata: {name: WORLD-n2, labels: {}}, status: {allocatable: {cpu: '2', memory: 8Gi, pods: '50'}}}\n---\n",
        workers!(
            "1",
            "{spec: {tolerations: [{key: maintenance, operator: Exists, tolerationSeconds: 60, effect: NoExecute}],
              containers: [{name: actor, image: none, resources: {requests: {cpu: '1'}}}]}}"
        )
    );
    Case { name: "minute", manifests, nodes: &["n2"], unplaced: 0, why: "" }.check().await;
}
