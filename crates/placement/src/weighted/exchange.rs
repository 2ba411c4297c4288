//! The exchange cost between any two units, optimized for look-ups.

use crate::Snapshot;
use crate::ix::{IxVec, KindIx, NodeIx, PlaceIx, UnitIx};

/// Up to this many units the costs of all pairs are stored: a megabyte.
const MOST_IN_TABLE: usize = 512;

/// Exchange costs of all pairs of units.
pub enum Exchange {
    /// By pair, row after row.
    Table {
        /// The number of units, which is the length of a row.
        units: usize,
        /// Row after row.
        costs: Vec<u32>,
    },
    /// By kinds and domains.
    Classes(Classes),
}

/// The components of a cost.
pub struct Classes {
    spots: IxVec<UnitIx, Spot>,
    kinds: usize,
    kind_cost: Vec<i64>,
    other_numa: i64,
    other_node: i64,
    other_zone: i64,
    /// By unit: the units with a pair cost of their own, ascending.
    pairs: IxVec<UnitIx, Vec<(UnitIx, i64)>>,
}

#[derive(Clone, Copy)]
struct Spot {
    kind: KindIx,
    node: NodeIx,
    numa: PlaceIx,
    zone: PlaceIx,
    has_pairs: bool,
}

impl Exchange {
    /// Lays out the costs of a snapshot.
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
    pub fn cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        match self {
            Self::Table { units, costs } => i64::from(costs[a.at() * units + b.at()]),
            Self::Classes(classes) => classes.cost(a, b),
        }
    }
}

impl Exchange {
    /// Adds a multiple of the exchange cost to a unit to each unit's number.
    #[inline]
    pub fn add_row(&self, place: UnitIx, times: i64, to: &mut [i64]) {
        match self {
            Self::Table { units, costs } => {
                let row = &costs[place.at() * units..][..*units];
                to.iter_mut().zip(row).for_each(|(sum, cost)| *sum += times * i64::from(*cost));
            }
            Self::Classes(classes) => {
                for (unit, sum) in UnitIx::first(to.len()).zip(to) {
                    *sum += times * classes.cost(place, unit);
                }
            }
        }
    }
}

/// The full table, unless a cost is too large for its entries.
fn table(snapshot: &Snapshot) -> Option<Vec<u32>> {
    let units = UnitIx::first(snapshot.units());
    let pairs = units.clone().flat_map(|a| units.clone().map(move |b| (a, b)));
    pairs.map(|(a, b)| u32::try_from(snapshot.exchange_cost(a, b)).ok()).collect()
}

impl Classes {
    fn new(snapshot: &Snapshot) -> Self {
        let problem = snapshot.problem();
        let file = snapshot.file();
        let kinds = problem.kinds.len();
        let number = |given: u64| i64::try_from(given).expect("numbers above 2^53 are refused on input");
        let mut pairs: IxVec<UnitIx, Vec<(UnitIx, i64)>> = IxVec::of(Vec::new(), snapshot.units());
        for pair in &file.exchange_cost.pairs {
            let (a, b) = (problem.unit_by_id[&pair.a], problem.unit_by_id[&pair.b]);
            pairs[a].push((b, number(pair.cost)));
            pairs[b].push((a, number(pair.cost)));
        }
        for pairs in &mut pairs {
            pairs.sort_unstable();
        }
        let spot = |unit: UnitIx| Spot {
            kind: problem.unit_kind[unit],
            node: problem.unit_node[unit],
            numa: problem.unit_numa[unit],
            zone: problem.unit_zone[unit],
            has_pairs: !pairs[unit].is_empty(),
        };
        let by_kinds = problem.kinds.iter().flat_map(|a| problem.kinds.iter().map(move |b| (a, b)));
        Self {
            spots: UnitIx::first(snapshot.units()).map(spot).collect(),
            kinds,
            kind_cost: by_kinds.map(|(a, b)| snapshot.kind_cost(a, b)).collect(),
            other_numa: number(file.exchange_cost.other_numa),
            other_node: number(file.exchange_cost.other_node),
            other_zone: number(file.exchange_cost.other_zone),
            pairs,
        }
    }

    #[inline]
    fn cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        if a == b {
            return 0;
        }
        let (one, other) = (self.spots[a], self.spots[b]);
        if one.has_pairs && other.has_pairs {
            let pairs = &self.pairs[a];
            if let Ok(found) = pairs.binary_search_by_key(&b, |pair| pair.0) {
                return pairs[found].1;
            }
        }
        let mut cost = self.kind_cost[one.kind.at() * self.kinds + other.kind.at()];
        if one.node == other.node {
            cost += i64::from(one.numa != other.numa) * self.other_numa;
        } else {
            cost += self.other_node + i64::from(one.zone != other.zone) * self.other_zone;
        }
        cost
    }
}
