//! The fields of a constraint in a snapshot file, and the paths of their errors.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Strict;

/// Encloses the path in the text of a [`FieldError`]: serde passes on nothing but a text.
const MARK: char = '\u{1f}';

/// Why a constraint is refused.
#[derive(Debug)]
pub(crate) struct FieldError {
    /// The path below the constraint, as in `domains[0].nodes`; `None` is the constraint itself.
    path: Option<String>,
    problem: String,
}

impl FieldError {
    /// Moves the path in the text of a [`FieldError`] to the path of the constraint.
    pub(crate) fn locate(path: &str, message: &str) -> (String, String) {
        match message.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)) {
            Some((below, problem)) => (format!("{path}.{below}"), problem.to_owned()),
            None => (path.to_owned(), message.to_owned()),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{MARK}{path}{MARK}{}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

/// A constraint as it is read, before its fields are checked; without nulls.
pub(crate) struct RawConstraint {
    /// The value of `type`.
    pub(crate) kind: String,
    /// Fields that are not taken yet, by name.
    fields: BTreeMap<String, Value>,
}

impl RawConstraint {
    /// Removes a field and reads it; `None` if it is missing or null.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, FieldError> {
        let name = camel_case(name);
        let Some(value) = self.fields.remove(&name) else { return Ok(None) };
        serde_path_to_error::deserialize(Strict(value)).map(Some).map_err(|error| {
            let path = match error.path().to_string() {
                whole if whole == "." => name,
                below if below.starts_with('[') => name + &below,
                below => format!("{name}.{below}"),
            };
            FieldError { path: Some(path), problem: error.inner().to_string() }
        })
    }

    /// The error for a missing required field.
    pub(crate) fn missing_field(&self, fields: &str) -> FieldError {
        let problem = format!("a constraint of type `{}` needs {fields}", self.kind);
        FieldError { path: None, problem }
    }

    /// Refuses fields that are left once all known ones are taken.
    pub(crate) fn reject_unknown_fields(&self) -> Result<(), FieldError> {
        match self.fields.keys().next() {
            Some(field) => {
                let problem =
                    format!("a constraint of type `{}` has no field `{field}`; remove it", self.kind);
                Err(FieldError { path: Some(field.clone()), problem })
            }
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for RawConstraint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawConstraint;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a constraint, as in {type: pin, actor: a, unit: u}")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawConstraint, A::Error> {
                let mut raw = RawConstraint { kind: String::new(), fields: BTreeMap::new() };
                while let Some(name) = map.next_key::<String>()? {
                    if name == "type" {
                        raw.kind = map.next_value()?;
                    } else {
                        raw.fields.insert(name, map.next_value()?);
                    }
                }
                raw.fields.retain(|_, value| !value.is_null());
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// An unknown type, or none.
pub(crate) fn no_type(name: &str, known: &[String]) -> FieldError {
    if name.is_empty() {
        return FieldError { path: None, problem: "a constraint needs `type`".into() };
    }
    let problem = format!("`{name}` is not a type of constraint; use one of {}", known.join(", "));
    FieldError { path: Some("type".into()), problem }
}

/// `power_cap` as `powerCap`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |said, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        said + &initial.to_uppercase() + rest
    })
}
