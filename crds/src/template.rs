//! Schemas of embedded Kubernetes types, reduced to fit into a CRD.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

/// The schema of a pod template without descriptions: 54 KB instead of 350 KB.
///
/// The container list is bounded and keyed by name: CEL rules over it fit the cost limit, and
/// server-side apply merges it as in a Deployment.
pub(crate) fn pod_template(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<PodTemplateSpec>().to_value();
    strip_descriptions(&mut schema);
    schema["required"] = json!(["spec"]);
    let metadata = &mut schema["properties"]["metadata"]["properties"];
    // `kubectl create --dry-run=client -o yaml` writes a null into every template.
    metadata["creationTimestamp"]["nullable"] = json!(true);
    let spec = &mut schema["properties"]["spec"]["properties"];
    for list in ["containers", "initContainers"] {
        let containers = &mut spec[list];
        containers["maxItems"] = json!(32);
        containers["items"]["properties"]["name"]["maxLength"] = json!(63);
        containers["x-kubernetes-list-type"] = json!("map");
        containers["x-kubernetes-list-map-keys"] = json!(["name"]);
    }
    for name in ["nodeName", "schedulerName"] {
        spec[name]["maxLength"] = json!(253);
    }
    Schema::try_from(schema).expect("the schema is an object")
}

/// The schema of a label selector with enumerated operators, bounded so that CEL rules fit the cost limit.
pub(crate) fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<LabelSelector>().to_value();
    let properties = &mut schema["properties"];
    properties["matchLabels"]["maxProperties"] = json!(64);
    let expressions = &mut properties["matchExpressions"];
    expressions["maxItems"] = json!(64);
    let expression = &mut expressions["items"]["properties"];
    expression["operator"]["enum"] = json!(["DoesNotExist", "Exists", "In", "NotIn"]);
    expression["values"]["maxItems"] = json!(64);
    Schema::try_from(schema).expect("the schema is an object")
}

/// Removes every `description` keyword, but no property of that name.
fn strip_descriptions(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    keywords.remove("description");
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(strip_descriptions),
            ("items" | "additionalProperties", inner) => strip_descriptions(inner),
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                branches.iter_mut().for_each(strip_descriptions);
            }
            _ => {}
        }
    }
}
