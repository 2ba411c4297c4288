//! Quotas of resource claims and of their devices.

use placement::file::Constraint;

use super::cluster::{placement, world_of};
use super::pods::{cluster, group};

const CONTAINER: &str = "containers: [{name: c}]";
const TEMPLATED: &str =
    "resourceClaims: [{name: c, resourceClaimTemplateName: one}], containers: [{name: c}]";
const OF_CLASS: &str = "gpu.deviceclass.resource.k8s.io/devices";
const CLAIMS: &str = "count/resourceclaims.resource.k8s.io";

fn object(kind: &str, name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: resource.k8s.io/v1, kind: {kind}, metadata: {{name: {name}, namespace: ns{metadata}}}, spec: {{{spec}}}}}"
    )
}

fn requests(request: &str) -> String {
    format!("devices: {{requests: [{{name: r, {request}}}]}}")
}

fn claim(metadata: &str, request: &str) -> String {
    object("ResourceClaim", "held", metadata, &requests(request))
}

fn template(request: &str) -> String {
    object("ResourceClaimTemplate", "one", "", &format!("spec: {{{}}}", requests(request)))
}

/// A group of two actors on devices of the pool.
fn on_devices(name: &str, spec: &str) -> String {
    group(name, 2, spec).replace("kind: cpu", "kind: gpu")
}

/// The quotas as `ACTORS in POOLS: MAX`, and what is left to the scheduler.
fn bounds(groups: &str, hard: &str, class: &str, documents: &[&str]) -> (String, String) {
    let quota = format!(
        "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{hard: {{{hard}}}}}}}"
    );
    let pool = "{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, \
                spec: {kind: gpu, resource: {dra: {deviceClassName: gpu}}}}";
    let class = object("DeviceClass", "gpu", "", class).replace(", namespace: ns", "");
    let more = [&[quota.as_str(), pool, &class], documents].concat().join("\n---\n");
    let world = world_of(&cluster(groups, &more)).unwrap();
    let file = world.snapshot.file();
    let found = file.constraints.iter().filter_map(|given| match given {
        Constraint::Quota { actors, pool, pools, max, .. } => {
            let pools = pools.clone().unwrap_or_else(|| pool.iter().cloned().collect());
            Some(format!("{} in {}: {max}", actors.len(), pools.join(",")))
        }
        _ => None,
    });
    (found.collect::<Vec<_>>().join("; "), file.left_to_scheduler.join("; "))
}

#[test]
fn claims_of_pools_and_of_others_count() {
    let device = "exactly: {deviceClassName: gpu}";
    let own = ", ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: Instance, name: app-a-0, uid: i0, controller: true}]";
    let instance = "{apiVersion: cairn.dev/v1alpha1, kind: Instance, metadata: {name: app-a-0, namespace: ns, uid: i0, \
        ownerReferences: [{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: app, uid: own, controller: true}]}, \
        spec: {applicationName: app, origin: Spec, actorGroup: a, actor: a-0}}";
    let other = format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: other, namespace: ns}}, \
         spec: {{actors: [{}]}}}}",
        on_devices("cam", CONTAINER)
    );
    let decided = placement("other", "{}");
    let others = own.replace("app-a-0, uid: i0", "other-cam-0, uid: i1");
    let named = "extendedResourceName: e.com/gpu";
    let (of_class, of_claims) =
        (|max: u64| format!("{OF_CLASS}: {max}"), |max: u64| format!("{CLAIMS}: {max}"));
    let of_resource = |max: u64| format!("requests.e.com/gpu: {max}");
    for (hard, class, documents, expected) in [
        (of_class(1), "", vec![], "2 in gpus: 1"),
        (of_class(2), "", vec![], ""),
        (of_claims(1), "", vec![], "2 in gpus: 1"),
        (format!("other{OF_CLASS}: 0"), "", vec![], ""),
        // By the extended resource of the class, under both names.
        (of_resource(1), named, vec![], "2 in gpus: 1"),
        (of_resource(1), "", vec![], ""),
        ("requests.deviceclass.resource.kubernetes.io/gpu: 1".to_owned(), named, vec![], "2 in gpus: 1"),
        ("requests.deviceclass.resource.kubernetes.io/gpu: 1".to_owned(), "", vec![], ""),
        // Claims of others in the namespace, allocated or not.
        (of_class(2), "", vec![claim("", device)], "2 in gpus: 1"),
        (of_claims(2), "", vec![claim("", "exactly: {deviceClassName: other}")], "2 in gpus: 1"),
        (of_class(2), "", vec![claim("", "exactly: {deviceClassName: other}")], ""),
        (of_class(2), "", vec![claim("", device).replace("namespace: ns", "namespace: away")], ""),
        (
            of_class(33),
            "",
            vec![claim("", "exactly: {deviceClassName: gpu, allocationMode: All}")],
            "2 in gpus: 1",
        ),
        (
            of_class(4),
            "",
            vec![claim(
                "",
                "firstAvailable: [{name: a, deviceClassName: gpu, count: 3}, {name: b, deviceClassName: gpu}]",
            )],
            "2 in gpus: 1",
        ),
        // The application's own claims are those of its actors.
        (of_class(2), "", vec![instance.to_owned(), claim(own, device)], ""),
        // An actor of another application counts once: before its claim exists, and then by its claim.
        (of_class(2), "", vec![other.clone(), decided.clone()], "2 in gpus: 1"),
        (of_class(2), "", vec![other, decided, claim(&others, device)], "2 in gpus: 1"),
        // The pod's requests already count for what kube-scheduler claims.
        (
            of_resource(2),
            named,
            vec![claim(", annotations: {resource.kubernetes.io/extended-resource-claim: 'true'}", device)],
            "",
        ),
    ] {
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let (found, _) = bounds(&on_devices("a", CONTAINER), &hard, class, &documents);
        assert_eq!(found, expected, "{hard} {class} {documents:?}");
    }
}

#[test]
fn claims_of_templates_count_as_far_as_a_constraint_can_say() {
    let one = template("exactly: {deviceClassName: gpu}");
    let all = template("exactly: {deviceClassName: gpu, allocationMode: All}");
    let three = template("exactly: {deviceClassName: gpu, count: 3}");
    let on_cpus = group("a", 2, TEMPLATED);
    let on_both = on_cpus.replace(
        "implementations: [",
        &format!("implementations: [{{kind: gpu, serviceTime: 1ms, template: {{spec: {{{TEMPLATED}}}}}}}, "),
    );
    let device = "a: the device of a resource claim";
    let sum = format!("ResourceQuota q: the sum of {OF_CLASS}; {device}");
    for (groups, hard, template, expected, left) in [
        (on_cpus.clone(), 1, one.as_str(), "2 in cpus: 1", device),
        (on_cpus.clone(), 2, &one, "", device),
        (on_cpus.clone(), 31, &all, "2 in cpus: 0", device),
        (on_cpus.clone(), 5, &three, "2 in cpus: 1", device),
        // The device of the pool and that of the template.
        (on_devices("a", TEMPLATED), 3, &one, "2 in gpus: 1", device),
        // Groups that count the same.
        (format!("{on_cpus}, {}", on_devices("b", CONTAINER)), 3, &one, "4 in cpus,gpus: 3", device),
        // Two on a device and one on a CPU: at least one each.
        (on_both, 1, &one, "2 in cpus,gpus: 1", &sum),
        (on_cpus, 1, "", "", &sum),
    ] {
        let found = bounds(&groups, &format!("{OF_CLASS}: {hard}"), "", &[template]);
        assert_eq!((found.0.as_str(), found.1.as_str()), (expected, left), "{groups} {hard} {template}");
    }
}
