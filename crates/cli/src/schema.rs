//! Validates the applications and pools of files as the API server would: schema, unknown fields, CEL rules.

use std::collections::BTreeSet;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use regex::Regex;
use serde_json::{Map, Value};

/// The path of a field, and its problem.
type Fault = (String, String);

/// The kinds that users write.
const KINDS: [&str; 2] = ["ActorApplication", "DevicePool"];
/// The fields of every object.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];
const SUBDOMAIN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The schema of a kind with its compiled rules.
struct Kind {
    name: String,
    schema: Value,
    rules: CompiledSchema,
}

/// The schemas of the kinds that users write.
pub struct Schemas {
    kinds: Vec<Kind>,
    validator: Validator,
}

impl Schemas {
    /// The schemas of the generated CRDs.
    pub fn new() -> Self {
        let written = crds::all().into_iter().filter(|it| KINDS.contains(&it.spec.names.kind.as_str()));
        let kinds = written.filter_map(|definition| {
            let schema = definition.spec.versions.into_iter().next()?.schema?.open_api_v3_schema?;
            let schema = serde_json::to_value(schema).ok()?;
            Some(Kind { name: definition.spec.names.kind, rules: compile_schema(&schema), schema })
        });
        Self { kinds: kinds.collect(), validator: Validator::new() }
    }

    /// Checks an object of these kinds and version; all others are valid. The status, which users do not write, is not checked.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, object: &Value) -> Result<(), Fault> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let is_ours = text("apiVersion").split_once('/') == Some((crds::GROUP, crds::VERSION));
        let (Some(kind), Value::Object(fields)) =
            (self.kinds.iter().find(|kind| is_ours && kind.name == text("kind")), object)
        else {
            return Ok(());
        };
        let found = names(&object["metadata"]).or_else(|| top(&kind.schema, fields));
        found.or_else(|| self.broken_rule(kind, fields)).map_or(Ok(()), Err)
    }

    fn broken_rule(&self, kind: &Kind, fields: &Map<String, Value>) -> Option<Fault> {
        let mut written = fields.clone();
        written.remove("status");
        let written = kube_cel::apply_defaults(&kind.schema, &Value::Object(written));
        let errors = self.validator.validate_compiled(&kind.rules, &written, None).err()?.into_vec();
        errors.into_iter().next().map(|error| (error.field_path, error.message))
    }
}

/// The fault in name and namespace.
fn names(metadata: &Value) -> Option<Fault> {
    let is_generated = metadata["generateName"].is_string();
    if metadata["name"].is_null() && !is_generated {
        return Some(("metadata.name".to_owned(), "is missing".to_owned()));
    }
    let allowed = "lower-case letters, digits, '-' and '.', at most";
    [("name", 253), ("namespace", 63)].into_iter().find_map(|(field, most)| {
        let value = metadata.get(field).filter(|value| !value.is_null())?;
        let name = value.as_str().unwrap_or_default();
        let is_valid = name.len() <= most && matches(SUBDOMAIN, name);
        let problem = format!("`{name}` is not a name: {allowed} {most} characters");
        (!is_valid).then(|| (format!("metadata.{field}"), problem))
    })
}

/// The fault in the fields of the object besides its metadata and status.
fn top(schema: &Value, fields: &Map<String, Value>) -> Option<Fault> {
    let mut known = names_of(&schema["properties"]);
    known.extend(COMMON);
    let unknown = fields.keys().find(|name| !known.contains(name.as_str()));
    if let Some(name) = unknown {
        return Some(unknown_field(name, &known, name));
    }
    match fields.get("spec") {
        Some(spec) if !spec.is_null() => fault(&schema["properties"]["spec"], spec, "spec"),
        _ => Some(("spec".to_owned(), "is missing".to_owned())),
    }
}

fn names_of(properties: &Value) -> BTreeSet<&str> {
    properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect()
}

fn unknown_field(name: &str, known: &BTreeSet<&str>, at: &str) -> Fault {
    let known: Vec<&str> = known.iter().copied().collect();
    (at.to_owned(), format!("unknown field; known fields: {}", world::suggestions(&known, name)))
}

/// The first fault of a value. A null is treated as absent.
fn fault(schema: &Value, value: &Value, at: &str) -> Option<Fault> {
    let wrong = |problem: String| Some((at.to_owned(), problem));
    let is_flexible = schema["x-kubernetes-int-or-string"] == true;
    let (expected, fits) = match schema["type"].as_str() {
        _ if value.is_null() => return None,
        _ if is_flexible => ("an integer or a string", value.is_i64() || value.is_string()),
        Some("object") => ("an object", value.is_object()),
        Some("array") => ("a list", value.is_array()),
        Some("string") => ("a string", value.is_string()),
        Some("boolean") => ("true or false", value.is_boolean()),
        Some("integer") => ("an integer", value.is_i64()),
        Some("number") => ("a number", value.is_number()),
        _ => ("", true),
    };
    if !fits {
        return wrong(format!("`{value}` is not {expected}"));
    }
    match value {
        Value::Object(fields) => of_object(schema, fields, at),
        Value::Array(items) => of_list(schema, items, at),
        Value::String(text) => of_text(schema, text).and_then(wrong),
        Value::Number(number) => {
            let number = number.as_f64()?;
            let below = schema["minimum"].as_f64().filter(|least| number < *least);
            let above = schema["maximum"].as_f64().filter(|most| number > *most);
            let below = below.map(|least| format!("`{value}` is too small; at least {least}"));
            below
                .or_else(|| above.map(|most| format!("`{value}` is too large; at most {most}")))
                .and_then(wrong)
        }
        Value::Null | Value::Bool(_) => None,
    }
}

fn of_object(schema: &Value, fields: &Map<String, Value>, at: &str) -> Option<Fault> {
    let (properties, others) = (&schema["properties"], &schema["additionalProperties"]);
    let is_closed = properties.is_object()
        && !others.is_object()
        && schema["x-kubernetes-preserve-unknown-fields"] != true
        && schema["x-kubernetes-embedded-resource"] != true;
    for (name, value) in fields {
        let at = format!("{at}.{name}");
        let found = match properties.get(name) {
            Some(property) => fault(property, value, &at),
            None if others.is_object() => fault(others, value, &at),
            None if is_closed => Some(unknown_field(name, &names_of(properties), &at)),
            None => None,
        };
        if found.is_some() {
            return found;
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.into_iter().find(|name| fields.get(*name).is_none_or(Value::is_null));
    if let Some(name) = missing {
        return Some((format!("{at}.{name}"), "is missing".to_owned()));
    }
    too_many(&schema["maxProperties"], fields.len()).map(|problem| (at.to_owned(), problem))
}

fn of_list(schema: &Value, items: &[Value], at: &str) -> Option<Fault> {
    let few = schema["minItems"].as_u64().filter(|least| (items.len() as u64) < *least);
    let few = few.map(|least| format!("has {} items; at least {least}", items.len()));
    if let Some(problem) = few.or_else(|| too_many(&schema["maxItems"], items.len())) {
        return Some((at.to_owned(), problem));
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let is_set = schema["x-kubernetes-list-type"] == "set";
    let mut seen = BTreeSet::new();
    items.iter().enumerate().find_map(|(position, item)| {
        let at = format!("{at}[{position}]");
        let key = match keys {
            Some(keys) => {
                Some(keys.iter().filter_map(Value::as_str).map(|key| item[key].to_string()).collect())
            }
            None => is_set.then(|| item.to_string()),
        };
        let is_twice = key.filter(|key: &String| !seen.insert(key.clone()));
        let twice = is_twice.map(|key| (at.clone(), format!("{key} is given twice; keep one")));
        twice.or_else(|| fault(&schema["items"], item, &at))
    })
}

fn too_many(most: &Value, count: usize) -> Option<String> {
    let most = most.as_u64().filter(|most| count as u64 > *most)?;
    Some(format!("has {count} items; at most {most}"))
}

fn of_text(schema: &Value, text: &str) -> Option<String> {
    let length = text.chars().count() as u64;
    let pattern = schema["pattern"].as_str().filter(|pattern| !matches(pattern, text));
    let allowed = schema["enum"].as_array().filter(|allowed| !allowed.iter().any(|it| it == text));
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        Some(format!("`{text}` has {length} characters; at most {most}"))
    } else if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        Some(format!("`{text}` has {length} characters; at least {least}"))
    } else if let Some(allowed) = allowed {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        Some(format!("`{text}` is not a known value; use one of {}", allowed.join(", ")))
    } else {
        pattern.map(|pattern| format!("`{text}` does not match {pattern}"))
    }
}

/// Whether a text matches. An invalid pattern matches everything.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).map_or(true, |pattern| pattern.is_match(text))
}
