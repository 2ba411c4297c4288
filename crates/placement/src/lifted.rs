//! Limits of a file that what runs breaks already: they are taken off the problem and written out as rules.
//!
//! What is excused is defined over ground constraints, one limit at one place. As long as nothing that runs breaks one, it
//! binds as it stands. One that actors which can move break already becomes a case of [`Rules`](crate::Rules), as if a
//! policy had said it, and `excused` makes of it what it makes of those.

use std::collections::{BTreeMap, BTreeSet};

use crate::ix::{ActorIx, NodeIx, ResourceIx, UnitIx};

/// A limit that was taken off, by positions in the world that it was taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiftedLimit {
    /// How many actors a unit takes.
    Slots(UnitIx),
    /// How much a unit has of a resource.
    OfUnit(UnitIx, ResourceIx),
    /// How much a node has of a resource.
    OfNode(NodeIx, ResourceIx),
    /// One of the file's constraints, in one of its places or as far as some of its actors keep to it now.
    Constraint(usize),
    /// One of the file's constraints as far as an actor breaks it now, with those with whom it does: nobody else is in that, and it
    /// cannot become more.
    Breach(usize, ActorIx),
}

/// Limits at places, by name: which constraint of the list, where, and of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifted(BTreeSet<(&'static str, String, String)>);

impl Lifted {
    pub(crate) fn insert(&mut self, what: &'static str, place: &str, of: &str) {
        self.0.insert((what, place.to_owned(), of.to_owned()));
    }

    pub(crate) fn has(&self, what: &'static str, place: &str, of: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&(what, place.to_owned(), of.to_owned()))
    }

    /// Whether any of one kind is lifted at a place.
    pub(crate) fn has_any(&self, what: &'static str, place: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let from = (what, place.to_owned(), String::new());
        self.0.range(from..).next().is_some_and(|(of, at, _)| *of == what && at == place)
    }

    /// Those of one kind: where, and of what.
    pub(crate) fn of(&self, what: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let own = self.0.iter().filter(move |(of, ..)| *of == what);
        own.map(|(_, place, of)| (place.as_str(), of.as_str()))
    }

    /// The same where of the list of constraints those at some positions are left, ascending.
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

    /// Whether nothing is lifted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name of a constraint of the list.
pub(crate) fn listed(position: usize) -> String {
    format!("constraints[{position}]")
}
