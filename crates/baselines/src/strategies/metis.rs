//! The strategy `metis`: the graph partitioner, extended by everything that it does not model.

use std::collections::BTreeMap;

use placement::file::{Constraint, Scope};
use placement::ix::{ActorIx, IxVec, NodeIx, UnitIx};
use placement::{Answer, Assignment, Budget, FoundBy, Snapshot, SolveError, Stage, StoppedBy, Strategy};

use super::matching::cheapest;
use super::partition::{Method, WeightedGraph, cut};
use super::repair::repair;

/// METIS (Karypis and Kumar, 1998), made as strong as possible for this problem.
///
/// Actors that must share a unit form one vertex. METIS cuts the graph into parts whose target weights are capacities;
/// work that only one kind can run is a separate balance constraint. Parts are matched to units by minimum-cost
/// assignment; the repair of `placement` places the remaining actors and removes violations and overload; then
/// improving single moves are applied.
/// Three schemes are tried, each with both METIS methods and several seeds: units directly; kind, then units; node, then
/// kind, then units. The best answer counts.
///
/// A unit of effort is one cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metis;

/// Default number of cuts.
const TRIES: u64 = 24;

/// Upper limit on units for matching: beyond it the assignment problem takes minutes.
const MOST_MATCHED: usize = 1200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Units,
    Kinds,
    Nodes,
}

impl Strategy for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }

    fn summary(&self) -> &'static str {
        "cuts the message graph with METIS, matches parts to units, and repairs; a baseline"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        if let Some(refusal) = snapshot.problem().channels.refusal("METIS") {
            return Err(SolveError::Solver(refusal));
        }
        let graph = BundleGraph::new(snapshot);
        let mut best: Option<(Vec<i64>, Assignment, u64)> = None;
        let most = budget.effort.unwrap_or(TRIES).max(1);
        let mut tried = 0;
        while tried < most && (tried == 0 || !(budget.stop)()) {
            let (way, method, seed) = plan_of(snapshot, tried, budget.seed);
            tried += 1;
            let places = graph.places(way, method, seed).map_err(SolveError::Solver)?;
            for repaired in repair(snapshot, &places, &Budget { effort: None, seed, ..*budget })? {
                let vector = snapshot.cost(&repaired).vector(snapshot);
                if best.as_ref().is_none_or(|(least, ..)| vector < *least) {
                    best = Some((vector, repaired, tried));
                }
            }
        }
        let (_, assignment, effort) = best.expect("one cut is always tried");
        let answer = Answer {
            assignment,
            bound: BTreeMap::new(),
            optimal: false,
            effort,
            stage: Stage::Whole,
            found_by: FoundBy::Construction,
            proven_by: None,
            stopped_by: if tried < most { StoppedBy::Deadline } else { StoppedBy::Effort },
        };
        Ok(search::repair_violations(snapshot, answer, budget))
    }
}

/// Parameters of a try by its number: schemes vary first, then methods, then seeds.
fn plan_of(snapshot: &Snapshot, number: u64, seed: u64) -> (Way, Method, u64) {
    let ways: &[Way] = match (snapshot.nodes().len() > 1, snapshot.units() <= MOST_MATCHED) {
        (true, true) => &[Way::Nodes, Way::Kinds, Way::Units],
        (true, false) => &[Way::Nodes],
        (false, _) => &[Way::Kinds, Way::Units],
    };
    let count = ways.len() as u64;
    let way = ways[usize::try_from(number % count).expect("a position among three")];
    let method = if (number / count).is_multiple_of(2) { Method::KWay } else { Method::Recursive };
    (way, method, seed.wrapping_mul(1000).wrapping_add(number / (2 * count)))
}

/// The actors of a snapshot; those that must share a unit form one vertex.
struct BundleGraph<'a> {
    snapshot: &'a Snapshot,
    /// By vertex: actors, ascending.
    actors: Vec<Vec<ActorIx>>,
    /// By vertex: neighbours and messages.
    edges: Vec<Vec<(usize, i64)>>,
    /// By unit: kind.
    kind: IxVec<UnitIx, usize>,
    kinds: usize,
    /// By vertex and kind: work, `None` if incompatible.
    work: Vec<Vec<Option<i64>>>,
    /// By pair of kinds: message cost.
    exchange: Vec<Vec<i64>>,
}

impl<'a> BundleGraph<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut leader: IxVec<ActorIx, ActorIx> = ActorIx::first(snapshot.actors()).collect();
        for constraint in &snapshot.file().constraints {
            if let Constraint::Together { on: Scope::Unit, actors, .. } = constraint {
                let at: Vec<ActorIx> = actors.iter().filter_map(|actor| snapshot.actor(actor)).collect();
                for pair in at.windows(2) {
                    let (a, b) = (root(&leader, pair[0]), root(&leader, pair[1]));
                    leader[a.max(b)] = a.min(b);
                }
            }
        }
        let mut vertex_of: IxVec<ActorIx, usize> = IxVec::of(0, snapshot.actors());
        let mut actors: Vec<Vec<ActorIx>> = Vec::new();
        for actor in ActorIx::first(snapshot.actors()) {
            let first = root(&leader, actor);
            if first == actor {
                vertex_of[actor] = actors.len();
                actors.push(Vec::new());
            }
            vertex_of[actor] = vertex_of[first];
            actors[vertex_of[actor]].push(actor);
        }
        let mut names: Vec<&str> = snapshot.file().units.iter().map(|unit| unit.kind.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let units = snapshot.file().units.iter();
        let kind: IxVec<UnitIx, usize> = units
            .map(|unit| names.binary_search(&unit.kind.as_str()).expect("the kinds are the units'"))
            .collect();
        let mut bundled = Self {
            snapshot,
            edges: Vec::new(),
            work: Vec::new(),
            kinds: names.len(),
            kind,
            actors,
            exchange: names
                .iter()
                .map(|a| names.iter().map(|b| snapshot.kind_cost(a, b)).collect())
                .collect(),
        };
        bundled.edges = bundled.actors.iter().map(|of| bundled.ties(of, &vertex_of)).collect();
        bundled.work = bundled.actors.iter().map(|of| bundled.works(of)).collect();
        bundled
    }

    fn ties(&self, actors: &[ActorIx], vertex_of: &IxVec<ActorIx, usize>) -> Vec<(usize, i64)> {
        let mut ties: BTreeMap<usize, i64> = BTreeMap::new();
        for edge in actors.iter().flat_map(|&actor| self.snapshot.edges(actor)) {
            if edge.rate > 0 && vertex_of[edge.peer] != vertex_of[actors[0]] {
                *ties.entry(vertex_of[edge.peer]).or_default() += edge.rate;
            }
        }
        ties.into_iter().collect()
    }

    fn works(&self, actors: &[ActorIx]) -> Vec<Option<i64>> {
        let on = |kind: usize| {
            let works = actors.iter().map(|&actor| {
                let mut candidates = self.snapshot.candidates(actor).iter();
                let there = candidates.find(|unit| self.kind[**unit] == kind)?;
                self.snapshot.implementation(actor, *there).map(|needs| needs.work)
            });
            works.sum()
        };
        (0..self.kinds).map(on).collect()
    }

    /// The assignment from METIS and matching, without a feasibility check.
    fn places(&self, way: Way, method: Method, seed: u64) -> Result<Assignment, String> {
        let vertices: Vec<usize> = (0..self.actors.len()).collect();
        let units: Vec<UnitIx> = UnitIx::first(self.snapshot.units()).collect();
        let mut places = Assignment::of(None, self.snapshot.actors());
        match way {
            Way::Units => self.onto_units(&vertices, &units, method, seed, &mut places)?,
            Way::Kinds => self.by_kinds(&vertices, &units, method, seed, &mut places)?,
            Way::Nodes => {
                let mut nodes: BTreeMap<NodeIx, Vec<UnitIx>> = BTreeMap::new();
                for unit in units {
                    nodes.entry(self.snapshot.node_of(unit)).or_default().push(unit);
                }
                let groups: Vec<Vec<UnitIx>> = nodes.into_values().collect();
                for (group, here) in self.onto(&vertices, &groups, method, seed)?.into_iter().enumerate() {
                    self.by_kinds(&here, &groups[group], method, seed, &mut places)?;
                }
            }
        }
        Ok(places)
    }

    fn by_kinds(
        &self,
        vertices: &[usize],
        units: &[UnitIx],
        method: Method,
        seed: u64,
        places: &mut Assignment,
    ) -> Result<(), String> {
        let chosen = self.choose_kinds(vertices, units);
        for kind in 0..self.kinds {
            let here: Vec<usize> =
                vertices.iter().zip(&chosen).filter(|(_, of)| **of == Some(kind)).map(|(v, _)| *v).collect();
            let of_kind: Vec<UnitIx> =
                units.iter().copied().filter(|unit| self.kind[*unit] == kind).collect();
            self.onto_units(&here, &of_kind, method, seed, places)?;
        }
        Ok(())
    }

    fn onto_units(
        &self,
        vertices: &[usize],
        units: &[UnitIx],
        method: Method,
        seed: u64,
        places: &mut Assignment,
    ) -> Result<(), String> {
        let groups: Vec<Vec<UnitIx>> = units.iter().map(|unit| vec![*unit]).collect();
        for (group, here) in self.onto(vertices, &groups, method, seed)?.into_iter().enumerate() {
            for &actor in here.iter().flat_map(|vertex| &self.actors[*vertex]) {
                places[actor] = Some(units[group]);
            }
        }
        Ok(())
    }

    /// Cuts the vertices into one part per group of units; returns the vertices of each group.
    fn onto(
        &self,
        vertices: &[usize],
        groups: &[Vec<UnitIx>],
        method: Method,
        seed: u64,
    ) -> Result<Vec<Vec<usize>>, String> {
        let mut members = vec![Vec::new(); groups.len()];
        if vertices.is_empty() || groups.is_empty() {
            return Ok(members);
        }
        let at: BTreeMap<usize, usize> =
            vertices.iter().enumerate().map(|(at, vertex)| (*vertex, at)).collect();
        let inside = |edges: &Vec<(usize, i64)>| {
            edges.iter().filter_map(|(other, rate)| Some((*at.get(other)?, *rate))).collect()
        };
        let room = |group: &Vec<UnitIx>, kind: Option<usize>| -> i64 {
            let counts = group.iter().filter(|unit| kind.is_none_or(|kind| self.kind[**unit] == kind));
            counts.map(|unit| self.snapshot.capacity(*unit)).sum()
        };
        let weights = |vertex: &usize| -> Vec<i64> {
            let work = self.work[*vertex].iter().flatten().copied().min().unwrap_or(0);
            let only = |kind: usize| self.only(*vertex).filter(|only| *only == kind).map_or(0, |_| work);
            std::iter::once(work).chain((0..self.kinds).map(only)).collect()
        };
        let web = WeightedGraph {
            weights: vertices.iter().map(weights).collect(),
            edges: vertices.iter().map(|vertex| inside(&self.edges[*vertex])).collect(),
        };
        // Work of a single kind is balanced if it exists and groups differ in more than size.
        let quantities: Vec<Option<usize>> = std::iter::once(None)
            .chain((0..self.kinds).map(Some).filter(|kind| {
                let kind = kind.expect("kinds only");
                groups.iter().all(|group| room(group, Some(kind)) > 0)
                    && web.weights.iter().any(|weights| weights[kind + 1] > 0)
                    && groups.iter().any(|group| room(group, Some(kind)) < room(group, None))
            }))
            .collect();
        let shares: Vec<Vec<i64>> =
            quantities.iter().map(|kind| groups.iter().map(|group| room(group, *kind)).collect()).collect();
        let picked =
            |weights: &Vec<i64>| quantities.iter().map(|q| weights[q.map_or(0, |k| k + 1)]).collect();
        let web = WeightedGraph { weights: web.weights.iter().map(picked).collect(), edges: web.edges };
        let part = cut(&web, &shares, method, seed)?;
        let mut parts = vec![Vec::new(); groups.len()];
        for (at, part) in part.into_iter().enumerate() {
            parts[part].push(vertices[at]);
        }
        let group_of = cheapest(&self.misfits(&parts, groups));
        for (part, group) in group_of.into_iter().enumerate() {
            members[group] = std::mem::take(&mut parts[part]);
        }
        Ok(members)
    }

    /// The only kind that can run a vertex.
    fn only(&self, vertex: usize) -> Option<usize> {
        let mut kinds = (0..self.kinds).filter(|kind| self.work[vertex][*kind].is_some());
        kinds.next().filter(|_| kinds.next().is_none())
    }

    /// By part and group of units: incompatible work and excess over capacity.
    fn misfits(&self, parts: &[Vec<usize>], groups: &[Vec<UnitIx>]) -> Vec<Vec<i64>> {
        let room: Vec<i64> =
            groups.iter().map(|group| group.iter().map(|unit| self.snapshot.capacity(*unit)).sum()).collect();
        let mean = room.iter().sum::<i64>() / i64::try_from(room.len().max(1)).unwrap_or(1) + 1;
        let of = |part: &Vec<usize>| {
            let works = part.iter().map(|vertex| self.work[*vertex].iter().flatten().min().unwrap_or(&0));
            let load: i64 = works.sum();
            let column = |(group, room): (&Vec<UnitIx>, &i64)| {
                let actors = part.iter().flat_map(|vertex| &self.actors[*vertex]);
                let out = actors.filter(|actor| {
                    let candidates = self.snapshot.candidates(**actor);
                    !group.iter().any(|unit| candidates.binary_search(unit).is_ok())
                });
                let out = i64::try_from(out.count()).unwrap_or(i64::from(u32::MAX));
                out * mean + (load - room).max(0)
            };
            groups.iter().zip(&room).map(column).collect()
        };
        parts.iter().map(of).collect()
    }

    /// Chooses a kind for each vertex: the cheapest next to its neighbours among kinds with free capacity.
    fn choose_kinds(&self, vertices: &[usize], units: &[UnitIx]) -> Vec<Option<usize>> {
        let mut left = vec![0i64; self.kinds];
        for &unit in units {
            left[self.kind[unit]] += self.snapshot.capacity(unit);
        }
        // Keeps a reserve: a kind filled completely cannot be packed into units.
        for room in &mut left {
            *room -= *room / 20;
        }
        let mut chosen: BTreeMap<usize, usize> = BTreeMap::new();
        let choices = |vertex: usize| (0..self.kinds).filter(move |kind| self.work[vertex][*kind].is_some());
        let mut order: Vec<usize> = vertices.to_vec();
        order.sort_by_key(|&vertex| {
            let work = self.work[vertex].iter().flatten().max().copied().unwrap_or(0);
            (choices(vertex).count(), std::cmp::Reverse(work), vertex)
        });
        for _ in 0..PASSES {
            for &vertex in &order {
                if let Some(kind) = chosen.remove(&vertex) {
                    left[kind] += self.work[vertex][kind].unwrap_or(0);
                }
                let price = |kind: usize| -> i64 {
                    let near =
                        self.edges[vertex].iter().filter_map(|(o, rate)| Some((*chosen.get(o)?, *rate)));
                    near.map(|(other, rate)| rate * self.exchange[kind][other]).sum()
                };
                let short = |kind: usize| (self.work[vertex][kind].unwrap_or(0) - left[kind]).max(0);
                let offered =
                    choices(vertex).filter(|kind| units.iter().any(|unit| self.kind[*unit] == *kind));
                if let Some(kind) = offered.min_by_key(|&kind| (short(kind), price(kind), kind)) {
                    left[kind] -= self.work[vertex][kind].unwrap_or(0);
                    chosen.insert(vertex, kind);
                }
            }
        }
        vertices.iter().map(|vertex| chosen.get(vertex).copied()).collect()
    }
}

/// Passes over all vertices; later passes know the choices of the others.
const PASSES: usize = 4;

/// The representative of an actor's bundle: its smallest member.
fn root(leader: &IxVec<ActorIx, ActorIx>, mut actor: ActorIx) -> ActorIx {
    while leader[actor] != actor {
        actor = leader[actor];
    }
    actor
}
