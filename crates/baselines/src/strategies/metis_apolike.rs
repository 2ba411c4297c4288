//! The strategies `metis-apolike` and variants: METIS as used in the APO paper (section IV).

use std::collections::BTreeMap;

use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Answer, Assignment, Budget, FoundBy, Snapshot, SolveError, Stage, StoppedBy, Strategy};

use super::matching::cheapest;
use super::partition::{Method, WeightedGraph, cut};
use super::repair::repair;

/// A way of using METIS for placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetisApolike {
    /// Three cuts in sequence, over annoyance, overload and communication; the last graph has a vertex for each pair of an
    /// actor and a compatible unit. Edges within a part of the previous cut get a higher weight. Parts are matched to units
    /// by minimum-cost assignment, and the answer is repaired: the paper's idea without the defects of its program.
    Fair,
    /// The same as published: edges of the third graph weigh their message cost, parts are matched to units by size, and only
    /// incompatible placements are repaired.
    Published,
    /// One cut of the message graph into parts of equal work, matched to units in order.
    Homogeneous,
    /// One cut into parts whose shares are the capacities, matched to units in order.
    Capacities,
}

/// Weight factor of edges within a part of the previous cut.
const KEPT: i64 = 10;

impl Strategy for MetisApolike {
    fn name(&self) -> &'static str {
        match self {
            Self::Fair => "metis-apolike",
            Self::Published => "metis-apolike-published",
            Self::Homogeneous => "metis-homogeneous",
            Self::Capacities => "metis-capacities",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::Fair => {
                "METIS over annoyance, overload and communication in sequence, matched and repaired; a baseline"
            }
            Self::Published => "the same as the APO paper's authors published it; a baseline",
            Self::Homogeneous => "METIS into equal parts, in order; a baseline",
            Self::Capacities => "METIS into parts as large as capacities, in order; a baseline",
        }
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        if let Some(refusal) = snapshot.problem().channels.refusal("METIS") {
            return Err(SolveError::Solver(refusal));
        }
        let graphs = Graphs::new(snapshot);
        let places = if snapshot.units() == 0 || graphs.actors.is_empty() {
            Assignment::of(None, snapshot.actors())
        } else {
            self.places(&graphs, budget.seed).map_err(SolveError::Solver)?
        };
        let feasible = snapshot.violations(&places).is_empty() && places.iter().all(Option::is_some);
        let assignment = if feasible && *self != Self::Fair {
            places
        } else {
            let by_cost = |of: &Assignment| snapshot.cost(of).vector(snapshot);
            let [one, other] = repair(snapshot, &places, &Budget { effort: None, ..*budget })?;
            if by_cost(&other) < by_cost(&one) { other } else { one }
        };
        Ok(Answer {
            assignment,
            bound: BTreeMap::new(),
            optimal: false,
            effort: 1,
            stage: Stage::Whole,
            found_by: FoundBy::Construction,
            proven_by: None,
            stopped_by: StoppedBy::Effort,
        })
    }
}

/// The graphs to cut, over the actors that can be placed.
struct Graphs<'a> {
    snapshot: &'a Snapshot,
    actors: Vec<ActorIx>,
    /// By vertex: work, the mean over compatible units.
    work: Vec<i64>,
    /// By vertex: neighbours and messages.
    messages: Vec<Vec<(usize, i64)>>,
    /// By vertex: neighbours and annoyance.
    annoyance: Vec<Vec<(usize, i64)>>,
}

impl<'a> Graphs<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let actors: Vec<ActorIx> = ActorIx::first(snapshot.actors())
            .filter(|&actor| !snapshot.is_fixed(actor) && !snapshot.candidates(actor).is_empty())
            .collect();
        let vertex_of = |actor: ActorIx| actors.binary_search(&actor).ok();
        let work = actors.iter().map(|&actor| {
            let candidates = snapshot.candidates(actor);
            let works =
                candidates.iter().filter_map(|unit| Some(snapshot.implementation(actor, *unit)?.work));
            (works.sum::<i64>() / i64::try_from(candidates.len()).expect("units are few")).max(1)
        });
        let mut messages = vec![Vec::new(); actors.len()];
        let mut annoyance = vec![Vec::new(); actors.len()];
        for (vertex, &actor) in actors.iter().enumerate() {
            for edge in snapshot.edges(actor) {
                let Some(peer) = vertex_of(edge.peer) else { continue };
                if edge.rate > 0 {
                    messages[vertex].push((peer, edge.rate));
                }
                if edge.annoyance > 0 {
                    annoyance[vertex].push((peer, edge.annoyance));
                }
            }
        }
        Self { work: work.collect(), snapshot, messages, annoyance, actors }
    }

    fn capacities(&self) -> Vec<i64> {
        UnitIx::first(self.snapshot.units()).map(|unit| self.snapshot.capacity(unit)).collect()
    }

    /// Cuts the actors; edges within a part of the previous cut get a higher weight.
    fn cut(
        &self,
        edges: &[Vec<(usize, i64)>],
        before: Option<&[usize]>,
        shares: &[i64],
        seed: u64,
    ) -> Result<Vec<usize>, String> {
        let mut web = WeightedGraph {
            weights: self.work.iter().map(|work| vec![*work]).collect(),
            edges: edges.to_vec(),
        };
        if let Some(before) = before {
            for (vertex, edges) in web.edges.iter_mut().enumerate() {
                for (peer, weight) in edges {
                    *weight *= if before[vertex] == before[*peer] { KEPT } else { 1 };
                }
            }
        }
        cut(&web, &[shares.to_vec()], Method::KWay, seed)
    }

    /// Cuts pairs of an actor and a unit; returns by vertex and part the number of the actor's pairs in the part.
    fn cut_pairs(
        &self,
        before: &[usize],
        literal: bool,
        shares: &[i64],
        seed: u64,
    ) -> Result<Vec<Vec<i64>>, String> {
        let snapshot = self.snapshot;
        let mut first = Vec::with_capacity(self.actors.len());
        let mut pairs = Vec::new();
        for (vertex, &actor) in self.actors.iter().enumerate() {
            first.push(pairs.len());
            pairs.extend(snapshot.candidates(actor).iter().map(|unit| (vertex, *unit)));
        }
        let largest = UnitIx::first(snapshot.units())
            .flat_map(|a| UnitIx::first(a.at()).map(move |b| snapshot.exchange_cost(a, b)))
            .max()
            .unwrap_or(0);
        let mut web =
            WeightedGraph { weights: Vec::with_capacity(pairs.len()), edges: vec![Vec::new(); pairs.len()] };
        for (number, &(vertex, unit)) in pairs.iter().enumerate() {
            let work = snapshot.implementation(self.actors[vertex], unit).map_or(0, |needs| needs.work);
            web.weights.push(vec![work.max(1)]);
            for &(peer, rate) in &self.messages[vertex] {
                let kept = if before[vertex] == before[peer] { KEPT } else { 1 };
                for (offset, &other) in snapshot.candidates(self.actors[peer]).iter().enumerate() {
                    let cost = snapshot.exchange_cost(unit, other);
                    let weight = rate * kept * if literal { cost } else { largest + 1 - cost };
                    if weight > 0 {
                        web.edges[number].push((first[peer] + offset, weight));
                    }
                }
            }
        }
        let parts = cut(&web, &[shares.to_vec()], Method::KWay, seed)?;
        let mut votes = vec![vec![0; shares.len()]; self.actors.len()];
        for (&(vertex, _), part) in pairs.iter().zip(parts) {
            votes[vertex][part] += 1;
        }
        Ok(votes)
    }

    /// Places every vertex of a part on the part's unit.
    fn placed(&self, part: &[usize], unit_of: &[UnitIx]) -> Assignment {
        let snapshot = self.snapshot;
        let mut places: Assignment = ActorIx::first(snapshot.actors())
            .map(|actor| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor)))
            .collect();
        for (vertex, &actor) in self.actors.iter().enumerate() {
            let unit = unit_of[part[vertex]];
            places[actor] = snapshot.candidates(actor).binary_search(&unit).is_ok().then_some(unit);
        }
        places
    }

    /// The unit of each part that minimizes excess over capacity, incompatible placements, and messages.
    fn matched(&self, part: &[usize]) -> Vec<UnitIx> {
        const CANNOT_RUN: i64 = 1 << 40;
        let units = self.snapshot.units();
        let mut costs: Vec<IxVec<UnitIx, i64>> = vec![IxVec::of(0, units); units];
        for (vertex, &actor) in self.actors.iter().enumerate() {
            for (unit, cost) in UnitIx::first(units).zip(&mut costs[part[vertex]]) {
                *cost += self.snapshot.implementation(actor, unit).map_or(CANNOT_RUN, |needs| needs.work);
            }
        }
        for row in &mut costs {
            for (unit, cost) in UnitIx::first(units).zip(row) {
                *cost = (*cost - self.snapshot.capacity(unit)).max(0);
            }
        }
        let rows: Vec<Vec<i64>> = costs.iter().map(|row| row.raw().to_vec()).collect();
        cheapest(&rows).into_iter().map(UnitIx::new).collect()
    }
}

impl MetisApolike {
    fn places(self, graphs: &Graphs, seed: u64) -> Result<Assignment, String> {
        let capacities = graphs.capacities();
        let in_order: Vec<UnitIx> = UnitIx::first(capacities.len()).collect();
        match self {
            Self::Homogeneous => {
                let part = graphs.cut(&graphs.messages, None, &vec![1; capacities.len()], seed)?;
                Ok(graphs.placed(&part, &in_order))
            }
            Self::Capacities => {
                let part = graphs.cut(&graphs.messages, None, &capacities, seed)?;
                Ok(graphs.placed(&part, &in_order))
            }
            Self::Fair | Self::Published => {
                let literal = self == Self::Published;
                let annoyed = graphs.cut(&graphs.annoyance, None, &capacities, seed)?;
                let loaded = graphs.cut(&graphs.messages, Some(&annoyed), &capacities, seed)?;
                let votes = graphs.cut_pairs(&loaded, literal, &capacities, seed)?;
                let part: Vec<usize> = votes
                    .iter()
                    .zip(&loaded)
                    // On a tie, the part of the previous cut.
                    .map(|(votes, before)| {
                        let most = votes.iter().max().copied().unwrap_or(0);
                        let first = votes.iter().position(|count| *count == most).unwrap_or(0);
                        if votes[*before] == most { *before } else { first }
                    })
                    .collect();
                let unit_of =
                    if literal { by_size(graphs, &part, &capacities) } else { graphs.matched(&part) };
                Ok(graphs.placed(&part, &unit_of))
            }
        }
    }
}

/// Matches parts to units by size and capacity, both descending.
fn by_size(graphs: &Graphs, part: &[usize], capacities: &[i64]) -> Vec<UnitIx> {
    let mut sizes = vec![0i64; capacities.len()];
    for (vertex, part) in part.iter().enumerate() {
        sizes[*part] += graphs.work[vertex];
    }
    let sorted = |by: &[i64]| {
        let mut order: Vec<usize> = (0..by.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(by[*at]));
        order
    };
    let mut unit_of = vec![UnitIx::NONE; capacities.len()];
    for (part, unit) in sorted(&sizes).into_iter().zip(sorted(capacities)) {
        unit_of[part] = UnitIx::new(unit);
    }
    unit_of
}
