//! Symmetric units, which nobody could tell apart: which of them hosts whom makes no difference, so only one way is searched.
//!
//! Without this a proof tries every permutation of identical nodes; with it, only as many of them are looked at as
//! there are actors.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::Constraint;
use placement::ix::NodeIx;
use placement::{Assignment, Criterion, Snapshot};

use crate::room::{Room, Rooms};

/// Everything that tells one unit from another, as far as an assignment of actors that can move is concerned.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Likeness<'a> {
    kind: &'a str,
    zone: Option<&'a str>,
    /// A unit that shares its node with others is like those on the same node and in the same domain only.
    shared_node: Option<(&'a str, Option<&'a str>)>,
    /// What limits leave, where they bind: work, slots, resources of the unit, of a node of its own.
    left: Vec<Option<i64>>,
    /// Sets of candidates that it is in.
    sets: Vec<usize>,
}

/// Symmetric units, in classes.
pub(crate) struct Symmetry {
    /// Each of two or more units, ascending.
    classes: Vec<Vec<usize>>,
    /// Actors that can move, in the order in which they open units.
    movable: Vec<usize>,
}

impl Symmetry {
    pub fn new(snapshot: &Snapshot, rooms: &Rooms, movable: &[usize]) -> Self {
        let mut on_node = vec![0; snapshot.nodes().len()];
        (0..snapshot.units()).for_each(|unit| on_node[snapshot.node_of(unit)] += 1);
        let mut sets = vec![BTreeSet::new(); snapshot.units()];
        for &actor in movable {
            for &unit in snapshot.candidates(actor) {
                sets[unit].insert(snapshot.candidate_set(actor));
            }
        }
        let singled_out = singled_out(snapshot);
        let mut classes: BTreeMap<Likeness, Vec<usize>> = BTreeMap::new();
        for (unit, given) in snapshot.file().units.iter().enumerate() {
            if singled_out.contains(&unit) {
                continue;
            }
            let node = snapshot.node_of(unit);
            let shares = on_node[node] > 1;
            let binding = |room: &Room| Some(room.left).filter(|_| room.binds());
            let mut left = vec![binding(&rooms.work[unit]), rooms.slots[unit].as_ref().and_then(binding)];
            left.extend(rooms.units[unit].iter().map(binding));
            left.extend(unlike(snapshot, rooms, unit));
            if !shares {
                left.extend(rooms.nodes[node].iter().map(binding));
            }
            let likeness = Likeness {
                kind: &given.kind,
                zone: given.zone.as_deref(),
                shared_node: shares.then_some((given.node.as_str(), given.numa.as_deref())),
                left,
                sets: sets[unit].iter().copied().collect(),
            };
            classes.entry(likeness).or_default().push(unit);
        }
        let classes = classes.into_values().filter(|class| class.len() > 1).collect();
        Self { classes, movable: movable.to_vec() }
    }

    /// Nothing is alike.
    pub fn none() -> Self {
        Self { classes: Vec::new(), movable: Vec::new() }
    }

    /// Units that are never needed: beyond as many of a class as there are actors.
    pub fn spare(&self) -> BTreeSet<usize> {
        self.classes.iter().flat_map(|class| class.iter().skip(self.movable.len())).copied().collect()
    }

    /// Each unit that is needed, with the one of its class that is opened before it.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, usize)> {
        let needed = |class: &'_ Vec<usize>| class.len().min(self.movable.len());
        self.classes
            .iter()
            .flat_map(move |class| class[..needed(class)].windows(2).map(|two| (two[0], two[1])))
    }

    /// An assignment that is as good, with the units of each class opened in order.
    pub fn ordered(&self, assignment: &Assignment) -> Assignment {
        let mut ordered = assignment.clone();
        for class in &self.classes {
            let mut names = BTreeMap::new();
            for &actor in &self.movable {
                if let Some(unit) = assignment[actor].filter(|unit| class.contains(unit)) {
                    let next = names.len();
                    ordered[actor] = Some(class[*names.entry(unit).or_insert(next)]);
                }
            }
        }
        ordered
    }
}

/// What else tells a unit from others, where a criterion or a cap counts it.
fn unlike(snapshot: &Snapshot, rooms: &Rooms, unit: usize) -> Vec<Option<i64>> {
    let aims_at = |criterion| snapshot.objectives().names(criterion);
    let number = |given: Option<u64>| i64::try_from(given.unwrap_or(0)).ok();
    let given = &snapshot.file().units[unit];
    let mut differences = Vec::new();
    let of_power = aims_at(Criterion::Energy) || !snapshot.power_caps().is_empty();
    if of_power || aims_at(Criterion::Bottleneck) {
        differences.extend([Some(snapshot.capacity(unit)), Some(rooms.work[unit].left)]);
    }
    if of_power || aims_at(Criterion::Consolidate) {
        let stays = |actor: usize| snapshot.is_fixed(actor) && snapshot.current(actor) == Some(unit);
        differences.push(Some(i64::from((0..snapshot.actors()).any(stays))));
    }
    if of_power {
        differences.extend([number(given.power_watts), number(given.idle_watts)]);
        for cap in snapshot.power_caps() {
            let (place, limit) = cap.of(unit);
            let others = (0..snapshot.units()).filter(|other| cap.of(*other).0 == place).count();
            // A place of its own is as good as another with the same limit.
            differences.extend([Some(limit), if others > 1 { i64::try_from(place).ok() } else { None }]);
        }
    }
    if aims_at(Criterion::Licence) {
        let node = snapshot.node_of(unit);
        let cost = snapshot.problem().licence_cost[NodeIx::new(node)];
        let mut units = (0..snapshot.units()).filter(|other| snapshot.node_of(*other) == node);
        let shared = units.clone().count() > 1;
        let paid = units.any(|other| {
            (0..snapshot.actors())
                .any(|actor| snapshot.is_fixed(actor) && snapshot.current(actor) == Some(other))
        });
        differences.extend([
            Some(if paid { 0 } else { cost }),
            if shared && cost > 0 { i64::try_from(node).ok() } else { None },
        ]);
    }
    differences
}

/// Units that something speaks of: where an actor runs or wants to be, links of their own, fixed actors with ties.
fn singled_out(snapshot: &Snapshot) -> BTreeSet<usize> {
    let file = snapshot.file();
    let mut tied: BTreeSet<&str> = BTreeSet::new();
    let mut units: BTreeSet<usize> = BTreeSet::new();
    let mut single_out = |id: &str| units.extend(snapshot.unit(id));
    for constraint in &file.constraints {
        match constraint {
            Constraint::Apart { actors, .. } | Constraint::Together { actors, .. } => {
                tied.extend(actors.iter().map(String::as_str));
            }
            Constraint::Prefer { unit, .. } => single_out(unit),
            // In the candidates, and in what units provide.
            _ => {}
        }
    }
    for pair in &file.exchange_cost.pairs {
        single_out(&pair.a);
        single_out(&pair.b);
    }
    for (position, actor) in file.actors.iter().enumerate() {
        let counts = snapshot.objectives().names(Criterion::Spread) && actor.group.is_some();
        let is_tied = || counts || tied.contains(actor.id.as_str()) || !snapshot.edges(position).is_empty();
        if !actor.fixed || is_tied() {
            actor.current.iter().for_each(|unit| single_out(unit));
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use placement::file::{Actor, Drag, Node, PairCost, Places, RunsOn, Scope, SnapshotFile, Unit};

    use super::*;

    /// What makes a world another one.
    type Change = fn(&mut SnapshotFile);

    /// Two actors, neither of which can have all three units to itself; `change` makes the units less alike.
    fn classes(change: impl Fn(&mut SnapshotFile)) -> Vec<Vec<usize>> {
        let node = |i: usize| Node {
            id: format!("n{i}"),
            provides: [("cores".to_owned(), 1)].into(),
            ..Node::default()
        };
        let unit = |i: usize| Unit {
            id: format!("u{i}"),
            kind: "cpu".into(),
            node: format!("n{i}"),
            capacity: 3,
            provides: [("memory".to_owned(), 1)].into(),
            ..Unit::default()
        };
        let needs = |name: &str| [(name.to_owned(), 1)].into();
        let runs_on = RunsOn { work: 2, requires: needs("memory"), node_requires: needs("cores") };
        let actor = |i: usize| Actor {
            id: format!("a{i}"),
            runs_on: [("cpu".to_owned(), runs_on.clone()), ("gpu".to_owned(), runs_on.clone())].into(),
            ..Actor::default()
        };
        let mut file = SnapshotFile {
            version: placement::file::VERSION,
            nodes: (0..3).map(node).collect(),
            units: (0..3).map(unit).collect(),
            actors: (0..2).map(actor).collect(),
            ..SnapshotFile::default()
        };
        file.exchange_cost.other_kind = Some(2);
        change(&mut file);
        let snapshot = Snapshot::new(file).unwrap();
        let movable: Vec<usize> = (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
        Symmetry::new(&snapshot, &Rooms::new(&snapshot), &movable).classes
    }

    /// A third actor that stays on unit 1.
    fn resident(file: &mut SnapshotFile) {
        let stays =
            Actor { id: "a2".into(), fixed: true, current: Some("u1".into()), ..file.actors[0].clone() };
        file.actors.push(stays);
    }

    #[test]
    fn units_are_alike_when_nothing_tells_them_apart() {
        assert_eq!(classes(|_| {}), [[0, 1, 2]]);
        let one_node = |file: &mut SnapshotFile| {
            file.units.iter_mut().for_each(|unit| unit.node = "n0".into());
        };
        assert_eq!(classes(one_node), [[0, 1, 2]]);
        assert_eq!(classes(|file| file.units.iter_mut().for_each(|unit| unit.slots = Some(1))), [[0, 1, 2]]);
        // What cannot bind tells nothing apart.
        assert_eq!(classes(|file| file.units[1].slots = Some(9)), [[0, 1, 2]]);
    }

    #[test]
    fn whatever_tells_a_unit_apart_does() {
        let changes: [(&str, Change); 13] = [
            ("kind", |file| file.units[1].kind = "gpu".into()),
            ("zone", |file| file.units[1].zone = Some("z".into())),
            ("capacity", |file| file.units[1].capacity = 2),
            ("slots", |file| file.units[1].slots = Some(1)),
            ("a resource", |file| file.units[1].provides.clear()),
            ("a resource of the node", |file| file.nodes[1].provides.clear()),
            ("a rule", |file| {
                let (actors, places) = (vec!["a0".into()], Places::Units(vec!["u1".into()]));
                file.constraints.push(Constraint::Never {
                    actors,
                    places,
                    except_current: false,
                    reason: None,
                });
            }),
            ("what runs there", |file| file.actors[0].current = Some("u1".into())),
            ("who wants to be there", |file| {
                let (actor, unit) = ("a0".into(), "u1".into());
                file.constraints.push(Constraint::Prefer { actor, unit, weight: 1 });
            }),
            ("links", |file| {
                let [a, b] = ["u1".to_owned(), "u3".to_owned()];
                file.units.push(Unit { id: b.clone(), kind: "fpga".into(), ..file.units[0].clone() });
                file.units[3].node = "n3".into();
                file.exchange_cost.pairs.push(PairCost { a, b, cost: 9 });
            }),
            ("work of others", |file| resident(file)),
            ("ties to who stays there", |file| {
                resident(file);
                file.actors[2].runs_on.insert("cpu".into(), RunsOn::default());
                file.annoyance.push(Drag { a: "a0".into(), b: "a2".into(), drag: 1 });
            }),
            ("a relation to who stays there", |file| {
                resident(file);
                file.actors[2].runs_on.insert("cpu".into(), RunsOn::default());
                let (on, actors) = (Scope::Unit, vec!["a0".into(), "a2".into()]);
                file.constraints.push(Constraint::Apart { on, actors, reason: None });
            }),
        ];
        for (what, change) in changes {
            assert_eq!(classes(change), [[0, 2]], "{what}");
        }
        // Who stays there and has no ties to anybody takes nothing but room.
        let idle = |file: &mut SnapshotFile| {
            resident(file);
            file.actors[2].runs_on.insert("cpu".into(), RunsOn::default());
        };
        assert_eq!(classes(idle), [[0, 1, 2]]);
    }

    #[test]
    fn units_that_share_a_node_are_alike_within_a_domain_of_it() {
        let shared = |file: &mut SnapshotFile| {
            file.units.iter_mut().for_each(|unit| unit.node = "n0".into());
            file.units[1].numa = Some("0".into());
        };
        assert_eq!(classes(shared), [[0, 2]]);
        let two_and_one = |file: &mut SnapshotFile| file.units[2].node = "n0".into();
        assert_eq!(classes(two_and_one), [[0, 2]]);
        // A domain of a node that a unit has to itself is a name and no more.
        assert_eq!(classes(|file| file.units[1].numa = Some("0".into())), [[0, 1, 2]]);
    }

    #[test]
    fn an_assignment_is_ordered_and_no_worse() {
        let symmetry = Symmetry { classes: vec![vec![1, 3, 4]], movable: vec![0, 1, 2, 3] };
        let ordered = symmetry.ordered(&vec![Some(4), Some(0), Some(1), Some(4)]);
        assert_eq!(ordered, [Some(1), Some(0), Some(3), Some(1)]);
        assert_eq!(symmetry.in_order().collect::<Vec<_>>(), [(1, 3), (3, 4)]);
        assert!(symmetry.spare().is_empty());
        let few = Symmetry { classes: vec![vec![1, 3, 4]], movable: vec![0] };
        assert_eq!(few.spare(), BTreeSet::from([3, 4]));
    }
}
