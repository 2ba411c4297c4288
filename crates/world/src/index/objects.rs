//! The Kubernetes objects that a snapshot is built from.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota};
use kube::ResourceExt;
use placement::Strict;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::index::names::namespace_of;
use crate::index::owner::is_decision_for;
use crate::index::scheduling::SchedulingObjects;
use crate::numbers::{NumberError, quantity};

/// The Kubernetes objects that a snapshot is built from, in any order.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Pods of all namespaces.
    pub pods: Vec<Arc<Pod>>,
    /// Devices found by the node agents.
    pub topologies: Vec<Arc<NodeTopology>>,
    /// Device pools.
    pub pools: Vec<Arc<DevicePool>>,
    /// Applications.
    pub applications: Vec<Arc<ActorApplication>>,
    /// Decisions.
    pub placements: Vec<Arc<Placement>>,
    /// Instances.
    pub instances: Vec<Arc<Instance>>,
    /// Quotas of namespaces.
    pub quotas: Vec<Arc<ResourceQuota>>,
    /// Default requests and limits of namespaces.
    pub limits: Vec<Arc<LimitRange>>,
    /// Namespaces, for their labels and deletion.
    pub namespaces: Vec<Arc<Namespace>>,
    /// `ConfigMap`s with policies.
    pub policies: Vec<Arc<ConfigMap>>,
    /// Objects that pod templates refer to.
    pub scheduling: SchedulingObjects,
}

/// Namespace and name of an application, written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ApplicationKey {
    /// The key of an application; a missing namespace means `default`, as for kubectl.
    pub fn of(application: &ActorApplication) -> Self {
        Self { namespace: namespace_of(application), name: application.name_any() }
    }
}

impl fmt::Display for ApplicationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ApplicationKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace: (*namespace).to_owned(), name: (*name).to_owned() })
            }
            _ => Err(format!("`{text}` is not an application; write NAMESPACE/NAME")),
        }
    }
}

/// Why a file is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {path}: {problem}")]
pub struct ReadError {
    /// The file.
    pub file: String,
    /// Document and field.
    pub path: String,
    /// The problem and its solution.
    pub problem: String,
}

impl Objects {
    /// Adds the objects of a file: YAML or JSON, several documents, or Lists as `kubectl get -o yaml` prints them.
    ///
    /// Other kinds are ignored.
    ///
    /// # Errors
    /// Invalid YAML, a duplicate key, a missing kind, an unknown version, a field that does not fit the kind, or an
    /// invalid amount of a node or pod.
    pub fn read(&mut self, file: &str, text: &str) -> Result<(), ReadError> {
        let invalid = self.read_valid(file, text, |_| Ok(()))?;
        invalid.into_iter().next().map_or(Ok(()), Err)
    }

    /// Like [`Self::read`], but leaves out the invalid objects and returns their errors. `check` sees each object first,
    /// and returns the path and the problem of one that it refuses.
    ///
    /// # Errors
    /// Invalid YAML, or a duplicate key.
    pub fn read_valid(
        &mut self,
        file: &str,
        text: &str,
        mut check: impl FnMut(&Value) -> Result<(), (String, String)>,
    ) -> Result<Vec<ReadError>, ReadError> {
        let mut invalid = Vec::new();
        for (position, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
            let path = format!("document {}", position + 1);
            let error = |problem: String| ReadError { file: file.to_owned(), path: path.clone(), problem };
            let value = Value::deserialize(Strict(document)).map_err(|e| error(e.to_string()))?;
            for (path, object) in listed(path.clone(), value) {
                let refused = check(&object).err().map(|(field, problem)| {
                    let dot = if field.is_empty() { "" } else { ", " };
                    let path = format!("{}{dot}{field}", named(&path, &object));
                    ReadError { file: file.to_owned(), path, problem }
                });
                invalid.extend(refused.or_else(|| self.add(file, &path, object).err()));
            }
        }
        Ok(invalid)
    }

    fn add(&mut self, file: &str, path: &str, value: Value) -> Result<(), ReadError> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, kind) = (text("apiVersion"), text("kind"));
        if kind.is_empty() {
            let problem =
                "has no `kind`; give whole objects, as `kubectl get -o yaml` prints them".to_owned();
            return Err(ReadError { file: file.to_owned(), path: path.to_owned(), problem });
        }
        let at = named(path, &value);
        let ours = group.split('/').next() == Some(crds::GROUP);
        if ours && group.split_once('/').is_none_or(|(_, version)| version != crds::VERSION) {
            let problem =
                format!("`{group}` is not a known version; write {}/{}", crds::GROUP, crds::VERSION);
            return Err(ReadError { file: file.to_owned(), path: format!("{at}, apiVersion"), problem });
        }
        match (ours, kind.as_str()) {
            (true, "ActorApplication") => self.applications.push(parse(file, &at, value)?),
            (true, "DevicePool") => self.pools.push(parse(file, &at, value)?),
            (true, "NodeTopology") => self.topologies.push(parse(file, &at, value)?),
            (true, "Placement") => self.placements.push(parse(file, &at, value)?),
            (true, "Instance") => self.instances.push(parse(file, &at, value)?),
            (true, other) => {
                let problem = format!("`{other}` is not a kind of {}; correct it", crds::GROUP);
                return Err(ReadError { file: file.to_owned(), path: at, problem });
            }
            (false, "Node" | "Pod") if let Some((field, e)) = invalid_amount(&value) => {
                let path = format!("{at}, {field}");
                return Err(ReadError { file: file.to_owned(), path, problem: e.to_string() });
            }
            (false, "Node") => self.nodes.push(parse(file, &at, value)?),
            (false, "ResourceQuota") => self.quotas.push(parse(file, &at, value)?),
            (false, "LimitRange") => self.limits.push(parse(file, &at, value)?),
            (false, "Namespace") => self.namespaces.push(parse(file, &at, value)?),
            (false, "Pod") => self.pods.push(parse(file, &at, value)?),
            (false, "ConfigMap") if is_policy(&value) => self.policies.push(parse(file, &at, value)?),
            _ => {
                // The core group has no name.
                let group = group.rsplit_once('/').map_or("", |(group, _)| group);
                self.scheduling.read((group, &kind), value).map_err(|e| invalid(file, &at, &e))?;
            }
        }
        Ok(())
    }

    /// The application with this name.
    pub fn application(&self, key: &ApplicationKey) -> Option<&Arc<ActorApplication>> {
        self.applications.iter().find(|application| ApplicationKey::of(application) == *key)
    }

    /// The application's decision: the Placement with its name that it controls.
    pub fn placement(&self, key: &ApplicationKey) -> Option<&Arc<Placement>> {
        let application = self.application(key)?;
        self.placements.iter().find(|placement| is_decision_for(placement, application))
    }
}

/// The path of an object with its kind and name.
fn named(path: &str, object: &Value) -> String {
    let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    format!("{path}, {} {}", text("/kind"), text("/metadata/name"))
}

/// The objects of a document with their paths: the document, or the items of a List.
fn listed(path: String, mut value: Value) -> Vec<(String, Value)> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind) = (text("apiVersion"), text("kind"));
    if value.is_null() {
        return Vec::new();
    }
    let items = value.get_mut("items").filter(|_| kind.ends_with("List")).and_then(Value::as_array_mut);
    let Some(items) = items.map(std::mem::take) else { return vec![(path, value)] };
    let item_kind = kind.trim_end_matches("List");
    let mut all = Vec::new();
    for (position, mut item) in items.into_iter().enumerate() {
        // Items of a typed list lack kind and apiVersion.
        if let Value::Object(fields) = &mut item
            && !item_kind.is_empty()
        {
            fields.entry("kind").or_insert_with(|| item_kind.into());
            fields.entry("apiVersion").or_insert_with(|| group.clone().into());
        }
        all.extend(listed(format!("{path}, items[{position}]"), item));
    }
    all
}

fn is_policy(config_map: &Value) -> bool {
    let labels = config_map.pointer("/metadata/labels");
    let value = labels.and_then(|labels| labels.get(crds::labels::POLICY)).and_then(Value::as_str);
    value.is_some_and(|value| crds::labels::POLICY_VALUES.contains(&value))
}

/// Fields of nodes and pods that hold amounts by resource.
const AMOUNTS: [&str; 6] =
    ["requests", "limits", "overhead", "allocatedResources", "allocatable", "capacity"];

/// The first field whose amount is invalid: the API server rejects it.
fn invalid_amount(value: &Value) -> Option<(String, NumberError)> {
    let of_field = |(name, value): (&String, &Value)| {
        let amounts = value.as_object().filter(|_| AMOUNTS.contains(&name.as_str()));
        let invalid = |(resource, amount): (&String, &Value)| {
            Some((resource.clone(), quantity(amount.as_str()?).err()?))
        };
        let found = amounts.and_then(|amounts| amounts.iter().find_map(invalid));
        let (path, e) = found.or_else(|| invalid_amount(value))?;
        let dot = if path.starts_with('[') { "" } else { "." };
        Some((format!("{name}{dot}{path}"), e))
    };
    match value {
        Value::Object(fields) => fields.iter().find_map(of_field),
        Value::Array(items) => items.iter().enumerate().find_map(|(position, item)| {
            let (path, e) = invalid_amount(item)?;
            Some((format!("[{position}].{path}"), e))
        }),
        _ => None,
    }
}

fn parse<T: DeserializeOwned>(file: &str, path: &str, value: Value) -> Result<Arc<T>, ReadError> {
    serde_path_to_error::deserialize(Strict(value)).map(Arc::new).map_err(|e| invalid(file, path, &e))
}

fn invalid(file: &str, path: &str, e: &serde_path_to_error::Error<serde_json::Error>) -> ReadError {
    ReadError { file: file.to_owned(), path: format!("{path}, {}", e.path()), problem: e.inner().to_string() }
}
