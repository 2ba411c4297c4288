//! Classes of tasks with equal estimates.

use std::collections::BTreeMap;

use crate::{FileError, Implementation, Kind, Platform, Task};

/// Estimate on an incompatible processing element; no real estimate has this value.
pub const NEVER: u64 = u64::MAX;

/// A class of tasks with equal estimates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Estimate on each processing element of the pool, in nanoseconds; [`NEVER`] if incompatible.
    pub on: Vec<u64>,
    /// Number of kinds that the tasks name, in the pool or not.
    pub kinds: u64,
    /// The kind with the smallest estimate in the pool, by position in [`Platform::kinds`]; ties: the first.
    pub quickest: usize,
    /// The mean estimate over all kinds, rounded down.
    pub mean: u64,
}

/// The distinct classes for a pool.
#[derive(Clone, Debug)]
pub struct Classes {
    kinds: Vec<Kind>,
    pub(super) of: Vec<usize>,
    known: BTreeMap<Vec<(Kind, u64)>, u32>,
    pub(super) all: Vec<Class>,
}

impl Classes {
    /// No classes yet, for the pool of `platform`.
    pub fn new(platform: &Platform) -> Self {
        let kinds: Vec<Kind> = platform.kinds().into_iter().map(|(kind, _)| kind).collect();
        let find =
            |kind: &Kind| kinds.iter().position(|k| k == kind).expect("every kind of the pool is listed");
        let of = platform.pes().iter().map(|pe| find(&pe.kind)).collect();
        Self { kinds, of, known: BTreeMap::new(), all: Vec::new() }
    }

    /// The class of a task with these implementations, created on first use.
    ///
    /// # Errors
    /// The pool has no processing element of any of its kinds.
    pub fn intern(&mut self, task: &Task, on: &BTreeMap<Kind, Implementation>) -> Result<u32, FileError> {
        let key: Vec<(Kind, u64)> = on.iter().map(|(kind, one)| (kind.clone(), one.expected_ns())).collect();
        if let Some(class) = self.known.get(&key) {
            return Ok(*class);
        }
        let by_kind: Vec<u64> =
            self.kinds.iter().map(|kind| on.get(kind).map_or(NEVER, Implementation::expected_ns)).collect();
        let Some(quickest) = (0..by_kind.len()).filter(|k| by_kind[*k] != NEVER).min_by_key(|k| by_kind[*k])
        else {
            let names: Vec<&str> = on.keys().map(Kind::as_str).collect();
            return Err(FileError::new(
                format!("task {}", task.id),
                format!("runs on {} only, and the platform has none of these", names.join(", ")),
                "add such a processing element, or an implementation for what there is",
            ));
        };
        let total: u128 = key.iter().map(|(_, estimate)| u128::from(*estimate)).sum();
        let class = Class {
            on: self.of.iter().map(|kind| by_kind[*kind]).collect(),
            kinds: key.len() as u64,
            quickest,
            mean: u64::try_from(total / key.len() as u128).unwrap_or(NEVER - 1),
        };
        let number = u32::try_from(self.all.len()).expect("fewer classes than tasks");
        self.all.push(class);
        self.known.insert(key, number);
        Ok(number)
    }

    /// All classes, by number.
    pub fn all(&self) -> &[Class] {
        &self.all
    }

    /// The kind of each processing element, by position in [`Platform::kinds`].
    pub fn kinds_of_pes(&self) -> &[usize] {
        &self.of
    }
}
