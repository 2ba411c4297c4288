//! A naive implementation of grandfathering: for every limit its excess, and the movable actors that take part.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Actor, CapScope, Constraint, Scope, SnapshotFile, Unit};

use crate::positions::{Assigned, position, same, watts};

/// The excess over a limit, and the movable actors that take part.
type Breach = (i128, BTreeSet<usize>);

/// What runs now.
pub fn now(file: &SnapshotFile) -> Assigned {
    let unit = |id: &str| file.units.iter().position(|unit| unit.id == *id);
    file.actors.iter().map(|actor| actor.running().and_then(unit)).collect()
}

/// Limits that the current placement exceeds with a movable actor.
pub struct ExceededLimits(BTreeMap<String, Breach>);

impl ExceededLimits {
    /// The limits that the current placement exceeds; `None` if there are none.
    pub fn now(file: &SnapshotFile) -> Option<Self> {
        let runs = |actor: &Actor| !actor.fixed && actor.running().is_some();
        let mut found = file.actors.iter().any(runs).then(|| breaches(file, &now(file)))?;
        // Power that fixed actors draw by themselves is allowed.
        found.retain(|limit, (excess, _)| {
            !limit.starts_with("watts") || *excess > breach_of_fixed(file, limit)
        });
        (!found.is_empty()).then_some(Self(found))
    }
}

/// Actors with grandfathered violations; `None` if there is any other violation.
pub fn excused(file: &SnapshotFile, passed: &ExceededLimits, places: &Assigned) -> Option<BTreeSet<usize>> {
    let before = &passed.0;
    let mut excused = BTreeSet::new();
    for (limit, (excess, ours)) in breaches(file, places) {
        match before.get(&limit) {
            Some((then, whose)) if *then >= excess && ours.is_subset(whose) => excused.extend(ours),
            // The power that fixed actors draw by themselves is allowed even without a current excess.
            None if limit.starts_with("watts") && excess <= breach_of_fixed(file, &limit) => {}
            _ => return None,
        }
    }
    Some(excused)
}

fn breach_of_fixed(file: &SnapshotFile, limit: &str) -> i128 {
    let fixed = file.actors.iter().zip(now(file)).map(|(actor, place)| place.filter(|_| actor.fixed));
    all(file, &fixed.collect()).get(limit).map_or(0, |(excess, _)| *excess)
}

/// Limits that are exceeded with a movable actor.
fn breaches(file: &SnapshotFile, places: &Assigned) -> BTreeMap<String, Breach> {
    let all = all(file, places).into_iter();
    all.filter(|(_, (excess, ours))| *excess > 0 && !ours.is_empty()).collect()
}

fn of(map: &BTreeMap<String, u64>, name: &str) -> i128 {
    map.get(name).map_or(0, |quantity| i128::from(*quantity))
}

/// Every limit, with its excess and movable actors.
fn all(file: &SnapshotFile, places: &Assigned) -> BTreeMap<String, Breach> {
    let mut found = BTreeMap::new();
    let mut say = |limit: String, most: i128, uses: &dyn Fn(usize, &Actor, &Unit) -> i128| {
        let (mut sum, mut ours) = (0, BTreeSet::new());
        for (at, actor) in file.actors.iter().enumerate() {
            let amount = places[at].map_or(0, |unit| uses(unit, actor, &file.units[unit]));
            sum += amount;
            if amount > 0 && !actor.fixed {
                ours.insert(at);
            }
        }
        found.insert(limit, (sum - most.max(0), ours));
    };
    for (at, given) in file.units.iter().enumerate() {
        if let Some(slots) = given.slots {
            say(format!("slots {at}"), slots.into(), &|unit, _, _| i128::from(unit == at));
        }
        for name in names(file) {
            let reserved = file.constraints.iter().map(|constraint| match constraint {
                Constraint::Reserve { unit, resource, quantity }
                    if *unit == given.id && *resource == name =>
                {
                    i128::from(*quantity)
                }
                _ => 0,
            });
            say(
                format!("{name} of unit {at}"),
                of(&given.provides, &name) - reserved.sum::<i128>(),
                &|unit, actor, there| {
                    let way = actor.runs_on.get(&there.kind).filter(|_| unit == at);
                    way.map_or(0, |way| of(&actor.requires, &name) + of(&way.requires, &name))
                },
            );
        }
    }
    let nodes: BTreeSet<&String> = file.units.iter().map(|unit| &unit.node).collect();
    for (node, name) in
        nodes.into_iter().flat_map(|node| names(file).into_iter().map(move |name| (node, name)))
    {
        let given = file.nodes.iter().find(|given| given.id == *node);
        say(
            format!("{name} of node {node}"),
            given.map_or(0, |given| of(&given.provides, &name)),
            &|_, actor, there| {
                let way = actor.runs_on.get(&there.kind).filter(|_| there.node == *node);
                way.map_or(0, |way| of(&way.node_requires, &name))
            },
        );
    }
    for (number, constraint) in file.constraints.iter().enumerate() {
        if let Constraint::Quota { actors, pool, pools, numa, units, resource, max, .. } = constraint {
            say(format!("quota {number}"), (*max).into(), &|_, actor, there| {
                let is_elsewhere = (pool.is_some() && *pool != there.pool)
                    || (numa.is_some() && *numa != there.numa)
                    || pools
                        .as_ref()
                        .is_some_and(|pools| !pools.iter().any(|it| Some(it) == there.pool.as_ref()));
                if !actors.contains(&actor.id) || is_elsewhere {
                    return 0;
                }
                let way = actor.runs_on.get(&there.kind);
                let of_way = way.map(|way| [&way.requires, &way.node_requires]).into_iter().flatten();
                let all = of_way.chain([&actor.requires]);
                let once = resource.as_ref().map_or(1, |name| all.map(|all| of(all, name)).sum());
                let weight = units.as_ref().map_or(1, |of| of.get(&there.id).copied().unwrap_or(0));
                once * i128::from(weight)
            });
        }
    }
    for (number, constraint) in file.constraints.iter().enumerate() {
        match constraint {
            Constraint::Apart { on, actors, .. } | Constraint::Together { on, actors, .. } => {
                let apart = matches!(constraint, Constraint::Apart { .. });
                let who: BTreeSet<usize> = actors.iter().map(|id| position(file, id)).collect();
                for (a, b) in
                    who.iter().flat_map(|a| who.iter().map(move |b| (*a, *b))).filter(|(a, b)| a < b)
                {
                    let Some((u, v)) = places[a].zip(places[b]) else { continue };
                    let ours = [a, b].into_iter().filter(|at| !file.actors[*at].fixed).collect();
                    let broken = same(*on, &file.units[u], &file.units[v]) == apart;
                    found.insert(format!("pair {a} {b} of {number}"), (broken.into(), ours));
                }
            }
            Constraint::PowerCap { on, max, .. } => caps(file, places, *on, *max, &mut found),
            _ => {}
        }
    }
    found
}

fn caps(
    file: &SnapshotFile,
    places: &Assigned,
    on: CapScope,
    max: u64,
    found: &mut BTreeMap<String, Breach>,
) {
    for (first, one) in file.units.iter().enumerate() {
        let is_here = |unit: &usize| match on {
            CapScope::Node => file.units[*unit].node == one.node,
            CapScope::Zone => same(Scope::Zone, &file.units[*unit], one),
            CapScope::All => true,
        };
        let units: Vec<usize> = (0..file.units.len()).filter(is_here).collect();
        if units[0] != first {
            continue;
        }
        let watts_here: i128 = units.iter().map(|unit| i128::from(watts(file, places, *unit))).sum();
        let draws = |at: &usize| {
            let Some(unit) = places[*at].filter(|unit| units.contains(unit)) else { return false };
            let (actor, unit) = (&file.actors[*at], &file.units[unit]);
            let works = actor.runs_on.get(&unit.kind).is_some_and(|way| way.work > 0);
            !actor.fixed && (unit.idle_watts > Some(0) || (works && unit.power_watts > Some(0)))
        };
        let ours = (0..places.len()).filter(draws).collect();
        found.insert(format!("watts {on} {max} {first}"), (watts_here - i128::from(max), ours));
    }
}

/// Every resource that an actor requires.
pub fn names(file: &SnapshotFile) -> BTreeSet<String> {
    let ways = file.actors.iter().flat_map(|actor| actor.runs_on.values());
    let own = file.actors.iter().flat_map(|actor| actor.requires.keys());
    own.chain(ways.flat_map(|way| way.requires.keys().chain(way.node_requires.keys()))).cloned().collect()
}
