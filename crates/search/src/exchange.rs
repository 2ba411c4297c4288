//! What one message costs between any two units, as fast as it can be asked.

use placement::Snapshot;

/// Up to so many units the costs of all pairs are kept: a megabyte.
const MOST_IN_TABLE: usize = 512;

/// Exchange costs of all pairs of units.
pub(crate) enum Exchange {
    /// By pair, row after row.
    Table { units: usize, costs: Vec<u32> },
    /// By kinds and places.
    Classes(Classes),
}

/// The parts that a cost is made of.
pub(crate) struct Classes {
    spots: Vec<Spot>,
    kinds: usize,
    kind_cost: Vec<i64>,
    other_numa: i64,
    other_node: i64,
    other_zone: i64,
    /// By unit: the units that it has a cost of its own to, ascending.
    pairs: Vec<Vec<(u32, i64)>>,
}

#[derive(Clone, Copy)]
struct Spot {
    kind: u32,
    node: u32,
    numa: u32,
    zone: u32,
    has_pairs: bool,
}

impl Exchange {
    pub fn new(snapshot: &Snapshot) -> Self {
        let units = snapshot.units();
        if units <= MOST_IN_TABLE
            && let Some(costs) = table(snapshot)
        {
            return Self::Table { units, costs };
        }
        Self::Classes(Classes::new(snapshot))
    }

    /// Cost of one message between two units; 0 on the same one.
    #[inline]
    pub fn cost(&self, a: u32, b: u32) -> i64 {
        match self {
            Self::Table { units, costs } => i64::from(costs[a as usize * units + b as usize]),
            Self::Classes(classes) => classes.cost(a, b),
        }
    }
}

/// The whole table, unless a cost is too large for it.
fn table(snapshot: &Snapshot) -> Option<Vec<u32>> {
    let units = 0..snapshot.units();
    let pairs = units.clone().flat_map(|a| units.clone().map(move |b| (a, b)));
    pairs.map(|(a, b)| u32::try_from(snapshot.exchange_cost(a, b)).ok()).collect()
}

impl Classes {
    fn new(snapshot: &Snapshot) -> Self {
        let index = snapshot.problem();
        let file = snapshot.file();
        let kinds = index.kinds.len();
        let number = |given: u64| i64::try_from(given).expect("numbers above 2^53 are refused on input");
        let mut pairs: Vec<Vec<(u32, i64)>> = vec![Vec::new(); snapshot.units()];
        for pair in &file.exchange_cost.pairs {
            let (a, b) = (index.unit_by_id[&pair.a], index.unit_by_id[&pair.b]);
            pairs[a].push((small(b), number(pair.cost)));
            pairs[b].push((small(a), number(pair.cost)));
        }
        for pairs in &mut pairs {
            pairs.sort_unstable();
        }
        let spot = |unit: usize| Spot {
            kind: small(index.unit_kind[unit]),
            node: small(index.unit_node[unit]),
            numa: small(index.unit_numa[unit]),
            zone: small(index.unit_zone[unit]),
            has_pairs: !pairs[unit].is_empty(),
        };
        let by_kinds = index.kinds.iter().flat_map(|a| index.kinds.iter().map(move |b| (a, b)));
        Self {
            spots: (0..snapshot.units()).map(spot).collect(),
            kinds,
            kind_cost: by_kinds.map(|(a, b)| snapshot.kind_cost(a, b)).collect(),
            other_numa: number(file.exchange_cost.other_numa),
            other_node: number(file.exchange_cost.other_node),
            other_zone: number(file.exchange_cost.other_zone),
            pairs,
        }
    }

    #[inline]
    fn cost(&self, a: u32, b: u32) -> i64 {
        if a == b {
            return 0;
        }
        let (one, other) = (self.spots[a as usize], self.spots[b as usize]);
        if one.has_pairs && other.has_pairs {
            let pairs = &self.pairs[a as usize];
            if let Ok(found) = pairs.binary_search_by_key(&b, |pair| pair.0) {
                return pairs[found].1;
            }
        }
        let mut cost = self.kind_cost[one.kind as usize * self.kinds + other.kind as usize];
        if one.node == other.node {
            cost += i64::from(one.numa != other.numa) * self.other_numa;
        } else {
            cost += self.other_node + i64::from(one.zone != other.zone) * self.other_zone;
        }
        cost
    }
}

/// A position as it is kept here.
pub(crate) fn small(position: usize) -> u32 {
    u32::try_from(position).expect("positions of units and actors are far below 2^32")
}
