//! The manifests under `manifests/` are what the types say, small enough to apply, and well described.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

const HEADER: &str =
    "# Generated from the types in crds/src by crds/tests/manifests.rs: change those, not this.\n";

fn schema(definition: &CustomResourceDefinition) -> Value {
    let schema = definition.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

#[test]
fn the_manifests_are_those_of_the_types() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests");
    fs::create_dir_all(&folder).unwrap();
    let mut changed = Vec::new();
    for definition in crds::all() {
        let file = folder.join(format!("{}.yaml", definition.spec.names.plural));
        let wanted = format!("{HEADER}{}", serde_yaml::to_string(&definition).unwrap());
        if fs::read_to_string(&file).ok().as_deref() != Some(&wanted) {
            fs::write(&file, wanted).unwrap();
            changed.push(file);
        }
    }
    assert!(changed.is_empty(), "the types changed, so these were written anew; commit them: {changed:?}");
}

/// As the API server stores it and `kubectl apply` remembers it (in an annotation of at most 256 KiB).
#[test]
fn every_definition_is_below_200_kib() {
    for definition in crds::all() {
        let bytes = serde_json::to_string(&definition).unwrap().len();
        assert!(bytes < 200 * 1024, "{} has {bytes} bytes", definition.spec.names.kind);
    }
}

#[test]
fn the_columns_say_whether_it_is_well() {
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
fn every_field_is_explained() {
    let mut bare = Vec::new();
    for definition in crds::all() {
        let schema = schema(&definition);
        for part in ["spec", "status"] {
            let at = format!("{}.{part}", definition.spec.names.kind);
            find_bare(&schema["properties"][part], &at, &mut bare);
        }
    }
    assert!(bare.is_empty(), "fields without a sentence of their own, or with broken lines: {bare:#?}");
}

/// Collects the fields at every level that `kubectl explain` would say nothing about.
fn find_bare(schema: &Value, at: &str, bare: &mut Vec<String>) {
    let text = schema["description"].as_str().unwrap_or_default();
    // A line break inside a paragraph would show in the middle of kubectl's own wrapping.
    let broken = text.split("\n\n").any(|paragraph| paragraph.contains('\n'));
    if text.len() < 10 || broken {
        bare.push(at.to_owned());
    }
    if at.ends_with(".template") && at.contains("implementations") {
        return; // Kubernetes' own type, whose descriptions are left out on purpose
    }
    let fields = schema["properties"].as_object().or(schema["items"]["properties"].as_object());
    for (name, field) in fields.into_iter().flatten() {
        find_bare(field, &format!("{at}.{name}"), bare);
    }
}
