//! `apart`: no two actors share a domain.

use super::relations::Relation;
use crate::file::format::{Constraint, Scope};

/// All on different units, NUMA domains, nodes or zones.
pub(super) struct Apart;

impl Relation for Apart {
    const APART: bool = true;

    fn of(given: &Constraint) -> Option<(Scope, &[String])> {
        match given {
            Constraint::Apart { on, actors, .. } => Some((*on, actors)),
            _ => None,
        }
    }

    fn describe(scope: &str) -> String {
        format!("each on a {scope} of its own")
    }
}
