//! `plan -f` refuses what the API server would refuse.

use crate::{File, cairn};

const POOL: &str = "{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {name: gpus}, spec: {kind: gpu, resource: \
                {devicePlugin: nvidia.com/gpu}}}";
const APPLICATION: &str = "{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: web, namespace: shop}, \
                       spec: {actors: [{name: a, replicas: 2, implementations: [{kind: gpu, serviceTime: 1ms, template: {spec: \
                       {containers: [{name: actor, image: i}]}}}]}]}}";

/// What the API server would refuse, in an application and a pool that are valid otherwise.
#[test]
fn manifests_are_validated_against_the_schemas_of_their_kinds() {
    let (pool, application) = (POOL, APPLICATION);
    let list = format!("{{apiVersion: v1, kind: List, items: [{application}]}}");
    let long = format!("kind: {}", "k".repeat(200));
    let group = "ActorApplication web, spec.actors[0]";
    let known = "known fields: replicas, arrivals, avoid, implementations, name, pinTo, spread, stateBytes and 1 more";
    for (text, before, after, expected) in [
        (application, "replicas: 2", "replica: 2", format!("{group}.replica: unknown field; {known}\n")),
        (
            application,
            "replicas: 2",
            "replicas: -1",
            format!("{group}.replicas: `-1` is too small; at least 0\n"),
        ),
        (
            application,
            "replicas: 2",
            "replicas: two",
            format!("{group}.replicas: `\"two\"` is not an integer\n"),
        ),
        (application, "replicas: 2", "replicas: 10001", "`10001` is too large; at most 10000\n".to_owned()),
        (
            application,
            "replicas: 2",
            "spread: rack",
            "`rack` is not a known value; use one of unit, ".to_owned(),
        ),
        (application, "replicas: 2", "stateBytes: 1x", "stateBytes: `1x` does not match ^[0-9]".to_owned()),
        (
            application,
            "actors: [",
            "start: Sometimes, actors: [",
            "spec.start: `Sometimes` is not a ".to_owned(),
        ),
        (application, "serviceTime: 1ms, ", "", "implementations[0].serviceTime: is missing\n".to_owned()),
        (
            application,
            "serviceTime: 1ms",
            "serviceTime: quick",
            "serviceTime: must be a positive ".to_owned(),
        ),
        (
            application,
            "spec: {actors",
            "specs: 1, spec: {actors",
            "specs: unknown field; known fields: spec".to_owned(),
        ),
        (application, "name: web", "name: Web", "metadata.name: `Web` is not a name: lower-case".to_owned()),
        (
            application,
            "name: web",
            "name: 9web",
            "ActorApplication 9web: metadata.name must have at most 30".to_owned(),
        ),
        (application, "name: web, ", "", "metadata.name: is missing\n".to_owned()),
        (
            application,
            "v1alpha1",
            "v9",
            "apiVersion: `cairn.dev/v9` is not a known version; write ".to_owned(),
        ),
        (pool, "kind: gpu", "kind: CPU!", "DevicePool gpus, spec.kind: must be a DNS label".to_owned()),
        (pool, "kind: gpu", long.as_str(), "kkkk…` has 200 characters; at most 63\n".to_owned()),
        (pool, "kind: gpu", "kind: gpu, unit: Socket", "spec.unit: `Socket` is not a known value".to_owned()),
        (
            pool,
            "{devicePlugin",
            "{deviceplugin",
            "unknown field; known fields: devicePlugin, dra\n".to_owned(),
        ),
        (
            list.as_str(),
            "replicas: 2",
            "replicas: -1",
            format!("document 1, items[0], {group}.replicas: `-1`"),
        ),
    ] {
        assert!(text.contains(before), "{before}");
        let file = File::new("m.yaml", &text.replace(before, after));
        let ran = cairn(&["plan", "-f", file.path()]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{after}");
        assert!(ran.err.contains(&expected), "{after}: {}", ran.err);
    }
}

#[test]
fn dumps_of_a_cluster_are_valid_and_missing_pools_are_noted() {
    let dumped = APPLICATION
        .replace(
            "name: web",
            "name: web, uid: u, generation: 2, managedFields: [{manager: kubectl, operation: Apply}]",
        )
        .replace(
            "]}]}}",
            "]}]}, status: {phase: Running, actors: {wanted: 2, placed: 2, running: 2, ready: 2, placedOfWanted: 2/2}}}",
        );
    let (dumped, pool) = (File::new("dump.yaml", &dumped), File::new("pool.yaml", POOL));
    let ran = cairn(&["plan", "-f", "examples/nodes.yaml", dumped.path(), pool.path()]);
    assert_eq!(ran.err, "");
    let ran = cairn(&["plan", "-f", "examples/nodes.yaml", dumped.path()]);
    assert!(ran.out.contains("there is no DevicePool in the files, so no actor has a place"), "{}", ran.out);
}
