//! What the relaxation asks of a snapshot beyond its dense form: how much of what is where, and the least that kinds cost.

use placement::ix::{ActorIx, IxVec, KindIx, NodeIx, ResourceIx, UnitIx};
use placement::{Implementation, Problem, Snapshot};

/// A quantity that places have a limit of and actors need: work, a resource, a slot.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// By actor and kind: what it needs of it there.
    pub needs: IxVec<ActorIx, IxVec<KindIx, i64>>,
    /// The most that a feasible placement puts somewhere.
    pub limits: DimensionLimits,
}

/// DimensionLimits of units, or of nodes.
#[derive(Clone, Debug)]
pub enum DimensionLimits {
    /// By unit.
    Units(IxVec<UnitIx, i64>),
    /// By node.
    Nodes(IxVec<NodeIx, i64>),
}

/// The snapshot by kinds and places.
pub struct KindView<'a> {
    /// What it is made from.
    pub snapshot: &'a Snapshot,
    /// Its dense form.
    pub problem: &'a Problem,
    /// What is limited.
    pub dimensions: Vec<Dimension>,
    /// By pair of kinds: the least that a message costs before nodes and zones add to it.
    pub kind_cost: IxVec<KindIx, IxVec<KindIx, i64>>,
}

impl<'a> KindView<'a> {
    /// Takes a snapshot apart; with `full` given, units may be loaded that far above their capacity, else without end.
    pub fn new(snapshot: &'a Snapshot, full: Option<i64>) -> Self {
        let problem = snapshot.problem();
        let kinds = problem.kinds.positions();
        let row = |a: KindIx| problem.kinds.positions().map(|b| problem.kind_cost(a, b)).collect();
        let mut world =
            Self { snapshot, problem, dimensions: Vec::new(), kind_cost: kinds.map(row).collect() };
        world.heed_overrides();
        world.find_dimensions(full);
        world
    }

    /// An override below the class lowers what its kinds cost: the classes then are bounds from below still.
    fn heed_overrides(&mut self) {
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

    fn find_dimensions(&mut self, full: Option<i64>) {
        let problem = self.problem;
        if let Some(over) = full {
            let limits = problem.capacity.iter().map(|capacity| capacity + over).collect();
            self.dimension(DimensionLimits::Units(limits), |needs| needs.work);
        }
        for resource in problem.resources.positions() {
            let quantity = move |needs: &[(ResourceIx, i64)]| {
                needs.iter().find(|(of, _)| *of == resource).map_or(0, |(_, quantity)| *quantity)
            };
            let of_units = problem.unit_provides.iter().map(|provides| provides[resource]).collect();
            self.dimension(DimensionLimits::Units(of_units), |needs| quantity(&needs.requires));
            let of_nodes = problem.node_provides.iter().map(|provides| provides[resource]).collect();
            self.dimension(DimensionLimits::Nodes(of_nodes), |needs| quantity(&needs.node_requires));
        }
        if problem.slots.iter().any(Option::is_some) {
            let limits = problem.slots.iter().map(|slots| slots.unwrap_or(i64::from(u32::MAX))).collect();
            self.dimension(DimensionLimits::Units(limits), |_| 1);
        }
    }

    /// Keeps a dimension that somebody needs. What fixed actors overfill they may: there the limit is what they take.
    fn dimension(&mut self, mut limits: DimensionLimits, quantity: impl Fn(&Implementation) -> i64) {
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
        let homes = problem.residents().map(|(actor, home)| (home, needed(actor, home)));
        match &mut limits {
            DimensionLimits::Units(limits) => keep_taken(limits, homes),
            DimensionLimits::Nodes(limits) => {
                keep_taken(limits, homes.map(|(home, need)| (problem.unit_node[home], need)));
            }
        }
        self.dimensions.push(Dimension { needs, limits });
    }

    /// The limits of units, each with its dimension.
    pub fn of_units(&self) -> impl Iterator<Item = (&Dimension, &IxVec<UnitIx, i64>)> {
        self.dimensions.iter().filter_map(|dimension| match &dimension.limits {
            DimensionLimits::Units(limits) => Some((dimension, limits)),
            DimensionLimits::Nodes(_) => None,
        })
    }

    /// The kinds that an actor has candidates of, ascending.
    pub fn kinds_of(&self, actor: ActorIx) -> Vec<KindIx> {
        let units = self.problem.candidates(actor).iter();
        let mut kinds: Vec<KindIx> = units.map(|unit| self.problem.unit_kind[*unit]).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// Raises limits to what is taken of them.
fn keep_taken<I: placement::ix::Ix>(limits: &mut IxVec<I, i64>, needs: impl Iterator<Item = (I, i64)>) {
    let mut taken: IxVec<I, i64> = IxVec::of(0, limits.len());
    needs.for_each(|(place, need)| taken[place] += need);
    for (limit, taken) in limits.iter_mut().zip(taken) {
        *limit = (*limit).max(taken);
    }
}

impl Dimension {
    /// The least that an actor needs wherever it runs.
    pub fn least_need(&self, actor: ActorIx, kinds: impl Iterator<Item = KindIx>) -> i64 {
        kinds.map(|kind| self.needs[actor][kind]).min().unwrap_or(0)
    }
}
