//! A part of a world as a world of its own: few actors, few units to put them on, and what is around them held fast.
//!
//! All that stands still on a unit becomes one fixed actor, *the rest* of the unit, with the sum of its work, its needs
//! and its ties. Of the other units only those are kept that somebody who is freed has to do with, and the two that
//! decide how evenly work is spread. So a subproblem of any world is small, and its optimum is the best that the freed
//! actors can do. Where a criterion looks farther than that, the subproblem is a good guess: answers are priced in the whole.

use std::collections::{BTreeMap, BTreeSet};

use placement::constraints::{self, Part};
use placement::file::{Actor, Constraint, Drag, Levels, Message, Places, RunsOn, SnapshotFile, Unit};
use placement::ix::{ActorIx, IxVec, NodeIx, RelationIx, UnitIx};
use placement::{Assignment, Criterion, Problem, Snapshot, SnapshotError};

use crate::partial::Circuit;

/// A whole world with an assignment, ready to be cut.
pub(crate) struct Solution<'a> {
    snapshot: &'a Snapshot,
    problem: &'a Problem,
    assignment: Assignment,
    /// By actor: units that it prefers, and what each is worth.
    preferred: IxVec<ActorIx, Vec<(UnitIx, u64)>>,
    circuit: Option<Circuit<'a>>,
    /// Who can be moved to obey the policy, where it is not obeyed.
    in_conflict: Vec<ActorIx>,
    /// By unit: who is there.
    hosted: IxVec<UnitIx, Vec<ActorIx>>,
    load: IxVec<UnitIx, i64>,
}

/// Why a part of the world is no world; it costs that part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CutError {
    #[error(transparent)]
    World(#[from] SnapshotError),
    #[error("the policy's rules cannot be cut: {0}")]
    Rules(String),
}

/// A world of the freed actors, and the way back.
pub(crate) struct Subproblem {
    /// The small world; the freed actors come first.
    pub world: Snapshot,
    /// Where everything in it is now.
    pub start: Assignment,
    /// By position in the small world, the position in the whole.
    freed: Vec<ActorIx>,
    units: IxVec<UnitIx, UnitIx>,
}

impl<'a> Solution<'a> {
    pub fn new(snapshot: &'a Snapshot, assignment: &Assignment) -> Self {
        let problem = snapshot.problem();
        let mut preferred = IxVec::of(Vec::new(), snapshot.actors());
        for constraint in &snapshot.file().constraints {
            if let Constraint::Prefer { actor, unit, weight } = constraint {
                preferred[problem.actor_by_id[actor]].push((problem.unit_by_id[unit], *weight));
            }
        }
        let mut solution = Self {
            snapshot,
            problem,
            assignment: IxVec::new(),
            preferred,
            circuit: Circuit::new(snapshot),
            in_conflict: Vec::new(),
            hosted: IxVec::new(),
            load: IxVec::new(),
        };
        solution.settle(assignment);
        solution
    }

    /// Takes over where everything is.
    pub fn settle(&mut self, assignment: &Assignment) {
        let (snapshot, problem) = (self.snapshot, self.problem);
        self.assignment.clone_from(assignment);
        self.in_conflict = self
            .circuit
            .as_ref()
            .map_or_else(Vec::new, |circuit| circuit.in_conflict(problem, &self.assignment));
        self.hosted = IxVec::of(Vec::new(), snapshot.units());
        self.load = IxVec::of(0, snapshot.units());
        for (actor, place) in self.assignment.enumerate() {
            let Some(unit) = *place else { continue };
            self.hosted[unit].push(actor);
            self.load[unit] += problem.work(actor, unit);
        }
    }

    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    pub fn problem(&self) -> &'a Problem {
        self.problem
    }

    /// Where an actor is.
    pub fn place(&self, actor: ActorIx) -> Option<UnitIx> {
        self.assignment[actor]
    }

    /// Who can be moved to obey the policy, where it is not obeyed.
    pub fn in_conflict(&self) -> &[ActorIx] {
        &self.in_conflict
    }

    /// Who is on a unit.
    pub fn hosted(&self, unit: UnitIx) -> &[ActorIx] {
        &self.hosted[unit]
    }

    /// Work on a unit above its capacity.
    pub fn overload(&self, unit: UnitIx) -> i64 {
        (self.load[unit] - self.problem.capacity[unit]).max(0)
    }

    /// Who must be where the actor is, itself included, as long as they are few.
    pub fn bound(&self, actor: ActorIx, few: usize) -> impl Iterator<Item = ActorIx> {
        let relations =
            self.problem.relations_of[actor].iter().map(|&relation| &self.problem.relations[relation]);
        relations
            .filter(move |relation| !relation.apart && relation.actors.len() <= few)
            .flat_map(|relation| relation.actors.iter().copied())
    }

    /// The world in which only `freed` can be elsewhere, on `targets` or where they are now.
    ///
    /// # Errors
    /// When that is no world: two names that are made up here, and that nobody gives, are equal.
    pub fn cut(&self, freed: &BTreeSet<ActorIx>, targets: &BTreeSet<UnitIx>) -> Result<Subproblem, CutError> {
        let mut targets = targets.clone();
        targets.extend(freed.iter().filter_map(|&actor| self.assignment[actor]));
        Cut { solution: self, freed, targets, file: SnapshotFile::default(), needs: BTreeMap::new() }.world()
    }
}

impl Subproblem {
    /// The whole assignment with the freed actors as the small one has them.
    pub fn widen(&self, whole: &Assignment, small: &Assignment) -> Assignment {
        let mut wide = whole.clone();
        for (&actor, &place) in self.freed.iter().zip(small) {
            wide[actor] = place.map(|unit| self.units[unit]);
        }
        wide
    }
}

struct Cut<'a> {
    solution: &'a Solution<'a>,
    freed: &'a BTreeSet<ActorIx>,
    targets: BTreeSet<UnitIx>,
    file: SnapshotFile,
    /// By unit of the subproblem, what its rest needs.
    needs: BTreeMap<UnitIx, RunsOn>,
}

/// The one fixed actor of a unit.
fn rest_of(unit: &Unit) -> String {
    format!("the rest of {}", unit.id)
}

impl Cut<'_> {
    fn world(mut self) -> Result<Subproblem, CutError> {
        let snapshot = self.solution.snapshot;
        let units = self.units();
        self.places(&units);
        self.rest(&units);
        let freed: Vec<ActorIx> = self.freed.iter().copied().collect();
        for &actor in &freed {
            self.actor(actor);
        }
        self.ties();
        self.relations();
        self.residents();
        let start_of =
            |actor: &ActorIx| units.binary_search(&self.solution.assignment[*actor]?).ok().map(UnitIx::new);
        let mut start: Assignment = freed.iter().map(start_of).collect();
        self.file.exchange_cost = snapshot.file().exchange_cost.clone();
        let problem = self.solution.problem;
        let kept =
            |id: &String| problem.unit_by_id.get(id).is_some_and(|unit| units.binary_search(unit).is_ok());
        self.file.exchange_cost.pairs.retain(|pair| kept(&pair.a) && kept(&pair.b));
        let of_parts = |level: &Vec<Criterion>| {
            level
                .iter()
                .copied()
                .filter(|criterion| criterion.measure().is_seen_in_parts())
                .collect::<Vec<_>>()
        };
        let levels = snapshot.objectives().levels().iter().map(of_parts).filter(|level| !level.is_empty());
        self.file.objectives = Levels::InOrder(levels.collect());
        self.file.version = snapshot.file().version;
        let mut world = Snapshot::new(self.file)?;
        if let Some(circuit) = &self.solution.circuit {
            let rules = circuit
                .sliced(&self.solution.assignment, &freed, &units, world.actors())
                .map_err(CutError::Rules)?;
            world = world.with_rules(Some(rules));
        }
        let rest = world.problem().current.iter().skip(freed.len());
        start.extend(rest.copied());
        Ok(Subproblem { world, start, freed, units: units.into() })
    }

    fn stands(&self, actor: ActorIx) -> bool {
        !self.freed.contains(&actor)
    }

    /// The units of the subproblem, ascending.
    fn units(&self) -> Vec<UnitIx> {
        let solution = self.solution;
        let mut units = self.targets.clone();
        for &actor in self.freed {
            let peers = solution.problem.edges[actor].iter().map(|edge| edge.peer);
            let bound = solution.bound(actor, usize::MAX);
            units.extend(
                peers
                    .chain(bound)
                    .filter(|peer| self.stands(*peer))
                    .filter_map(|peer| solution.assignment[peer]),
            );
        }
        let all = || solution.problem.capacity.positions();
        let others = || all().filter(|unit| !self.targets.contains(unit));
        units.extend(others().max_by_key(|&unit| solution.overload(unit)));
        units.extend(others().min_by_key(|&unit| solution.overload(unit)));
        let fullness = |unit: UnitIx| {
            solution.load[unit].saturating_mul(1 << 10) / solution.problem.capacity[unit].max(1)
        };
        units.extend(others().max_by_key(|&unit| fullness(unit)));
        units.into_iter().collect()
    }

    fn places(&mut self, units: &[UnitIx]) {
        let snapshot = self.solution.snapshot;
        let given = snapshot.file();
        self.file.units = units.iter().map(|unit| given.units[unit.at()].clone()).collect();
        for (unit, &position) in self.file.units.iter_mut().zip(units) {
            if let Some(slots) = &mut unit.slots {
                let stand =
                    self.solution.hosted[position].iter().filter(|actor| !self.freed.contains(actor)).count();
                // The rest is one actor.
                *slots = slots.saturating_sub(stand as u64) + 1;
            }
        }
        let nodes: BTreeSet<&str> = self.file.units.iter().map(|unit| unit.node.as_str()).collect();
        self.file.nodes =
            given.nodes.iter().filter(|node| nodes.contains(node.id.as_str())).cloned().collect();
        self.file.constraints.extend(constraints::in_part(&Part {
            snapshot: self.solution.snapshot,
            assignment: &self.solution.assignment,
            is_freed: &|actor| self.freed.contains(&actor),
            has_unit: &|unit| units.binary_search(&unit).is_ok(),
        }));
    }

    /// What stands on the units, and on the other units of nodes that somebody may come to.
    fn rest(&mut self, units: &[UnitIx]) {
        let (solution, problem) = (self.solution, self.solution.problem);
        let amount = |quantity: i64| quantity.unsigned_abs();
        for &unit in units {
            let rest = self.needs.entry(unit).or_default();
            for &actor in solution.hosted[unit].iter().filter(|actor| !self.freed.contains(actor)) {
                let Some(needs) = problem.implementation(actor, unit) else { continue };
                rest.work += amount(needs.work);
                for &(resource, quantity) in &needs.requires {
                    *rest.requires.entry(problem.resources[resource].clone()).or_default() +=
                        amount(quantity);
                }
            }
        }
        let nodes: BTreeMap<NodeIx, UnitIx> =
            self.targets.iter().rev().map(|&unit| (problem.unit_node[unit], unit)).collect();
        for (node, speaker) in nodes {
            let rest = self.needs.entry(speaker).or_default();
            for &unit in &problem.units_of_node[node] {
                for &actor in solution.hosted[unit].iter().filter(|actor| !self.freed.contains(actor)) {
                    let Some(needs) = problem.implementation(actor, unit) else { continue };
                    for &(resource, quantity) in &needs.node_requires {
                        let name = problem.resources[resource].clone();
                        *rest.node_requires.entry(name).or_default() += amount(quantity);
                    }
                }
            }
        }
    }

    fn actor(&mut self, actor: ActorIx) {
        let (snapshot, problem) = (self.solution.snapshot, self.solution.problem);
        let mut given = snapshot.file().actors[actor.at()].clone();
        let is_target = |unit: &UnitIx| self.targets.contains(unit);
        // Whatever it left long ago, leaving it again costs nothing more.
        given.current = given.current.filter(|_| problem.current[actor].is_some_and(|unit| is_target(&unit)));
        let id = |unit: UnitIx| snapshot.unit_id(unit).to_owned();
        let places = problem.candidates(actor).iter().copied().filter(is_target).map(id).collect();
        let (actors, places) = (vec![given.id.clone()], Places::Units(places));
        self.file.constraints.push(Constraint::Only { actors, places, reason: None });
        for &(unit, weight) in self.solution.preferred[actor].iter().filter(|(unit, _)| is_target(unit)) {
            let (actor, unit) = (given.id.clone(), id(unit));
            self.file.constraints.push(Constraint::Prefer { actor, unit, weight });
        }
        self.file.actors.push(given);
    }

    /// Ties among the freed, and to the rest of each unit.
    fn ties(&mut self) {
        let snapshot = self.solution.snapshot;
        let mut sums: BTreeMap<(ActorIx, String), [i64; 3]> = BTreeMap::new();
        for &actor in self.freed {
            for edge in &self.solution.problem.edges[actor] {
                let peer = match (self.stands(edge.peer), self.solution.assignment[edge.peer]) {
                    (false, _) if edge.peer > actor => snapshot.actor_id(edge.peer).to_owned(),
                    (true, Some(unit)) => rest_of(&snapshot.file().units[unit.at()]),
                    _ => continue,
                };
                let sum = sums.entry((actor, peer)).or_default();
                for (sum, value) in sum.iter_mut().zip([edge.rate, edge.annoyance, edge.interference]) {
                    *sum += value;
                }
            }
        }
        for ((actor, peer), [rate, annoyance, interference]) in sums {
            let id = || snapshot.actor_id(actor).to_owned();
            if rate > 0 {
                self.file.messages.push(Message { from: id(), to: peer.clone(), count: rate.unsigned_abs() });
            }
            if annoyance > 0 {
                self.file.annoyance.push(Drag { a: id(), b: peer.clone(), drag: annoyance.unsigned_abs() });
            }
            if interference > 0 {
                self.file.interference.push(Drag { a: id(), b: peer, drag: interference.unsigned_abs() });
            }
        }
    }

    fn relations(&mut self) {
        let (solution, snapshot, problem) = (self.solution, self.solution.snapshot, self.solution.problem);
        let of_freed: BTreeSet<RelationIx> =
            self.freed.iter().flat_map(|&actor| problem.relations_of[actor].iter().copied()).collect();
        for relation in of_freed.into_iter().map(|position| &problem.relations[position]) {
            let mut members = BTreeSet::new();
            for &member in &relation.actors {
                if !self.stands(member) {
                    members.insert(snapshot.actor_id(member).to_owned());
                    continue;
                }
                let Some(unit) = solution.assignment[member] else { continue };
                let here = problem.place(relation.scope, unit);
                let near = |target: &&UnitIx| problem.place(relation.scope, **target) == here;
                // Any unit of the place speaks for it. Far from all targets nobody can be too near.
                let speaker = self.targets.get(&unit).or_else(|| self.targets.iter().find(near)).copied();
                match speaker.or((!relation.apart).then_some(unit)) {
                    Some(unit) => members.insert(rest_of(&snapshot.file().units[unit.at()])),
                    None => continue,
                };
                if let Some(unit) = speaker {
                    self.needs.entry(unit).or_default();
                }
            }
            if members.len() > 1 {
                let (on, actors) = (relation.scope, members.into_iter().collect());
                self.file.constraints.push(if relation.apart {
                    Constraint::Apart { on, actors, reason: None }
                } else {
                    Constraint::Together { on, actors, reason: None }
                });
            }
        }
    }

    /// The rest of each unit, where there is any, as an actor.
    fn residents(&mut self) {
        let named: BTreeSet<&String> = (self.file.messages.iter().map(|message| &message.to))
            .chain(self.file.annoyance.iter().chain(&self.file.interference).map(|drag| &drag.b))
            .collect();
        let related = self.file.constraints.iter().flat_map(|constraint| match constraint {
            Constraint::Apart { actors, .. } | Constraint::Together { actors, .. } => actors.as_slice(),
            _ => &[],
        });
        let named: BTreeSet<&String> = related.chain(named).collect();
        let units = &self.solution.snapshot.file().units;
        let mut residents = Vec::new();
        for (&at, needs) in &self.needs {
            let (id, unit) = (rest_of(&units[at.at()]), &units[at.at()]);
            let hosts = self.solution.hosted[at].iter().any(|actor| !self.freed.contains(actor));
            if !hosts && *needs == RunsOn::default() && !named.contains(&id) {
                continue;
            }
            residents.push(Actor {
                id,
                runs_on: [(unit.kind.clone(), needs.clone())].into(),
                fixed: true,
                current: Some(unit.id.clone()),
                ..Actor::default()
            });
        }
        self.file.actors.extend(residents);
    }
}

#[cfg(test)]
mod tests {
    use asp::vector;
    use placement::{Budget, Strategy};

    use super::*;

    fn published(name: &str) -> Snapshot {
        let path = format!("{}/../../examples/instances/{name}.json", env!("CARGO_MANIFEST_DIR"));
        Snapshot::read(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// What an assignment changes, level by level; overload is told as it is.
    fn change(snapshot: &Snapshot, from: &Assignment, to: &Assignment) -> Vec<i64> {
        let (from, to) = (vector(snapshot, from), vector(snapshot, to));
        let sums = from.iter().zip(&to).skip(2).map(|(from, to)| to - from);
        [to[0] - from[0], to[1]].into_iter().chain(sums).collect()
    }

    /// Whatever the freed do: it is feasible in the subproblem if and only if it is in the whole, and changes as much.
    fn holds_for(snapshot: &Snapshot, seed: u64) -> (u32, u32) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let whole = search::Greedy.solve(snapshot, &Budget::effort(None, seed)).unwrap().assignment;
        let solution = Solution::new(snapshot, &whole);
        let (mut feasible, mut infeasible) = (0, 0);
        for _ in 0..40 {
            let first = ActorIx::new(rng.usize(..snapshot.actors()));
            let neighbours = snapshot.edges(first).iter().map(|edge| edge.peer).take(3);
            let freed: BTreeSet<ActorIx> = neighbours
                .chain([first, ActorIx::new(rng.usize(..snapshot.actors()))])
                .filter(|&a| !snapshot.is_fixed(a))
                .collect();
            let targets: BTreeSet<UnitIx> =
                (0..4).map(|_| UnitIx::new(rng.usize(..snapshot.units()))).collect();
            let subproblem = solution.cut(&freed, &targets).unwrap();
            assert!(subproblem.world.violations(&subproblem.start).is_empty(), "{:?}", subproblem.world);
            assert_eq!(subproblem.widen(&whole, &subproblem.start), whole);
            for _ in 0..40 {
                let mut small = subproblem.start.clone();
                for actor in ActorIx::first(freed.len()) {
                    if rng.bool() {
                        small[actor] = rng.choice(subproblem.world.candidates(actor)).copied();
                    }
                }
                let wide = subproblem.widen(&whole, &small);
                let is_feasible = snapshot.violations(&wide).is_empty();
                assert_eq!(
                    subproblem.world.violations(&small).is_empty(),
                    is_feasible,
                    "{:?} {small:?}",
                    subproblem.world
                );
                assert_eq!(
                    change(&subproblem.world, &subproblem.start, &small),
                    change(snapshot, &whole, &wide)
                );
                *if is_feasible { &mut feasible } else { &mut infeasible } += 1;
            }
        }
        (feasible, infeasible)
    }

    #[test]
    fn a_subproblem_says_of_the_freed_what_the_whole_says() {
        assert_eq!(holds_for(&published("P-24x6-s1"), 1).1, 0);
        // With limits and relations of every kind that the instances have.
        let clusters = holds_for(&published("C-1000x200-s1"), 2);
        assert!(clusters.0 > 100 && clusters.1 > 100, "{clusters:?}");
    }

    #[test]
    fn a_subproblem_under_a_price_of_moves_counts_what_can_be_kept() {
        let mut file = published("P-24x6-s1").file().clone();
        let unit = |actor: usize| Some(file.units[actor % file.units.len()].id.clone());
        let homes: Vec<Option<String>> = (0..file.actors.len()).map(unit).collect();
        for (actor, home) in file.actors.iter_mut().zip(homes) {
            (actor.current, actor.move_cost) = (home, 100);
        }
        file.objectives = Levels::default();
        let snapshot = Snapshot::new(file).unwrap();
        holds_for(&snapshot, 3);
    }
}
