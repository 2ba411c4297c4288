//! Limits that the current placement already violates: they are removed from the problem and represented by rules.
//!
//! Grandfathering is defined over ground constraints, each a limit in one place. A limit binds as it is unless movable actors
//! currently violate it. In that case it becomes a case of [`Rules`](crate::Rules), like a policy's, and is grandfathered in
//! the same way.

use std::collections::{BTreeMap, BTreeSet};

use crate::ix::{ActorIx, NodeIx, ResourceIx, UnitIx};

/// A suspended limit, by positions in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendedLimit {
    /// The slots of a unit.
    Slots(UnitIx),
    /// A resource of a unit.
    OfUnit(UnitIx, ResourceIx),
    /// A resource of a node.
    OfNode(NodeIx, ResourceIx),
    /// A constraint of the file, in one of its places, or restricted to actors that currently satisfy it.
    Constraint(usize),
    /// A constraint of the file, restricted to an actor that currently violates it and the counterparts: no other actor takes part, and
    /// the violation cannot grow.
    Breach(usize, ActorIx),
}

/// Suspended limits by name: the constraint, the place, and the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspendedLimits(BTreeSet<(&'static str, String, String)>);

impl SuspendedLimits {
    pub(crate) fn insert(&mut self, what: &'static str, place: &str, of: &str) {
        self.0.insert((what, place.to_owned(), of.to_owned()));
    }

    pub(crate) fn has(&self, what: &'static str, place: &str, of: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&(what, place.to_owned(), of.to_owned()))
    }

    /// Whether any limit of one kind is suspended in a place.
    pub(crate) fn has_any(&self, what: &'static str, place: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let from = (what, place.to_owned(), String::new());
        self.0.range(from..).next().is_some_and(|(of, at, _)| *of == what && at == place)
    }

    /// The limits of one kind: place and resource.
    pub(crate) fn of(&self, what: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let own = self.0.iter().filter(move |(of, ..)| *of == what);
        own.map(|(_, place, of)| (place.as_str(), of.as_str()))
    }

    /// The same for a snapshot that keeps the constraints at some positions, ascending.
    pub(crate) fn renumbered(&self, kept: &[usize]) -> Self {
        let renamed: BTreeMap<String, String> =
            kept.iter().enumerate().map(|(now, before)| (listed(*before), listed(now))).collect();
        let kept = self.0.iter().filter_map(|(what, place, of)| {
            let is_listed = place.starts_with("constraints[");
            let place = if is_listed { renamed.get(place)?.clone() } else { place.clone() };
            Some((*what, place, of.clone()))
        });
        Self(kept.collect())
    }

    /// Whether no limit is suspended.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name of a constraint of the list.
pub(crate) fn listed(position: usize) -> String {
    format!("constraints[{position}]")
}
