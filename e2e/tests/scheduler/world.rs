//! One world: the objects of a small cluster, as manifests.

use anyhow::{Context as _, Result};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The objects that one application is planned with.
#[derive(Clone, Debug)]
pub struct World {
    /// Prefix of all names, and the value of the label `world` of its nodes and namespaces.
    pub name: String,
    /// The namespaces; the first one is the application's.
    pub namespaces: Vec<Value>,
    /// Its runtime class, if pods name one.
    pub runtime_class: Option<Value>,
    /// Volumes, and the claims of the application's namespace that they are bound to.
    pub volumes: Vec<(Value, Value)>,
    /// The nodes.
    pub nodes: Vec<Value>,
    /// Bound pods of other owners.
    pub foreign: Vec<Value>,
    /// The pool of its nodes.
    pub pool: Value,
    /// The application.
    pub application: Value,
}

impl World {
    /// All objects as one YAML text.
    pub fn yaml(&self) -> Result<String> {
        let cluster = self.namespaces.iter().chain(&self.runtime_class).chain(&self.nodes);
        let foreign: Vec<Value> = self.foreign.iter().map(stored).collect();
        let volumes = self.volumes.iter().flat_map(|(volume, claim)| [volume, claim]);
        let all = cluster.chain(volumes).chain(&foreign).chain([&self.pool, &self.application]);
        let documents = all.map(|object| serde_yaml::to_string(object).context("an object has no YAML form"));
        Ok(documents.collect::<Result<Vec<_>>>()?.join("---\n"))
    }

    /// The application's namespace.
    pub fn namespace(&self) -> &str {
        self.namespaces[0]["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The group of an actor, by short name such as `a-0`.
    pub fn group(&self, actor: &str) -> &Value {
        let group = actor.rsplit_once('-').map_or(actor, |(group, _)| group);
        let groups = self.application["spec"]["actors"].as_array();
        groups.into_iter().flatten().find(|it| it["name"] == group).unwrap_or(&Value::Null)
    }

    /// The pod template of an actor.
    pub fn template(&self, actor: &str) -> &Value {
        &self.group(actor)["implementations"][0]["template"]
    }
}

/// A pod as the API server stores it: the selectors of its anti-affinity have the labels of `matchLabelKeys`.
fn stored(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let labels = pod["metadata"]["labels"].clone();
    let terms = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    for term in pod.pointer_mut(terms).and_then(Value::as_array_mut).into_iter().flatten() {
        let keys = term.get("matchLabelKeys").and_then(Value::as_array).cloned().unwrap_or_default();
        for key in keys.iter().filter_map(Value::as_str) {
            let Some(value) = labels.get(key) else { continue };
            let requirement = json!({"key": key, "operator": "In", "values": [value]});
            match term["labelSelector"]["matchExpressions"].as_array_mut() {
                Some(all) => all.push(requirement),
                None => term["labelSelector"]["matchExpressions"] = json!([requirement]),
            }
        }
    }
    pod
}

/// Reads several YAML documents; empty ones are skipped.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let all = serde_yaml::Deserializer::from_str(text);
    let all = all.map(|document| Value::deserialize(document).context("no YAML"));
    all.filter(|document| !matches!(document, Ok(Value::Null))).collect()
}
