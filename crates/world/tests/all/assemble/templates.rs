//! Templates: what admission adds, and what keeps their pods from ever being scheduled.

use jiff::Timestamp;
use placement::file::{Constraint, Places};
use world::{Index, Objects, Policy, assemble};

use super::cluster::{changed, key as key_of, world_of};

/// The application with these fields in the spec of its cpu template, and documents beside it.
pub fn templated(fields: &str, more: &str) -> String {
    changed(
        "{containers: [{name: c, resources",
        &format!("{{{fields}, containers: [{{name: c, resources"),
        more,
    )
}

fn with_reason(places: &Places, reason: Option<&str>) -> String {
    format!("{}: {}", serde_json::to_value(places).unwrap(), reason.unwrap())
}

/// Units on which actors are never placed, or only if they would stay unplaced, and why.
pub fn never(yaml: &str) -> String {
    let world = world_of(yaml).unwrap();
    let summary = world.snapshot.file().constraints.iter().filter_map(|constraint| match constraint {
        Constraint::Never { places, reason, except_current, .. } => {
            assert!(
                *except_current || reason.as_ref().unwrap().starts_with("nodeSelector"),
                "{constraint:?}"
            );
            Some(with_reason(places, reason.as_deref()))
        }
        Constraint::Avoid { places, reason, .. } => Some(with_reason(places, reason.as_deref())),
        _ => None,
    });
    summary.collect::<Vec<_>>().join("; ").replace(['"', '{', '}'], "")
}

/// The requests of an actor on a CPU.
fn asked(yaml: &str) -> String {
    let world = world_of(yaml).unwrap();
    let on_cpu = &world.snapshot.file().actors[0].runs_on["cpu"];
    on_cpu
        .node_requires
        .iter()
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect::<Vec<_>>()
        .join(", ")
}

const CLASS: &str = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, \
                     overhead: {podFixed: {cpu: 250m}}, scheduling: {nodeSelector: {disk: ssd}}}";

pub fn object(api: &str, kind: &str, name: &str, more: &str) -> String {
    format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: {name}, namespace: ns}}{more}}}")
}

#[test]
fn templates_that_are_never_scheduled_have_a_reason() {
    let both = "units:[n0/cpus-0,n1/cpus-0]: ";
    let priority = |name: &str| object("scheduling.k8s.io/v1", "PriorityClass", name, ", value: 1");
    let account = |name: &str| object("v1", "ServiceAccount", name, "");
    let claim = |more: &str| object("v1", "PersistentVolumeClaim", "data", more);
    let class = |more: &str| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: fast, annotations: \
             {{storageclass.kubernetes.io/is-default-class: 'true'}}}}, provisioner: d, volumeBindingMode: \
             WaitForFirstConsumer}}\n---\n{more}"
        )
    };
    let gone = claim("").replace("name: data", "name: data, deletionTimestamp: '2026-01-01T00:00:00Z'");
    let volume = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]";
    let missing = |kind: &str, name: &str| {
        format!("{both}{kind} {name} of the template does not exist; create it or correct the name")
    };
    for (fields, more, expected) in [
        ("schedulingGates: []", String::new(), String::new()),
        (
            "schedulingGates: [{name: a}]",
            String::new(),
            format!("{both}the template has the scheduling gate a; remove it"),
        ),
        (
            "schedulingGates: [{name: a}, {name: b}]",
            String::new(),
            format!("{both}the template has the scheduling gates a, b; remove them"),
        ),
        ("runtimeClassName: kata", String::new(), missing("RuntimeClass", "kata")),
        ("runtimeClassName: kata", CLASS.to_owned(), "units:[n1/cpus-0]: nodeSelector disk=ssd".to_owned()),
        (
            "runtimeClassName: kata, nodeSelector: {disk: ssd}",
            CLASS.to_owned(),
            "units:[n1/cpus-0]: nodeSelector disk=ssd".to_owned(),
        ),
        (
            "runtimeClassName: kata, nodeSelector: {disk: hdd}",
            CLASS.to_owned(),
            format!(
                "{both}RuntimeClass kata needs nodeSelector disk=ssd, the template has disk=hdd; remove one of them; {both}nodeSelector disk=hdd"
            ),
        ),
        (
            "runtimeClassName: kata, overhead: {cpu: 1}",
            CLASS.replace("disk: ssd", ""),
            format!("{both}the template sets another overhead than RuntimeClass kata; remove it"),
        ),
        ("runtimeClassName: kata, overhead: {cpu: 0.25}", CLASS.replace("disk: ssd", ""), String::new()),
        (
            "overhead: {cpu: 1}",
            CLASS.to_owned(),
            format!("{both}the template sets an overhead without a RuntimeClass; remove it"),
        ),
        ("priorityClassName: high", priority("low"), missing("PriorityClass", "high")),
        ("priorityClassName: high", priority("high"), String::new()),
        ("priorityClassName: system-node-critical", String::new(), String::new()),
        ("serviceAccountName: me", String::new(), String::new()),
        ("serviceAccountName: me", account("you").replace("ns", "away"), String::new()),
        ("serviceAccountName: me", account("you"), missing("ServiceAccount", "me")),
        ("serviceAccountName: me", account("me"), String::new()),
        ("serviceAccountName: default", account("me"), String::new()),
        (volume, String::new(), missing("PersistentVolumeClaim", "data")),
        (
            volume,
            claim("").replace("namespace: ns", "namespace: away"),
            missing("PersistentVolumeClaim", "data"),
        ),
        (volume, class(&claim("")), String::new()),
        (
            volume,
            claim(", status: {phase: Lost}"),
            format!("{both}PersistentVolumeClaim data has lost its volume; create it again"),
        ),
        (volume, gone, format!("{both}PersistentVolumeClaim data is being deleted; create it again")),
        ("volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]", class(""), String::new()),
    ] {
        assert_eq!(never(&templated(fields, &more)), expected, "{fields} with {more}");
    }
}

#[test]
fn resource_claims_need_a_device_of_the_node() {
    const DRA: &str = "resource.k8s.io/v1";
    let both = "units:[n0/cpus-0,n1/cpus-0]: ";
    let slice = |more: &str| {
        let pool = "pool: {name: p, generation: 1, resourceSliceCount: 1}";
        let spec = format!(", spec: {{driver: d, {pool}, devices: [{{name: d}}], {more}}}");
        object(DRA, "ResourceSlice", "s", &spec).replace(", namespace: ns", "")
    };
    let request = ", spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpus}}]}}";
    let alternatives = ", spec: {devices: {requests: [{name: r, firstAvailable: [{name: a, deviceClassName: gpus}, {name: b, deviceClassName: npus}]}]}}";
    let class = object(DRA, "DeviceClass", "gpus", ", spec: {}").replace(", namespace: ns", "");
    let claim = |more: &str| format!("{}\n---\n{class}", object(DRA, "ResourceClaim", "one", more));
    let template = |more: &str| {
        let spec = more.replacen("spec: ", "spec: {spec: ", 1) + if more.is_empty() { "" } else { "}" };
        format!("{}\n---\n{class}", object(DRA, "ResourceClaimTemplate", "one", &spec))
    };
    let no_device = "no ResourceSlice has enough free devices of the node for the resource claims";
    let at = |more: &str| format!("{}\n---\n{}", template(request), slice(more));
    let (by_template, by_name) = (
        "resourceClaims: [{name: c, resourceClaimTemplateName: one}]",
        "resourceClaims: [{name: c, resourceClaimName: one}]",
    );
    let allocated = ", status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}";
    for (fields, more, expected) in [
        (
            by_template,
            String::new(),
            format!(
                "{both}ResourceClaimTemplate one of the template does not exist; create it or correct the name"
            ),
        ),
        (
            by_name,
            String::new(),
            format!("{both}ResourceClaim one of the template does not exist; create it or correct the name"),
        ),
        (
            by_name,
            claim("").replace("name: one", "name: one, deletionTimestamp: '2026-01-01T00:00:00Z'"),
            format!("{both}ResourceClaim one is being deleted; create it again"),
        ),
        (by_name, claim(""), String::new()),
        (by_template, template(""), String::new()),
        (
            by_template,
            template(alternatives),
            format!(
                "{both}DeviceClass npus of the resource claims does not exist; create it or correct the name"
            ),
        ),
        (by_template, template(request), format!("{both}{no_device}")),
        (by_name, claim(request), format!("{both}{no_device}")),
        (by_template, at("nodeName: n0"), format!("units:[n1/cpus-0]: {no_device}")),
        (
            by_template,
            at("nodeName: n0").replace("devices: [{name: d}]", "devices: []"),
            format!("{both}{no_device}"),
        ),
        (by_template, at("allNodes: true"), String::new()),
        (
            by_template,
            at("nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}"),
            format!("units:[n1/cpus-0]: {no_device}"),
        ),
        (
            by_template,
            at("perDeviceNodeSelection: true").replace("{name: d}", "{name: d, nodeName: n1}"),
            format!("units:[n0/cpus-0]: {no_device}"),
        ),
        // an allocated claim binds the pod to the nodes of its devices
        (
            by_name,
            claim(&format!("{request}{allocated}")),
            "units:[n0/cpus-0]: ResourceClaim one is allocated on other nodes".to_owned(),
        ),
        (by_name, claim(&format!("{request}, status: {{allocation: {{}}}}")), String::new()),
    ] {
        assert_eq!(never(&templated(fields, &more)), expected, "{fields} with {more}");
    }
}

#[test]
fn admission_rejects_resources_outside_of_limits() {
    let range = |item: &str| object("v1", "LimitRange", "l", &format!(", spec: {{limits: [{{{item}}}]}}"));
    let quota = |hard: &str| object("v1", "ResourceQuota", "q", &format!(", spec: {{hard: {{{hard}}}}}"));
    let (none, init) = ("nodeSelector: {}", "initContainers: [{name: i, resources: {limits: {cpu: 2}}}]");
    let of_pod = "resources: {requests: {cpu: 3}}";
    for (fields, more, expected) in [
        (none, range("type: Container, max: {cpu: 1}"), ""),
        // a default limit below the request
        (
            none,
            range("type: Container, default: {cpu: 200m}"),
            "container c requests 500m of cpu, above its limit of 200m, the default of LimitRange l; set a limit",
        ),
        (
            init,
            range("type: Container, max: {cpu: 1}"),
            "LimitRange l: container i has a limit of cpu above the maximum of 1",
        ),
        (
            none,
            range("type: Container, min: {cpu: 1}"),
            "LimitRange l: container c requests less cpu than the minimum of 1",
        ),
        (
            none,
            range("type: Container, maxLimitRequestRatio: {memory: 2}"),
            "LimitRange l: container c needs a request and a limit of memory, the limit at most 2 times the request",
        ),
        (
            none,
            range("type: Container, default: {cpu: 2}, maxLimitRequestRatio: {cpu: 3}"),
            "LimitRange l: container c has a limit of cpu above 3 times its request",
        ),
        (none, range("type: Container, default: {cpu: 2}, maxLimitRequestRatio: {cpu: 4}"), ""),
        (none, range("type: Pod, max: {cpu: 1}"), "LimitRange l: the pod needs a limit of cpu, at most 1"),
        (
            init,
            range("type: Pod, min: {memory: 1Gi}"),
            "LimitRange l: the pod requests less memory than the minimum of 1Gi",
        ),
        // the pod's own request replaces those of its containers
        (of_pod, range("type: Pod, min: {cpu: 3}"), ""),
        // the pool adds its device
        (none, range("type: Pod, max: {nvidia.com/gpu: 1}"), ""),
        (none, range("type: PersistentVolumeClaim, min: {storage: 1Gi}"), ""),
        (none, quota("limits.cpu: 9"), "ResourceQuota q has limits.cpu: container c needs a limit of cpu"),
        (none, quota("requests.cpu: 9, memory: 9Gi, limits.ephemeral-storage: 1Gi"), ""),
        (
            "initContainers: [{name: i}]",
            quota("memory: 9Gi"),
            "ResourceQuota q has memory: container i needs a request of memory",
        ),
        (of_pod, quota("limits.cpu: 9"), ""),
        (none, quota("limits.cpu: 9").replace("{hard", "{scopes: [BestEffort], hard"), ""),
        (none, range("type: Container, default: {cpu: 1}") + "\n---\n" + &quota("limits.cpu: 9"), ""),
    ] {
        let found = never(&templated(fields, &more));
        let on_cpus = found.split("units:").find(|rule| rule.contains("n0/cpus-0"));
        let reason = on_cpus.and_then(|rule| rule.split_once("]: ")).map_or("", |(_, reason)| reason);
        let reason = reason.strip_suffix("; ").unwrap_or(reason);
        assert_eq!(reason, expected, "{fields} with {more}");
    }
}

#[test]
fn admission_adds_to_the_template() {
    let limits = "{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: ns}, \
         spec: {limits: [{type: Container, defaultRequest: {memory: 30Mi, cpu: 9}}]}}";
    let no_selector = CLASS.replace("disk: ssd", "");
    let two = "initContainers: [{name: i, restartPolicy: Always}]";
    for (fields, more, expected) in [
        ("nodeSelector: {}", "", "cpuMilli 500, memoryMiB 100, pods 1"),
        ("runtimeClassName: kata", &*no_selector, "cpuMilli 750, memoryMiB 100, pods 1"),
        (
            "runtimeClassName: kata, overhead: {cpu: 250m}",
            &no_selector,
            "cpuMilli 750, memoryMiB 100, pods 1",
        ),
        (two, limits, "cpuMilli 9500, memoryMiB 130, pods 1"),
        // the API server sums up the containers before LimitRanges add their defaults
        (
            &format!("{two}, resources: {{limits: {{memory: 1Gi}}}}"),
            limits,
            "cpuMilli 500, memoryMiB 100, pods 1",
        ),
        (
            &format!("{two}, resources: {{requests: {{memory: 1Gi}}}}"),
            limits,
            "cpuMilli 9500, memoryMiB 1024, pods 1",
        ),
    ] {
        assert_eq!(asked(&templated(fields, more)), expected, "{fields} with {more}");
    }
    // A pool's class counts like the template's, unless the template has its own.
    let pooled = |fields: &str, more: &str| {
        let defaults = "{kind: cpu, podDefaults: {runtimeClassName: kata}}}";
        templated(fields, more).replacen("{kind: cpu}}", defaults, 1)
    };
    assert_eq!(asked(&pooled("nodeSelector: {}", &no_selector)), "cpuMilli 750, memoryMiB 100, pods 1");
    assert_eq!(never(&pooled("nodeSelector: {}", CLASS)), "units:[n1/cpus-0]: nodeSelector disk=ssd");
    let own = no_selector.replace("name: kata", "name: own").replace("250m", "125m");
    let both = format!("{no_selector}\n---\n{own}");
    assert_eq!(asked(&pooled("runtimeClassName: own", &both)), "cpuMilli 625, memoryMiB 100, pods 1");
    // Its tolerations count.
    let tainted = |more: &str| {
        let taint = "{name: n1}, spec: {taints: [{key: k, effect: NoSchedule}]}, ";
        templated("runtimeClassName: kata", more).replacen("{name: n1}, ", taint, 1)
    };
    assert_eq!(never(&tainted(&no_selector)), "units:[n1/cpus-0]: taint k:NoSchedule of n1");
    let tolerant = no_selector.replace("{nodeSelector: {}}", "{tolerations: [{key: k, operator: Exists}]}");
    assert_eq!(never(&tainted(&tolerant)), "");
}

#[test]
fn pods_may_tolerate_the_taints_of_their_resources() {
    let tainted = |key: &str| {
        let mut objects = Objects::default();
        let taint =
            format!("metadata: {{name: n0}}, spec: {{taints: [{{key: {key}, effect: NoSchedule}}]}}, ");
        let node = "metadata: {name: n0, labels: {disk: ssd, topology.kubernetes.io/zone: a}},";
        objects.read("test", &changed(node, &taint, "")).unwrap();
        [false, true].map(|is_enabled| {
            if is_enabled {
                objects.scheduling.tolerate_extended_resources();
            }
            let policy = Policy::builtin("p");
            let world =
                assemble(&Index::of(&objects), &key_of("app"), &policy, Timestamp::UNIX_EPOCH).unwrap();
            let all = &world.snapshot.file().constraints;
            serde_json::to_string(all).unwrap().matches("n0/").count()
        })
    };
    // Three units: the GPUs' pods request the resource.
    assert_eq!(tainted("nvidia.com/gpu"), [3, 1]);
    assert_eq!(tainted("nvidia.com/fpga"), [3, 3]);
}
