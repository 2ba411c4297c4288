//! The linear relaxation of one level, over kinds of units and over pairs of actors that share a place.
//!
//! Units of one kind are aggregated. x(a,k) says that actor a is on kind k, y(a,b,k,l) that a is on k and b on l, z(a,b,k)
//! that both are on one unit of kind k. Further variables say that they share a node or a zone. A message then costs at
//! least Σ cost(k,l)·y − Σ cost(k,k)·z + otherNode·(1 − same node) + otherZone·(1 − same zone). The y form the
//! local-marginal polytope (Wainwright and Jordan, 2008, 4.1); the z form the clique partitioning polytope (Grötschel and
//! Wakabayashi, 1990) with a knapsack row per actor: an actor and those that share its unit must fit on one.
//!
//! Every feasible placement without unplaced actors is a 0-1 solution and costs no less than that.

use std::collections::BTreeMap;

use placement::criteria::{PairSums, UnaryPreference};
use placement::file::Scope;
use placement::ix::{ActorIx, Ix, IxVec, KindIx, NodeIx, UnitIx};
use placement::{Criterion, Edge};

use crate::bound::kind_view::{Dimension, DimensionLimits, KindView};
use crate::bound::linear_program::{MAX_COEFFICIENTS, Program, Variable, to_u32};
use crate::bound::pairs::{ActorPair, Common, Commons, Pairs};

/// Where two actors can be together, and the variables of that.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The smaller actor.
    pub a: ActorIx,
    /// The larger actor.
    pub b: ActorIx,
    /// By kind: that they share a unit of it; `None` where they cannot.
    pub units: IxVec<KindIx, Option<Variable>>,
    /// That they share a node; `None` where they cannot.
    pub node: Option<Variable>,
    /// That they share a zone or a node; `None` where they cannot.
    pub zone: Option<Variable>,
}

/// The program and the meaning of its variables.
pub struct Relaxation<'a> {
    /// The snapshot that it relaxes.
    pub view: &'a KindView<'a>,
    /// The program.
    pub program: Program,
    /// By actor and kind.
    pub on_kind: IxVec<ActorIx, BTreeMap<KindIx, Variable>>,
    /// The pairs, ascending.
    pub pairs: Vec<Pair>,
    /// By actor: the other actor and the position of their pair.
    pub pairs_of: IxVec<ActorIx, Vec<(ActorIx, u32)>>,
    /// Whether the units of each node are in one zone. Then actors that share a node share a zone, and sharing a zone is
    /// transitive.
    pub nodes_within_zones: bool,
}

/// What the level counts of ties between actors, and whether nodes and zones matter.
struct LevelTerms {
    pairs: PairSums,
    nodes: bool,
    zones: bool,
}

/// By unit: the actors that cost nothing there, and the variables of their being there.
type PreferredPlaces = BTreeMap<UnitIx, Vec<(ActorIx, Variable)>>;

impl<'a> Relaxation<'a> {
    /// Builds the program of one level. One that `stop` cut short is not to be used.
    pub fn new(view: &'a KindView<'a>, level: &[Criterion], stop: &dyn Fn() -> bool) -> Self {
        let actors = view.snapshot.actors();
        let counted: Vec<(Criterion, i64)> = level.iter().map(|criterion| (*criterion, 1)).collect();
        let pairs = PairSums::weighed(&counted);
        let added = view.problem.added_costs();
        let terms = LevelTerms {
            pairs,
            nodes: pairs.exchanged > 0 && added.node > 0 && view.problem.nodes.len() > 1,
            zones: pairs.exchanged > 0 && added.zone > 0,
        };
        let zone = |unit: UnitIx| view.problem.unit_zone[unit];
        let is_within = |units: &Vec<UnitIx>| units.windows(2).all(|two| zone(two[0]) == zone(two[1]));
        let mut relaxation = Self {
            view,
            program: Program::default(),
            on_kind: IxVec::of(BTreeMap::new(), actors),
            pairs: Vec::new(),
            pairs_of: IxVec::of(Vec::new(), actors),
            nodes_within_zones: view.problem.units_of_node.iter().all(is_within),
        };
        relaxation.assign_kinds();
        relaxation.limit_kinds();
        relaxation.add_pairs(&terms, stop);
        relaxation.limit_places(stop);
        for criterion in level {
            relaxation.add_preferences(&criterion.measure().preferred_units(view.snapshot), stop);
        }
        relaxation.program.shrink_to_fit();
        relaxation
    }

    /// Each actor is on one kind.
    fn assign_kinds(&mut self) {
        for actor in self.on_kind.positions() {
            for kind in self.view.kinds_of(actor) {
                let variable = self.program.variable(0);
                self.on_kind[actor].insert(kind, variable);
            }
            let choice: Vec<Variable> = self.on_kind[actor].values().copied().collect();
            self.program.equal(choice.iter().map(|&variable| (variable, 1)), 1);
            self.program.exactly_one(&choice);
        }
    }

    /// Units of a kind together have room for the actors on it; so have all nodes.
    fn limit_kinds(&mut self) {
        let view = self.view;
        for dimension in &view.dimensions {
            match &dimension.limits {
                DimensionLimits::Nodes(limits) => {
                    let all = limits.iter().map(|limit| i128::from(*limit)).sum();
                    self.limit_total(dimension, all, |_| true);
                }
                DimensionLimits::Units(limits) => {
                    for kind in view.problem.kinds.positions() {
                        let here = limits.enumerate();
                        let here = here.filter(|(unit, _)| view.problem.unit_kind[*unit] == kind);
                        let all = here.map(|(_, limit)| i128::from(*limit)).sum();
                        self.limit_total(dimension, all, |other| other == kind);
                    }
                }
            }
        }
    }

    /// The actors on some kinds need no more than the limit.
    fn limit_total(&mut self, dimension: &Dimension, limit: i128, counts: impl Fn(KindIx) -> bool) {
        let mut needs = Vec::new();
        for (actor, on) in self.on_kind.enumerate() {
            let here = on.iter().filter(|(kind, _)| counts(**kind));
            needs.extend(here.map(|(kind, variable)| (*variable, dimension.needs[actor][*kind])));
        }
        at_most(&mut self.program, needs, limit);
    }

    fn add_pairs(&mut self, terms: &LevelTerms, stop: &dyn Fn() -> bool) {
        let pairs = Pairs::new(self.view);
        let mut commons = Commons::default();
        for &(a, b) in &pairs.all {
            if stop() {
                return;
            }
            let common = commons.of(self.view, a, b);
            let edge = self.view.problem.edge(a, b);
            let rate = terms.pairs.exchanged * edge.rate;
            let apart = pairs.apart.get(&(a, b)).copied();
            let pair = self.pair_variables((a, b), common, apart, terms);
            let both = self.price_kinds(&pair, rate);
            self.price_places(&pair, &edge, rate, terms);
            self.link_scopes(&pair, &both);
            if let Some(scope) = pairs.together.get(&(a, b)) {
                self.require_together(&pair, *scope);
            }
            let position = to_u32(self.pairs.len());
            self.pairs_of[a].push((b, position));
            self.pairs_of[b].push((a, position));
            self.pairs.push(pair);
        }
        for pairs in &mut self.pairs_of {
            pairs.sort_unstable();
        }
    }

    /// The variables of where the two can be together.
    fn pair_variables(
        &mut self,
        (a, b): ActorPair,
        common: &Common,
        apart: Option<Scope>,
        terms: &LevelTerms,
    ) -> Pair {
        let view = self.view;
        let fixed = view.problem.fixed[a] && view.problem.fixed[b];
        let fits = |kind: KindIx| {
            let Some(limits) = &common.limits[kind] else { return false };
            let within = |((dimension, _), limit): ((&Dimension, _), &i64)| {
                dimension.needs[a][kind] + dimension.needs[b][kind] <= *limit
            };
            apart.is_none() && (fixed || view.of_units().zip(limits).all(within))
        };
        let kinds = view.problem.kinds.positions();
        let units = kinds.map(|kind| fits(kind).then(|| self.program.variable(0))).collect();
        let is_excluded = match apart {
            Some(Scope::Node) => true,
            Some(Scope::Zone) => self.nodes_within_zones,
            Some(Scope::Unit | Scope::Numa) | None => false,
        };
        let node = common.node && terms.nodes && !is_excluded;
        let zone = (common.zone || common.node) && terms.zones;
        let mut sharing = |shared: bool| shared.then(|| self.program.variable(0));
        Pair { a, b, units, node: sharing(node), zone: sharing(zone) }
    }

    /// Prices the kinds of a message. Returns by kind the variable that both are on it.
    fn price_kinds(&mut self, pair: &Pair, rate: i64) -> IxVec<KindIx, Option<Variable>> {
        let mut both = IxVec::of(None, self.view.problem.kinds.len());
        if rate == 0 {
            return both;
        }
        let (of_a, of_b) = (self.on_kind[pair.a].clone(), self.on_kind[pair.b].clone());
        let mut choice = Vec::new();
        let mut rows: BTreeMap<Variable, Vec<(Variable, i64)>> = BTreeMap::new();
        for (&k, &on_k) in &of_a {
            for (&l, &on_l) in &of_b {
                let variable = self.program.variable(rate * self.view.kind_cost[k][l]);
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
        self.program.exactly_one(&choice);
        both
    }

    /// Prices being together: what is saved, or added.
    fn price_places(&mut self, pair: &Pair, edge: &Edge, rate: i64, terms: &LevelTerms) {
        let (annoyance, interference) =
            (terms.pairs.apart * edge.annoyance, terms.pairs.together * edge.interference);
        let added = self.view.problem.added_costs();
        let program = &mut self.program;
        program.constant += annoyance;
        for (kind, variable) in pair.units.enumerate() {
            if let Some(variable) = *variable {
                program.costs[variable.at()] =
                    interference - annoyance - rate * self.view.kind_cost[kind][kind];
            }
        }
        // The price of another node is charged in full and refunded where they share one; the same for zones.
        for (is_priced, shared, price) in
            [(terms.nodes, pair.node, added.node), (terms.zones, pair.zone, added.zone)]
        {
            if is_priced {
                program.constant += rate * price;
                if let Some(shared) = shared {
                    program.costs[shared.at()] = -rate * price;
                }
            }
        }
    }

    /// Actors that share a unit are on its kind, and share its node and its zone.
    fn link_scopes(&mut self, pair: &Pair, both: &IxVec<KindIx, Option<Variable>>) {
        let program = &mut self.program;
        for (kind, variable) in pair.units.enumerate() {
            let Some(variable) = *variable else { continue };
            if let Some(both) = both[kind] {
                program.at_most([(variable, 1), (both, -1)], 0);
                program.bounded_by[variable.at()] = Some(both);
            } else {
                for actor in [pair.a, pair.b] {
                    program.at_most([(variable, 1), (self.on_kind[actor][&kind], -1)], 0);
                }
            }
        }
        let on_units: Vec<(Variable, i64)> =
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
            program.at_most([(node, 1), (zone, -1)], 0);
        }
    }

    /// The two must be together.
    fn require_together(&mut self, pair: &Pair, scope: Scope) {
        let terms: Vec<(Variable, i64)> = match scope {
            Scope::Unit => pair.units.iter().flatten().map(|&variable| (variable, 1)).collect(),
            Scope::Numa | Scope::Node => pair.node.iter().map(|&variable| (variable, 1)).collect(),
            Scope::Zone => pair.zone.iter().map(|&variable| (variable, 1)).collect(),
        };
        if !terms.is_empty() {
            self.program.at_least(terms, 1);
        }
    }

    /// Actors that share a place with an actor fit there beside it.
    fn limit_places(&mut self, stop: &dyn Fn() -> bool) {
        for actor in self.on_kind.positions().take_while(|_| !stop()) {
            self.limit_units(actor);
            self.limit_nodes(actor);
        }
    }

    fn limit_units(&mut self, actor: ActorIx) {
        let problem = self.view.problem;
        let candidates = problem.candidates(actor);
        for (dimension, limits) in self.view.of_units() {
            for (&kind, &on_kind) in &self.on_kind[actor] {
                let of_kind = candidates.iter().filter(|unit| problem.unit_kind[**unit] == kind);
                let most = of_kind.map(|&unit| limits[unit]).max().unwrap_or(0);
                let left = most - dimension.needs[actor][kind];
                let others = self.pairs_of[actor].iter().filter_map(|&(other, pair)| {
                    Some((self.pairs[pair as usize].units[kind]?, dimension.needs[other][kind]))
                });
                let mut terms: Vec<(Variable, i64)> = others.filter(|(_, need)| *need > 0).collect();
                if terms.iter().map(|(_, need)| need).sum::<i64>() > left {
                    terms.push((on_kind, -left));
                    self.program.at_most(terms, 0);
                }
            }
        }
    }

    /// The same by node: what its units, or the node itself, can take.
    fn limit_nodes(&mut self, actor: ActorIx) {
        let view = self.view;
        if self.pairs_of[actor].iter().all(|&(_, pair)| self.pairs[pair as usize].node.is_none()) {
            return;
        }
        let kinds = |actor: ActorIx| self.on_kind[actor].keys().copied();
        for dimension in &view.dimensions {
            let node_of = &view.problem.unit_node;
            let of_nodes: IxVec<NodeIx, i128> = match &dimension.limits {
                DimensionLimits::Nodes(limits) => limits.iter().map(|limit| i128::from(*limit)).collect(),
                DimensionLimits::Units(limits) => sums(limits, node_of, view.problem.nodes.len()),
            };
            let homes = view.problem.candidates(actor).iter().map(|&unit| of_nodes[node_of[unit]]);
            let left = homes.max().unwrap_or(0) - i128::from(dimension.least_need(actor, kinds(actor)));
            let others = self.pairs_of[actor].iter().filter_map(|&(other, pair)| {
                Some((self.pairs[pair as usize].node?, dimension.least_need(other, kinds(other))))
            });
            at_most(&mut self.program, others.collect(), left);
        }
    }

    /// An actor away from a preferred unit pays; actors on their preferred unit fit there together.
    fn add_preferences(&mut self, homes: &[UnaryPreference], stop: &dyn Fn() -> bool) {
        let view = self.view;
        // Several preferences of one actor for one unit are added.
        let mut prices: BTreeMap<(UnitIx, ActorIx), i64> = BTreeMap::new();
        for home in homes {
            *prices.entry((home.unit, home.actor)).or_default() += home.price;
        }
        let mut stays = PreferredPlaces::new();
        for ((home, actor), price) in prices {
            self.program.constant += price;
            let is_candidate = view.problem.candidates(actor).binary_search(&home).is_ok();
            if is_candidate && price > 0 {
                let stay = self.program.variable(-price);
                let on_kind = self.on_kind[actor][&view.problem.unit_kind[home]];
                self.program.at_most([(stay, 1), (on_kind, -1)], 0);
                stays.entry(home).or_default().push((actor, stay));
            }
        }
        for (home, stays) in &stays {
            let kind = view.problem.unit_kind[*home];
            for (dimension, limits) in view.of_units() {
                let terms = stays.iter().map(|&(actor, stay)| (stay, dimension.needs[actor][kind]));
                at_most(&mut self.program, terms.collect(), limits[*home].into());
            }
        }
        self.separate_preferences(&stays, stop);
    }

    /// Two actors that stay on different units do not share one. Omitted rows keep the bound valid.
    fn separate_preferences(&mut self, stays: &PreferredPlaces, stop: &dyn Fn() -> bool) {
        let node_of = &self.view.problem.unit_node;
        let mut of: BTreeMap<ActorIx, Vec<(UnitIx, Variable)>> = BTreeMap::new();
        for (home, stays) in stays {
            for &(actor, stay) in stays {
                of.entry(actor).or_default().push((*home, stay));
            }
        }
        for pair in &self.pairs {
            let (Some(of_a), Some(of_b)) = (of.get(&pair.a), of.get(&pair.b)) else { continue };
            if stop() || self.program.coefficients() > MAX_COEFFICIENTS {
                return;
            }
            let both = of_a.iter().flat_map(|a| of_b.iter().map(move |b| (*a, *b)));
            for ((at_a, a), (at_b, b)) in both {
                let mut terms: Vec<(Variable, i64)> = Vec::new();
                if at_a != at_b {
                    terms.extend(pair.units.iter().flatten().map(|&variable| (variable, 1)));
                }
                if let Some(node) = pair.node
                    && node_of[at_a] != node_of[at_b]
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
    }
}

/// By place: the sum over its units.
fn sums<I: Ix>(of_units: &IxVec<UnitIx, i64>, place: &IxVec<UnitIx, I>, places: usize) -> IxVec<I, i128> {
    let mut sums = IxVec::of(0, places);
    of_units.iter().zip(place).for_each(|(of_unit, place)| sums[*place] += i128::from(*of_unit));
    sums
}

/// Adds the row unless it is redundant. A limit may be infinite and exceed 64 bits; needs never do.
fn at_most(program: &mut Program, terms: Vec<(Variable, i64)>, limit: i128) {
    let terms: Vec<(Variable, i64)> = terms.into_iter().filter(|(_, need)| *need > 0).collect();
    let needed: i64 = terms.iter().map(|(_, need)| need).sum();
    if let Ok(limit) = i64::try_from(limit)
        && needed > limit
    {
        program.at_most(terms, limit);
    }
}
