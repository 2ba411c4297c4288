//! The API server's schema validation, for the keywords that Cairn's schemas use.
//!
//! `kube-cel` evaluates CEL rules only. This reproduces the messages of
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/validation`; the end-to-end tests compare them with a real API server.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};

/// The field path and the message.
pub type Violation = (String, String);

/// All violations of the schema, in the order of its properties.
pub fn violations(schema: &Value, object: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    check(schema, object, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, at: &str, found: &mut Vec<Violation>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if let Some(type_) = wrong_type(schema, value) {
        let was = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        found.push((at.to_owned(), format!("{at} in body must be of type {type_}: \"{was}\"")));
        return;
    }
    match value {
        Value::Object(fields) => check_object(schema, fields, at, found),
        Value::Array(items) => check_list(schema, items, at, found),
        Value::String(text) => check_text(schema, text, at, found),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            for (keyword, word, refused) in [
                ("minimum", "greater", schema["minimum"].as_f64().is_some_and(|bound| number < bound)),
                ("maximum", "less", schema["maximum"].as_f64().is_some_and(|bound| number > bound)),
            ] {
                if refused {
                    let bound = schema[keyword].as_f64().unwrap_or_default();
                    found.push((
                        at.to_owned(),
                        format!("{at} in body should be {word} than or equal to {bound}"),
                    ));
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The type that the schema requires, if the value has another one.
fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if schema["x-kubernetes-int-or-string"] == true {
        return (!value.is_i64() && !value.is_string()).then(|| "integer,string".to_owned());
    }
    let type_ = schema["type"].as_str()?;
    let matches = match type_ {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        other => panic!("a schema of type {other}"),
    };
    (!matches).then(|| type_.to_owned())
}

fn check_object(schema: &Value, fields: &Map<String, Value>, at: &str, found: &mut Vec<Violation>) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            found.push((child(at, name), "Required value".to_owned()));
        }
    }
    if schema["maxProperties"].as_u64().is_some_and(|most| fields.len() as u64 > most) {
        found.push((at.to_owned(), format!("must have at most {} items", schema["maxProperties"])));
    }
    for (name, value) in fields {
        let inner = match schema["properties"].get(name) {
            Some(property) => property,
            None if schema["additionalProperties"].is_object() => &schema["additionalProperties"],
            None => continue,
        };
        check(inner, value, &child(at, name), found);
    }
}

fn check_list(schema: &Value, items: &[Value], at: &str, found: &mut Vec<Violation>) {
    if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
        found
            .push((at.to_owned(), format!("{at} in body should have at least {} items", schema["minItems"])));
    }
    if schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most) {
        found.push((at.to_owned(), format!("must have at most {} items", schema["maxItems"])));
        return;
    }
    let keys = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => schema["x-kubernetes-list-map-keys"].as_array().cloned(),
        Some("set") => Some(Vec::new()),
        _ => None,
    };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if let Some(keys) = &keys {
            let fields = keys.iter().filter_map(Value::as_str).map(|key| (key.to_owned(), item[key].clone()));
            let key = if keys.is_empty() { item.clone() } else { Value::Object(fields.collect()) };
            if !seen.insert(key.to_string()) {
                found.push((at.clone(), format!("Duplicate value: {key}")));
            }
        }
        check(&schema["items"], item, &at, found);
    }
}

fn check_text(schema: &Value, text: &str, at: &str, found: &mut Vec<Violation>) {
    let length = text.chars().count() as u64;
    if schema["maxLength"].as_u64().is_some_and(|most| length > most) {
        found.push((at.to_owned(), format!("Too long: may not be more than {} bytes", schema["maxLength"])));
    }
    if schema["minLength"].as_u64().is_some_and(|least| length < least) {
        let least = &schema["minLength"];
        found.push((at.to_owned(), format!("{at} in body should be at least {least} chars long")));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !Regex::new(pattern).expect("a valid pattern").is_match(text)
    {
        found.push((at.to_owned(), format!("{at} in body should match '{pattern}'")));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.iter().any(|value| value == text)
    {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        let allowed = allowed.join(", ");
        found.push((at.to_owned(), format!("Unsupported value: \"{text}\": supported values: {allowed}")));
    }
}

fn child(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}
