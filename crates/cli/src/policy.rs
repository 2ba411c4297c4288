//! Policies: those among the objects, and a file in their place.

use std::path::{Path, PathBuf};

use crds::ActorApplication;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use placement::Strict;
use policy::Program;
use serde::Deserialize as _;
use serde_json::Value;
use world::{Objects, Policy};

use crate::error::CliError;
use crate::read;

/// What a snapshot was made with already: a policy can no longer decide it there.
const MADE_WITH: [&str; 4] = ["window", "exchangeCost", "messageQuantum", "moveCost"];

/// A policy that was given as a file.
#[derive(Debug)]
pub struct PolicyFile {
    file: PathBuf,
    /// All of it, what it leaves out at its default.
    pub policy: Policy,
    /// The parameters that it names.
    named: Vec<String>,
    /// The file is a program and nothing else.
    pub is_program: bool,
}

impl PolicyFile {
    /// Reads a `policy.yaml`, a `program.lp`, or the ConfigMap that holds them.
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

    /// The same with a program that was not looked at.
    pub fn read_unchecked(path: &Path) -> Result<Self, CliError> {
        let file = read::name(path);
        let text = read::text(path)?;
        if path.extension().is_some_and(|end| end == "lp") {
            let name = path.file_stem().map_or_else(|| "policy".into(), |stem| stem.to_string_lossy());
            let policy = Policy { program: Some(text), ..Policy::builtin(&name) };
            return Ok(Self { file: path.to_owned(), policy, named: Vec::new(), is_program: true });
        }
        let refused = |problem: String| CliError::PolicyFile { file: file.clone(), problem };
        let mut documents = serde_yaml::Deserializer::from_str(&text);
        let first = documents.next().map(|document| Value::deserialize(Strict(document))).transpose();
        let value = first.map_err(|error| refused(format!("is not YAML: {error}")))?.unwrap_or_default();
        if documents.any(|document| !Value::deserialize(document).is_ok_and(|value| value.is_null())) {
            return Err(refused("has several documents; a policy is one, give one".to_owned()));
        }
        let (policy, parameters) = if value.get("kind").is_some() {
            let config_map: ConfigMap = serde_json::from_value(value)
                .map_err(|error| refused(format!("is no ConfigMap: {error}; give one, or a policy.yaml")))?;
            let policy = Policy::read(&config_map).map_err(|error| refused(error.to_string()))?;
            let text = config_map.data.and_then(|data| data.get("policy.yaml").cloned()).unwrap_or_default();
            (policy, serde_yaml::from_str(&text).unwrap_or_default())
        } else {
            let name = path.file_stem().map_or_else(|| "policy".into(), |stem| stem.to_string_lossy());
            let policy = Policy::parse(&name, &text).map_err(|error| {
                // The file is the policy: its name and key add nothing.
                let place = error.place.trim_start_matches("policy.yaml").trim_start_matches([',', ' ']);
                let separator = if place.is_empty() { "" } else { ": " };
                refused(format!("{place}{separator}{}", error.problem))
            })?;
            (policy, value)
        };
        let named = parameters.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
        Ok(Self { file: path.to_owned(), policy, named, is_program: false })
    }

    /// What messages call the file.
    pub fn file(&self) -> String {
        read::name(&self.file)
    }

    /// Whether the file names a parameter.
    pub fn names(&self, parameter: &str) -> bool {
        self.named.iter().any(|named| named == parameter)
    }

    /// Refuses what a snapshot has decided already.
    pub fn check_for_snapshot(&self) -> Result<(), CliError> {
        let Some(made_with) = MADE_WITH.iter().find(|parameter| self.names(parameter)) else { return Ok(()) };
        Err(CliError::PolicyFile {
            file: self.file(),
            problem: format!(
                "{made_with}: a snapshot's numbers are made with it already; remove it, or plan from manifests with -f"
            ),
        })
    }
}

/// The policy with the programs of those that are enforced on the application.
fn enforced(objects: &Objects, application: &ActorApplication, policy: Policy) -> Result<Policy, CliError> {
    let namespace = world::ApplicationKey::of(application).namespace;
    let holds = |config_map: &&std::sync::Arc<ConfigMap>| {
        let namespaces = Policy::namespaces(config_map);
        Policy::is_enforced(config_map) && namespaces.is_none_or(|list| list.contains(&namespace))
    };
    let mut all: Vec<Policy> =
        objects.policies.iter().filter(holds).map(|it| Policy::read(it)).collect::<Result<_, _>>()?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(policy.under(&all))
}

/// The policy of an application, and what is worth telling about it.
pub fn of_application(
    objects: &Objects,
    application: &ActorApplication,
    default: &str,
    on_files: bool,
) -> Result<(Policy, Option<String>), CliError> {
    let name = application.spec.policy.as_deref().unwrap_or(default);
    let mut known: Vec<String> = objects.policies.iter().map(|policy| policy.name_any()).collect();
    known.sort_unstable();
    match objects.policies.iter().find(|policy| policy.name_any() == name) {
        Some(found) => Ok((enforced(objects, application, Policy::read(found)?)?, None)),
        // A dump of an application and some nodes is enough to plan with.
        None if on_files && known.is_empty() => {
            let note = format!("policy {name} is not among the files: the built-in values are used");
            Ok((Policy::builtin(name), Some(note)))
        }
        None => {
            let known = if known.is_empty() { "(none)".to_owned() } else { known.join(", ") };
            let application = world::ApplicationKey::of(application);
            Err(CliError::Usage(format!("{application}: there is no policy {name}; name one of: {known}")))
        }
    }
}
