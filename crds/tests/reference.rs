//! `docs/reference/crds` has a page for each kind, generated from its schema.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// Fields with a Kubernetes type, whose own fields are not listed.
const KUBERNETES_TYPES: [&str; 6] =
    ["conditions", "env", "tolerations", "affinity", "nodeSelector", "namespaceSelector"];

/// A text as a table cell; HTML outside of code is escaped.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = text.split('`').enumerate();
    let escaped =
        parts.map(|(at, part)| if at % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
    escaped.collect::<Vec<_>>().join("`")
}

/// The type and the description of a field.
fn describe(schema: &Value) -> (String, String) {
    let items = schema["items"]["type"].as_str().map(|of| format!("array of {of}s"));
    let plain = schema["type"].as_str().unwrap_or("quantity").to_owned();
    let mut text = schema["description"].as_str().unwrap_or_default().to_owned();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .filter(|it| !it.is_null())
            .map(|it| format!("`{}`", it.as_str().unwrap()))
            .collect();
        write!(text, " One of {}.", values.join(", ")).unwrap();
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        write!(text, " Validation: {}.", rule["message"].as_str().unwrap()).unwrap();
    }
    (items.unwrap_or(plain), cell(&text))
}

/// Writes a row for every field below a path.
fn rows(schema: &Value, path: &str, page: &mut String) {
    let none = Map::new();
    let schema = if schema["items"].is_object() { &schema["items"] } else { schema };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    if fields.contains_key("spec") && fields.contains_key("metadata") && !path.is_empty() {
        return; // a pod template
    }
    for (name, field) in
        fields.iter().filter(|(name, _)| !path.is_empty() || ["spec", "status"].contains(&name.as_str()))
    {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let below = if field["items"].is_object() { format!("{below}[]") } else { below };
        let (type_, text) = describe(field);
        let must = if required.contains(&Value::from(name.as_str())) { ", required" } else { "" };
        writeln!(page, "| `{below}` | {type_}{must} | {text} |").unwrap();
        if !KUBERNETES_TYPES.contains(&name.as_str()) {
            rows(field, &below, page);
        }
    }
}

#[test]
fn reference_lists_every_field() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/crds");
    let mut changed = Vec::new();
    for definition in crds::all() {
        let names = &definition.spec.names;
        let version = &definition.spec.versions[0];
        let schema =
            serde_json::to_value(version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap())
                .unwrap();
        let short = names.short_names.iter().flatten().map(|it| format!("`{it}`")).collect::<Vec<_>>();
        let mut page = format!(
            "<!-- Generated from crds/src by crds/tests/reference.rs. -->\n# {}\n\n\
             API version `{}/{}`, scope {}, short name {}",
            names.kind,
            definition.spec.group,
            version.name,
            definition.spec.scope,
            short.join(", ")
        );
        page.push_str(".\n\n| field | type | description |\n|---|---|---|\n");
        rows(&schema, "", &mut page);
        let file = folder.join(format!("{}.md", names.plural));
        if fs::read_to_string(&file).ok().as_deref() != Some(&page) {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, page).unwrap();
            changed.push(file);
        }
    }
    assert!(changed.is_empty(), "the types changed; commit the regenerated files: {changed:?}");
}
