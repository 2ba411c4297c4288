//! Policies from objects and files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use placement::Strict;
use policy::Program;
use serde::Deserialize as _;
use serde_json::Value;
use world::{ApplicationKey, Objects, Policy};

use crate::error::CliError;
use crate::read;

/// The parameters that are already applied in the numbers of a snapshot.
const BAKED_IN: [&str; 4] = ["window", "exchangeCost", "messageQuantum", "moveCost"];

/// A policy from a file.
#[derive(Debug)]
pub struct PolicyFile {
    file: PathBuf,
    /// The policy, with defaults for omitted parameters.
    pub policy: Policy,
    /// The parameters that the file sets.
    set: Vec<String>,
    /// Whether the file contains only a program.
    pub is_program: bool,
    /// Whether the file is the `ConfigMap` of an enforced policy.
    is_enforced: bool,
}

impl PolicyFile {
    /// Reads a `policy.yaml`, a `program.lp`, or a ConfigMap with them.
    pub fn read(path: &Path) -> Result<Self, CliError> {
        let given = Self::read_unchecked(path)?;
        if let Some(text) = &given.policy.program
            && let Err(faults) = Program::parse(text)
        {
            let problem = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let key = if given.is_program { "" } else { "program.lp " };
            return Err(CliError::PolicyFile { file: given.file(), problem: format!("{key}{problem}") });
        }
        Ok(given)
    }

    /// Like [`Self::read`], without validating the program.
    pub fn read_unchecked(path: &Path) -> Result<Self, CliError> {
        let file = read::name(path);
        let text = read::text(path)?;
        let invalid = |problem: String| CliError::PolicyFile { file: file.clone(), problem };
        let is_program = path.extension().is_some_and(|end| end == "lp");
        let comment = if is_program { '%' } else { '#' };
        let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with(comment);
        if text.lines().all(is_comment) {
            let problem = "is empty; a policy is a program.lp, a policy.yaml or a ConfigMap with them";
            return Err(invalid(problem.to_owned()));
        }
        if is_program {
            let name = path.file_stem().map_or_else(|| "policy".into(), |stem| stem.to_string_lossy());
            let policy = Policy { program: Some(text), ..Policy::builtin(&name) };
            return Ok(Self {
                file: path.to_owned(),
                policy,
                set: Vec::new(),
                is_program: true,
                is_enforced: false,
            });
        }
        let mut documents = serde_yaml::Deserializer::from_str(&text);
        let first = documents.next().map(|document| Value::deserialize(Strict(document))).transpose();
        let value = first.map_err(|error| invalid(format!("invalid YAML: {error}")))?.unwrap_or_default();
        if documents.any(|document| !Value::deserialize(document).is_ok_and(|value| value.is_null())) {
            return Err(invalid("contains several documents; a policy is a single document".to_owned()));
        }
        let (policy, parameters, is_enforced) = if value.get("kind").is_some() {
            let config_map: ConfigMap = serde_json::from_value(value).map_err(|error| {
                invalid(format!("invalid ConfigMap: {error}; pass a ConfigMap or a policy.yaml"))
            })?;
            let policy = Policy::read(&config_map).map_err(|error| invalid(error.to_string()))?;
            let is_enforced = Policy::is_enforced(&config_map);
            let text = config_map.data.and_then(|data| data.get("policy.yaml").cloned()).unwrap_or_default();
            (policy, serde_yaml::from_str(&text).unwrap_or_default(), is_enforced)
        } else {
            let name = path.file_stem().map_or_else(|| "policy".into(), |stem| stem.to_string_lossy());
            let policy = Policy::parse(&name, &text).map_err(|error| {
                // The message already names the file.
                let place = error.place.trim_start_matches("policy.yaml").trim_start_matches([',', ' ']);
                let separator = if place.is_empty() { "" } else { ": " };
                invalid(format!("{place}{separator}{}", error.problem))
            })?;
            (policy, value, false)
        };
        let set = parameters.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
        Ok(Self { file: path.to_owned(), policy, set, is_program: false, is_enforced })
    }

    /// The name of the file in messages.
    pub fn file(&self) -> String {
        read::name(&self.file)
    }

    /// Whether the file sets a parameter.
    pub fn sets(&self, parameter: &str) -> bool {
        self.set.iter().any(|set| set == parameter)
    }

    /// The policy, combined with enforced policies. An enforced policy in the file replaces its earlier version.
    pub fn with_enforced(&self, enforced: &[Policy]) -> Policy {
        let is_replaced = |other: &&Policy| self.is_enforced && other.name == self.policy.name;
        let enforced = enforced.iter().filter(|other| !is_replaced(other));
        let programs = enforced.filter_map(|other| Some((other.name.clone(), other.program.clone()?)));
        Policy { enforced: programs.collect(), ..self.policy.clone() }
    }

    /// Rejects parameters that are already applied in the numbers of a snapshot.
    pub fn check_for_snapshot(&self) -> Result<(), CliError> {
        let Some(parameter) = BAKED_IN.iter().find(|parameter| self.sets(parameter)) else { return Ok(()) };
        Err(CliError::PolicyFile {
            file: self.file(),
            problem: format!(
                "{parameter}: already applied in the snapshot; remove it, or plan from manifests with -f"
            ),
        })
    }
}

/// The policies that are enforced for the application, by name.
pub fn enforced(objects: &Objects, application: &ActorApplication) -> Result<Vec<Policy>, CliError> {
    let namespace = ApplicationKey::of(application).namespace;
    let applies =
        |config_map: &&Arc<ConfigMap>| Policy::is_enforced(config_map) && is_for(config_map, &namespace);
    let mut all: Vec<Policy> =
        objects.policies.iter().filter(applies).map(|it| Policy::read(it)).collect::<Result<_, _>>()?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Whether applications of a namespace may use a policy.
fn is_for(config_map: &ConfigMap, namespace: &str) -> bool {
    Policy::namespaces(config_map).is_none_or(|list| list.contains(namespace))
}

/// The policy of an application, with an optional note.
pub fn of_application(
    objects: &Objects,
    application: &ActorApplication,
    default: &str,
    on_files: bool,
) -> Result<(Policy, Option<String>), CliError> {
    let name = application.spec.policy.as_deref().unwrap_or(default);
    let key = ApplicationKey::of(application);
    match objects.policies.iter().find(|policy| policy.name_any() == name) {
        Some(found) if !is_for(found, &key.namespace) => Err(CliError::Usage(format!(
            "{key}: policy {name} is not available in namespace {}; choose another one, or ask an administrator to add the namespace \
             to its annotation {}",
            key.namespace,
            crds::labels::NAMESPACES
        ))),
        Some(found) => Ok((Policy::read(found)?.with_enforced(&enforced(objects, application)?), None)),
        // Manifests of an application and nodes are sufficient.
        None if on_files && objects.policies.is_empty() => {
            let note = format!("policy {name} is not in the files: using the built-in defaults");
            Ok((Policy::builtin(name), Some(note)))
        }
        None => {
            let available = objects.policies.iter().filter(|policy| is_for(policy, &key.namespace));
            let mut known: Vec<String> = available.map(|policy| policy.name_any()).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "(none)".to_owned() } else { known.join(", ") };
            Err(CliError::Usage(format!("{key}: policy {name} does not exist; existing policies: {known}")))
        }
    }
}
