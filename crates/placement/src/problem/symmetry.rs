//! Symmetry classes of units that are interchangeable.
//!
//! Two units are in one class if swapping their actors changes neither feasibility nor cost of any assignment of the movable
//! actors. Exact searches visit one representative of each class.

use std::collections::BTreeMap;

use strum::IntoEnumIterator as _;

use crate::criteria::CriterionClass;
use crate::file::format::Scope;
use crate::ix::{ActorIx, IxVec, KindIx, NodeIx, PlaceIx, RelationIx, SetIx, UnitIx};
use crate::problem::dense::Edge;
use crate::problem::room::{Room, Rooms};
use crate::{Criterion, Problem, Snapshot, constraints};

/// Everything that distinguishes units.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct SymmetryKey {
    kind: KindIx,
    /// Zone and NUMA domain, if they matter and are named.
    zone: Option<PlaceIx>,
    /// A unit whose node has other usable units is only symmetric with those of the same node and domain.
    shared_node: Option<(NodeIx, Option<PlaceIx>)>,
    /// The candidate sets that contain it.
    sets: Vec<SetIx>,
    /// The remaining quantity of binding limits: slots, resources of the unit, and of a node of its own.
    left: Vec<Option<i64>>,
    /// What criteria and caps count of it.
    counts: Vec<Option<i64>>,
    /// Actors that prefer it, with their weights.
    homes: Vec<(ActorIx, i64)>,
    /// Edges between movable actors and fixed ones there, and on other units of its node.
    ties: Vec<(ActorIx, Near, [i64; 4])>,
    /// Relations between movable actors and fixed ones there, and on other units of its node.
    relations: Vec<(RelationIx, Near)>,
    /// The first unit with the same costs to all others, if the unit has links of its own.
    links: Option<UnitIx>,
}

/// A location on a unit's node, relative to the unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Near {
    same_unit: bool,
    same_numa: bool,
    kind: KindIx,
}

/// The classes of symmetric units: every unit in one, ascending; classes by their first unit.
///
/// A policy's rules are ignored: rules over placements can distinguish any two units.
pub fn symmetry_classes(snapshot: &Snapshot, rooms: &Rooms) -> Vec<Vec<UnitIx>> {
    let mut classes: BTreeMap<SymmetryKey, Vec<UnitIx>> = BTreeMap::new();
    let likenesses = Likenesses::new(snapshot, rooms).of;
    for (unit, likeness) in likenesses.positions().zip(likenesses) {
        classes.entry(likeness).or_default().push(unit);
    }
    let mut classes: Vec<Vec<UnitIx>> = classes.into_values().collect();
    classes.sort_unstable();
    classes
}

struct Likenesses<'a> {
    snapshot: &'a Snapshot,
    problem: &'a Problem,
    rooms: &'a Rooms,
    of: IxVec<UnitIx, SymmetryKey>,
}

impl<'a> Likenesses<'a> {
    fn new(snapshot: &'a Snapshot, rooms: &'a Rooms) -> Self {
        let problem = snapshot.problem();
        let of = problem.capacity.iter().map(|_| SymmetryKey::default()).collect();
        let mut all = Self { snapshot, problem, rooms, of };
        all.candidates();
        all.places();
        all.counts();
        all.homes();
        all.residents();
        for (unit, first) in equally_linked(problem) {
            all.of[unit].links = Some(first);
        }
        all
    }

    fn candidates(&mut self) {
        let mut sets: Vec<SetIx> =
            self.problem.movable.iter().map(|actor| self.problem.candidate_set[*actor]).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            for unit in &self.problem.candidate_sets[set] {
                self.of[*unit].sets.push(set);
            }
        }
    }

    fn places(&mut self) {
        let problem = self.problem;
        let has_relation = |scope: Scope| problem.relations.iter().any(|relation| relation.scope == scope);
        let added = problem.added_costs();
        let zones_matter = added.zone > 0 || has_relation(Scope::Zone);
        let domains_matter = added.numa > 0 || has_relation(Scope::Numa);
        // Numbers of named domains start after those of units.
        let named = |place: PlaceIx| Some(place).filter(|place| place.at() >= problem.capacity.len());
        let is_target: IxVec<UnitIx, bool> = self.of.iter().map(|unit| !unit.sets.is_empty()).collect();
        for unit in problem.capacity.positions() {
            let node = problem.unit_node[unit];
            let mut others = problem.units_of_node[node].iter().filter(|other| **other != unit);
            let is_shared = others.any(|other| is_target[*other]);
            let binding = |room: &Room| room.binding();
            let likeness = &mut self.of[unit];
            likeness.kind = problem.unit_kind[unit];
            likeness.zone = named(problem.unit_zone[unit]).filter(|_| zones_matter);
            likeness.left.push(self.rooms.slots[unit].as_ref().and_then(binding));
            likeness.left.extend(self.rooms.units[unit].iter().map(binding));
            if is_shared {
                let numa = named(problem.unit_numa[unit]).filter(|_| domains_matter);
                likeness.shared_node = Some((node, numa));
            } else {
                likeness.left.extend(self.rooms.nodes[node].iter().map(binding));
            }
        }
    }

    fn counts(&mut self) {
        let named = Criterion::iter().filter(|criterion| self.snapshot.objectives().names(*criterion));
        for criterion in named {
            for unit in self.problem.capacity.positions() {
                let counts = criterion.measure().symmetry_key(self.snapshot, self.rooms, unit);
                self.of[unit].counts.extend(counts);
            }
        }
        let of = &mut self.of;
        constraints::symmetry_counts(self.snapshot, self.rooms, &mut |unit, counts| {
            of[unit].counts.extend(counts);
        });
    }

    fn homes(&mut self) {
        let named = Criterion::iter().filter(|criterion| self.snapshot.objectives().names(*criterion));
        for measure in
            named.map(Criterion::measure).filter(|measure| measure.class() == CriterionClass::Actors)
        {
            for home in measure.preferred_units(self.snapshot) {
                if home.price > 0 && !self.problem.fixed[home.actor] {
                    self.of[home.unit].homes.push((home.actor, home.price));
                }
            }
        }
    }

    /// The edges between movable and fixed actors.
    fn residents(&mut self) {
        let problem = self.problem;
        let can_move = |actor: ActorIx| !problem.fixed[actor];
        for (resident, home) in problem.residents() {
            let tied: Vec<&Edge> =
                problem.edges[resident].iter().filter(|edge| can_move(edge.peer)).collect();
            let bound = problem.relations_of[resident].iter().copied();
            let has_free = |relation: &RelationIx| {
                problem.relations[*relation].actors.iter().any(|actor| can_move(*actor))
            };
            let bound: Vec<RelationIx> = bound.filter(has_free).collect();
            // Edges to a whole group are distinguished by a movable member and the channel.
            let channels =
                problem.channels.of_actor(resident).iter().filter(|_| problem.channels.are_whole());
            let sends: Vec<(ActorIx, [i64; 4])> = channels
                .filter_map(|channel| {
                    let first =
                        problem.channels.members[channel.peer].iter().find(|actor| can_move(**actor))?;
                    Some((*first, [channel.rate, -1 - i64::from(channel.peer.raw()), channel.apart, 0]))
                })
                .collect();
            if tied.is_empty() && bound.is_empty() && sends.is_empty() {
                continue;
            }
            for &unit in &problem.units_of_node[problem.unit_node[home]] {
                let near = Near {
                    same_unit: unit == home,
                    same_numa: problem.unit_numa[unit] == problem.unit_numa[home],
                    kind: problem.unit_kind[home],
                };
                let tie = |edge: &&Edge| {
                    (edge.peer, near, [edge.rate, edge.sent, edge.annoyance, edge.interference])
                };
                self.of[unit].ties.extend(tied.iter().map(tie));
                self.of[unit].ties.extend(sends.iter().map(|(peer, of)| (*peer, near, *of)));
                self.of[unit].relations.extend(bound.iter().map(|relation| (*relation, near)));
            }
        }
        for likeness in &mut self.of {
            likeness.homes.sort_unstable();
            likeness.ties.sort_unstable();
            likeness.relations.sort_unstable();
        }
    }
}

/// The units with costs of pairs that differ from those of their kinds and domains, each with the first one that costs the same to
/// every third unit.
fn equally_linked(problem: &Problem) -> BTreeMap<UnitIx, UnitIx> {
    let mut costs: BTreeMap<UnitIx, Vec<(UnitIx, i64)>> = BTreeMap::new();
    for (a, b, cost) in problem.pair_costs().filter(|&(a, b, cost)| cost != problem.class_cost(a, b)) {
        costs.entry(a).or_default().push((b, cost));
        costs.entry(b).or_default().push((a, cost));
    }
    for costs in costs.values_mut() {
        costs.sort_unstable();
    }
    let to_third =
        |unit: UnitIx, other: UnitIx| costs[&unit].iter().filter(move |(third, _)| *third != other);
    let mut first: BTreeMap<UnitIx, UnitIx> = BTreeMap::new();
    let mut by_costs: BTreeMap<&Vec<(UnitIx, i64)>, UnitIx> = BTreeMap::new();
    for (&unit, own) in &costs {
        // A unit that it is linked to, or one that has the same links.
        let mut linked = own.iter().map(|(other, _)| *other).take_while(|other| *other < unit);
        let alike = linked.find(|other| to_third(unit, *other).eq(to_third(*other, unit)));
        let alike = alike.or_else(|| by_costs.get(own).copied());
        let group = alike.map_or(unit, |other| first[&other]);
        first.insert(unit, group);
        by_costs.entry(own).or_insert(unit);
    }
    first
}

#[cfg(test)]
mod tests {
    use crate::file::format::{
        Actor, Constraint, Drag, Node, PairCost, Places, RunsOn, SnapshotFile, Unit, VERSION,
    };

    use super::*;

    /// A modification of a snapshot.
    type Change = fn(&mut SnapshotFile);

    /// Two actors, neither of which has all three units as candidates; `change` makes the units less symmetric.
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
            version: VERSION,
            nodes: (0..3).map(node).collect(),
            units: (0..3).map(unit).collect(),
            actors: (0..2).map(actor).collect(),
            ..SnapshotFile::default()
        };
        file.exchange_cost.other_kind = Some(2);
        (file.exchange_cost.other_numa, file.exchange_cost.other_zone) = (1, 1);
        change(&mut file);
        let snapshot = Snapshot::new(file).unwrap();
        let all = symmetry_classes(&snapshot, &Rooms::new(snapshot.problem()));
        assert_eq!(all.concat().len(), snapshot.units());
        let positions = |class: Vec<UnitIx>| class.into_iter().map(UnitIx::at).collect::<Vec<usize>>();
        all.into_iter().filter(|class| class.len() > 1).map(positions).collect()
    }

    /// A third actor that is fixed to unit 1.
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
        // Limits that cannot bind do not distinguish units.
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
            ("what runs there", |file| {
                (file.actors[0].current, file.actors[0].move_cost) = (Some("u1".into()), 1);
            }),
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
        // A fixed actor without edges only takes capacity.
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
        // The domain of a unit that has a node of its own is irrelevant.
        assert_eq!(classes(|file| file.units[1].numa = Some("0".into())), [[0, 1, 2]]);
    }

    #[test]
    fn what_makes_no_difference_tells_nothing_apart() {
        assert_eq!(classes(|file| file.actors[0].current = Some("u1".into())), [[0, 1, 2]]);
        let zones_for_free = |file: &mut SnapshotFile| {
            (file.units[1].zone, file.exchange_cost.other_zone) = (Some("z".into()), 0);
        };
        assert_eq!(classes(zones_for_free), [[0, 1, 2]]);
        // Another unit of the node, which no actor can use.
        let beside = |file: &mut SnapshotFile| {
            file.units.push(Unit { id: "u3".into(), kind: "fpga".into(), ..file.units[1].clone() });
        };
        assert_eq!(classes(beside), [[0, 1, 2]]);
        // A fixed actor is on it, and has an edge.
        let spoken_to = |file: &mut SnapshotFile| {
            beside(file);
            resident(file);
            file.actors[2].current = Some("u3".into());
            file.actors[2].runs_on = [("fpga".to_owned(), RunsOn::default())].into();
            file.annoyance.push(Drag { a: "a0".into(), b: "a2".into(), drag: 1 });
        };
        assert_eq!(classes(spoken_to), [[0, 2]]);
    }

    #[test]
    fn units_with_the_same_links_are_alike() {
        let pairs = |costs: &'static [(usize, usize, u64)]| {
            move |file: &mut SnapshotFile| {
                for number in [3, 4] {
                    let (id, node) = (format!("u{number}"), format!("n{number}"));
                    file.nodes.push(Node { id: node, ..file.nodes[0].clone() });
                    file.units.push(Unit { id, ..file.units[0].clone() });
                }
                file.units.iter_mut().for_each(|unit| unit.node = "n0".into());
                let pair = |&(a, b, cost)| PairCost { a: format!("u{a}"), b: format!("u{b}"), cost };
                file.exchange_cost.pairs = costs.iter().map(pair).collect();
            }
        };
        // Two pairs: one of a pair is as good as the other, but the pairs are not one class.
        assert_eq!(classes(pairs(&[(0, 3, 9), (1, 2, 9)])), [[0, 3], [1, 2]]);
        // A hub, and a ring.
        assert_eq!(classes(pairs(&[(0, 1, 9), (0, 2, 9)])), [vec![1, 2], vec![3, 4]]);
        assert_eq!(classes(pairs(&[(0, 1, 9), (0, 2, 8)])), [[3, 4]]);
        assert_eq!(classes(pairs(&[(0, 1, 9), (1, 2, 9), (2, 3, 9), (0, 3, 9)])), [[0, 2], [1, 3]]);
        // All of four, at one cost or at two.
        let all = &[(0, 1, 9), (0, 2, 9), (0, 3, 9), (1, 2, 9), (1, 3, 9), (2, 3, 9)];
        assert_eq!(classes(pairs(all)), [[0, 1, 2, 3]]);
        let near = &[(0, 1, 5), (0, 2, 9), (0, 3, 9), (1, 2, 9), (1, 3, 9), (2, 3, 5)];
        assert_eq!(classes(pairs(near)), [[0, 1], [2, 3]]);
        // A cost that is no other than that of the kinds.
        assert_eq!(classes(pairs(&[(0, 1, 2)])), [[0, 1, 2, 3, 4]]);
    }

    #[test]
    fn two_actors_that_want_the_same_leave_their_units_alike() {
        let both = |file: &mut SnapshotFile| {
            for unit in ["u0", "u2"] {
                let (actor, unit) = ("a0".into(), unit.into());
                file.constraints.push(Constraint::Prefer { actor, unit, weight: 1 });
            }
        };
        assert_eq!(classes(both), [[0, 2]]);
    }
}
