//! Numbers in lowest terms, so that search and proofs do not depend on the units of measurement of a snapshot.
//!
//! Work, messages, drags, prices and resources are each divided by their greatest common divisor. Values of levels shrink by a
//! factor and stay exact, so the optimum is the same, and a bound multiplied by the factor is one of the
//! original.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::constraints;
use crate::criteria::Scaling;
use crate::file::format::{ExchangeCost, SnapshotFile};
use crate::{Answer, Criterion, Objectives, Rules, Snapshot};

/// The common factors of a snapshot's numbers; 0 if there is none but 0.
#[derive(Debug)]
pub(crate) struct CommonFactors {
    /// Of work and capacities.
    work: u64,
    /// Of exchange costs.
    exchange: u64,
    /// Of the numbers of each criterion.
    own: BTreeMap<Criterion, u64>,
    /// Of requirements and reservations of each resource; supplies are rounded down.
    resources: BTreeMap<String, u64>,
    /// By key: the divisor of a level's values.
    levels: BTreeMap<String, u64>,
}

/// Euclid's greatest common divisor; that of 0 and a number is the number.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

fn common_of(numbers: impl IntoIterator<Item = u64>) -> u64 {
    // Most snapshots have no common factor, which the first few numbers show.
    let mut factor = 0;
    for number in numbers {
        factor = common(factor, number);
        if factor == 1 {
            break;
        }
    }
    factor
}

impl CommonFactors {
    /// The common factors that keep the levels comparable.
    pub fn of(snapshot: &Snapshot) -> Self {
        let file = snapshot.file();
        let works = file.actors.iter().flat_map(|actor| actor.runs_on.values().map(|way| way.work));
        let named = snapshot.objectives().levels().iter().flatten();
        let own = named.clone().filter(|criterion| criterion.measure().scaling() == Scaling::Own);
        let mut factors = Self {
            work: common_of(works.chain(file.units.iter().map(|unit| unit.capacity))),
            exchange: of_exchange(snapshot),
            own: own.map(|criterion| (*criterion, own_factor(snapshot, *criterion))).collect(),
            resources: of_resources(file),
            levels: BTreeMap::new(),
        };
        if named.clone().any(|criterion| criterion.measure().counts_messages()) {
            factors.own.entry(Criterion::Communication).and_modify(|factor| *factor = 1);
        }
        // Where messages are added to work, dividing only one would change the sum.
        if named.clone().any(|criterion| criterion.measure().adds_messages_to_work()) {
            (factors.work, factors.exchange) = (1, 1);
        }
        factors.agree(snapshot.objectives().levels());
        factors
    }

    /// Criteria of one level are added, so they share a divisor.
    fn agree(&mut self, levels: &[Vec<Criterion>]) {
        loop {
            let before = (self.work, self.exchange, self.own.clone());
            for level in levels {
                let factor = level.iter().fold(0, |factor, criterion| common(factor, self.value(*criterion)));
                for criterion in level {
                    self.divide_by(*criterion, factor);
                }
                self.levels.insert(Objectives::key(level), factor.max(1));
            }
            if before == (self.work, self.exchange, self.own.clone()) {
                return;
            }
        }
    }

    /// The common factor of a criterion's values.
    fn value(&self, criterion: Criterion) -> u64 {
        let measure = criterion.measure();
        let exchange = if measure.counts_exchange() { self.exchange } else { 1 };
        match measure.scaling() {
            Scaling::Work => self.work,
            Scaling::Own => self.own[&criterion].saturating_mul(exchange),
            Scaling::Indivisible => exchange,
        }
    }

    /// Sets the divisor of a criterion's values, which are multiples of it.
    fn divide_by(&mut self, criterion: Criterion, factor: u64) {
        let measure = criterion.measure();
        if self.value(criterion) == 0 {
            return;
        }
        let mut left = factor;
        if measure.counts_exchange() {
            self.exchange = common(self.exchange, factor);
            left /= self.exchange;
        }
        match measure.scaling() {
            Scaling::Work => self.work = factor,
            Scaling::Own => _ = self.own.insert(criterion, left),
            Scaling::Indivisible => {}
        }
    }

    /// The snapshot in lowest terms; `None` if it already is.
    pub fn divided(&self, snapshot: &Snapshot) -> Option<Snapshot> {
        let own = self.own.values().copied();
        let mut factors = own.chain([self.work, self.exchange]).chain(self.resources.values().copied());
        if factors.all(|factor| factor <= 1) {
            return None;
        }
        let mut file = snapshot.file().clone();
        // An order that was derived from the numbers is kept.
        file.objectives = snapshot.objectives().into();
        self.divide_places(&mut file);
        self.divide_actors(&mut file);
        self.exchange_costs(&mut file.exchange_cost);
        for (criterion, factor) in &self.own {
            criterion.measure().divide(&mut file, &|number| number / (*factor).max(1));
        }
        let penalty = self.own.get(&Criterion::Policy).copied().unwrap_or(1).max(1);
        let penalty = i64::try_from(penalty).ok()?;
        let rules = snapshot.rules().map(|rules| rules.divided(penalty, false));
        // Smaller numbers are equally valid; otherwise the original serves.
        snapshot.in_numbers(file, rules).ok()
    }

    fn divide_places(&self, file: &mut SnapshotFile) {
        for unit in &mut file.units {
            unit.capacity /= self.work.max(1);
        }
        let of_units = file.units.iter_mut().map(|unit| &mut unit.provides);
        let of_nodes = file.nodes.iter_mut().map(|node| &mut node.provides);
        for (name, quantity) in of_units.chain(of_nodes).flatten() {
            *quantity /= self.resource(name);
        }
        for given in &mut file.constraints {
            constraints::divide(given, &|name| self.resource(name));
        }
    }

    fn divide_actors(&self, file: &mut SnapshotFile) {
        let divide = |needs: &mut BTreeMap<String, u64>| {
            for (name, quantity) in needs {
                *quantity /= self.resource(name);
            }
        };
        for actor in &mut file.actors {
            divide(&mut actor.requires);
            for way in actor.runs_on.values_mut() {
                way.work /= self.work.max(1);
                divide(&mut way.requires);
                divide(&mut way.node_requires);
            }
        }
    }

    fn exchange_costs(&self, costs: &mut ExchangeCost) {
        let all = costs.kinds.values_mut().flat_map(BTreeMap::values_mut).chain(&mut costs.other_kind);
        let added = [&mut costs.other_numa, &mut costs.other_node, &mut costs.other_zone];
        let pairs = costs.pairs.iter_mut().map(|pair| &mut pair.cost);
        all.chain(added).chain(pairs).for_each(|cost| *cost /= self.exchange.max(1));
    }

    fn resource(&self, name: &str) -> u64 {
        self.resources.get(name).map_or(1, |factor| (*factor).max(1))
    }

    /// Translates an answer for the snapshot in lowest terms to the original.
    pub fn multiplied(&self, mut answer: Answer) -> Answer {
        for (level, bound) in &mut answer.bound {
            let factor = self.levels.get(level).map_or(1, |factor| i64::try_from(*factor).unwrap_or(1));
            *bound = bound.saturating_mul(factor);
        }
        answer
    }
}

/// The number of entries that are copied at once.
const COPIED: usize = 256;

/// The lists of a file with criterion-specific numbers, some entries at a time, to avoid a second copy of a large file.
fn pieces(file: &SnapshotFile) -> impl Iterator<Item = SnapshotFile> {
    fn of<'a, T: Clone>(
        list: &'a [T],
        put: impl Fn(&mut SnapshotFile, Vec<T>) + 'a,
    ) -> impl Iterator<Item = SnapshotFile> + 'a {
        list.chunks(COPIED).map(move |some| {
            let mut piece = SnapshotFile::default();
            put(&mut piece, some.to_vec());
            piece
        })
    }
    let messages = of(&file.messages, |piece, some| piece.messages = some);
    let channels = of(&file.group_messages, |piece, some| piece.group_messages = some);
    let annoyance = of(&file.annoyance, |piece, some| piece.annoyance = some);
    let interference = of(&file.interference, |piece, some| piece.interference = some);
    let actors = of(&file.actors, |piece, some| piece.actors = some);
    let constraints = of(&file.constraints, |piece, some| piece.constraints = some);
    messages.chain(channels).chain(annoyance).chain(interference).chain(actors).chain(constraints)
}

/// The common factor of a criterion's own numbers.
fn own_factor(snapshot: &Snapshot, criterion: Criterion) -> u64 {
    let factor = Cell::new(0);
    let penalties = snapshot.rules().filter(|_| criterion == Criterion::Policy);
    for (_, penalty) in penalties.into_iter().flat_map(Rules::penalties) {
        factor.set(common(factor.get(), penalty.unsigned_abs()));
    }
    // The division itself determines which numbers these are.
    for mut piece in pieces(snapshot.file()) {
        criterion.measure().divide(&mut piece, &|number| {
            factor.set(common(factor.get(), number));
            number
        });
        if factor.get() == 1 {
            break;
        }
    }
    factor.get()
}

fn of_exchange(snapshot: &Snapshot) -> u64 {
    let costs = &snapshot.file().exchange_cost;
    let is_listed = |kind: &String| costs.kinds.get(kind).is_some_and(|row| row.contains_key(kind));
    if snapshot.problem().kinds.iter().any(|kind| !is_listed(kind)) {
        // An unlisted pair of kinds: 1.
        return 1;
    }
    let kinds = costs.kinds.values().flat_map(BTreeMap::values).copied().chain(costs.other_kind);
    let added = [costs.other_numa, costs.other_node, costs.other_zone];
    common_of(kinds.chain(added).chain(costs.pairs.iter().map(|pair| pair.cost)))
}

fn of_resources(file: &SnapshotFile) -> BTreeMap<String, u64> {
    let mut factors: BTreeMap<String, u64> = BTreeMap::new();
    let mut take = |name: &String, quantity: u64| match factors.get_mut(name) {
        Some(factor) => *factor = common(*factor, quantity),
        None => _ = factors.insert(name.clone(), quantity),
    };
    for actor in &file.actors {
        let of_ways = actor.runs_on.values().flat_map(|way| way.requires.iter().chain(&way.node_requires));
        for (name, quantity) in actor.requires.iter().chain(of_ways) {
            take(name, *quantity);
        }
    }
    for given in &file.constraints {
        if let Some((name, quantity)) = constraints::reserved_quantity(given) {
            take(name, quantity);
        }
    }
    factors
}
