//! What the relaxation asks of a snapshot: kinds, scopes, and how much of what is where.

use std::collections::BTreeMap;

use placement::Snapshot;

/// A quantity that places have a limit of and actors need: work, a resource, a slot.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// By actor and kind: what it needs of it there.
    pub needs: Vec<Vec<i64>>,
    /// By unit, or by node where `of_nodes`: the most that a feasible placement puts there.
    pub limits: Vec<i64>,
    /// The limits are the nodes' and not the units'.
    pub of_nodes: bool,
}

/// The snapshot by kinds and places.
pub struct World<'a> {
    /// What it is made from.
    pub snapshot: &'a Snapshot,
    /// How many kinds there are.
    pub kinds: usize,
    /// By unit.
    pub unit_kind: Vec<usize>,
    /// By unit: equal numbers are one zone; a unit of unknown zone has its own.
    pub unit_zone: Vec<usize>,
    /// What is limited.
    pub dimensions: Vec<Dimension>,
    /// By pair of kinds: the least that a message costs before nodes and zones add to it.
    pub kind_cost: Vec<Vec<i64>>,
    /// Added when the nodes differ.
    pub other_node: i64,
    /// Added when the nodes and the zones differ.
    pub other_zone: i64,
}

impl<'a> World<'a> {
    /// Takes a snapshot apart; with `full` given, units may be loaded that far above their capacity, else without end.
    pub fn new(snapshot: &'a Snapshot, full: Option<i64>) -> Self {
        let units = &snapshot.file().units;
        let mut names: Vec<&str> = units.iter().map(|unit| unit.kind.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let kind = |name: &str| names.binary_search(&name).expect("the kinds are those of the units");
        let mut zones = BTreeMap::new();
        let unit_zone = units.iter().enumerate().map(|(unit, given)| match &given.zone {
            None => unit,
            Some(name) => {
                let next = units.len() + zones.len();
                *zones.entry(name.as_str()).or_insert(next)
            }
        });
        let costs = &snapshot.file().exchange_cost;
        let mut world = Self {
            snapshot,
            kinds: names.len(),
            unit_kind: units.iter().map(|unit| kind(&unit.kind)).collect(),
            unit_zone: unit_zone.collect(),
            dimensions: Vec::new(),
            kind_cost: names
                .iter()
                .map(|a| names.iter().map(|b| snapshot.kind_cost(a, b)).collect())
                .collect(),
            other_node: signed(costs.other_node),
            other_zone: signed(costs.other_zone),
        };
        world.heed_overrides();
        world.find_dimensions(full);
        world
    }

    /// An override below the class lowers what its kinds cost: the classes then are bounds from below still.
    fn heed_overrides(&mut self) {
        for pair in &self.snapshot.file().exchange_cost.pairs {
            let place =
                |id: &str| self.snapshot.unit(id).expect("a pair of unknown units is refused on input");
            let (a, b) = (place(&pair.a), place(&pair.b));
            let apart = if self.snapshot.node_of(a) == self.snapshot.node_of(b) {
                0
            } else if self.unit_zone[a] == self.unit_zone[b] {
                self.other_node
            } else {
                self.other_node + self.other_zone
            };
            let left = signed(pair.cost) - apart;
            let (k, l) = (self.unit_kind[a], self.unit_kind[b]);
            self.kind_cost[k][l] = self.kind_cost[k][l].min(left);
            self.kind_cost[l][k] = self.kind_cost[k][l];
        }
    }

    fn find_dimensions(&mut self, full: Option<i64>) {
        let snapshot = self.snapshot;
        let resources = snapshot.resources().len();
        let nodes = snapshot.nodes().len();
        if let Some(over) = full {
            let limits = (0..snapshot.units()).map(|unit| snapshot.capacity(unit) + over).collect();
            self.dimension(limits, false, |needs| needs.work);
        }
        for resource in 0..resources {
            let quantity = move |needs: &[(placement::ix::ResourceIx, i64)]| {
                needs.iter().find(|(of, _)| of.at() == resource).map_or(0, |(_, quantity)| *quantity)
            };
            let units = (0..snapshot.units()).map(|unit| snapshot.unit_provides(unit)[resource]).collect();
            self.dimension(units, false, |needs| quantity(&needs.requires));
            let of_nodes = (0..nodes).map(|node| snapshot.node_provides(node)[resource]).collect();
            self.dimension(of_nodes, true, |needs| quantity(&needs.node_requires));
        }
        let slots = snapshot.file().units.iter().map(|unit| unit.slots);
        if slots.clone().any(|slots| slots.is_some()) {
            let limits = slots.map(|slots| slots.map_or(i64::from(u32::MAX), signed)).collect();
            self.dimension(limits, false, |_| 1);
        }
    }

    /// Keeps a dimension that somebody needs. What fixed actors overfill they may: there the limit is what they take.
    fn dimension(
        &mut self,
        mut limits: Vec<i64>,
        of_nodes: bool,
        quantity: impl Fn(&placement::Implementation) -> i64,
    ) {
        let snapshot = self.snapshot;
        let mut needs = vec![vec![0; self.kinds]; snapshot.actors()];
        for (actor, needs) in needs.iter_mut().enumerate() {
            for &unit in snapshot.candidates(actor) {
                needs[self.unit_kind[unit]] = snapshot.implementation(actor, unit).map_or(0, &quantity);
            }
        }
        if needs.iter().flatten().all(|need| *need == 0) {
            return;
        }
        let mut taken = vec![0; limits.len()];
        for actor in (0..snapshot.actors()).filter(|&actor| snapshot.is_fixed(actor)) {
            let home = snapshot.current(actor).expect("a fixed actor without a place is refused on input");
            let need = snapshot.implementation(actor, home).map_or(0, &quantity);
            taken[if of_nodes { snapshot.node_of(home) } else { home }] += need;
        }
        for (limit, taken) in limits.iter_mut().zip(taken) {
            *limit = (*limit).max(taken);
        }
        self.dimensions.push(Dimension { needs, limits, of_nodes });
    }

    /// The kinds that an actor has candidates of, ascending.
    pub fn kinds_of(&self, actor: usize) -> Vec<usize> {
        let mut kinds: Vec<usize> =
            self.snapshot.candidates(actor).iter().map(|&unit| self.unit_kind[unit]).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

impl Dimension {
    /// The least that an actor needs wherever it runs.
    pub fn least_need(&self, actor: usize, kinds: impl Iterator<Item = usize>) -> i64 {
        kinds.map(|kind| self.needs[actor][kind]).min().unwrap_or(0)
    }
}

/// A number of a file; those above 2^53 are refused on input.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("numbers above 2^53 are refused on input")
}
