//! The manifests under `manifests/` match the types, are small enough to apply, and document every field.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

const HEADER: &str = "# Generated from the types in crds/src by crds/tests/manifests.rs. Do not edit.\n";

/// The definition in YAML. kubectl reads YAML 1.1, in which `On` and `Off` are booleans unless they are quoted.
fn yaml(definition: &CustomResourceDefinition) -> String {
    let text = serde_yaml::to_string(definition).unwrap();
    text.replace("- On\n", "- \"On\"\n").replace("- Off\n", "- \"Off\"\n")
}

fn schema(definition: &CustomResourceDefinition) -> Value {
    let schema = definition.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

#[test]
fn manifests_match_the_types() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests");
    fs::create_dir_all(&folder).unwrap();
    let mut changed = Vec::new();
    for definition in crds::all() {
        let file = folder.join(format!("{}.yaml", definition.spec.names.plural));
        let wanted = format!("{HEADER}{}", yaml(&definition));
        if fs::read_to_string(&file).ok().as_deref() != Some(&wanted) {
            fs::write(&file, wanted).unwrap();
            changed.push(file);
        }
    }
    assert!(changed.is_empty(), "the types changed; commit the regenerated files: {changed:?}");
}

/// `kubectl apply` stores the whole definition in an annotation of at most 256 KiB.
#[test]
fn definitions_are_below_200_kib() {
    for definition in crds::all() {
        let bytes = serde_json::to_string(&definition).unwrap().len();
        assert!(bytes < 200 * 1024, "{} has {bytes} bytes", definition.spec.names.kind);
    }
}

#[test]
fn printer_columns() {
    let mut tables = String::new();
    for definition in crds::all() {
        let names = &definition.spec.names;
        let short = names.short_names.as_ref().unwrap().join(",");
        writeln!(
            tables,
            "{} ({short}, {}) of {}",
            names.plural,
            definition.spec.scope,
            names.categories.as_ref().unwrap().join(",")
        )
        .unwrap();
        for column in definition.spec.versions[0].additional_printer_columns.iter().flatten() {
            writeln!(tables, "  {:12} {:8} {}", column.name, column.type_, column.json_path).unwrap();
        }
    }
    insta::assert_snapshot!(tables);
}

#[test]
fn every_field_has_a_description() {
    let mut undocumented = Vec::new();
    for definition in crds::all() {
        let schema = schema(&definition);
        for part in ["spec", "status"] {
            let at = format!("{}.{part}", definition.spec.names.kind);
            find_undocumented(&schema["properties"][part], &at, &mut undocumented);
        }
    }
    assert!(
        undocumented.is_empty(),
        "fields without a description, or with line breaks in it: {undocumented:#?}"
    );
}

/// Collects the fields, at every level, for which `kubectl explain` shows no usable description.
fn find_undocumented(schema: &Value, at: &str, undocumented: &mut Vec<String>) {
    let text = schema["description"].as_str().unwrap_or_default();
    // kubectl wraps lines itself and keeps line breaks inside a paragraph.
    let broken = text.split("\n\n").any(|paragraph| paragraph.contains('\n'));
    if text.len() < 10 || broken {
        undocumented.push(at.to_owned());
    }
    if at.ends_with(".template") && at.contains("implementations") {
        return; // a Kubernetes type, whose descriptions are stripped
    }
    let fields = schema["properties"].as_object().or(schema["items"]["properties"].as_object());
    for (name, field) in fields.into_iter().flatten() {
        find_undocumented(field, &format!("{at}.{name}"), undocumented);
    }
}
