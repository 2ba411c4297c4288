//! Assignments by position in a file, and properties of single units and pairs of units.

use placement::file::{Actor, Scope, SnapshotFile, Unit};

/// The unit of each actor of the file, by position.
pub type Assigned = Vec<Option<usize>>;

pub(crate) fn watts(file: &SnapshotFile, places: &Assigned, unit: usize) -> i64 {
    let given = &file.units[unit];
    let number = |given: u64| i64::try_from(given).unwrap();
    let idle = if places.contains(&Some(unit)) { given.idle_watts.unwrap_or(0) } else { 0 };
    let drawn = load(file, places, unit) * number(given.power_watts.unwrap_or(0));
    number(idle) + drawn / number(given.capacity) + i64::from(drawn % number(given.capacity) > 0)
}

pub(crate) fn load(file: &SnapshotFile, places: &Assigned, unit: usize) -> i64 {
    let work = |actor: &Actor| actor.runs_on.get(&file.units[unit].kind).map_or(0, |way| way.work);
    on(file, places, unit).map(|actor| i64::try_from(work(actor)).unwrap()).sum()
}

/// Whether two units share a domain of this scope; an unknown domain differs from every other.
pub(crate) fn same(scope: Scope, u: &Unit, v: &Unit) -> bool {
    let known = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
    u.id == v.id
        || match scope {
            Scope::Unit => false,
            Scope::Numa => u.node == v.node && known(&u.numa, &v.numa),
            Scope::Node => u.node == v.node,
            Scope::Zone => known(&u.zone, &v.zone),
        }
}

pub(crate) fn position(file: &SnapshotFile, id: &str) -> usize {
    file.actors.iter().position(|actor| actor.id == id).unwrap()
}

pub(crate) fn on<'a>(
    file: &'a SnapshotFile,
    places: &'a Assigned,
    unit: usize,
) -> impl Iterator<Item = &'a Actor> {
    file.actors.iter().zip(places).filter(move |(_, place)| **place == Some(unit)).map(|(actor, _)| actor)
}
