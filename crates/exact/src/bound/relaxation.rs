//! A level of the objectives as a program over kinds, and over pairs of actors that share a place.
//!
//! Units of one kind are not told apart: x(a,k) says that actor a is on kind k, y(a,b,k,l) that a is on k and b on l,
//! z(a,b,k) that both are on one unit of kind k, and further variables that they share a node, a zone. A message then
//! costs at least Σ cost(k,l)·y − Σ cost(k,k)·z + otherNode·(1 − same node) + otherZone·(1 − same zone). The y are the
//! local-marginal polytope (Wainwright and Jordan, 2008, 4.1); the z are the clique partitioning polytope (Grötschel
//! and Wakabayashi, 1990) with knapsack rows per actor: who shares a unit with a, and a, must fit on one.
//!
//! Every feasible placement without unplaced actors is a 0-1 solution, and costs no less than it does here.

use std::collections::BTreeMap;

use placement::file::{Constraint, Scope};
use placement::{Criterion, Edge};

use crate::bound::pairs::{Common, Commons, Pairs};
use crate::bound::program::Program;
use crate::bound::world::{Dimension, World, signed};

/// Where two actors can be together, and the variables of that.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The smaller actor.
    pub a: usize,
    /// The larger actor.
    pub b: usize,
    /// By kind: that they share a unit of it; `None` where they cannot.
    pub units: Vec<Option<usize>>,
    /// That they share a node; `None` where they cannot.
    pub node: Option<usize>,
    /// That they share a zone, or a node; `None` where they cannot.
    pub zone: Option<usize>,
}

/// The program and what its variables mean.
pub struct Relaxation<'a> {
    /// What it is of.
    pub world: &'a World<'a>,
    /// The program.
    pub program: Program,
    /// By actor and kind.
    pub on_kind: Vec<BTreeMap<usize, usize>>,
    /// The pairs, ascending.
    pub pairs: Vec<Pair>,
    /// By actor: the other and the position of their pair.
    pub pairs_of: Vec<Vec<(usize, usize)>>,
}

/// How often each tie between actors counts in the level, 0 or 1, and whether nodes and zones make a difference.
struct Aim {
    communication: i64,
    annoyance: i64,
    interference: i64,
    nodes: bool,
    zones: bool,
}

impl<'a> Relaxation<'a> {
    /// Writes the program of one level.
    pub fn new(world: &'a World<'a>, level: &[Criterion]) -> Self {
        let actors = world.snapshot.actors();
        let counts = |criterion: Criterion| i64::from(level.contains(&criterion));
        let communication = counts(Criterion::Communication);
        let aim = Aim {
            communication,
            annoyance: counts(Criterion::Annoyance),
            interference: counts(Criterion::Interference),
            nodes: communication > 0 && world.other_node > 0 && world.snapshot.nodes().len() > 1,
            zones: communication > 0 && world.other_zone > 0,
        };
        let mut relaxation = Self {
            world,
            program: Program::default(),
            on_kind: vec![BTreeMap::new(); actors],
            pairs: Vec::new(),
            pairs_of: vec![Vec::new(); actors],
        };
        relaxation.place();
        relaxation.fill_kinds();
        relaxation.pair_up(&aim);
        relaxation.fill_places();
        if level.contains(&Criterion::Migration) {
            relaxation.stay();
        }
        if level.contains(&Criterion::Policy) {
            relaxation.prefer();
        }
        relaxation
    }

    /// Each actor is on one kind.
    fn place(&mut self) {
        for actor in 0..self.on_kind.len() {
            for kind in self.world.kinds_of(actor) {
                let variable = self.program.variable(0);
                self.on_kind[actor].insert(kind, variable);
            }
            let choice: Vec<usize> = self.on_kind[actor].values().copied().collect();
            self.program.equal(choice.iter().map(|&variable| (variable, 1)).collect(), 1);
            self.program.choices.push(choice);
        }
    }

    /// The units of a kind together hold what is on it, the nodes together what they hold.
    fn fill_kinds(&mut self) {
        for dimension in &self.world.dimensions {
            let scopes: Vec<Vec<usize>> = if dimension.of_nodes {
                vec![(0..self.world.kinds).collect()]
            } else {
                (0..self.world.kinds).map(|kind| vec![kind]).collect()
            };
            for kinds in scopes {
                let limit = if dimension.of_nodes {
                    dimension.limits.iter().sum()
                } else {
                    let of_kind = |unit: &usize| kinds.contains(&self.world.unit_kind[*unit]);
                    (0..dimension.limits.len()).filter(of_kind).map(|unit| dimension.limits[unit]).sum()
                };
                let needs = self.on_kind.iter().enumerate().flat_map(|(actor, on)| {
                    let kinds = &kinds;
                    let here = on.iter().filter(move |(kind, _)| kinds.contains(kind));
                    here.map(move |(kind, variable)| (*variable, dimension.needs[actor][*kind]))
                });
                at_most(&mut self.program, needs.collect(), limit);
            }
        }
    }

    fn pair_up(&mut self, aim: &Aim) {
        let pairs = Pairs::new(self.world);
        let mut commons = Commons::default();
        for &(a, b) in &pairs.all {
            let common = commons.of(self.world, a, b);
            let edges = self.world.snapshot.edges(a);
            let edge =
                edges.binary_search_by_key(&b, |edge| edge.peer.at()).map_or(Edge::default(), |at| edges[at]);
            let rate = aim.communication * edge.rate;
            let apart = pairs.apart.get(&(a, b)).copied();
            let pair = self.meet(a, b, common, apart, aim);
            let both = self.price_kinds(&pair, rate);
            self.price_places(&pair, &edge, rate, aim);
            self.tie(&pair, &both);
            if let Some(scope) = pairs.together.get(&(a, b)) {
                self.join(&pair, *scope);
            }
            let position = self.pairs.len();
            self.pairs_of[a].push((b, position));
            self.pairs_of[b].push((a, position));
            self.pairs.push(pair);
        }
        for pairs in &mut self.pairs_of {
            pairs.sort_unstable();
        }
    }

    /// Variables of where the two can be together.
    fn meet(&mut self, a: usize, b: usize, common: &Common, apart: Option<Scope>, aim: &Aim) -> Pair {
        let world = self.world;
        let fixed = world.snapshot.is_fixed(a) && world.snapshot.is_fixed(b);
        let fits = |kind: usize| {
            let Some(limits) = &common.limits[kind] else { return false };
            let dimensions = world.dimensions.iter().filter(|dimension| !dimension.of_nodes);
            let within = |(dimension, limit): (&Dimension, &i64)| {
                dimension.needs[a][kind] + dimension.needs[b][kind] <= *limit
            };
            apart.is_none() && (fixed || dimensions.zip(limits).all(within))
        };
        let units = (0..world.kinds).map(|kind| fits(kind).then(|| self.program.variable(0))).collect();
        let node = common.node && aim.nodes && apart.is_none_or(|scope| scope < Scope::Node);
        let zone = (common.zone || common.node) && aim.zones;
        let mut sharing = |shared: bool| shared.then(|| self.program.variable(0));
        Pair { a, b, units, node: sharing(node), zone: sharing(zone) }
    }

    /// What the kinds make a message cost; returns by kind the variable that both are on it, where there is one.
    fn price_kinds(&mut self, pair: &Pair, rate: i64) -> Vec<Option<usize>> {
        let mut both = vec![None; self.world.kinds];
        if rate == 0 {
            return both;
        }
        let (of_a, of_b) = (self.on_kind[pair.a].clone(), self.on_kind[pair.b].clone());
        let mut choice = Vec::new();
        let mut rows: BTreeMap<usize, Vec<(usize, i64)>> = BTreeMap::new();
        for (&k, &on_k) in &of_a {
            for (&l, &on_l) in &of_b {
                let variable = self.program.variable(rate * self.world.kind_cost[k][l]);
                if k == l {
                    both[k] = Some(variable);
                }
                choice.push(variable);
                rows.entry(on_k).or_default().push((variable, 1));
                rows.entry(on_l).or_default().push((variable, 1));
            }
        }
        for (on, mut terms) in rows {
            terms.push((on, -1));
            self.program.equal(terms, 0);
        }
        self.program.choices.push(choice);
        both
    }

    /// What is saved, or comes on top, where the two are together.
    fn price_places(&mut self, pair: &Pair, edge: &Edge, rate: i64, aim: &Aim) {
        let (annoyance, interference) =
            (aim.annoyance * edge.annoyance, aim.interference * edge.interference);
        let program = &mut self.program;
        program.constant += annoyance;
        for (kind, variable) in pair.units.iter().enumerate() {
            if let Some(variable) = *variable {
                program.costs[variable] = interference - annoyance - rate * self.world.kind_cost[kind][kind];
            }
        }
        // On one node every pair of units is, so the price is saved; else it is paid by all who are apart.
        for (told_apart, shared, price) in
            [(aim.nodes, pair.node, self.world.other_node), (aim.zones, pair.zone, self.world.other_zone)]
        {
            if told_apart {
                program.constant += rate * price;
                if let Some(shared) = shared {
                    program.costs[shared] = -rate * price;
                }
            }
        }
    }

    /// Who shares a unit is on its kind, shares its node, and shares its zone.
    fn tie(&mut self, pair: &Pair, both: &[Option<usize>]) {
        let program = &mut self.program;
        for (kind, variable) in pair.units.iter().enumerate() {
            let Some(variable) = *variable else { continue };
            if let Some(both) = both[kind] {
                program.at_most(vec![(variable, 1), (both, -1)], 0);
                program.rides_on[variable] = Some(both);
            } else {
                for actor in [pair.a, pair.b] {
                    program.at_most(vec![(variable, 1), (self.on_kind[actor][&kind], -1)], 0);
                }
            }
        }
        let on_units: Vec<(usize, i64)> =
            pair.units.iter().flatten().map(|&variable| (variable, 1)).collect();
        let wider = [pair.node, pair.zone];
        if let Some(least) = wider.iter().flatten().next()
            && !on_units.is_empty()
        {
            let mut terms = on_units;
            terms.push((*least, -1));
            program.at_most(terms, 0);
        }
        if let [Some(node), Some(zone)] = wider {
            program.at_most(vec![(node, 1), (zone, -1)], 0);
        }
    }

    /// The two must be together.
    fn join(&mut self, pair: &Pair, scope: Scope) {
        let terms: Vec<(usize, i64)> = match scope {
            Scope::Unit => pair.units.iter().flatten().map(|&variable| (variable, 1)).collect(),
            Scope::Numa | Scope::Node => pair.node.iter().map(|&variable| (variable, 1)).collect(),
            Scope::Zone => pair.zone.iter().map(|&variable| (variable, 1)).collect(),
        };
        if !terms.is_empty() {
            self.program.at_least(terms, 1);
        }
    }

    /// Who shares a place with an actor fits there beside it.
    fn fill_places(&mut self) {
        for actor in 0..self.on_kind.len() {
            self.fill_units(actor);
            self.fill_wider(actor, |pair| pair.node, |world, unit| world.snapshot.node_of(unit));
        }
    }

    fn fill_units(&mut self, actor: usize) {
        let world = self.world;
        let candidates = world.snapshot.candidates(actor);
        for dimension in world.dimensions.iter().filter(|dimension| !dimension.of_nodes) {
            for (&kind, &on_kind) in &self.on_kind[actor] {
                let of_kind = candidates.iter().filter(|unit| world.unit_kind[**unit] == kind);
                let most = of_kind.map(|&unit| dimension.limits[unit]).max().unwrap_or(0);
                let left = most - dimension.needs[actor][kind];
                let others = self.pairs_of[actor].iter().filter_map(|&(other, pair)| {
                    Some((self.pairs[pair].units[kind]?, dimension.needs[other][kind]))
                });
                let mut terms: Vec<(usize, i64)> = others.filter(|(_, need)| *need > 0).collect();
                if terms.iter().map(|(_, need)| need).sum::<i64>() > left {
                    terms.push((on_kind, -left));
                    self.program.at_most(terms, 0);
                }
            }
        }
    }

    /// The same by node: what the units of a node, or the node itself, can take.
    fn fill_wider(
        &mut self,
        actor: usize,
        shared: impl Fn(&Pair) -> Option<usize>,
        place: impl Fn(&World, usize) -> usize,
    ) {
        let world = self.world;
        if self.pairs_of[actor].iter().all(|&(_, pair)| shared(&self.pairs[pair]).is_none()) {
            return;
        }
        let kinds = |actor: usize| self.on_kind[actor].keys().copied();
        for dimension in &world.dimensions {
            let mut limits: BTreeMap<usize, i64> = BTreeMap::new();
            if dimension.of_nodes {
                limits.extend(dimension.limits.iter().copied().enumerate());
            } else {
                for (unit, limit) in dimension.limits.iter().enumerate() {
                    *limits.entry(place(world, unit)).or_default() += limit;
                }
            }
            let homes = world.snapshot.candidates(actor).iter().map(|&unit| limits[&place(world, unit)]);
            let left = homes.max().unwrap_or(0) - dimension.least_need(actor, kinds(actor));
            let others = self.pairs_of[actor].iter().filter_map(|&(other, pair)| {
                Some((shared(&self.pairs[pair])?, dimension.least_need(other, kinds(other))))
            });
            at_most(&mut self.program, others.collect(), left);
        }
    }

    /// Who leaves pays; who stays does so on one unit, beside the others who stay.
    fn stay(&mut self) {
        let world = self.world;
        let mut stays: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for actor in 0..self.on_kind.len() {
            let Some(home) = world.snapshot.current(actor) else { continue };
            let price = world.snapshot.move_cost(actor);
            self.program.constant += price;
            if world.snapshot.candidates(actor).binary_search(&home).is_ok() && price > 0 {
                let stay = self.program.variable(-price);
                let on_kind = self.on_kind[actor][&world.unit_kind[home]];
                self.program.at_most(vec![(stay, 1), (on_kind, -1)], 0);
                stays.entry(home).or_default().push((actor, stay));
            }
        }
        for (home, stays) in &stays {
            let kind = world.unit_kind[*home];
            for dimension in world.dimensions.iter().filter(|dimension| !dimension.of_nodes) {
                let terms = stays.iter().map(|&(actor, stay)| (stay, dimension.needs[actor][kind]));
                at_most(&mut self.program, terms.collect(), dimension.limits[*home]);
            }
        }
        self.part(&stays);
    }

    /// Two that stay on different units do not share one.
    fn part(&mut self, stays: &BTreeMap<usize, Vec<(usize, usize)>>) {
        let snapshot = self.world.snapshot;
        let of: BTreeMap<usize, usize> = stays.values().flatten().copied().collect();
        for pair in &self.pairs {
            let (Some(&a), Some(&b)) = (of.get(&pair.a), of.get(&pair.b)) else { continue };
            let (Some(at_a), Some(at_b)) = (snapshot.current(pair.a), snapshot.current(pair.b)) else {
                continue;
            };
            let mut terms: Vec<(usize, i64)> = Vec::new();
            if at_a != at_b {
                terms.extend(pair.units.iter().flatten().map(|&variable| (variable, 1)));
            }
            if let Some(node) = pair.node
                && snapshot.node_of(at_a) != snapshot.node_of(at_b)
            {
                // Sharing a node includes sharing a unit.
                terms = vec![(node, 1)];
            }
            if !terms.is_empty() {
                terms.extend([(a, 1), (b, 1)]);
                self.program.at_most(terms, 2);
            }
        }
    }

    /// Who is not where it is preferred costs the weight; on another kind it is elsewhere for sure.
    fn prefer(&mut self) {
        for constraint in &self.world.snapshot.file().constraints {
            let Constraint::Prefer { actor, unit, weight } = constraint else { continue };
            let place = self.world.snapshot.actor(actor).zip(self.world.snapshot.unit(unit));
            let (actor, unit) = place.expect("unknown names are refused on input");
            self.program.constant += signed(*weight);
            if self.world.snapshot.candidates(actor).binary_search(&unit).is_ok() {
                let there = self.on_kind[actor][&self.world.unit_kind[unit]];
                self.program.costs[there] -= signed(*weight);
            }
        }
    }
}

/// A row that says something: that everything together does not fit.
fn at_most(program: &mut Program, terms: Vec<(usize, i64)>, limit: i64) {
    let terms: Vec<(usize, i64)> = terms.into_iter().filter(|(_, need)| *need > 0).collect();
    if terms.iter().map(|(_, need)| need).sum::<i64>() > limit {
        program.at_most(terms, limit);
    }
}
