//! Counters that devices of numbered units share with others: kube-scheduler chooses the device, so an actor counts its share of
//! what all of them have.

use std::collections::{BTreeMap, BTreeSet};

use crate::Index;
use crate::constraints::devices::counter_limit::{CounterLimit, NamedUnits};
use crate::numbers::{Exact, floor};
use crate::units::dra::slices::{CounterKey, SliceDevice};
use crate::units::offer::Offer;
use crate::units::unit::Unit;

/// What is left of a counter in a limit; shares of up to 16 units, and of most larger numbers, are whole.
const PARTS: u64 = 720_720;

/// A counter set: driver, pool and name.
type SetKey = (String, String, String);

/// The numbered units of a pool on a node that hold no device yet.
pub(crate) struct UnallocatedUnits<'a> {
    units: Vec<&'a Unit>,
    /// The devices with shared counters that kube-scheduler may choose for them.
    devices: Vec<&'a SliceDevice>,
    sets: BTreeSet<SetKey>,
}

/// The numbered units of all pools that hold no device yet, if their devices share counters.
pub(crate) fn free_choices<'a>(index: &'a Index, offer: &'a Offer) -> Vec<UnallocatedUnits<'a>> {
    let mut units = BTreeMap::<(&str, &str), Vec<&Unit>>::new();
    for unit in offer.units.iter() {
        if unit.claim.as_ref().is_some_and(|claim| !claim.choices.is_empty()) {
            units.entry((&unit.node, &unit.pool)).or_default().push(unit);
        }
    }
    if units.is_empty() {
        return Vec::new();
    }
    let claims = index.published.holders.values().flatten();
    let allocated: BTreeSet<&str> = claims.filter_map(|claim| index.unit_of_claim(claim)).collect();
    let choice = |mut units: Vec<&'a Unit>| {
        let keys = &units.first()?.claim.as_ref()?.choices;
        let devices: Vec<_> = keys.iter().filter_map(|key| index.published.get(key)).collect();
        units.retain(|unit| !allocated.contains(&*unit.id));
        let sets = devices.iter().flat_map(|device| device.counters()).map(|(counter, _)| set_of(&counter));
        let sets = sets.collect();
        (!units.is_empty()).then_some(UnallocatedUnits { units, devices, sets })
    };
    units.into_values().filter_map(choice).collect()
}

fn set_of((driver, pool, set, _): &CounterKey) -> SetKey {
    (driver.clone(), pool.clone(), set.clone())
}

/// Limits over the counter sets from which kube-scheduler chooses for a pool, and over those of pools of a node that overlap.
///
/// They hold for the sum of all devices of these sets. `is_others` says whether the actor of another application is decided on a unit.
pub(crate) fn limits_of_choices<'a>(
    choices: &[UnallocatedUnits<'a>],
    named: &NamedUnits<'a>,
    left: &impl Fn(&CounterKey) -> Exact,
    is_others: &impl Fn(&str) -> bool,
) -> Vec<CounterLimit<'a>> {
    let mut scopes: BTreeSet<BTreeSet<&SetKey>> =
        choices.iter().map(|choice| choice.sets.iter().collect()).collect();
    for of_node in choices.chunk_by(|a, b| a.units[0].node == b.units[0].node) {
        scopes.extend(joined(of_node));
    }
    let mut choices_of = BTreeMap::<&SetKey, Vec<usize>>::new();
    for (at, choice) in choices.iter().enumerate() {
        for set in &choice.sets {
            choices_of.entry(set).or_default().push(at);
        }
    }
    let mut named_of = BTreeMap::<SetKey, Vec<usize>>::new();
    for (at, (_, device)) in named.iter().enumerate() {
        for set in device.counters().map(|(counter, _)| set_of(&counter)).collect::<BTreeSet<_>>() {
            named_of.entry(set).or_default().push(at);
        }
    }
    let mut limits = Vec::new();
    for sets in &scopes {
        let members: BTreeSet<usize> = sets.iter().flat_map(|set| &choices_of[set]).copied().collect();
        let members = members.into_iter().map(|at| &choices[at]);
        let members: Vec<_> = members.filter(|it| it.sets.iter().all(|set| sets.contains(set))).collect();
        let beside: BTreeSet<usize> =
            sets.iter().flat_map(|set| named_of.get(*set).into_iter().flatten()).copied().collect();
        let beside: NamedUnits = beside.into_iter().map(|at| named[at]).collect();
        // The units of one pool alone are as many as fit.
        if members.len() + beside.len() > 1 {
            limits.extend(CounterSetGroup { sets, members, named: beside }.limits(left, is_others));
        }
    }
    limits
}

/// The counter sets of pools of a node that overlap, directly or by way of others.
fn joined<'s>(choices: &'s [UnallocatedUnits]) -> Vec<BTreeSet<&'s SetKey>> {
    let mut joined: Vec<BTreeSet<&SetKey>> = Vec::new();
    for choice in choices {
        let mut sets: BTreeSet<&SetKey> = choice.sets.iter().collect();
        let (linked, apart): (Vec<_>, Vec<_>) =
            joined.into_iter().partition(|known| !known.is_disjoint(&sets));
        sets.extend(linked.into_iter().flatten());
        joined = apart;
        joined.push(sets);
    }
    joined
}

/// Counter sets, and the units whose devices use them.
struct CounterSetGroup<'s, 'a> {
    sets: &'s BTreeSet<&'s SetKey>,
    members: Vec<&'s UnallocatedUnits<'a>>,
    named: NamedUnits<'a>,
}

impl<'a> CounterSetGroup<'_, 'a> {
    /// One limit for each name of a counter, without repetitions: counters of one name in several sets are added.
    fn limits(
        &self,
        left: &impl Fn(&CounterKey) -> Exact,
        is_others: &impl Fn(&str) -> bool,
    ) -> Vec<CounterLimit<'a>> {
        let devices = self.members.iter().flat_map(|choice| &choice.devices);
        let names: BTreeSet<String> = devices.flat_map(|it| it.counters()).map(|(it, _)| it.3).collect();
        let mut limits: Vec<CounterLimit> = Vec::new();
        for name in names {
            if let Some(limit) = self.limit(&name, left, is_others)
                && limits.iter().all(|known| (&known.units, known.max) != (&limit.units, limit.max))
            {
                limits.push(limit);
            }
        }
        limits
    }

    fn limit(
        &self,
        name: &str,
        left: &impl Fn(&CounterKey) -> Exact,
        is_others: &impl Fn(&str) -> bool,
    ) -> Option<CounterLimit<'a>> {
        let counter = |(driver, pool, set): &SetKey| {
            left(&(driver.clone(), pool.clone(), set.clone(), name.to_owned())).max(Exact::default())
        };
        let all = self.sets.iter().map(|set| counter(set)).sum::<Exact>();
        if all <= Exact::default() {
            // No numbered unit fits, and single devices have limits of their own.
            return None;
        }
        let parts = |amount: Exact| amount / all * Exact::from(i128::from(PARTS));
        let (mut units, mut kinds, mut max) = (BTreeMap::new(), BTreeSet::new(), PARTS);
        for choice in &self.members {
            let mut amounts: Vec<Exact> = choice.devices.iter().map(|it| self.amount(it, name)).collect();
            amounts.sort_by(|a, b| b.cmp(a));
            let count = i128::try_from(choice.units.len()).ok()?;
            let most = amounts.into_iter().take(choice.units.len()).sum::<Exact>().min(all);
            let share = floor(parts(most / Exact::from(count)));
            for unit in choice.units.iter().filter(|_| share > 0) {
                units.insert(unit.id.as_str(), share);
                kinds.insert(unit.kind.as_str());
                if is_others(&unit.id) {
                    max = max.saturating_sub(share);
                }
            }
        }
        for (unit, device) in &self.named {
            let share = floor(parts(self.amount(device, name)).ceil());
            if share > 0 {
                units.insert(unit.id.as_str(), share);
                kinds.insert(unit.kind.as_str());
            }
        }
        let common = units.values().copied().fold(0, num_integer::gcd).max(1);
        for share in units.values_mut() {
            *share /= common;
        }
        let (driver, pool, _) = self.sets.first()?;
        let sets: Vec<&str> = self.sets.iter().map(|(_, _, set)| set.as_str()).collect();
        let reason =
            format!("devices of {driver} in pool {pool} share the counter {name} of {}", sets.join(", "));
        Some(CounterLimit { units, kinds, max: max / common, reason })
    }

    /// What a device consumes of the counters of this name.
    fn amount(&self, device: &SliceDevice, name: &str) -> Exact {
        let counters = device.counters().filter(|(it, _)| it.3 == name && self.sets.contains(&set_of(it)));
        counters.map(|(_, amount)| amount).sum()
    }
}
