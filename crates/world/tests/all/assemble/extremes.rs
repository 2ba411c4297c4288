//! Objects with extreme values: none causes a panic or affects another application.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};
use world::{Index, Objects, Policy, assemble};

use super::cluster::{BASE, key};

/// A node with all kinds of facts, and an application that runs on it.
const OTHERS: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {disk: ssd, topology.kubernetes.io/zone: b}, annotations: {a: b}},
 spec: {taints: [{key: k, value: v, effect: NoExecute, timeAdded: "1970-01-01T00:00:00Z"}]},
 status: {capacity: {cpu: "4"}, allocatable: {cpu: "4", memory: 8Gi, pods: "10", nvidia.com/gpu: "1"},
  conditions: [{type: Ready, status: "True", lastTransitionTime: "1970-01-01T00:00:00Z"}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {name: n2}, spec: {devices: [
  {id: numa-0, type: NUMA Domain, numaNode: 0, computeResources: [{type: Core, count: 4, kinds: [{name: p, count: 4, relativeCapacity: 1024}]}],
   memorySpaces: [{type: RAM, sizeBytes: 8589934592}]},
  {id: gpu-0, type: GPU, model: A100, uuid: GPU-1, numaNode: 0, parent: numa-0, pciBusId: "0000:07:00.0",
   memorySpaces: [{type: Device RAM, sizeBytes: 8589934592}], networkBandwidthBytesPerSecond: 1000}],
  links: [{source: numa-0, destination: gpu-0, kind: PCIe, bandwidthBytesPerSecond: 15750000000, relativeLatency: 3}]},
 status: {allocations: [{namespace: ns, pod: other-cam-0, podUid: p, container: c, resource: nvidia.com/gpu, deviceIds: [GPU-1]}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: shared}, spec: {kind: shared, devices: {model: A100},
  resource: {devicePlugin: nvidia.com/gpu}, lanes: 2, speed: "3/2", utilizationTarget: "0.8", sharing: {maxInstances: 4},
  power: {idle: 50W, busy: 300W}, instances: {max: 5}, quota: {perNamespace: 2}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: other, namespace: ns, generation: 2}, spec: {
  priority: 3, failover: {mode: Force, after: 30s}, update: {maxUnavailable: 1}, actors: [
   {name: cam, replicas: 2, arrivals: 1/s, stateBytes: 1Mi, spread: node, avoid: [sink], implementations: [
    {kind: cpu, serviceTime: 10ms, template: {spec: {priority: 1, containers: [{name: c, resources: {requests: {cpu: 500m, memory: 100Mi}},
      ports: [{containerPort: 80, hostPort: 80}]}], overhead: {cpu: 1m},
      tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 60}], topologySpreadConstraints: [
       {maxSkew: 1, topologyKey: disk, whenUnsatisfiable: DoNotSchedule, minDomains: 1, labelSelector: {matchLabels: {a: b}}}]}}},
    {kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}},
    {kind: shared, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]},
   {name: sink, replicas: 1, implementations: [{kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}],
  channels: [{from: cam, to: sink, rate: 1/s, messageBytes: 64Ki, pattern: AllToAll, drag: 2}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: other, namespace: ns, generation: 1,
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: u, controller: true}]},
 spec: {application: other, applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, windowMicroseconds: 30000000,
  objective: {overload: 1}, assignments: [{actor: cam-0, unit: n2/gpus-0, node: n2, pool: gpus}], unplaced: [{actor: cam-1, reasons: [none]}],
  moves: [{actor: cam-0, from: n0/gpus-0, to: n2/gpus-0, reason: r}]},
 status: {refusals: [{actor: cam-1, node: n2, group: cam, kind: cpu, reason: no, count: 2, until: "1970-01-01T00:01:00Z"}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {name: other-cam-0, namespace: ns, uid: i,
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: u, controller: true}]},
 spec: {applicationName: other, actorGroup: cam, actor: cam-0}}
---
{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {name: more, namespace: ns, uid: j,
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: u, controller: true}]},
 spec: {applicationName: other, actorGroup: cam, origin: Runtime, template: {kind: gpu, memoryMib: 100, count: 1}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other-cam-0, namespace: ns, uid: p, labels: {cairn.dev/application: other},
  annotations: {cairn.dev/unit: n2/gpus-0},
  ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: Instance, name: other-cam-0, uid: i, controller: true}]},
 spec: {nodeName: n2, priority: 1, containers: [{name: c, resources: {requests: {cpu: 500m, memory: 100Mi, nvidia.com/gpu: "1"}},
  ports: [{containerPort: 80, hostPort: 81}]}]}, status: {phase: Running, startTime: "1970-01-01T00:00:00Z"}}
"#;

/// What pods refer to, devices of slices and claims, and quotas; none limits the application that is to be planned.
const REFERRED: &str = r#"
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.example.com}, spec: {extendedResourceName: example.com/gpu,
 selectors: [{cel: {expression: "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].index >= 0"}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: n2-gpus}, spec: {driver: gpu.example.com, nodeName: n2,
 pool: {name: n2, generation: 1, resourceSliceCount: 2}, devices: [
  {name: d0, attributes: {uuid: {string: GPU-2}, index: {int: 0}, version: {version: 1.0.0}, ready: {bool: true},
    resource.kubernetes.io/pciBusID: {string: "0000:07:00.0"}}, capacity: {memory: {value: 40Gi}},
   consumesCounters: [{counterSet: s, counters: {memory: {value: 10Gi}}}]},
  {name: d1, attributes: {uuid: {string: GPU-3}, index: {int: 1}}, capacity: {memory: {value: 40Gi, requestPolicy: {default: 1Gi,
    validRange: {min: 1Gi, max: 40Gi, step: 1Gi}}}}, allowMultipleAllocations: true,
   taints: [{key: k, value: v, effect: NoSchedule, timeAdded: "1970-01-01T00:00:00Z"}]}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: n2-counters}, spec: {driver: gpu.example.com, nodeName: n2,
 pool: {name: n2, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: s, counters: {memory: {value: 40Gi}}}]}}
---
{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: claimed}, spec: {kind: claimed,
 resource: {dra: {deviceClassName: gpu.example.com, selectors: ["device.attributes['gpu.example.com'].index < 9"]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: foreign, namespace: ns, uid: f}, spec: {devices: {requests: [
  {name: r, exactly: {deviceClassName: gpu.example.com, count: 1, capacity: {requests: {memory: 1Gi}}}}]}},
 status: {reservedFor: [{resource: pods, name: more, uid: q}], allocation: {devices: {results: [
  {request: r, driver: gpu.example.com, pool: n2, device: d0, consumedCapacity: {memory: 1Gi}}]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: two, namespace: ns}, spec: {spec: {devices: {requests: [
  {name: r, exactly: {deviceClassName: gpu.example.com, count: 2}}]}}}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {scopes: [PriorityClass], hard: {requests.cpu: "900", count/pods: "900",
 requests.memory: 900Gi, gpu.example.com.deviceclass.resource.k8s.io/devices: "9"},
 scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: other}, spec: {limits: [{type: Container, default: {cpu: 1m, memory: 1Mi},
 defaultRequest: {cpu: 1m, memory: 1Mi}, max: {cpu: "100"}, min: {cpu: 1m}, maxLimitRequestRatio: {cpu: "10"}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ns, labels: {cairn.dev/max-priority: "7"}, annotations: {a: b}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 10m, memory: 1Mi}},
 scheduling: {nodeSelector: {disk: ssd}, tolerations: [{key: k, operator: Exists, tolerationSeconds: 60}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: csi.example.com, volumeBindingMode: WaitForFirstConsumer,
 allowedTopologies: [{matchLabelExpressions: [{key: disk, values: [ssd]}]}]}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: csi.example.com}, spec: {storageCapacity: true, attachRequired: true}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n2}, spec: {drivers: [{name: csi.example.com, nodeID: n2, topologyKeys: [disk],
 allocatable: {count: 3}}]}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: c, namespace: kube-system}, storageClassName: fast,
 nodeTopology: {matchLabels: {disk: ssd}}, capacity: 100Gi, maximumVolumeSize: 50Gi}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], storageClassName: fast,
 csi: {driver: csi.example.com, volumeHandle: h}, claimRef: {namespace: ns, name: data, uid: d},
 nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: ns, uid: d}, spec: {storageClassName: fast, volumeName: v,
 accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: later, namespace: ns, uid: l}, spec: {storageClassName: fast,
 accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}
---
{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: other, namespace: ns, uid: o, generation: 1}, spec: {actors: [
 {name: cam, replicas: 2, arrivals: 1/s, implementations: [
  {kind: claimed, serviceTime: 1ms, template: {spec: {priorityClassName: high, runtimeClassName: kata, containers: [{name: c}], volumes: [
   {name: v, persistentVolumeClaim: {claimName: data}}, {name: w, persistentVolumeClaim: {claimName: later}},
   {name: e, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast, accessModes: [ReadWriteOnce],
     resources: {requests: {storage: 1Gi}}}}}}]}}},
  {kind: cpu, serviceTime: 1ms, template: {spec: {resourceClaims: [{name: r, resourceClaimTemplateName: two}, {name: f, resourceClaimName: foreign}],
   containers: [{name: c, resources: {claims: [{name: r}], requests: {example.com/gpu: "1"}}}]}}}]}]}}
"#;

/// The paths of all leaves.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| {
                leaves(value, &format!("{path}/{}", name.replace('/', "~1")), found);
            });
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn objects_with_extreme_values_affect_no_other_application() {
    let ruled =
        Policy { program: Some(":- run_on(A,U), run_on(B,U), A < B.".into()), ..Policy::builtin("p") };
    check_extremes(OTHERS, &[Policy::builtin("p"), ruled]);
}

#[test]
fn what_pods_refer_to_and_devices_with_extreme_values_affect_no_other_application() {
    // The node of the other document.
    let node = OTHERS.split("\n---").next().unwrap();
    check_extremes(&format!("{node}\n---\n{REFERRED}"), &[Policy::builtin("p")]);
}

/// Sets each field of these objects to each extreme value in turn, beside an application that can be planned without them.
fn check_extremes(objects: &str, policies: &[Policy]) {
    let text = format!("{BASE}\n---\n{objects}");
    let documents = serde_yaml::Deserializer::from_str(&text).map(|it| Value::deserialize(it).unwrap());
    let documents: Vec<Value> = documents.collect();
    let values = [
        json!(0),
        json!(-1),
        json!(i32::MAX),
        json!(i64::MAX),
        json!(1e308),
        json!(""),
        json!("-1"),
        json!("1e308"),
        json!("9999999999999Ei"),
        json!("999999999999999999/h"),
        json!("9223372036854775807s"),
        json!("-9999-01-01T00:00:00Z"),
        json!("9999-12-30T22:00:00Z"),
        json!("x".repeat(10_000)),
    ];
    let (mut failed, mut read) = (Vec::new(), 0);
    for (at, document) in documents.iter().enumerate() {
        if document["kind"] == "ActorApplication" && document["metadata"]["name"] == "app" {
            continue;
        }
        let mut paths = Vec::new();
        leaves(document, "", &mut paths);
        for (path, value) in paths.iter().flat_map(|path| values.iter().map(move |value| (path, value))) {
            if path == "/metadata/name" && value == "" {
                // No API server stores it.
                continue;
            }
            let mut documents = documents.clone();
            *documents[at].pointer_mut(path).unwrap() = value.clone();
            let yaml: Vec<String> = documents.iter().map(Value::to_string).collect();
            let mut objects = Objects::default();
            // The watch leaves out objects of another type, too.
            let is_read = objects.read_valid("test", &yaml.join("\n---\n"), |_| Ok(()));
            read += usize::from(is_read.as_ref().is_ok_and(Vec::is_empty));
            let plans = || {
                let index = Index::of(&objects);
                for policy in policies {
                    let world = |name: &str| assemble(&index, &key(name), policy, Timestamp::UNIX_EPOCH);
                    let _ = world("other").map(|world| (world.demand(), world.digest()));
                    if let Some(other) = index.application(&key("other")) {
                        world::desired_state(&index, other, "p");
                        world::observed_state(&index, other, &world::units(&index, policy));
                    }
                    index.placement(&key("other")).map(|it| (world::decision(it), world::refusals(it)));
                    world("app").map_err(|e| e.to_string())?;
                }
                Ok::<_, String>(())
            };
            let what = || format!("{} {path}: {:.30}", document["kind"], value.to_string());
            match catch_unwind(AssertUnwindSafe(plans)) {
                Ok(Ok(())) => {}
                Ok(Err(problem)) => failed.push(format!("{}: {problem}", what())),
                Err(_) => failed.push(format!("{}: a panic", what())),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(read > 500, "most values are of the right type: {read}");
}
