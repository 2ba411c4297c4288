//! Scaling: clingo computes in 32 bits, so a snapshot whose sums could exceed 2^30 is solved in two scalings.
//!
//! *Cautious* rounds work, requirements and prices up, capacities, quotas and supplies down: what is feasible there is
//! feasible here. *Relaxed* rounds the other way: what is feasible here is feasible there and costs no more, so its optimum,
//! scaled back, is a bound.

use std::collections::{BTreeMap, BTreeSet};

use placement::criteria::{Encoding, Scaling};
use placement::file::{Constraint, ExchangeCost, SnapshotFile};
use placement::ix::{IxVec, KindIx, ResourceIx};
use placement::room::Rooms;
use placement::{Criterion, LARGEST, Objectives, Problem, Rules, Snapshot, SnapshotError, constraints};

/// The maximum of any sum that a program can form: half of the 32-bit range, which leaves room for rounding.
pub(crate) const LARGEST_SUM: i64 = 1 << 30;

/// The direction of rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Feasible here implies feasible in the original.
    Cautious,
    /// Feasible in the original implies feasible here, at no higher cost.
    Relaxed,
}

/// The divisors of a snapshot's numbers; 1 if they fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Work and capacities.
    work: u64,
    /// Resources; the same for units and nodes.
    resources: IxVec<ResourceIx, u64>,
    /// By level: rates, drags and weights.
    rates: Vec<u64>,
    /// Exchange costs.
    costs: u64,
}

impl Scale {
    /// Approximately the smallest divisors with which every sum fits.
    ///
    /// # Errors
    /// When the divided snapshot is invalid.
    pub fn of(snapshot: &Snapshot) -> Result<Self, SnapshotError> {
        let levels = snapshot.objectives().levels();
        let mut scale = Self {
            work: 1,
            resources: IxVec::of(1, snapshot.problem().resources.len()),
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
                // Rates that are all 1 cannot shrink: then the price of one message is too large.
                let stuck = *now > LARGEST_SUM && *now > then / 4 * 3;
                if stuck && multiplies_exchange(&levels[level]) {
                    scale.costs = scale.costs.saturating_mul(factor(*now));
                }
            }
            scale.join(snapshot);
            peaks = Peaks::of(&scale.apply(snapshot, Rounding::Cautious)?);
        }
    }

    /// Refuses numbers that are too large and cannot be divided: counts, and what is added to counts.
    fn check(&self, snapshot: &Snapshot, peaks: &Peaks) -> Result<(), SnapshotError> {
        let refused = |level: &Vec<Criterion>| {
            let problem = format!("the numbers of `{}` are too large for the solver", Objectives::key(level));
            Err(SnapshotError { path: "objectives".to_owned(), problem })
        };
        for (position, level) in snapshot.objectives().levels().iter().enumerate() {
            let indivisible = level.iter().filter(|criterion| has(**criterion, Scaling::Indivisible));
            let prices = indivisible.clone().any(|criterion| criterion.measure().counts_exchange());
            let added = indivisible.clone().any(|criterion| criterion.measure().adds_messages_to_work());
            let counted = indivisible.clone().any(|criterion| criterion.measure().counts_messages());
            let added_work = level.iter().any(|criterion| has(*criterion, Scaling::Work));
            let is_divided = self.level(snapshot, position) > 1
                || (added_work && self.work > 1)
                || (prices && self.costs > 1)
                || (added && self.work > 1)
                || (counted && self.rates.iter().any(|rate| *rate > 1));
            if indivisible.count() > 0 && is_divided {
                return refused(level);
            }
        }
        // No number of a file is above that: what is still too large does not shrink with its divisor.
        let divisors = [self.work, self.costs].into_iter().chain(self.resources.iter().copied());
        if divisors.chain(self.rates.iter().copied()).any(|divisor| divisor > LARGEST) {
            let problem = "the numbers are too large for the solver".to_owned();
            return Err(SnapshotError { path: "objectives".to_owned(), problem });
        }
        if let Some((path, what, _)) = peaks.limits.iter().find(|(_, _, sum)| *sum > LARGEST_SUM) {
            let problem = format!("the {what} are too large for the solver");
            return Err(SnapshotError { path: (*path).to_owned(), problem });
        }
        Ok(())
    }

    fn enlarge(&mut self, peaks: &Peaks) {
        let enlarge = |divisor: &mut u64, peak: i64| *divisor = divisor.saturating_mul(factor(peak));
        enlarge(&mut self.work, peaks.work);
        for (divisor, peak) in self.resources.iter_mut().zip(&peaks.resources) {
            enlarge(divisor, *peak);
        }
        for (divisor, peak) in self.rates.iter_mut().zip(&peaks.levels) {
            enlarge(divisor, *peak);
        }
    }

    /// Work that is added to another quantity is divided by that quantity's divisor.
    fn join(&mut self, snapshot: &Snapshot) {
        let mixed = |level: &Vec<Criterion>| {
            level.iter().any(|criterion| has(*criterion, Scaling::Work)) && level.len() > 1
        };
        if let Some(position) = snapshot.objectives().levels().iter().position(mixed) {
            let common = self.work.max(self.level(snapshot, position));
            self.rates[position] = common.div_ceil(self.costs_in(snapshot, position));
            self.work = self.level(snapshot, position);
        }
    }

    fn costs_in(&self, snapshot: &Snapshot, level: usize) -> u64 {
        if multiplies_exchange(&snapshot.objectives().levels()[level]) { self.costs } else { 1 }
    }

    /// The divisor of a level's values.
    pub fn level(&self, snapshot: &Snapshot, level: usize) -> u64 {
        if snapshot.objectives().levels()[level].iter().all(|criterion| has(*criterion, Scaling::Work)) {
            return self.work;
        }
        self.rates[level].saturating_mul(self.costs_in(snapshot, level))
    }

    /// Whether the optimum of the relaxed scaling bounds that of `snapshot`, whose scale this is. The difference of two overloads
    /// is not monotone in the rounding; the largest overload alone is.
    pub fn bounds(&self, snapshot: &Snapshot) -> bool {
        self.work <= 1 || Rooms::new(snapshot.problem()).least_overload() <= 0
    }

    /// Whether no number changes.
    pub fn is_exact(&self) -> bool {
        self.work == 1
            && self.costs == 1
            && self.resources.iter().chain(&self.rates).all(|divisor| *divisor == 1)
    }

    /// Whether no number that decides about feasibility changes. Loads decide only about power.
    pub fn keeps_limits(&self, snapshot: &Snapshot) -> bool {
        let has_caps = !snapshot.problem().caps.is_empty();
        self.resources.iter().all(|divisor| *divisor == 1) && (self.work == 1 || !has_caps)
    }

    /// The snapshot with its numbers divided.
    ///
    /// # Errors
    /// When the divided snapshot is invalid.
    pub fn apply(&self, snapshot: &Snapshot, rounding: Rounding) -> Result<Snapshot, SnapshotError> {
        let mut file = snapshot.file().clone();
        // An order that was derived from the numbers is kept.
        file.objectives = snapshot.objectives().into();
        self.divide_places(&mut file, snapshot, rounding);
        if rounding == Rounding::Relaxed {
            keep_caps(&mut file, snapshot);
        }
        self.divide_actors(&mut file, snapshot, rounding);
        self.divide_prices(&mut file, snapshot, rounding);
        let level =
            snapshot.objectives().levels().iter().position(|level| level.contains(&Criterion::Policy));
        let divisor = level.map_or(1, |level| self.level(snapshot, level));
        let divisor = i64::try_from(divisor).unwrap_or(i64::MAX);
        let rules = snapshot.rules().map(|rules| rules.divided(divisor, rounding == Rounding::Cautious));
        snapshot.in_numbers(file, rules)
    }

    fn resource(&self, snapshot: &Snapshot, name: &str) -> u64 {
        let known = snapshot.problem().resources.enumerate().find(|(_, known)| *known == name);
        known.map_or(1, |(resource, _)| self.resources[resource])
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
            match constraint {
                Constraint::Reserve { resource, quantity, .. } => {
                    *quantity = rounding.up(*quantity, self.resource(snapshot, resource));
                }
                // Where fixed actors use more than that, their use in the divided numbers is the limit.
                Constraint::Quota { resource: Some(resource), max, .. } => {
                    *max = rounding.down(*max, self.resource(snapshot, resource));
                }
                _ => {}
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
        for (position, level) in snapshot.objectives().levels().iter().enumerate() {
            for measure in level.iter().map(|criterion| criterion.measure()) {
                // Values that are multiplied by exchange costs shrink with these, too.
                let divisor = if measure.counts_exchange() {
                    self.rates[position]
                } else {
                    self.level(snapshot, position)
                };
                measure.divide(file, &|number| rounding.up(number, divisor));
            }
        }
        if self.costs > 1 {
            divide_costs(&mut file.exchange_cost, snapshot.problem(), |cost| rounding.up(cost, self.costs));
        }
    }
}

/// Keeps power caps consistent: where fixed actors exceed their cap, the cap is their draw, of which rounding takes some away. Caps
/// that are already violated bind as rules and have no limit here.
fn keep_caps(file: &mut SnapshotFile, snapshot: &Snapshot) {
    for cap in &snapshot.problem().caps {
        let most = cap.limit.iter().filter_map(|most| u64::try_from(*most).ok());
        let most = most.filter(|most| *most <= LARGEST).max();
        if let (Some(Constraint::PowerCap { max, .. }), Some(most)) =
            (file.constraints.get_mut(cap.constraint), most)
        {
            *max = most.max(*max);
        }
    }
}

/// Divides exchange costs; pairs of kinds that `otherKind` covered become explicit, including the implied 1.
fn divide_costs(cost: &mut ExchangeCost, problem: &Problem, divide: impl Fn(u64) -> u64) {
    let kinds: BTreeSet<KindIx> = problem.unit_kind.iter().copied().collect();
    let name = |kind: KindIx| problem.kinds[kind].clone();
    let cost_of = |a: KindIx, b: KindIx| divide(problem.kind_cost(a, b).unsigned_abs());
    let row = |a: KindIx| kinds.iter().map(|&b| (name(b), cost_of(a, b))).collect();
    cost.kinds = kinds.iter().map(|&a| (name(a), row(a))).collect();
    cost.other_kind = cost.other_kind.map(&divide);
    for added in [&mut cost.other_numa, &mut cost.other_node, &mut cost.other_zone] {
        *added = divide(*added);
    }
    for pair in &mut cost.pairs {
        pair.cost = divide(pair.cost);
    }
}

fn has(criterion: Criterion, scaling: Scaling) -> bool {
    criterion.measure().scaling() == scaling
}

/// Whether a level multiplies numbers by exchange costs and these can be divided.
fn multiplies_exchange(level: &[Criterion]) -> bool {
    level.iter().any(|criterion| has(*criterion, Scaling::Own) && criterion.measure().counts_exchange())
}

impl Rounding {
    /// Demand: work, requirements, prices.
    fn up(self, number: u64, divisor: u64) -> u64 {
        match self {
            Self::Cautious => number.div_ceil(divisor),
            Self::Relaxed => number / divisor,
        }
    }

    /// Supply: capacities, resources, quotas of these.
    fn down(self, number: u64, divisor: u64) -> u64 {
        match self {
            Self::Cautious => Self::Relaxed.up(number, divisor),
            Self::Relaxed => Self::Cautious.up(number, divisor),
        }
    }
}

/// The factor by which a peak is too large, rounded up; 1 if it is not.
fn factor(peak: i64) -> u64 {
    if peak <= LARGEST_SUM { 1 } else { peak.unsigned_abs().div_ceil(LARGEST_SUM.unsigned_abs()).max(2) }
}

/// The largest sums that a program over a snapshot could form.
struct Peaks {
    work: i64,
    resources: IxVec<ResourceIx, i64>,
    levels: Vec<i64>,
    /// Sums of constraints, which cannot be divided: the culprit, and its value.
    limits: Vec<(&'static str, &'static str, i64)>,
}

impl Peaks {
    fn of(snapshot: &Snapshot) -> Self {
        let rooms = Rooms::new(snapshot.problem());
        let world = Encoding::new(snapshot, &rooms);
        let mut resources = IxVec::of(0, snapshot.problem().resources.len());
        for limits in rooms.units.iter().chain(&rooms.nodes) {
            for (resource, room) in limits.enumerate().filter(|(_, room)| room.binds()) {
                resources[resource] = room.size().max(resources[resource]);
            }
        }
        let levels = snapshot.objectives().levels();
        let sum = |criterion: &Criterion| criterion.measure().most_sum(&world);
        let level = |level: &Vec<Criterion>| level.iter().map(sum).fold(0, i64::saturating_add);
        let work = levels.iter().flatten().map(|criterion| criterion.measure().most_work(&world));
        // Limits that the current placement already violates are rules, which are not divided either.
        let bodies = snapshot.rules().map(Rules::ground).unwrap_or_default().iter();
        let weights = bodies.map(|rule| rule.body.iter().fold(0, |sum: i64, (_, w)| sum.saturating_add(*w)));
        let of_rules = ("constraints", "sums of rules", weights.max().unwrap_or(0));
        Self {
            work: work.max().unwrap_or(0).max(constraints::most_work(&world)),
            resources,
            levels: levels.iter().map(level).collect(),
            limits: constraints::most_sums(&world).chain([of_rules]).collect(),
        }
    }
}
