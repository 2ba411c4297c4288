//! Reads the examples under `tests/rules/`, where the format is described at the top of each file.
//!
//! The end-to-end tests read the same files and send them to a real API server.

#![allow(dead_code, reason = "shared by several tests, each of which uses its part")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

/// One file: an object that is accepted, and what is refused of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Examples {
    /// A whole object, accepted.
    pub base: Value,
    /// The examples, one or more for each rule.
    pub cases: Vec<Case>,
}

/// A rule with an object that it refuses and one that it accepts, both as changes to `base`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The rule, in words.
    pub rule: String,
    /// For rules about updates: what was there before.
    pub old: Option<Changes>,
    /// What is refused.
    pub refused: Changes,
    /// The path of the field that the API server names.
    pub at: String,
    /// What it says about the field, word for word.
    pub says: String,
    /// What is accepted instead; `base` where it is absent.
    #[serde(default)]
    pub accepted: Changes,
}

/// Values by JSON pointer; `null` removes the field.
pub type Changes = BTreeMap<String, Value>;

/// All files of the folder, by name.
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

/// The object with the changes made: `/spec/actors/0/name` sets, `null` removes, an index at the end appends.
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

/// An application at every bound at once: 256 groups, each with 8 others, and 512 channels one to one.
///
/// What the API server spends on one rule is bounded; this is the object that a rule must stay below it for.
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
