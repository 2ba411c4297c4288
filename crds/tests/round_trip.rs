//! Objects survive a round trip through the types, and stay small.

#![expect(clippy::unwrap_used, reason = "a test")]

mod cases;

use std::path::Path;

use crds::{ActorApplication, Assignment, DevicePool, Instance, NodeTopology, Placement, PlacementSpec};
use kube::CustomResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Deserializes and serializes every accepted example of a kind.
fn round_trip<K: CustomResourceExt + DeserializeOwned + Serialize>() {
    let definition = serde_json::to_value(K::crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut files = cases::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules"));
    let examples = files.remove(definition["spec"]["names"]["singular"].as_str().unwrap()).unwrap();
    for case in &examples.cases {
        let mut stored = kube_cel::apply_defaults(schema, &cases::change(&examples.base, &case.accepted));
        let mut read_and_written =
            serde_json::to_value(serde_json::from_value::<K>(stored.clone()).unwrap()).unwrap();
        normalize(&mut stored);
        normalize(&mut read_and_written);
        assert_eq!(read_and_written, stored, "{}", case.rule);
    }
}

/// Gives equal meanings one form: quantities as text, empty fields absent.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(bytes) = fields.get_mut("stateBytes") {
                *bytes = Value::String(bytes.as_str().map_or_else(|| bytes.to_string(), ToOwned::to_owned));
            }
            fields.values_mut().for_each(normalize);
            fields.retain(|_, value| *value != Value::Null && *value != Value::Array(Vec::new()));
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

#[test]
fn accepted_examples_round_trip() {
    round_trip::<ActorApplication>();
    round_trip::<DevicePool>();
    round_trip::<NodeTopology>();
    round_trip::<Placement>();
    round_trip::<Instance>();
}

#[test]
fn placement_of_1000_actors_is_below_200_kib() {
    let node = "gke-production-europe-west4-accelerators-3f2a9c1b-x7";
    let assignments = (0..1000).map(|index| Assignment {
        actor: format!("classify-{index}"),
        unit: format!("{node}/gpu-{}", index % 8),
        node: node.to_owned(),
        pool: "gpus-a100".to_owned(),
    });
    let placement =
        Placement::new("p", PlacementSpec { assignments: assignments.collect(), ..Default::default() });
    let bytes = serde_json::to_string(&placement).unwrap().len();
    assert!(bytes < 200 * 1024, "{bytes} bytes");
}
