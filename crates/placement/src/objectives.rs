//! Criteria, and the order in which they count.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use strum::IntoEnumIterator;

use crate::file::Levels;

/// One thing that a placement is judged by; less is better.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::Display,
    strum::EnumIter,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Criterion {
    /// Largest minus smallest overload of the units (APO III-B, M1).
    Overload,
    /// Messages between units, each times its exchange cost (APO III-B, M2).
    Communication,
    /// Drag of pairs that are apart (APO III-C, M3).
    Annoyance,
    /// Drag of pairs that share a unit.
    Interference,
    /// The price of what leaves its unit.
    Migration,
    /// Penalties of the policy: its own, and those of `prefer`.
    Policy,
}

impl FromStr for Criterion {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Criterion::iter().find(|criterion| <&str>::from(criterion) == name).ok_or_else(|| {
            let known: Vec<&str> = Criterion::iter().map(Into::into).collect();
            format!("`{name}` is no criterion; use one of {}", known.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for Criterion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Levels of criteria, compared lexicographically, the most important first.
///
/// The number of unplaced actors stands above them all and is not named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objectives(Vec<Vec<Criterion>>);

impl Objectives {
    /// Takes the levels as given; `policy` becomes the last level when it is not named but `has_penalties`.
    ///
    /// # Errors
    /// An empty level, or a criterion that is named twice.
    pub fn new(levels: &Levels, has_penalties: bool) -> Result<Self, String> {
        let mut seen = Vec::new();
        for (position, level) in levels.0.iter().enumerate() {
            if level.is_empty() {
                return Err(format!("level {position} is empty; name a criterion or leave it out"));
            }
            for criterion in level {
                if seen.contains(criterion) {
                    return Err(format!("`{criterion}` is named twice; name it once"));
                }
                seen.push(*criterion);
            }
        }
        let mut levels = levels.0.clone();
        if has_penalties && !seen.contains(&Criterion::Policy) {
            levels.push(vec![Criterion::Policy]);
        }
        Ok(Self(levels))
    }

    /// The levels, the most important first; none is empty.
    pub fn levels(&self) -> &[Vec<Criterion>] {
        &self.0
    }

    /// Whether any level names `criterion`.
    pub fn names(&self, criterion: Criterion) -> bool {
        self.0.iter().flatten().any(|named| *named == criterion)
    }

    /// The key of a level: its criteria joined by `+`.
    pub fn key(level: &[Criterion]) -> String {
        level.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
    }
}

impl fmt::Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.0.iter().map(|level| Self::key(level)).collect();
        f.write_str(&keys.join(", "))
    }
}

/// Reads levels as the command line writes them: `overload,communication+migration,annoyance`.
impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(|level| level.split('+').map(|name| name.trim().parse()).collect())
            .collect::<Result<_, _>>()
            .map(Levels)
    }
}
