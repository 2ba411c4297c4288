//! Quotas, defaults and pool access.

use placement::file::Constraint;

use super::cluster::{BASE, changed, difference, placement, world_of};

/// The quotas of the application: `MAX of RESOURCE in POOLS DOMAIN: REASON`.
fn quotas(yaml: &str) -> String {
    let world = world_of(yaml).unwrap();
    let summary = world.snapshot.file().constraints.iter().filter_map(|given| match given {
        Constraint::Quota { actors, pool, pools, numa, units: _, resource, max, reason } => Some(format!(
            "{} actors: {max} of {} in {}{}: {}",
            actors.len(),
            resource.as_deref().unwrap_or("them"),
            pools.as_ref().map(|pools| pools.join(" and ")).or(pool.clone()).unwrap_or("all".to_owned()),
            numa.as_ref().map(|numa| format!(" {numa}")).unwrap_or_default(),
            reason.as_deref().unwrap()
        )),
        _ => None,
    });
    summary.collect::<Vec<_>>().join("\n")
}

#[test]
fn quotas_exclude_the_usage_of_others() {
    let pool =
        |more: &str, others: &str| changed("speed: \"2\"}", &format!("speed: \"2\", {more}}}"), others);
    let quota = |hard: &str| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{hard: {{{hard}}}}}}}"
        )
    };
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let here = format!("{other}\n---\n{}", placement("other", "{}"));
    let elsewhere = here.replace("namespace: ns", "namespace: away");
    let foreign = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
         spec: {containers: [{name: c, resources: {requests: {cpu: 300m}}}]}}";
    let with =
        |hard: &str, more: &str| changed("kind: cpu", "kind: cpu", &format!("{}\n---\n{more}", quota(hard)));
    for (yaml, expected) in [
        // Bounds that cannot be reached are omitted.
        (pool("instances: {max: 2}, quota: {perNamespace: 2}", ""), ""),
        (
            pool("instances: {max: 1}", ""),
            "2 actors: 1 of them in gpus: pool gpus allows 1 instance, others use 0",
        ),
        (
            pool("instances: {max: 2}", &elsewhere),
            "2 actors: 1 of them in gpus: pool gpus allows 2 instances, others use 1",
        ),
        (pool("quota: {perNamespace: 2}", &elsewhere), ""),
        (
            pool("quota: {perNamespace: 2}", &here),
            "2 actors: 1 of them in gpus: pool gpus allows 2 instances of namespace ns, others use 1",
        ),
        (with("cpu: 2", foreign), ""),
        (with("count/pods: 3, pods: 3", foreign), ""),
        // pods that have ended count as objects only, until they are deleted
        (
            with("count/pods: 2, pods: 2", &foreign.replace("}}}]}}", "}}}]}, status: {phase: Succeeded}}")),
            "2 actors: 1 of pods in all: ResourceQuota q allows count/pods 2, less the usage of others",
        ),
        // a pod that should be gone does not count; the test's time is the epoch
        (
            with(
                "pods: 2",
                &foreign.replace(
                    "namespace: ns",
                    "namespace: ns, deletionTimestamp: '1969-12-31T00:00:00Z', deletionGracePeriodSeconds: 30",
                ),
            ),
            "",
        ),
        (
            with(
                "pods: 2",
                &foreign.replace(
                    "namespace: ns",
                    "namespace: ns, deletionTimestamp: '1970-01-01T00:00:00Z', deletionGracePeriodSeconds: 30",
                ),
            ),
            "2 actors: 1 of pods in all: ResourceQuota q allows pods 2, less the usage of others",
        ),
        (
            with("requests.cpu: 900m", foreign),
            "2 actors: 600 of cpuMilli in all: ResourceQuota q allows requests.cpu 9/10, less the usage of others",
        ),
        (
            with("pods: 2", foreign),
            "2 actors: 1 of pods in all: ResourceQuota q allows pods 2, less the usage of others",
        ),
        (
            with("requests.nvidia.com/gpu: 1", foreign),
            "2 actors: 1 of them in gpus: ResourceQuota q allows requests.nvidia.com/gpu 1, less the usage of others",
        ),
        // Quotas of other resources, ended pods, pods of other namespaces, and quotas with scopes do not count.
        (with("limits.cpu: 0, count/secrets: 0, requests.storage: 0", foreign), ""),
        (with("pods: 2", &foreign.replace("}]}}", "}]}, status: {phase: Succeeded}}")), ""),
        (with("pods: 2", &foreign.replace("namespace: ns", "namespace: away")), ""),
        (with("pods: 0", foreign).replace("{hard:", "{scopes: [BestEffort], hard:"), ""),
        (with("pods: 0", foreign).replace("name: q, namespace: ns", "name: q, namespace: away"), ""),
    ] {
        assert_eq!(quotas(&yaml), expected, "{yaml}");
    }
}

/// A quota of a resource is one constraint, even if several pools or a NUMA domain provide the resource.
#[test]
fn device_quotas_span_all_pools_of_the_resource() {
    let quota = |hard: &str| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{hard: {{{hard}}}}}}}"
        )
    };
    let pool = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: {name}}}, spec: {{{spec}}}}}"
        )
    };
    let t4s = pool(
        "t4s",
        "kind: gpu, nodeSelector: {matchLabels: {gpu: t4}}, resource: {devicePlugin: nvidia.com/gpu}",
    );
    let small = t4s.replace("kind: gpu,", "kind: cpu,");
    let domains = pool(
        "domains",
        "kind: numa-domain, unit: NumaDomain, resource: {devicePlugin: 'cairn.dev/numa-{index}'}",
    );
    let other = BASE.split("---").last().unwrap().replace("name: app", "name: other");
    let decided =
        placement("other", "{}").replace("n0/gpus-0", "n0/domains-0").replace("pool: gpus", "pool: domains");
    let with = |hard: &str, more: &[&String]| {
        let more: Vec<&str> = more.iter().map(|text| text.as_str()).collect();
        let more = format!("{}\n---\n{}", quota(hard), more.join("\n---\n"));
        changed("{kind: cpu, serviceTime", "{kind: numa-domain, serviceTime", &more)
    };
    let gpus = "2 actors: 1 of them in gpus and t4s: ResourceQuota q allows requests.nvidia.com/gpu 1, less the usage of others";
    let domain = |most: u64| {
        format!(
            "2 actors: 1 of them in domains numa-0: ResourceQuota q allows requests.cairn.dev/numa-0 {most}, less the usage of others"
        )
    };
    for (yaml, expected) in [
        (with("requests.nvidia.com/gpu: 1", &[&t4s]), gpus.to_owned()),
        (with("requests.nvidia.com/gpu: 2", &[&t4s]), String::new()),
        (with("requests.nvidia.com/gpu: 1", &[&small]), gpus.to_owned()),
        (with("requests.cairn.dev/numa-0: 1", &[&domains]), domain(1)),
        (with("requests.cairn.dev/numa-0: 2", &[&domains]), String::new()),
        (with("requests.cairn.dev/numa-0: 2", &[&domains, &other, &decided]), domain(2)),
        (with("requests.cairn.dev/numa-1: 2", &[&domains, &other, &decided]), String::new()),
        (with("requests.cairn.dev/numa-x: 0", &[&domains]), String::new()),
    ] {
        assert_eq!(quotas(&yaml), expected, "{yaml}");
    }
}

#[test]
fn requested_actors_of_others_count_before_they_start() {
    let owned = "uid: w1, ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: other, controller: true}]";
    let other = BASE.split("---").last().unwrap().replace("name: app, ", "name: other, uid: other, ");
    let decided = placement("other", "{}")
        .replace("cam-0", "inst-w1")
        .replace("namespace: ns}", &format!("namespace: ns, {}}}", owned.replace("uid: w1", "uid: plc")));
    let asked = format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {{name: w1, namespace: ns, {owned}}}, \
         spec: {{applicationName: other, actorGroup: cam, origin: Runtime, template: {{}}}}}}"
    );
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {requests.nvidia.com/gpu: 2}}}";
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: w1, namespace: ns}, spec: {containers: [{name: c, \
         resources: {requests: {nvidia.com/gpu: 1}}}]}}";
    let left = "2 actors: 1 of them in gpus: ResourceQuota q allows requests.nvidia.com/gpu 2, less the usage of others";
    for (more, expected) in [
        (vec![quota, &other, &decided], ""),
        (vec![quota, &other, &decided, &asked], left),
        // Once its pod exists, the pod counts.
        (vec![quota, &other, &decided, &asked, pod], left),
    ] {
        let more = more.join("\n---\n");
        assert_eq!(quotas(&changed("kind: cpu", "kind: cpu", &more)), expected, "{more}");
    }
}

#[test]
fn limit_range_defaults_count_as_requests() {
    let limits = |limits: &str| {
        let spec = format!("spec: {{limits: [{limits}]}}");
        let yaml =
            format!("{{apiVersion: v1, kind: LimitRange, metadata: {{name: l, namespace: ns}}, {spec}}}");
        let lines = difference(&changed("kind: cpu", "kind: cpu", &yaml));
        let actor = lines.lines().find(|line| line.starts_with("+ actor ns/app/cam-0")).map(str::to_owned);
        actor.unwrap_or_default().replace("+ actor ns/app/cam-0 ", "")
    };
    let gpu = |asks: &str| {
        format!(
            r#"{{"cpu":{{"work":300000,"nodeRequires":{{"cpuMilli":500,"memoryMiB":100,"pods":1}}}},"gpu":{{"work":30000,"nodeRequires":{{{asks}"pods":1}}}}}}"#
        )
    };
    for (item, expected) in [
        ("type: Container, defaultRequest: {cpu: 200m}, default: {cpu: 1}", gpu(r#""cpuMilli":200,"#)),
        // As the API server fills in: the default stands for its request, the maximum for the default.
        (
            "type: Container, default: {cpu: 1}, max: {memory: 64Mi}",
            gpu(r#""cpuMilli":1000,"memoryMiB":64,"#),
        ),
        ("type: Container, min: {memory: 16Mi}", gpu(r#""memoryMiB":16,"#)),
        ("type: Pod, max: {cpu: 1}", String::new()),
    ] {
        assert_eq!(limits(&format!("{{{item}}}")), expected, "{item}");
    }
}

#[test]
fn pools_can_select_namespaces() {
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: ns, labels: {team: vision}}}";
    let rule = r#"+ rule {"type":"never","actors":["ns/app/cam-0","ns/app/cam-1"],"units":["n0/gpus-0","n0/gpus-1"],"exceptCurrent":true,"reason":"pool gpus does not select namespace ns; see its spec.namespaceSelector"}"#;
    for (selector, more, expected) in [
        ("matchLabels: {team: vision}", namespace, ""),
        ("matchLabels: {team: audio}", namespace, rule),
        ("matchExpressions: [{key: team, operator: Exists}]", "", rule),
        // Every namespace has its name as a label, whether the Namespace object is known or lacks it.
        ("matchLabels: {kubernetes.io/metadata.name: ns}", "", ""),
        ("matchLabels: {kubernetes.io/metadata.name: ns}", namespace, ""),
    ] {
        let pool = format!("speed: \"2\", namespaceSelector: {{{selector}}}}}");
        assert_eq!(difference(&changed("speed: \"2\"}", &pool, more)), expected, "{selector}");
    }
}
