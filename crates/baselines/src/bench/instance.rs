//! Instances on disk and their best known values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use placement::{Snapshot, SnapshotError};
use serde::Deserialize;

/// A snapshot file and its name.
#[derive(Clone, Debug)]
pub struct Instance {
    /// File name without `.json` and `.gz`.
    pub name: String,
    /// The snapshot.
    pub snapshot: Snapshot,
}

/// Why an instance cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a valid snapshot.
    #[error("{file} is not a valid snapshot")]
    Snapshot {
        /// The file.
        file: PathBuf,
        /// Place and cause.
        #[source]
        source: SnapshotError,
    },
    /// The list of best values is invalid.
    #[error("{file} is not a valid list of best values")]
    Best {
        /// The file.
        file: PathBuf,
        /// Place and cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Instance {
    /// Reads `NAME.json` or `NAME.json.gz`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid snapshot.
    pub fn read(file: &Path) -> Result<Self, InstanceError> {
        let text =
            text(file).map_err(|source| InstanceError::Unreadable { file: file.to_owned(), source })?;
        let snapshot = Snapshot::read(&text)
            .map_err(|source| InstanceError::Snapshot { file: file.to_owned(), source })?;
        Ok(Self { name: Self::name(file), snapshot })
    }

    /// The instance name of a file.
    pub fn name(file: &Path) -> String {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        name.strip_suffix(".json").unwrap_or(name).to_owned()
    }

    /// The instances in a folder, by family and size.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(folder: &Path) -> Result<Vec<PathBuf>, InstanceError> {
        let unreadable = |source| InstanceError::Unreadable { file: folder.to_owned(), source };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let ending = name.strip_prefix(&Self::name(&file)).unwrap_or_default();
            if [".json", ".json.gz"].contains(&ending) && name != BestKnown::FILE {
                files.push(file);
            }
        }
        files.sort_by_key(|file| by_size(&Self::name(file)));
        Ok(files)
    }
}

fn text(file: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(file)?;
    packed::text(bytes).map_err(|problem| std::io::Error::new(std::io::ErrorKind::InvalidData, problem))
}

/// Sort key: `P-64x11-s1` precedes `P-128x16-s1`, and the simpler P family precedes the C family.
pub(super) fn by_size(name: &str) -> (std::cmp::Reverse<String>, usize, String) {
    let (family, rest) = name.split_once('-').unwrap_or((name, ""));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (std::cmp::Reverse(family.to_owned()), digits.parse().unwrap_or(0), name.to_owned())
}

/// The best known values, by instance.
#[derive(Clone, Debug, Default)]
pub struct BestKnown(BTreeMap<String, BestValue>);

#[derive(Clone, Debug, Deserialize)]
struct BestValue {
    instance: String,
    #[serde(default)]
    proven: bool,
    /// Values by level name; other fields are ignored.
    #[serde(flatten)]
    values: BTreeMap<String, serde_json::Value>,
}

impl BestKnown {
    /// Name of the list in the folder of the instances.
    pub const FILE: &str = "best-known.json";

    /// Reads a list of `{"instance": …, "overload": …, "communication": …, …, "proven": …}`.
    ///
    /// # Errors
    /// The file cannot be read, or is not such a list.
    pub fn read(file: &Path) -> Result<Self, InstanceError> {
        let text =
            text(file).map_err(|source| InstanceError::Unreadable { file: file.to_owned(), source })?;
        let list: Vec<BestValue> = serde_json::from_str(&text)
            .map_err(|source| InstanceError::Best { file: file.to_owned(), source })?;
        Ok(Self(list.into_iter().map(|known| (known.instance.clone(), known)).collect()))
    }

    /// The best vector of an instance by level keys; missing values are 0.
    pub fn vector(&self, instance: &str, levels: &[String]) -> Option<Vec<i64>> {
        let known = self.0.get(instance)?;
        let value = |name: &str| known.values.get(name).and_then(serde_json::Value::as_i64).unwrap_or(0);
        Some(levels.iter().map(|key| key.split('+').map(value).sum()).collect())
    }

    /// The earlier result on the decisive level, if the list has one.
    pub fn reached(&self, instance: &str) -> Option<i64> {
        self.0.get(instance)?.values.get("reached")?.as_i64()
    }

    /// Whether the best vector is proven optimal.
    pub fn is_proven(&self, instance: &str) -> bool {
        self.0.get(instance).is_some_and(|known| known.proven)
    }
}
