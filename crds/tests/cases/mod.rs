//! Reads the examples under `tests/rules/`; `actorapplication.yaml` describes the format.
//!
//! The end-to-end tests send the same examples to a real API server.

#![allow(dead_code, reason = "shared by several test programs, each of which uses a part")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

/// One file: an accepted object and the cases derived from it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Examples {
    /// A complete, accepted object.
    pub base: Value,
    /// One or more cases for each rule.
    pub cases: Vec<Case>,
}

/// A rule with a rejected and an accepted object, both as changes to `base`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A description of the rule.
    pub rule: String,
    /// For rules about updates: the object before the update.
    pub old: Option<Changes>,
    /// The rejected object.
    pub rejected: Changes,
    /// The field path in the API server's error.
    pub field: String,
    /// The message in the API server's error, verbatim.
    pub message: String,
    /// The accepted object; default `base`.
    #[serde(default)]
    pub accepted: Changes,
}

/// New values by JSON pointer; `null` removes the field.
pub type Changes = BTreeMap<String, Value>;

/// All files of the folder, by kind.
pub fn read(folder: &Path) -> BTreeMap<String, Examples> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|file| {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            (name, serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
        })
        .collect()
}

/// Applies the changes to the object; an index behind the last item appends.
pub fn change(base: &Value, changes: &Changes) -> Value {
    let mut object = base.clone();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}: no parent"));
        match (parent, value) {
            (Value::Object(fields), Value::Null) => {
                fields.remove(key).unwrap_or_else(|| panic!("{pointer}: nothing to remove"));
            }
            (Value::Object(fields), value) => {
                fields.insert(key.to_owned(), value.clone());
            }
            (Value::Array(items), value) => {
                let index: usize = key.parse().unwrap();
                if index == items.len() {
                    items.push(value.clone());
                } else {
                    items[index] = value.clone();
                }
            }
            (parent, _) => panic!("{pointer}: {parent} has no fields"),
        }
    }
    object
}

/// An application at all limits: 256 groups with 8 colocated groups each, and 512 `OneToOne` channels.
///
/// Every rule must stay within the API server's CEL cost budget for it.
pub fn largest_application(base: &Value) -> Value {
    let name = |index: usize| format!("group-of-24-letters-{:04}", index % 256);
    let group = |index: usize| {
        let mut group = base["spec"]["actors"][0].clone();
        group["name"] = json!(name(index));
        group["with"] = (1..=8).map(|other| json!(name(index + other))).collect();
        group
    };
    let channel =
        |index| json!({"from": name(index), "to": name(index + 1), "rate": "60/s", "pattern": "OneToOne"});
    let mut largest = base.clone();
    largest["spec"]["actors"] = (0..256).map(group).collect();
    largest["spec"]["channels"] = (0..512).map(channel).collect();
    largest
}
