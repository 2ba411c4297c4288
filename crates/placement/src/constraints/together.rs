//! `together`: actors share one domain.

use super::relations::Relation;
use crate::file::format::{Constraint, Scope};

/// All on the same unit, NUMA domain, node or zone.
pub(super) struct Together;

impl Relation for Together {
    const APART: bool = false;

    fn of(given: &Constraint) -> Option<(Scope, &[String])> {
        match given {
            Constraint::Together { on, actors, .. } => Some((*on, actors)),
            _ => None,
        }
    }

    fn describe(scope: &str) -> String {
        format!("all on one {scope}")
    }
}
