//! The names in a file, and references to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::SnapshotError;
use crate::file::format::{Constraint, Places, SnapshotFile};

/// The names in a file.
pub(crate) struct Names<'a> {
    file: &'a SnapshotFile,
    actors: BTreeSet<&'a str>,
    units: BTreeMap<&'a str, usize>,
    nodes: BTreeSet<&'a str>,
    /// By actor: the unit that it is pinned to.
    pins: BTreeMap<&'a str, &'a str>,
}

impl<'a> Names<'a> {
    /// Refuses empty and duplicate names.
    pub fn new(file: &'a SnapshotFile) -> Result<Self, SnapshotError> {
        let unique = |path: &str, ids: Vec<&'a str>| -> Result<BTreeSet<&'a str>, SnapshotError> {
            let mut seen = BTreeSet::new();
            for (position, id) in ids.into_iter().enumerate() {
                let at = || format!("{path}[{position}].id");
                if id.is_empty() {
                    return Err(SnapshotError::new(at(), "is empty; give it a name"));
                }
                if !seen.insert(id) {
                    return Err(SnapshotError::new(at(), format!("`{id}` is used twice; ids are unique")));
                }
            }
            Ok(seen)
        };
        unique("units", file.units.iter().map(|unit| unit.id.as_str()).collect())?;
        refuse_names_of_others(file)?;
        let nodes = unique("nodes", file.nodes.iter().map(|node| node.id.as_str()).collect())?;
        Ok(Self {
            file,
            pins: BTreeMap::new(),
            actors: unique("actors", file.actors.iter().map(|actor| actor.id.as_str()).collect())?,
            units: file
                .units
                .iter()
                .enumerate()
                .map(|(position, unit)| (unit.id.as_str(), position))
                .collect(),
            nodes: nodes.into_iter().chain(file.units.iter().map(|unit| unit.node.as_str())).collect(),
        })
    }

    /// Refuses an unknown actor, reported at `path`.
    pub fn actor(&self, path: impl Fn() -> String, id: &str) -> Result<(), SnapshotError> {
        if self.actors.contains(id) {
            return Ok(());
        }
        Err(SnapshotError::new(path(), format!("there is no actor `{id}`; add it or correct the name")))
    }

    /// The position of a unit; refuses an unknown one, reported at `path`.
    pub fn unit(&self, path: impl Fn() -> String, id: &str) -> Result<usize, SnapshotError> {
        let missing =
            || SnapshotError::new(path(), format!("there is no unit `{id}`; add it or correct the name"));
        self.units.get(id).copied().ok_or_else(missing)
    }

    /// Refuses unknown actors, units and places of a constraint, given its position.
    pub fn of_constraint(&self, position: usize, given: &Constraint) -> Result<(), SnapshotError> {
        for (i, actor) in given.actors().iter().enumerate() {
            let path = || {
                let field = if given.is_of_one_actor() { "actor" } else { &format!("actors[{i}]") };
                format!("constraints[{position}].{field}")
            };
            self.actor(path, actor)?;
        }
        if let Some(unit) = given.unit() {
            self.unit(|| format!("constraints[{position}].unit"), unit)?;
        }
        if let Constraint::Quota { units: Some(units), .. } = given {
            for unit in units.keys() {
                self.unit(|| format!("constraints[{position}].units"), unit)?;
            }
        }
        given.places().map_or(Ok(()), |places| self.places(position, places))
    }

    /// Refuses an unknown node, reported at `path`.
    pub fn node(&self, path: impl Fn() -> String, id: &str) -> Result<(), SnapshotError> {
        if self.nodes.contains(id) {
            return Ok(());
        }
        Err(SnapshotError::new(path(), format!("there is no node `{id}`; add it or correct the name")))
    }

    /// Records that an actor is pinned to a unit, and returns an earlier pin.
    pub fn pin(&mut self, actor: &'a str, unit: &'a str) -> Option<&'a str> {
        self.pins.insert(actor, unit)
    }

    /// Refuses unknown places of a constraint, given its position.
    fn places(&self, position: usize, places: &Places) -> Result<(), SnapshotError> {
        match places {
            Places::Units(units) => units.iter().enumerate().try_for_each(|(i, unit)| {
                self.unit(|| format!("constraints[{position}].units[{i}]"), unit).map(|_| ())
            }),
            Places::Nodes(nodes) => nodes
                .iter()
                .enumerate()
                .try_for_each(|(i, node)| self.node(|| format!("constraints[{position}].nodes[{i}]"), node)),
            Places::Zones(zones) => zones.iter().enumerate().try_for_each(|(i, zone)| {
                if self.file.units.iter().any(|unit| unit.zone.as_ref() == Some(zone)) {
                    return Ok(());
                }
                let problem = format!("no unit is in zone `{zone}`; correct the name or remove it");
                Err(SnapshotError::new(format!("constraints[{position}].zones[{i}]"), problem))
            }),
        }
    }
}

/// Refuses an actor with the name of a representative of foreign actors. Representatives are appended to the listed actors, and are
/// not entries of the file.
fn refuse_names_of_others(file: &SnapshotFile) -> Result<(), SnapshotError> {
    let listed = file.actors.len().saturating_sub(file.summed_up.len());
    let (listed, others) = file.actors.split_at(listed);
    let others: BTreeMap<&str, Option<&str>> =
        others.iter().map(|actor| (actor.id.as_str(), actor.current.as_deref())).collect();
    for (position, actor) in listed.iter().enumerate() {
        if let Some(unit) = others.get(actor.id.as_str()) {
            let problem = format!(
                "`{}` stands for the `others` of unit {}; give the actor another name",
                actor.id,
                unit.unwrap_or_default()
            );
            return Err(SnapshotError::new(format!("actors[{position}].id"), problem));
        }
    }
    Ok(())
}
