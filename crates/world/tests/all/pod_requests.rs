//! Requests of pods, as kube-scheduler counts them.

use k8s_openapi::api::core::v1::Pod;
use world::pod_requests;

/// Requests of a pod in the flow style of YAML: `RESOURCE AMOUNT`, by resource.
fn shown(pod: &str) -> String {
    let pod: Pod = serde_yaml::from_str(pod).unwrap();
    let all = pod_requests(&pod).unwrap();
    all.iter().map(|(resource, amount)| format!("{resource} {amount}")).collect::<Vec<_>>().join(", ")
}

/// Container `c` that requests this many cores, followed by more fields.
fn container(cpu: &str, more: &str) -> String {
    format!("{{name: c, resources: {{requests: {{cpu: {cpu}}}}}{more}}}")
}

#[test]
fn containers_and_init_containers() {
    let (one, sidecar) = (container("1", ""), |cpu: &str| container(cpu, ", restartPolicy: Always"));
    for (spec, expected) in [
        (format!("containers: [{one}, {one}]"), "cpu 2"),
        (format!("containers: [{one}], initContainers: [{}]", container("3", "")), "cpu 3"),
        (format!("containers: [{one}], initContainers: [{one}, {one}]"), "cpu 1"),
        // a sidecar runs beside all that start after it
        (format!("containers: [{one}], initContainers: [{}]", sidecar("3")), "cpu 4"),
        (format!("containers: [{one}], initContainers: [{}, {}]", sidecar("3"), container("2", "")), "cpu 5"),
        (format!("containers: [{one}], initContainers: [{}, {}]", container("2", ""), sidecar("3")), "cpu 4"),
        (format!("containers: [{one}], initContainers: [{}, {}]", container("5", ""), sidecar("1")), "cpu 5"),
        // restart rules of a container make it no sidecar
        (format!("containers: [{}]", sidecar("3")), "cpu 3"),
        (
            "containers: [{name: c, resources: {limits: {cpu: 2, memory: 8}, requests: {cpu: 1}}}]"
                .to_owned(),
            "cpu 1, memory 8",
        ),
        (format!("containers: [{one}], overhead: {{cpu: 250m, memory: 4}}"), "cpu 5/4, memory 4"),
        // the API server rounds up to thousandths, each container by itself
        (format!("containers: [{0}, {0}]", container("100u", "")), "cpu 1/500"),
    ] {
        assert_eq!(shown(&format!("{{spec: {{{spec}}}}}")), expected, "{spec}");
    }
}

#[test]
fn requests_of_the_pod_replace_those_of_its_containers() {
    let huge = "{name: c, resources: {requests: {cpu: 1}, limits: {hugepages-2Mi: 4}}}";
    let device =
        "{name: c, resources: {requests: {cpu: 1}, limits: {acme.com/gpu: 1, ephemeral-storage: 3}}}";
    for (resources, container, expected) in [
        ("requests: {cpu: 3}", &*container("1", ""), "cpu 3"),
        ("requests: {cpu: 3}, limits: {memory: 7}", &container("1", ""), "cpu 3, memory 7"),
        // limits of the pod are its requests only where no container requests anything
        ("limits: {cpu: 8}", &container("1", ""), "cpu 1"),
        ("limits: {cpu: 8, memory: 7}", &container("1", ""), "cpu 1, memory 7"),
        ("limits: {cpu: 8}", "{name: c}", "cpu 8"),
        ("limits: {cpu: 8}", &container("0", ""), "cpu 0"),
        ("limits: {memory: 8}", &container("1", ""), "cpu 1, memory 8"),
        // huge pages cannot be overcommitted
        ("limits: {hugepages-2Mi: 8}", huge, "cpu 1, hugepages-2Mi 8"),
        ("requests: {cpu: 2}", huge, "cpu 2, hugepages-2Mi 4"),
        // other resources belong to containers
        (
            "requests: {cpu: 2, acme.com/gpu: 5, ephemeral-storage: 9}",
            device,
            "acme.com/gpu 1, cpu 2, ephemeral-storage 3",
        ),
    ] {
        let pod = format!(
            "{{spec: {{resources: {{{resources}}}, containers: [{container}], overhead: {{memory: 1}}}}}}"
        );
        let alone = pod.replace(", overhead: {memory: 1}", "");
        assert_eq!(shown(&alone), expected, "{alone}");
        let add = |(resource, amount): (&str, &str)| match resource {
            "memory" => format!("memory {}", amount.parse::<u32>().unwrap() + 1),
            _ => format!("{resource} {amount}"),
        };
        let mut more: Vec<String> =
            expected.split(", ").filter_map(|it| it.split_once(' ')).map(add).collect();
        if !more.iter().any(|it| it.starts_with("memory")) {
            more.push("memory 1".to_owned());
        }
        more.sort();
        assert_eq!(shown(&pod), more.join(", "), "{pod}");
    }
}

#[test]
fn a_resized_pod_counts_with_the_largest_of_its_sizes() {
    let pending =
        |reason: &str| format!("conditions: [{{type: PodResizePending, status: 'True', reason: {reason}}}]");
    let sizes = |allocated: &str, used: &str| {
        format!(
            "{{name: c, allocatedResources: {{cpu: {allocated}}}, resources: {{requests: {{cpu: {used}}}}}}}"
        )
    };
    let containers = |status: &str| format!("containerStatuses: [{status}]");
    let sidecars = |status: &str| format!("initContainerStatuses: [{status}]");
    let (plain, sidecar) = ("", ", restartPolicy: Always");
    for (policy, wanted, status, expected) in [
        (None, "1", containers(&sizes("1", "1")), "cpu 1"),
        (None, "3", containers(&sizes("1", "1")), "cpu 3"),
        (None, "1", containers(&sizes("3", "2")), "cpu 3"),
        (None, "1", containers(&sizes("2", "3")), "cpu 3"),
        // the kubelet has not reported the resources in use
        (None, "1", containers("{name: c, allocatedResources: {cpu: 3}}"), "cpu 1"),
        (None, "1", containers(&sizes("3", "3").replace("name: c", "name: other")), "cpu 1"),
        (None, "6", format!("{}, {}", pending("Deferred"), containers(&sizes("1", "1"))), "cpu 6"),
        (None, "6", format!("{}, {}", pending("Infeasible"), containers(&sizes("1", "2"))), "cpu 2"),
        (None, "6", pending("Infeasible"), "cpu 6"),
        // init containers have ended, sidecars can be resized
        (Some(plain), "1", sidecars(&sizes("3", "3")), "cpu 1"),
        (Some(sidecar), "1", sidecars(&sizes("3", "3")), "cpu 3"),
    ] {
        let spec = match policy {
            None => format!("containers: [{}]", container(wanted, "")),
            Some(more) => format!("containers: [{{name: d}}], initContainers: [{}]", container(wanted, more)),
        };
        let pod = format!("{{spec: {{{spec}}}, status: {{{status}}}}}");
        assert_eq!(shown(&pod), expected, "{pod}");
    }
}

#[test]
fn a_resize_of_the_pod_as_a_whole() {
    let of_pod = |more: &str, status: &str| {
        let containers = "containers: [{name: c, resources: {requests: {cpu: 1}}}]";
        shown(&format!(
            "{{spec: {{resources: {{requests: {{cpu: 2}}}}, {containers}{more}}}, status: {{{status}}}}}"
        ))
    };
    let sizes = "allocatedResources: {cpu: 4}, resources: {requests: {cpu: 3}}";
    assert_eq!(of_pod("", sizes), "cpu 4");
    assert_eq!(of_pod(", overhead: {cpu: 1}", sizes), "cpu 5");
    assert_eq!(of_pod("", "allocatedResources: {cpu: 4}"), "cpu 2");
    assert_eq!(of_pod("", "allocatedResources: {cpu: 1}, resources: {requests: {cpu: 1}}"), "cpu 2");
    let infeasible = "conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}]";
    assert_eq!(
        of_pod("", &format!("{infeasible}, allocatedResources: {{cpu: 1}}, resources: {{}}")),
        "cpu 1"
    );
}
