//! Templates as the API server validates and completes them.

use super::cluster::{changed, difference, world_of};
use super::templates::{never, object, templated};

const BOTH: &str = "units:[n0/cpus-0,n1/cpus-0]: ";

/// The application with these fields in its cpu template, and these taints on the second node.
fn tainted(taints: &str, fields: &str) -> String {
    let node = format!("{{name: n1}}, spec: {{taints: [{taints}]}}, ");
    templated(fields, "").replacen("{name: n1}, ", &node, 1)
}

#[test]
fn tolerations_are_validated() {
    let reason = |problem: &str| format!("{BOTH}{problem}");
    for (tolerations, expected) in [
        ("", String::new()),
        ("{key: k}", String::new()),
        ("{key: k, operator: '', value: v}", String::new()),
        ("{key: k, operator: Equal, value: v}", String::new()),
        ("{operator: Exists}", String::new()),
        ("{key: k, operator: Exists, value: ''}", String::new()),
        // left to admission
        ("{key: k, operator: Exists, tolerationSeconds: 60}", String::new()),
        (
            "{key: k, operator: Gt, value: '1'}",
            reason("the toleration of k has the operator Gt; use Equal or Exists"),
        ),
        (
            "{operator: Exists}, {key: k, operator: equal, value: v}",
            reason("the toleration of k has the operator equal; use Equal or Exists"),
        ),
        (
            "{key: k, operator: Exists, value: v}",
            reason("the toleration of k has the operator Exists and a value; remove one of them"),
        ),
        ("{value: v}", reason("a toleration has no key; set one, or the operator Exists")),
    ] {
        let yaml = templated(&format!("tolerations: [{tolerations}]"), "");
        assert_eq!(never(&yaml), expected, "{tolerations}");
    }
}

#[test]
fn host_ports_are_validated() {
    let host = "hostNetwork: true, ";
    let differs =
        "hostPort 8080 of the template is not its containerPort 80, as hostNetwork needs; leave out hostPort";
    let twice = "hostPort 80 of the template is used twice; change one of them";
    for (fields, ports, problem) in [
        ("", "{containerPort: 80, hostPort: 8080}", ""),
        (host, "{containerPort: 80}", ""),
        (host, "{containerPort: 80, hostPort: 80}", ""),
        (host, "{containerPort: 80, hostPort: 0}", ""),
        (host, "{containerPort: 80, hostPort: 8080}", differs),
        ("", "{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80}", twice),
        (host, "{containerPort: 80}, {name: again, containerPort: 80}", twice),
        ("", "{containerPort: 80}, {name: again, containerPort: 80}", ""),
        ("", "{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80, protocol: UDP}", ""),
        ("", "{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80, hostIP: 127.0.0.1}", ""),
    ] {
        let yaml = changed(
            "{containers: [{name: c, resources",
            &format!("{{{fields}containers: [{{name: c, ports: [{ports}], resources"),
            "",
        );
        let expected = if problem.is_empty() { String::new() } else { format!("{BOTH}{problem}") };
        assert_eq!(never(&yaml), expected, "{fields}{ports}");
    }
    // Init containers run one by one, and before the others.
    let init = "initContainers: [{name: a, ports: [{containerPort: 80, hostPort: 80}]}, {name: b, ports: [{containerPort: 80, hostPort: 80}]}]";
    assert_eq!(never(&templated(init, "")), "");
}

#[test]
fn tolerations_match_taints_by_their_operator() {
    let taint = "{key: k, value: '1', effect: NoSchedule}";
    for (toleration, is_tolerated) in [
        ("{key: k, operator: Exists}", true),
        ("{operator: Exists}", true),
        ("{key: k, value: '1'}", true),
        ("{key: k, operator: Equal, value: '1', effect: NoSchedule}", true),
        ("{key: k, operator: Equal, value: '2'}", false),
        ("{key: k, operator: Exists, effect: NoExecute}", false),
        ("{key: k, operator: Lt, value: '5'}", false),
        ("{key: k, operator: exists}", false),
    ] {
        let found = never(&tainted(taint, &format!("tolerations: [{toleration}]")));
        assert_eq!(!found.contains("taint k=1:NoSchedule of n1"), is_tolerated, "{toleration}: {found}");
    }
}

#[test]
fn pods_tolerate_unreachable_nodes_for_five_minutes() {
    let evicted = |taint: &str, seconds: u32| {
        format!(
            "units:[n1/cpus-0]: taint {taint}:NoExecute of n1 evicts the pod after {seconds} s, and other nodes have room"
        )
    };
    let (ready, reach) = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
    let at_once = |key: &str| format!("{{key: {key}, effect: NoExecute}}");
    let both = |key: &str| format!("{{key: {key}, effect: NoSchedule}}, {}", at_once(key));
    let tolerated = |more: &str| format!("tolerations: [{{key: {ready}, operator: Exists{more}}}]");
    let (first, second) = (
        "{key: c, operator: Exists}",
        "{key: c, operator: Exists, effect: NoExecute, tolerationSeconds: 60}",
    );
    let none = "nodeSelector: {}".to_owned();
    for (taints, fields, expected) in [
        (at_once(ready), none.clone(), evicted(ready, 300)),
        (at_once(reach), none.clone(), evicted(reach, 300)),
        (at_once(reach), tolerated(""), evicted(reach, 300)),
        // the node controller adds both
        (both(ready), none, "units:[n1/cpus-0]: n1 is not ready".to_owned()),
        (both(ready), tolerated(", effect: NoSchedule"), evicted(ready, 300)),
        (both(ready), tolerated(""), String::new()),
        (both(ready), "tolerations: [{operator: Exists}]".to_owned(), String::new()),
        (at_once(ready), tolerated(", effect: NoExecute, tolerationSeconds: 60"), evicted(ready, 60)),
        // the first toleration of a taint counts, and the shortest of all taints
        (at_once("c"), format!("tolerations: [{first}, {second}]"), String::new()),
        (at_once("c"), format!("tolerations: [{second}, {first}]"), evicted("c", 60)),
        (
            format!("{}, {}", at_once("c"), at_once(ready)),
            format!("tolerations: [{second}]"),
            evicted("c", 60),
        ),
        (
            format!("{}, {}", at_once(ready), at_once("c")),
            format!("tolerations: [{second}]"),
            evicted("c", 60),
        ),
    ] {
        assert_eq!(never(&tainted(&taints, &fields)), expected, "{taints} with {fields}");
    }
}

fn class(name: &str, more: &str) -> String {
    object("scheduling.k8s.io/v1", "PriorityClass", name, &format!(", {more}"))
}

#[test]
fn priorities_are_those_of_the_class() {
    let (high, never_preempts) =
        (class("high", "value: 7"), class("high", "value: 7, preemptionPolicy: Never"));
    let defaults = class("a", "value: 9, globalDefault: true")
        + "\n---\n"
        + &class("b", "value: 7, globalDefault: true, preemptionPolicy: Never");
    let reason = |problem: &str| format!("{BOTH}the template sets {problem}; remove it");
    for (fields, more, expected) in [
        ("priority: 0", "", String::new()),
        ("priority: 5", "", reason("priority 5, without a PriorityClass it is 0")),
        ("priorityClassName: high, priority: 7", &*high, String::new()),
        ("priorityClassName: high, priority: 5", &high, reason("priority 5, PriorityClass high gives 7")),
        ("priorityClassName: system-node-critical, priority: 2000001000", "", String::new()),
        (
            "priorityClassName: system-cluster-critical, priority: 1",
            "",
            reason("priority 1, PriorityClass system-cluster-critical gives 2000000000"),
        ),
        // of several defaults the lowest counts
        ("priority: 7, preemptionPolicy: Never", &defaults, String::new()),
        ("priority: 0", &defaults, reason("priority 0, PriorityClass b gives 7")),
        ("priorityClassName: high, preemptionPolicy: PreemptLowerPriority", &high, String::new()),
        (
            "priorityClassName: high, preemptionPolicy: PreemptLowerPriority",
            &never_preempts,
            reason("preemptionPolicy PreemptLowerPriority, PriorityClass high gives Never"),
        ),
        (
            "preemptionPolicy: Never",
            &high,
            reason("preemptionPolicy Never, without a PriorityClass it is PreemptLowerPriority"),
        ),
    ] {
        assert_eq!(never(&templated(fields, more)), expected, "{fields} with {more}");
    }
}

#[test]
fn preemption_needs_a_running_pod_with_a_lower_priority() {
    let pod = |priority: i32| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: away}}, spec: {{nodeName: n0, priority: {priority}, \
             containers: [{{name: c}}]}}, status: {{phase: Running}}}}"
        )
    };
    let (none, named) = ("nodeSelector: {}", "priorityClassName: high");
    let (high, unnamed) = (class("high", "value: 1000"), pod(0).replace("priority: 0, ", ""));
    let of_default = class("high", "value: 1000, globalDefault: true");
    for (fields, more, expected) in [
        (none, vec![pod(0)], false),
        (none, vec![pod(-10)], true),
        (none, vec![pod(-10).replace("nodeName: n0, ", "")], false),
        (none, vec![pod(-10).replace("Running", "Failed")], false),
        (none, vec![of_default, pod(0)], true),
        (named, vec![high.clone()], false),
        (named, vec![high.clone(), pod(1000)], false),
        (named, vec![high.clone(), unnamed], true),
        (named, vec![class("high", "value: 1000, preemptionPolicy: Never"), pod(0)], false),
        (none, vec![high, pod(0)], false),
    ] {
        let yaml = templated(fields, &more.join("\n---\n"));
        let left = world_of(&yaml).unwrap().snapshot.file().left_to_scheduler.join("; ");
        let rule = if expected { "cam: preemption of pods with a lower priority" } else { "" };
        assert_eq!(left, rule, "{fields} with {more:?}");
    }
}

/// The reason that keeps actors off the CPUs of both nodes.
fn reason(yaml: &str) -> String {
    let found = never(yaml);
    found.split_once("]: ").map_or(String::new(), |(units, reason)| {
        assert!(units.contains("n0/cpus-0") && units.contains("n1/cpus-0"), "{found}");
        reason.to_owned()
    })
}

#[test]
fn resources_are_validated() {
    let limits = |item: &str| {
        object("v1", "LimitRange", "l", &format!(", spec: {{limits: [{{type: Container, {item}}}]}}"))
    };
    let whole = |resources: &str| format!("resources: {{{resources}}}");
    let init = |resources: &str| format!("initContainers: [{{name: i, resources: {{{resources}}}}}]");
    // container c requests 500m of CPU
    for (fields, more, expected) in [
        (whole("requests: {cpu: 500m}"), String::new(), ""),
        (
            whole("requests: {cpu: 250m}"),
            String::new(),
            "the pod requests less cpu than its containers in total; raise its request",
        ),
        (
            format!("{}, {}", whole("requests: {cpu: 1}"), init("")),
            limits("default: {cpu: 5}"),
            "the pod requests less cpu than its containers in total; raise its request",
        ),
        (
            whole("requests: {cpu: 2}, limits: {cpu: 1}"),
            String::new(),
            "the pod requests 2 of cpu, above its limit of 1; raise the limit",
        ),
        (
            whole("requests: {cpu: 2, example.com/foo: 1}"),
            String::new(),
            "the pod cannot request or limit example.com/foo as a whole; set it for a container",
        ),
        (
            whole("limits: {cpu: 1}"),
            limits("default: {cpu: 5}, defaultRequest: {cpu: 500m}"),
            "the pod has a lower limit of cpu than container c; raise it",
        ),
        // limits of init containers are not compared
        (
            format!("{}, {}", whole("limits: {cpu: 1}"), init("requests: {cpu: 500m}, limits: {cpu: 5}")),
            String::new(),
            "",
        ),
        (init("limits: {example.com/foo: 2}"), String::new(), ""),
        (init("requests: {example.com/foo: 2}, limits: {example.com/foo: 2000m}"), String::new(), ""),
        (
            init("requests: {example.com/foo: 1}"),
            String::new(),
            "container i requests example.com/foo without a limit; set the limit to the same amount",
        ),
        (
            init("requests: {example.com/foo: 1}, limits: {example.com/foo: 2}"),
            String::new(),
            "container i requests 1 of example.com/foo, its limit is 2; set both to the same amount",
        ),
        (init("requests: {cpu: 1}, limits: {cpu: 2}"), String::new(), ""),
        (
            init("limits: {hugepages-2Mi: 64Mi}"),
            String::new(),
            "container i has huge pages, but neither CPU nor memory; request one of them",
        ),
        (init("limits: {hugepages-2Mi: 64Mi, memory: 1Gi}"), String::new(), ""),
        // the limit of the pod's huge pages is that of its containers
        (
            format!("{}, {}", whole("limits: {cpu: 2}"), init("limits: {cpu: 1, hugepages-2Mi: 64Mi}")),
            String::new(),
            "",
        ),
        (
            whole("requests: {cpu: 1, hugepages-2Mi: 64Mi}"),
            String::new(),
            "the pod requests hugepages-2Mi without a limit; set the limit to the same amount",
        ),
    ] {
        assert_eq!(reason(&templated(&fields, &more)), expected, "{fields} with {more}");
    }
}

#[test]
fn quantities_are_read_as_the_api_server_does() {
    for (cpu, memory, expected) in [
        ("500m", "100Mi", ""),
        ("'.5'", "'+100.Mi'", ""),
        ("'+0.5'", "'102400Ki'", ""),
        ("'0.33333333333333333333'", "100Mi", "334"),
    ] {
        let yaml = changed("cpu: 500m, memory: 100Mi", &format!("cpu: {cpu}, memory: {memory}"), "");
        let found = difference(&yaml);
        let has_cpu = found.is_empty() || found.contains(&format!("\"cpuMilli\":{expected},"));
        assert!(has_cpu && found.is_empty() == expected.is_empty(), "{cpu}, {memory}: {found}");
    }
}

#[test]
fn deleted_namespaces_admit_no_pods() {
    let namespace = |fields: &str| format!("{{apiVersion: v1, kind: Namespace, {fields}}}");
    let deleted = "namespace ns is being deleted, no pods can be created in it";
    for (fields, expected) in [
        ("metadata: {name: ns}", ""),
        ("metadata: {name: ns}, status: {phase: Active}", ""),
        ("metadata: {name: ns}, status: {phase: Terminating}", deleted),
        ("metadata: {name: ns, deletionTimestamp: '2026-01-01T00:00:00Z'}", deleted),
        ("metadata: {name: away}, status: {phase: Terminating}", ""),
    ] {
        assert_eq!(reason(&templated("nodeSelector: {}", &namespace(fields))), expected, "{fields}");
    }
}

#[test]
fn the_capacity_of_a_node_is_allocatable_by_default() {
    let node = |amounts: &str| {
        changed("{name: n1}, status: {allocatable: ", &format!("{{name: n1}}, status: {{{amounts}"), "")
    };
    assert_eq!(difference(&node("capacity: ")), "");
    assert_eq!(difference(&node("capacity: {cpu: 9}, allocatable: ")), "");
}
