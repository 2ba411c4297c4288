//! A snapshot by kinds: dimensions with needs and limits, and the least exchange cost between kinds.

use placement::ix::{ActorIx, IxVec, KindIx, NodeIx, ResourceIx, UnitIx};
use placement::{Implementation, Problem, Snapshot};

/// A limited quantity: work, a resource, or slots.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// By actor and kind: what the actor needs there.
    pub needs: IxVec<ActorIx, IxVec<KindIx, i64>>,
    /// The most that a feasible placement uses.
    pub limits: DimensionLimits,
}

/// Limits of units, or of nodes.
#[derive(Clone, Debug)]
pub enum DimensionLimits {
    /// By unit.
    Units(IxVec<UnitIx, i64>),
    /// By node.
    Nodes(IxVec<NodeIx, i64>),
}

/// The snapshot by kinds and places.
pub struct KindView<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Its dense form.
    pub problem: &'a Problem,
    /// All limited quantities that an actor needs.
    pub dimensions: Vec<Dimension>,
    /// By pair of kinds: the least that a message costs before nodes and zones add to it.
    pub kind_cost: IxVec<KindIx, IxVec<KindIx, i64>>,
}

impl<'a> KindView<'a> {
    /// With `overload_limit`, units may be loaded that far above their capacity, otherwise without limit.
    pub fn new(snapshot: &'a Snapshot, overload_limit: Option<i64>) -> Self {
        let problem = snapshot.problem();
        let kinds = problem.kinds.positions();
        let row = |a: KindIx| problem.kinds.positions().map(|b| problem.kind_cost(a, b)).collect();
        let mut view =
            Self { snapshot, problem, dimensions: Vec::new(), kind_cost: kinds.map(row).collect() };
        view.apply_overrides();
        view.find_dimensions(overload_limit);
        view
    }

    /// An override below the price of its kinds lowers that price, so that it remains a lower bound.
    fn apply_overrides(&mut self) {
        let (problem, added) = (self.problem, self.problem.added_costs());
        for (a, b, cost) in problem.pair_costs() {
            let apart = if problem.unit_node[a] == problem.unit_node[b] {
                0
            } else if problem.unit_zone[a] == problem.unit_zone[b] {
                added.node
            } else {
                added.node + added.zone
            };
            let (k, l) = (problem.unit_kind[a], problem.unit_kind[b]);
            self.kind_cost[k][l] = self.kind_cost[k][l].min(cost - apart);
            self.kind_cost[l][k] = self.kind_cost[k][l];
        }
    }

    fn find_dimensions(&mut self, overload_limit: Option<i64>) {
        let problem = self.problem;
        if let Some(overload) = overload_limit {
            let limits = problem.capacity.iter().map(|capacity| capacity + overload).collect();
            self.add_dimension(DimensionLimits::Units(limits), |needs| needs.work);
        }
        for resource in problem.resources.positions() {
            let quantity = move |needs: &[(ResourceIx, i64)]| {
                needs.iter().find(|(of, _)| *of == resource).map_or(0, |(_, quantity)| *quantity)
            };
            let of_units = problem.unit_provides.iter().map(|provides| provides[resource]).collect();
            self.add_dimension(DimensionLimits::Units(of_units), |needs| quantity(&needs.requires));
            let of_nodes = problem.node_provides.iter().map(|provides| provides[resource]).collect();
            self.add_dimension(DimensionLimits::Nodes(of_nodes), |needs| quantity(&needs.node_requires));
        }
        if problem.slots.iter().any(Option::is_some) {
            let limits = problem.slots.iter().map(|slots| slots.unwrap_or(i64::from(u32::MAX))).collect();
            self.add_dimension(DimensionLimits::Units(limits), |_| 1);
        }
    }

    /// Adds a dimension that an actor needs. Where fixed actors exceed a limit, their use is the limit.
    fn add_dimension(&mut self, mut limits: DimensionLimits, quantity: impl Fn(&Implementation) -> i64) {
        let problem = self.problem;
        let needed = |actor, unit| problem.implementation(actor, unit).map_or(0, &quantity);
        let none = IxVec::of(0, problem.kinds.len());
        let mut needs: IxVec<ActorIx, IxVec<KindIx, i64>> = IxVec::of(none, self.snapshot.actors());
        for actor in problem.current.positions() {
            for &unit in problem.candidates(actor) {
                needs[actor][problem.unit_kind[unit]] = needed(actor, unit);
            }
        }
        if needs.iter().flatten().all(|need| *need == 0) {
            return;
        }
        let resident_needs = problem.residents().map(|(actor, home)| (home, needed(actor, home)));
        match &mut limits {
            DimensionLimits::Units(limits) => raise_to_use(limits, resident_needs),
            DimensionLimits::Nodes(limits) => {
                raise_to_use(limits, resident_needs.map(|(home, need)| (problem.unit_node[home], need)));
            }
        }
        self.dimensions.push(Dimension { needs, limits });
    }

    /// The dimensions of units, with their limits.
    pub fn of_units(&self) -> impl Iterator<Item = (&Dimension, &IxVec<UnitIx, i64>)> {
        self.dimensions.iter().filter_map(|dimension| match &dimension.limits {
            DimensionLimits::Units(limits) => Some((dimension, limits)),
            DimensionLimits::Nodes(_) => None,
        })
    }

    /// The kinds of an actor's candidates, ascending.
    pub fn kinds_of(&self, actor: ActorIx) -> Vec<KindIx> {
        let units = self.problem.candidates(actor).iter();
        let mut kinds: Vec<KindIx> = units.map(|unit| self.problem.unit_kind[*unit]).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// Raises limits to present use.
fn raise_to_use<I: placement::ix::Ix>(limits: &mut IxVec<I, i64>, needs: impl Iterator<Item = (I, i64)>) {
    let mut used: IxVec<I, i64> = IxVec::of(0, limits.len());
    needs.for_each(|(place, need)| used[place] += need);
    for (limit, used) in limits.iter_mut().zip(used) {
        *limit = (*limit).max(used);
    }
}

impl Dimension {
    /// The least that an actor needs on any of the kinds.
    pub fn least_need(&self, actor: ActorIx, kinds: impl Iterator<Item = KindIx>) -> i64 {
        kinds.map(|kind| self.needs[actor][kind]).min().unwrap_or(0)
    }
}
