//! Numbers that fit: clingo computes in 32 bits, so a snapshot whose sums could pass 2^30 is solved in two scalings.
//!
//! *Cautious* rounds work, requirements and prices up, capacities and what is provided down: what is feasible there is
//! feasible here. *Relaxed* rounds the other way: what is feasible here is feasible there and costs no more, so its optimum,
//! multiplied back, is a bound.

use std::collections::BTreeMap;

use placement::file::{Constraint, ExchangeCost, SnapshotFile};
use placement::{Criterion, Objectives, Snapshot, SnapshotError};

use crate::criteria::{Extras, INDIVISIBLE, dearest_message};
use crate::room::{Room, Rooms};

/// No sum that a program can form may pass this: half of what fits, so that rounding has room.
const LARGEST_SUM: i64 = 1 << 30;

/// Which way numbers are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// What is feasible here is feasible in the original.
    Cautious,
    /// What is feasible in the original is feasible here, and costs no more.
    Relaxed,
}

/// By what the numbers of a snapshot are divided; 1 where they fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Work and capacities.
    work: u64,
    /// Resources by position; the same for units and nodes.
    resources: Vec<u64>,
    /// By level: rates, drags and weights.
    rates: Vec<u64>,
    /// Exchange costs.
    costs: u64,
}

impl Scale {
    /// The smallest divisors, or nearly, with which every sum fits.
    ///
    /// # Errors
    /// When a divided snapshot is not one any more.
    pub fn of(snapshot: &Snapshot) -> Result<Self, SnapshotError> {
        let levels = snapshot.objectives().levels();
        let mut scale = Self {
            work: 1,
            resources: vec![1; snapshot.resources().len()],
            rates: vec![1; levels.len()],
            costs: 1,
        };
        let mut peaks = Peaks::of(snapshot);
        loop {
            let before = scale.clone();
            scale.enlarge(&peaks);
            scale.join(snapshot);
            scale.check(snapshot, &peaks)?;
            if scale == before {
                return Ok(scale);
            }
            let next = Peaks::of(&scale.apply(snapshot, Rounding::Cautious)?);
            for (level, (now, then)) in next.levels.iter().zip(&peaks.levels).enumerate() {
                // Rates that are all 1 by now get no smaller: then the price of one message is what is too large.
                let stuck = *now > LARGEST_SUM && *now > then / 4 * 3;
                if stuck && levels[level].contains(&Criterion::Communication) {
                    scale.costs *= factor(*now);
                }
            }
            scale.join(snapshot);
            peaks = Peaks::of(&scale.apply(snapshot, Rounding::Cautious)?);
        }
    }

    /// Refuses what would have to be divided and cannot be: criteria that count, and what is added to them.
    fn check(&self, snapshot: &Snapshot, peaks: &Peaks) -> Result<(), SnapshotError> {
        let refused = |level: &Vec<Criterion>| {
            let problem = format!("the numbers of `{}` are too large for the solver", Objectives::key(level));
            Err(SnapshotError { path: "objectives".to_owned(), problem })
        };
        for (position, level) in snapshot.objectives().levels().iter().enumerate() {
            if !level.iter().any(|criterion| INDIVISIBLE.contains(criterion)) {
                continue;
            }
            let added_overload = level.contains(&Criterion::Overload) && self.work > 1;
            let prices = level.contains(&Criterion::Latency) && self.costs > 1;
            if self.level(snapshot, position) > 1 || added_overload || prices {
                return refused(level);
            }
        }
        if peaks.watts > LARGEST_SUM {
            let problem = "the watts are too large for the solver".to_owned();
            return Err(SnapshotError { path: "units".to_owned(), problem });
        }
        Ok(())
    }

    fn enlarge(&mut self, peaks: &Peaks) {
        self.work *= factor(peaks.work);
        for (divisor, peak) in self.resources.iter_mut().zip(&peaks.resources) {
            *divisor *= factor(*peak);
        }
        for (divisor, peak) in self.rates.iter_mut().zip(&peaks.levels) {
            *divisor *= factor(*peak);
        }
    }

    /// Overload that is added to something else is divided by what that is divided by.
    fn join(&mut self, snapshot: &Snapshot) {
        let mixed = |level: &Vec<Criterion>| level.contains(&Criterion::Overload) && level.len() > 1;
        if let Some(position) = snapshot.objectives().levels().iter().position(mixed) {
            let common = self.work.max(self.level(snapshot, position));
            self.rates[position] = common.div_ceil(self.costs_in(snapshot, position));
            self.work = self.level(snapshot, position);
        }
    }

    fn costs_in(&self, snapshot: &Snapshot, level: usize) -> u64 {
        if snapshot.objectives().levels()[level].contains(&Criterion::Communication) { self.costs } else { 1 }
    }

    /// What the values of a level are divided by.
    pub fn level(&self, snapshot: &Snapshot, level: usize) -> u64 {
        if snapshot.objectives().levels()[level] == [Criterion::Overload] {
            return self.work;
        }
        self.rates[level] * self.costs_in(snapshot, level)
    }

    /// Whether the optimum of the relaxed scaling bounds that of `snapshot`, whose scale this is: the difference of two
    /// overloads does not shrink with both, the largest alone does.
    pub fn bounds(&self, snapshot: &Snapshot) -> bool {
        self.work <= 1 || Rooms::new(snapshot).least_overload() <= 0
    }

    /// Whether every number stays as it is.
    pub fn is_exact(&self) -> bool {
        self.work == 1
            && self.costs == 1
            && self.resources.iter().chain(&self.rates).all(|divisor| *divisor == 1)
    }

    /// The snapshot with its numbers divided.
    ///
    /// # Errors
    /// When that is no snapshot any more.
    pub fn apply(&self, snapshot: &Snapshot, rounding: Rounding) -> Result<Snapshot, SnapshotError> {
        let mut file = snapshot.file().clone();
        // An order that follows from the numbers is the one that followed from these.
        file.objectives = snapshot.objectives().into();
        self.divide_places(&mut file, snapshot, rounding);
        self.divide_actors(&mut file, snapshot, rounding);
        self.divide_prices(&mut file, snapshot, rounding);
        let level =
            snapshot.objectives().levels().iter().position(|level| level.contains(&Criterion::Policy));
        let divisor = level.map_or(1, |level| self.level(snapshot, level));
        let divisor = i64::try_from(divisor).unwrap_or(i64::MAX);
        let rules = snapshot.rules().map(|rules| rules.divided(divisor, rounding == Rounding::Cautious));
        Ok(Snapshot::new(file)?.with_rules(rules))
    }

    fn resource(&self, snapshot: &Snapshot, name: &str) -> u64 {
        snapshot.resources().iter().position(|known| known == name).map_or(1, |at| self.resources[at])
    }

    fn divide_places(&self, file: &mut SnapshotFile, snapshot: &Snapshot, rounding: Rounding) {
        for unit in &mut file.units {
            unit.capacity = rounding.down(unit.capacity, self.work).max(1);
        }
        let provides = file.units.iter_mut().map(|unit| &mut unit.provides);
        for (name, quantity) in provides.chain(file.nodes.iter_mut().map(|node| &mut node.provides)).flatten()
        {
            *quantity = rounding.down(*quantity, self.resource(snapshot, name));
        }
        for constraint in &mut file.constraints {
            if let Constraint::Reserve { resource, quantity, .. } = constraint {
                *quantity = rounding.up(*quantity, self.resource(snapshot, resource));
            }
        }
    }

    fn divide_actors(&self, file: &mut SnapshotFile, snapshot: &Snapshot, rounding: Rounding) {
        let divide = |needs: &mut BTreeMap<String, u64>| {
            for (name, quantity) in needs {
                *quantity = rounding.up(*quantity, self.resource(snapshot, name));
            }
        };
        for actor in &mut file.actors {
            divide(&mut actor.requires);
            for runs_on in actor.runs_on.values_mut() {
                runs_on.work = rounding.up(runs_on.work, self.work);
                divide(&mut runs_on.requires);
                divide(&mut runs_on.node_requires);
            }
        }
    }

    fn divide_prices(&self, file: &mut SnapshotFile, snapshot: &Snapshot, rounding: Rounding) {
        let level = |criterion: Criterion| {
            snapshot.objectives().levels().iter().position(|level| level.contains(&criterion))
        };
        let rate = |criterion| level(criterion).map_or(1, |level| self.rates[level]);
        let price = |criterion| level(criterion).map_or(1, |level| self.level(snapshot, level));
        for message in &mut file.messages {
            message.count = rounding.up(message.count, rate(Criterion::Communication));
        }
        for pair in &mut file.annoyance {
            pair.drag = rounding.up(pair.drag, price(Criterion::Annoyance));
        }
        for pair in &mut file.interference {
            pair.drag = rounding.up(pair.drag, price(Criterion::Interference));
        }
        for actor in &mut file.actors {
            actor.move_cost = rounding.up(actor.move_cost, price(Criterion::Migration));
        }
        for constraint in &mut file.constraints {
            if let Constraint::Prefer { weight, .. } = constraint {
                *weight = rounding.up(*weight, price(Criterion::Policy));
            }
        }
        if self.costs > 1 {
            divide_costs(&mut file.exchange_cost, snapshot, |cost| rounding.up(cost, self.costs));
        }
    }
}

/// Divides exchange costs; pairs of kinds that were covered by `otherKind` are listed, the implied 1 among them.
fn divide_costs(cost: &mut ExchangeCost, snapshot: &Snapshot, divide: impl Fn(u64) -> u64) {
    let mut kinds: Vec<&str> = snapshot.file().units.iter().map(|unit| unit.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let cost_of = |a: &str, b: &str| divide(snapshot.kind_cost(a, b).unsigned_abs());
    let row = |a: &&str| (*a).to_owned();
    cost.kinds = kinds
        .iter()
        .map(|a| (row(a), kinds.iter().map(|b| ((*b).to_owned(), cost_of(a, b))).collect()))
        .collect();
    cost.other_kind = cost.other_kind.map(&divide);
    for added in [&mut cost.other_numa, &mut cost.other_node, &mut cost.other_zone] {
        *added = divide(*added);
    }
    for pair in &mut cost.pairs {
        pair.cost = divide(pair.cost);
    }
}

impl Rounding {
    /// What is asked: work, requirements, prices.
    fn up(self, number: u64, divisor: u64) -> u64 {
        match self {
            Self::Cautious => number.div_ceil(divisor),
            Self::Relaxed => number / divisor,
        }
    }

    /// What there is: capacities, resources.
    fn down(self, number: u64, divisor: u64) -> u64 {
        match self {
            Self::Cautious => Self::Relaxed.up(number, divisor),
            Self::Relaxed => Self::Cautious.up(number, divisor),
        }
    }
}

/// By how much a peak is too large, rounded up; 1 if it is not.
fn factor(peak: i64) -> u64 {
    if peak <= LARGEST_SUM { 1 } else { peak.unsigned_abs().div_ceil(LARGEST_SUM.unsigned_abs()).max(2) }
}

/// The largest sums that a program over a snapshot could form.
struct Peaks {
    work: i64,
    resources: Vec<i64>,
    levels: Vec<i64>,
    watts: i64,
}

impl Peaks {
    fn of(snapshot: &Snapshot) -> Self {
        let rooms = Rooms::new(snapshot);
        let most_overload = rooms.most_overload();
        let size = |room: &Room| room.wanted.saturating_add(room.left.saturating_abs());
        let tight = rooms.work.iter().filter(|room| room.binds());
        let names_overload = snapshot.objectives().names(Criterion::Overload);
        // The bits of a number can add up to nearly twice the number.
        let work = tight.map(|room| size(room).saturating_add(2 * most_overload)).max().unwrap_or(0);
        let mut resources = vec![0; snapshot.resources().len()];
        for limits in rooms.units.iter().chain(&rooms.nodes) {
            for (peak, room) in resources.iter_mut().zip(limits).filter(|(_, room)| room.binds()) {
                *peak = size(room).max(*peak);
            }
        }
        let totals = Totals::of(snapshot);
        let extras = Extras::new(snapshot, &rooms);
        let of = |criterion: &Criterion| match criterion {
            Criterion::Overload => 2 * most_overload,
            counted if INDIVISIBLE.contains(counted) => extras.most(snapshot, *counted),
            other => totals.0.get(other).copied().unwrap_or(0),
        };
        let level = |level: &Vec<Criterion>| level.iter().map(of).fold(0, i64::saturating_add);
        let levels = snapshot.objectives().levels().iter().map(level).collect();
        let work = if names_overload { work } else { 0 };
        Self {
            work: work.max(extras.most_work(snapshot, &rooms)),
            resources,
            levels,
            watts: extras.most_watts(snapshot),
        }
    }
}

/// The sum of all tuples of a criterion, whatever is placed where.
struct Totals(BTreeMap<Criterion, i64>);

impl Totals {
    fn of(snapshot: &Snapshot) -> Self {
        let mut totals = Self(BTreeMap::new());
        let dearest = dearest_message(snapshot);
        for actor in 0..snapshot.actors() {
            if !snapshot.is_fixed(actor) && snapshot.current(actor).is_some() {
                totals.add(Criterion::Migration, snapshot.move_cost(actor));
            }
            for edge in snapshot.edges(actor).iter().filter(|edge| edge.peer.at() > actor) {
                if !(snapshot.is_fixed(actor) && snapshot.is_fixed(edge.peer.at())) {
                    totals.add(Criterion::Communication, edge.rate.saturating_mul(dearest));
                    totals.add(Criterion::Annoyance, edge.annoyance);
                    totals.add(Criterion::Interference, edge.interference);
                }
            }
        }
        totals.add(Criterion::Policy, snapshot.rules().map_or(0, placement::Rules::most_penalty));
        for constraint in &snapshot.file().constraints {
            if let Constraint::Prefer { weight, .. } = constraint {
                totals.add(Criterion::Policy, i64::try_from(*weight).unwrap_or(i64::MAX));
            }
        }
        totals
    }

    fn add(&mut self, criterion: Criterion, value: i64) {
        let total = self.0.entry(criterion).or_default();
        *total = total.saturating_add(value);
    }
}
