//! The checker's own index of the file.

use std::collections::{BTreeMap, BTreeSet};

use crate::Assignment;
use crate::file::format::{Constraint, Places, SnapshotFile, Unit};
use crate::ix::{ActorIx, IxVec, UnitIx};

/// Names of the file resolved to positions.
#[derive(Debug)]
pub(crate) struct CheckerIndex {
    /// By actor: the unit where it runs.
    pub running: Assignment,
    /// By actor: the `pin`, `only` and `never` that name it, by position.
    pub about: IxVec<ActorIx, Vec<usize>>,
    /// By `pin`, `only` and `never`: the units that it names.
    pub named: BTreeMap<usize, BTreeSet<UnitIx>>,
    /// By `apart` and `together`: its actors, ascending.
    pub related: BTreeMap<usize, BTreeSet<ActorIx>>,
    /// By `quota`: its actors, ascending.
    pub counted: BTreeMap<usize, BTreeSet<ActorIx>>,
    /// By unit: the resources that are reserved.
    pub reserved: BTreeMap<UnitIx, BTreeMap<String, i64>>,
    /// Positions in the list of nodes.
    pub listed: BTreeMap<String, usize>,
}

impl CheckerIndex {
    pub fn new(file: &SnapshotFile) -> Self {
        let ids = file.actors.iter().map(|actor| actor.id.as_str());
        let actors: BTreeMap<&str, ActorIx> = ids.zip(ActorIx::first(file.actors.len())).collect();
        let ids = file.units.iter().map(|unit| unit.id.as_str());
        let units: BTreeMap<&str, UnitIx> = ids.zip(UnitIx::first(file.units.len())).collect();
        let mut index = Self {
            running: file.actors.iter().map(|actor| Some(units[actor.running()?])).collect(),
            about: IxVec::of(Vec::new(), file.actors.len()),
            named: BTreeMap::new(),
            related: BTreeMap::new(),
            counted: BTreeMap::new(),
            reserved: BTreeMap::new(),
            listed: file
                .nodes
                .iter()
                .enumerate()
                .map(|(position, node)| (node.id.clone(), position))
                .collect(),
        };
        let all = |of: &[String]| of.iter().map(|actor| actors[actor.as_str()]).collect();
        for (position, constraint) in file.constraints.iter().enumerate() {
            let (about, named) = match constraint {
                Constraint::Apart { actors: of, .. } | Constraint::Together { actors: of, .. } => {
                    index.related.insert(position, all(of));
                    continue;
                }
                Constraint::Quota { actors: of, .. } => {
                    index.counted.insert(position, all(of));
                    continue;
                }
                Constraint::Pin { actor, unit, .. } => {
                    (std::slice::from_ref(actor), BTreeSet::from([units[unit.as_str()]]))
                }
                Constraint::Only { actors, places, .. } | Constraint::Never { actors, places, .. } => {
                    (actors.as_slice(), inside(file, places))
                }
                Constraint::Reserve { unit, resource, quantity } => {
                    let reserved = index.reserved.entry(units[unit.as_str()]).or_default();
                    *reserved.entry(resource.clone()).or_default() += number(*quantity);
                    continue;
                }
                _ => continue,
            };
            for actor in about {
                index.about[actors[actor.as_str()]].push(position);
            }
            index.named.insert(position, named);
        }
        index
    }
}

/// Positions of the units in some places.
fn inside(file: &SnapshotFile, places: &Places) -> BTreeSet<UnitIx> {
    let lies = |unit: &Unit| match places {
        Places::Units(units) => units.contains(&unit.id),
        Places::Nodes(nodes) => nodes.contains(&unit.node),
        Places::Zones(zones) => unit.zone.as_ref().is_some_and(|zone| zones.contains(zone)),
    };
    let units = UnitIx::first(file.units.len()).zip(&file.units);
    units.filter(|(_, unit)| lies(unit)).map(|(position, _)| position).collect()
}

/// A number of a checked file as a signed integer.
pub(crate) fn number(given: u64) -> i64 {
    i64::try_from(given).expect("numbers above 2^53 are refused on input")
}
