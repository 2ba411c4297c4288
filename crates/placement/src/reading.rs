//! What the checker reads off the file, by code of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::{Constraint, Places, SnapshotFile, Unit};

/// Names of the file resolved to positions in it.
#[derive(Debug)]
pub(crate) struct Reading {
    /// By actor: where it runs now.
    pub home: Vec<Option<usize>>,
    /// By actor: the `pin`, `only` and `never` that name it, by position.
    pub about: Vec<Vec<usize>>,
    /// By `pin`, `only` and `never`: the units that it names.
    pub named: BTreeMap<usize, BTreeSet<usize>>,
    /// By `apart` and `together`: its actors, ascending.
    pub related: BTreeMap<usize, BTreeSet<usize>>,
    /// By unit: the resources that are reserved.
    pub reserved: BTreeMap<usize, BTreeMap<String, i64>>,
    /// Positions in the list of nodes.
    pub listed: BTreeMap<String, usize>,
}

impl Reading {
    pub fn new(file: &SnapshotFile) -> Self {
        let actors: BTreeMap<&str, usize> =
            file.actors.iter().enumerate().map(|(position, actor)| (actor.id.as_str(), position)).collect();
        let units: BTreeMap<&str, usize> =
            file.units.iter().enumerate().map(|(position, unit)| (unit.id.as_str(), position)).collect();
        let mut reading = Self {
            home: file.actors.iter().map(|actor| Some(units[actor.current.as_deref()?])).collect(),
            about: vec![Vec::new(); file.actors.len()],
            named: BTreeMap::new(),
            related: BTreeMap::new(),
            reserved: BTreeMap::new(),
            listed: file
                .nodes
                .iter()
                .enumerate()
                .map(|(position, node)| (node.id.clone(), position))
                .collect(),
        };
        for (position, constraint) in file.constraints.iter().enumerate() {
            let (about, named) = match constraint {
                Constraint::Apart { actors: of, .. } | Constraint::Together { actors: of, .. } => {
                    let of = of.iter().map(|actor| actors[actor.as_str()]).collect();
                    reading.related.insert(position, of);
                    continue;
                }
                Constraint::Pin { actor, unit, .. } => {
                    (std::slice::from_ref(actor), BTreeSet::from([units[unit.as_str()]]))
                }
                Constraint::Only { actors, places, .. } | Constraint::Never { actors, places, .. } => {
                    (actors.as_slice(), inside(file, places))
                }
                Constraint::Reserve { unit, resource, quantity } => {
                    let reserved = reading.reserved.entry(units[unit.as_str()]).or_default();
                    *reserved.entry(resource.clone()).or_default() += number(*quantity);
                    continue;
                }
                _ => continue,
            };
            for actor in about {
                reading.about[actors[actor.as_str()]].push(position);
            }
            reading.named.insert(position, named);
        }
        reading
    }
}

/// Positions of the units that lie in some places.
fn inside(file: &SnapshotFile, places: &Places) -> BTreeSet<usize> {
    let lies = |unit: &Unit| match places {
        Places::Units(units) => units.contains(&unit.id),
        Places::Nodes(nodes) => nodes.contains(&unit.node),
        Places::Zones(zones) => unit.zone.as_ref().is_some_and(|zone| zones.contains(zone)),
    };
    let units = file.units.iter().enumerate();
    units.filter(|(_, unit)| lies(unit)).map(|(position, _)| position).collect()
}

/// A number of a checked file, as the signed integer that sums are made of.
pub(crate) fn number(given: u64) -> i64 {
    i64::try_from(given).expect("numbers above 2^53 are refused on input")
}
