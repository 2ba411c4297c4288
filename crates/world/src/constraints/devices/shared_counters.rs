//! Counters that devices of claims share, such as the memory slices of partitions of one GPU.

use std::collections::{BTreeMap, BTreeSet};

use crds::ActorApplication;
use placement::file::Constraint;

use crate::constraints::devices::counter_limit::{CounterLimit, NamedUnits};
use crate::constraints::devices::numbered_counters::{free_choices, limits_of_choices};
use crate::demand::actors::ApplicationActors;
use crate::demand::application::ActorName;
use crate::numbers::{Exact, ceil, floor};
use crate::units::dra::slices::{CounterKey, DeviceKey};
use crate::units::offer::Offer;
use crate::{ApplicationKey, Index};

/// The largest amount of a unit in a limit: sums of hundreds fit a snapshot.
const MOST_PARTS: i128 = 1 << 44;

/// One quota for each counter of which the offered devices consume more than others leave, and for each set of devices among which
/// kube-scheduler chooses.
pub(crate) fn shared_counters(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    offer: &Offer,
) -> Vec<Constraint> {
    let named: NamedUnits = offer
        .units
        .iter()
        .filter_map(|unit| Some((unit, index.published.get(unit.claim.as_ref()?.device.as_ref()?)?)))
        .filter(|(_, device)| !device.consumes.is_empty())
        .collect();
    let choices = free_choices(index, offer);
    if named.is_empty() && choices.is_empty() {
        return Vec::new();
    }
    let key = ApplicationKey::of(application);
    let own = own_units(index, &key);
    let is_others = |unit: &str| is_others(index, &own, unit);
    let taken = taken(index, &key, offer, &is_others);
    let left = |counter: &CounterKey| {
        index.published.counter(counter) - taken.get(counter).copied().unwrap_or_default()
    };
    let mut limits = limits_of_named(&named, &left);
    limits.extend(limits_of_choices(&choices, &named, &left, &is_others));
    let quota = |limit: CounterLimit| {
        let sum = limit.units.values().copied().fold(0, u64::saturating_add);
        let may = |actor: &&ActorName| limit.kinds.iter().any(|kind| actors.may_run_on(actor, kind));
        let actors: Vec<String> = actors.names.iter().filter(may).map(ToString::to_string).collect();
        (sum > limit.max && !actors.is_empty()).then(|| Constraint::Quota {
            actors,
            pool: None,
            pools: None,
            numa: None,
            units: Some(limit.units.into_iter().map(|(unit, amount)| (unit.to_owned(), amount)).collect()),
            resource: None,
            max: limit.max,
            reason: Some(limit.reason),
        })
    };
    limits.into_iter().filter_map(quota).collect()
}

/// One limit for each counter.
fn limits_of_named<'a>(
    named: &NamedUnits<'a>,
    left: &impl Fn(&CounterKey) -> Exact,
) -> Vec<CounterLimit<'a>> {
    let mut consumers: BTreeMap<CounterKey, (BTreeMap<&str, Exact>, BTreeSet<&str>)> = BTreeMap::new();
    for (unit, device) in named {
        for (counter, amount) in device.counters() {
            let (units, kinds) = consumers.entry(counter).or_default();
            units.insert(&unit.id, amount);
            kinds.insert(&unit.kind);
        }
    }
    let limit = |(counter, (units, kinds)): (CounterKey, (BTreeMap<&'a str, Exact>, BTreeSet<&'a str>))| {
        let (units, max) = whole_numbers(&units, left(&counter));
        let (driver, pool, set, name) = &counter;
        let reason = format!("devices of {driver} in pool {pool} share the counter {name} of {set}");
        CounterLimit { units, kinds, max, reason }
    };
    consumers.into_iter().map(limit).collect()
}

/// Whether the actor of another application is decided on a unit, given those of the application.
pub(crate) fn is_others(index: &Index, own: &BTreeSet<&str>, unit: &str) -> bool {
    index.decided_on(unit) > u64::from(own.contains(unit))
}

/// The units on which actors of the application are decided.
pub(crate) fn own_units<'a>(index: &'a Index, key: &ApplicationKey) -> BTreeSet<&'a str> {
    let placement = index.placements.get(key);
    placement.into_iter().flat_map(|it| &it.spec.assignments).map(|it| it.unit.as_str()).collect()
}

/// What others use of each counter: allocated claims, and decided actors of other applications.
///
/// A device that the scheduler chose for a numbered unit of the application is no choice of the plan either.
fn taken(
    index: &Index,
    key: &ApplicationKey,
    offer: &Offer,
    is_others: &impl Fn(&str) -> bool,
) -> BTreeMap<CounterKey, Exact> {
    let decided = offer.units.iter().filter(|unit| is_others(&unit.id));
    let decided: BTreeSet<&DeviceKey> =
        decided.filter_map(|unit| unit.claim.as_ref()?.device.as_ref()).collect();
    let offered: BTreeSet<&DeviceKey> =
        offer.units.iter().filter_map(|unit| unit.claim.as_ref()?.device.as_ref()).collect();
    let mut taken = BTreeMap::new();
    for device in index.published.all().filter(|device| !device.consumes.is_empty()) {
        let mut holders = index.published.holders(&device.key);
        let is_other = |claim| index.application_of_claim(claim).as_ref() != Some(key);
        let is_held = holders.any(|claim| is_other(claim) || !offered.contains(&device.key));
        if is_held || decided.contains(&device.key) {
            for (counter, amount) in device.counters() {
                *taken.entry(counter).or_default() += amount;
            }
        }
    }
    taken
}

/// The same proportions in whole numbers: amounts rounded up, the limit rounded down.
fn whole_numbers<'a>(units: &BTreeMap<&'a str, Exact>, left: Exact) -> (BTreeMap<&'a str, u64>, u64) {
    // The unit of all amounts is whole in billionths, to which quantities are rounded.
    let billion = Exact::from(1_000_000_000);
    let common =
        units.values().map(|amount| (*amount * billion).to_integer()).fold(0, num_integer::gcd).max(1);
    let largest = units.values().max().copied().unwrap_or_default();
    let common = (Exact::from(common) / billion).max(largest / Exact::from(MOST_PARTS));
    let rounded = |amount: &Exact| ceil(*amount / common);
    let units = units.iter().map(|(unit, amount)| (*unit, rounded(amount))).collect();
    (units, floor(left / common))
}
