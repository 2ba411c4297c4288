//! Units that nobody could tell apart, and what their places hold.

use std::collections::BTreeMap;

use placement::file::Scope;
use placement::ix::ResourceIx;
use placement::{Implementation, Snapshot};

/// Classes are bits of a word, and so are the items of a class.
pub(crate) const MOST: usize = 64;

/// Units any two of which can be swapped without anybody noticing.
pub(crate) struct Class {
    /// Ascending, never empty.
    pub units: Vec<usize>,
    /// By dimension: what one unit has room for.
    pub room: Vec<i64>,
}

/// A quantity that a node of several classes has a limit of.
pub(crate) struct Pool {
    /// How much there is.
    pub room: i64,
    /// By item and class: what it takes.
    pub needs: Vec<Vec<i64>>,
}

/// Classes, and what items need in them.
pub(crate) struct Places {
    pub classes: Vec<Class>,
    pub pools: Vec<Pool>,
    /// By item, class and dimension.
    pub needs: Vec<Vec<Vec<i64>>>,
}

/// Something that units have a limit of.
#[derive(Clone, Copy)]
enum Dimension {
    Work,
    Slots,
    /// Of the unit.
    Resource(usize),
    /// Of a node on which there is one target only.
    NodeResource(usize),
}

fn quantity(of: &[(ResourceIx, i64)], resource: usize) -> i64 {
    of.iter().find(|(of, _)| of.at() == resource).map_or(0, |(_, quantity)| *quantity)
}

impl Dimension {
    fn need(self, needs: &Implementation) -> i64 {
        match self {
            Dimension::Work => needs.work,
            Dimension::Slots => 1,
            Dimension::Resource(resource) => quantity(&needs.requires, resource),
            Dimension::NodeResource(resource) => quantity(&needs.node_requires, resource),
        }
    }

    /// What a unit has of it before anybody is there; `None` where there is no limit.
    fn limit(self, snapshot: &Snapshot, unit: usize) -> Option<i64> {
        match self {
            Dimension::Work => Some(snapshot.capacity(unit)),
            Dimension::Slots => {
                snapshot.file().units[unit].slots.map(|slots| i64::try_from(slots).unwrap_or(i64::MAX))
            }
            Dimension::Resource(resource) => Some(snapshot.unit_provides(unit)[resource]),
            Dimension::NodeResource(resource) => {
                Some(snapshot.node_provides(snapshot.node_of(unit))[resource])
            }
        }
    }
}

/// Sorts `targets` into classes; `None` where there are too many. Load is limited by capacity where `is_full`.
pub(crate) fn classes(
    snapshot: &Snapshot,
    movable: &[usize],
    targets: &[usize],
    is_full: bool,
    scopes: &[Scope],
    costs: &[Vec<i64>],
    may: &[Vec<bool>],
) -> Option<Places> {
    let on_node = |node: usize| targets.iter().filter(move |unit| snapshot.node_of(**unit) == node).count();
    let crowd: BTreeMap<usize, usize> =
        targets.iter().map(|&unit| snapshot.node_of(unit)).map(|node| (node, on_node(node))).collect();
    let is_shared = |unit: usize| crowd[&snapshot.node_of(unit)] > 1;
    let resources = 0..snapshot.resources().len();
    let mut dimensions: Vec<Dimension> = is_full.then_some(Dimension::Work).into_iter().collect();
    dimensions.push(Dimension::Slots);
    dimensions.extend(resources.clone().map(Dimension::Resource));
    dimensions.extend(resources.clone().map(Dimension::NodeResource));
    let is_asked_for = |dimension: &Dimension| {
        movable.iter().any(|&actor| {
            let needs =
                snapshot.candidates(actor).iter().filter_map(|&unit| snapshot.implementation(actor, unit));
            needs.into_iter().any(|needs| dimension.need(needs) > 0)
        })
    };
    dimensions.retain(is_asked_for);
    let room = |unit: usize| -> Vec<i64> {
        let of = |&dimension: &Dimension| {
            if matches!(dimension, Dimension::NodeResource(_)) && is_shared(unit) {
                return i64::MAX;
            }
            left(snapshot, dimension, unit)
        };
        dimensions.iter().map(of).collect()
    };
    let rooms: Vec<Vec<i64>> = targets.iter().map(|&unit| room(unit)).collect();
    let is_like = |a: usize, b: usize| {
        let (u, v) = (targets[a], targets[b]);
        let units = &snapshot.file().units;
        units[u].kind == units[v].kind
            && rooms[a] == rooms[b]
            && (snapshot.node_of(u) == snapshot.node_of(v) || !(is_shared(u) || is_shared(v)))
            && may.iter().all(|may| may[a] == may[b])
            && (costs.iter().zip(may)).all(|(costs, may)| !may[a] || costs[a] == costs[b])
            && targets.iter().filter(|&&w| w != u && w != v).all(|&w| {
                snapshot.exchange_cost(u, w) == snapshot.exchange_cost(v, w)
                    && scopes.iter().all(|&scope| {
                        let same = |unit: usize| snapshot.place(scope, unit) == snapshot.place(scope, w);
                        same(u) == same(v)
                    })
            })
    };
    let mut found: Vec<Vec<usize>> = Vec::new();
    for position in 0..targets.len() {
        match found.iter().position(|class| is_like(class[0], position)) {
            Some(class) => found[class].push(position),
            None if found.len() == MOST => return None,
            None => found.push(vec![position]),
        }
    }
    let need = |&actor: &usize, unit: usize, dimension: Dimension| {
        snapshot.implementation(actor, unit).map_or(0, |needs| dimension.need(needs))
    };
    let classes: Vec<Class> = found
        .into_iter()
        .map(|class| Class {
            room: rooms[class[0]].clone(),
            units: class.into_iter().map(|position| targets[position]).collect(),
        })
        .collect();
    let needs = movable.iter().map(|actor| {
        let of = |class: &Class| dimensions.iter().map(|&of| need(actor, class.units[0], of)).collect();
        classes.iter().map(of).collect()
    });
    let mut pools = Vec::new();
    for node in crowd.iter().filter(|(_, crowd)| **crowd > 1).map(|(node, _)| *node) {
        for of in resources.clone().map(Dimension::NodeResource) {
            let is_here = |class: &Class| snapshot.node_of(class.units[0]) == node;
            let taken = |actor: &usize| {
                let of = |class: &Class| if is_here(class) { need(actor, class.units[0], of) } else { 0 };
                classes.iter().map(of).collect::<Vec<i64>>()
            };
            let needs: Vec<Vec<i64>> = movable.iter().map(taken).collect();
            let unit = targets.iter().copied().find(|&unit| snapshot.node_of(unit) == node);
            let room = left(snapshot, of, unit.expect("it is the node of a target"));
            let wanted: i64 = needs.iter().filter_map(|needs| needs.iter().max()).sum();
            if wanted > room {
                pools.push(Pool { room, needs });
            }
        }
    }
    Some(Places { needs: needs.collect(), classes, pools })
}

/// What fixed actors leave; never below 0: what they overfill takes nothing more.
fn left(snapshot: &Snapshot, dimension: Dimension, unit: usize) -> i64 {
    let Some(limit) = dimension.limit(snapshot, unit) else { return i64::MAX };
    let node = snapshot.node_of(unit);
    let is_near = |home: usize| match dimension {
        Dimension::NodeResource(_) => snapshot.node_of(home) == node,
        _ => home == unit,
    };
    let fixed = (0..snapshot.actors()).filter(|&actor| snapshot.is_fixed(actor));
    let homes = fixed.filter_map(|actor| Some((actor, snapshot.current(actor)?)));
    let needs = homes
        .filter(|(_, home)| is_near(*home))
        .filter_map(|(actor, home)| snapshot.implementation(actor, home))
        .map(|needs| dimension.need(needs));
    (limit - needs.sum::<i64>()).max(0)
}
