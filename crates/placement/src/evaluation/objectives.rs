//! Criteria, and their order.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::Criterion;
use crate::file::format::{Constraint, Levels, SnapshotFile};
use crate::problem::channels;

/// The keyword for an order derived from the facts.
pub(crate) const ADAPTIVE: &str = "adaptive";

/// The mean exchange or annoyance of a pair of actors from which a criterion is relevant under `adaptive`: the value of the
/// authors of the APO paper (III-B).
const RELEVANT: u128 = 1000;

/// Levels of criteria, compared lexicographically, the most important first.
///
/// The number of unplaced actors precedes all of them and is not named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objectives(Vec<Vec<Criterion>>);

impl Objectives {
    /// The levels of a file: as given, or derived for `adaptive`. `policy` becomes the last level if the file has preferences
    /// or a program, and no level names it.
    ///
    /// # Errors
    /// As [`Levels::check`].
    pub fn of(file: &SnapshotFile) -> Result<Self, String> {
        file.objectives.check()?;
        let mut levels = match &file.objectives {
            Levels::InOrder(levels) => levels.clone(),
            Levels::Adaptive => adaptive(file),
        };
        let has_program = file.policy.as_ref().is_some_and(|policy| policy.program.is_some());
        let has_penalties =
            has_program || file.constraints.iter().any(|c| matches!(c, Constraint::Prefer { .. }));
        if has_penalties && !levels.iter().flatten().any(|named| *named == Criterion::Policy) {
            levels.push(vec![Criterion::Policy]);
        }
        Ok(Self(levels))
    }

    /// The levels, the most important first; none is empty.
    pub fn levels(&self) -> &[Vec<Criterion>] {
        &self.0
    }

    /// The levels without grandfathered violations, which are reported with unplaced actors.
    pub fn named(&self) -> impl Iterator<Item = &Vec<Criterion>> {
        self.0.iter().filter(|level| !level.contains(&Criterion::Excused))
    }

    /// The same below a level that counts grandfathered violations.
    pub(crate) fn with_excused(&self) -> Self {
        if self.names(Criterion::Excused) {
            return self.clone();
        }
        Self(std::iter::once(vec![Criterion::Excused]).chain(self.0.iter().cloned()).collect())
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

/// The order derived from the facts: overload, then the relevant one of communication and annoyance, then the
/// other; both on one level if they are equally relevant.
///
/// A criterion is relevant if its mean over all ordered pairs of movable actors is at least 1000 (messages per window, or
/// drag). Fixed actors among themselves do not count. The cost of moves stays with communication.
fn adaptive(file: &SnapshotFile) -> Vec<Vec<Criterion>> {
    use Criterion::{Annoyance, Communication, Migration, Overload};
    let free: BTreeSet<&str> =
        file.actors.iter().filter(|actor| !actor.fixed).map(|actor| actor.id.as_str()).collect();
    let counts = |a: &str, b: &str| a != b && (free.contains(a) || free.contains(b));
    let is_relevant = |sum: u128| sum >= RELEVANT * (free.len() as u128).pow(2) && !free.is_empty();
    let messages = file.messages.iter().filter(|message| counts(&message.from, &message.to));
    let drags = file.annoyance.iter().filter(|pair| counts(&pair.a, &pair.b));
    let (of_groups, drags_of_groups) = channels::open_sums(file);
    let messages: u128 = messages.map(|message| u128::from(message.count)).sum();
    let drags: u128 = drags.map(|pair| u128::from(pair.drag)).sum();
    let communication = is_relevant(messages.saturating_add(of_groups));
    let annoyance = is_relevant(drags.saturating_add(drags_of_groups));
    match communication.cmp(&annoyance) {
        Ordering::Greater => vec![vec![Overload], vec![Communication, Migration], vec![Annoyance]],
        Ordering::Equal => vec![vec![Overload], vec![Communication, Migration, Annoyance]],
        Ordering::Less => vec![vec![Overload], vec![Annoyance], vec![Communication, Migration]],
    }
}

impl Levels {
    /// Checks that levels are valid on their own.
    ///
    /// # Errors
    /// An empty level, or a duplicate criterion.
    pub fn check(&self) -> Result<(), String> {
        let Self::InOrder(levels) = self else { return Ok(()) };
        let mut seen = Vec::new();
        for (position, level) in levels.iter().enumerate() {
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
        Ok(())
    }
}

/// The derived order.
impl From<&Objectives> for Levels {
    fn from(objectives: &Objectives) -> Self {
        Levels::InOrder(objectives.0.clone())
    }
}

impl fmt::Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.0.iter().map(|level| Self::key(level)).collect();
        f.write_str(&keys.join(", "))
    }
}

/// Parses levels in the syntax of the command line: `overload,communication+migration,annoyance`, or `adaptive`.
impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == ADAPTIVE {
            return Ok(Levels::Adaptive);
        }
        text.split(',')
            .map(|level| level.split('+').map(|name| name.trim().parse()).collect())
            .collect::<Result<_, _>>()
            .map(Levels::InOrder)
    }
}
