//! Counters that devices of claims share, such as the memory slices of partitions of one GPU.

use std::collections::{BTreeMap, BTreeSet};

use crds::ActorApplication;
use placement::file::Constraint;

use crate::demand::actors::ApplicationActors;
use crate::demand::application::ActorName;
use crate::numbers::{Exact, floor};
use crate::units::offer::Offer;
use crate::units::slices::{CounterKey, DeviceKey, SliceDevice};
use crate::{ApplicationKey, Index};

/// One quota for each counter of which the offered devices consume more than others leave.
pub(crate) fn shared_counters(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    offer: &Offer,
) -> Vec<Constraint> {
    let mut consumers: BTreeMap<CounterKey, BTreeMap<&str, Exact>> = BTreeMap::new();
    let mut kinds: BTreeMap<CounterKey, BTreeSet<&str>> = BTreeMap::new();
    for unit in offer.units.iter() {
        let Some(key) = unit.claim.as_ref().and_then(|claim| claim.device.as_ref()) else { continue };
        for (counter, amount) in index.published.get(key).into_iter().flat_map(SliceDevice::counters) {
            consumers.entry(counter.clone()).or_default().insert(&unit.id, amount);
            kinds.entry(counter).or_default().insert(&unit.kind);
        }
    }
    if consumers.is_empty() {
        return Vec::new();
    }
    let key = ApplicationKey::of(application);
    let taken = taken(index, &key, offer);
    let quota = |(counter, units): (CounterKey, BTreeMap<&str, Exact>)| {
        let (driver, pool, set, name) = &counter;
        let total = index.published.counter(&counter);
        let left = total - taken.get(&counter).copied().unwrap_or_default();
        let (units, max) = whole_numbers(&units, left);
        let sum = units.values().copied().fold(0, u64::saturating_add);
        let may = |actor: &&ActorName| kinds[&counter].iter().any(|kind| actors.may_run_on(actor, kind));
        let actors: Vec<String> = actors.names.iter().filter(may).map(ToString::to_string).collect();
        (sum > max && !actors.is_empty()).then(|| Constraint::Quota {
            actors,
            pool: None,
            pools: None,
            numa: None,
            units: Some(units),
            resource: None,
            max,
            reason: Some(format!("devices of {driver} in pool {pool} share the counter {name} of {set}")),
        })
    };
    consumers.into_iter().filter_map(quota).collect()
}

/// What others use of each counter: allocated claims, and decided actors of other applications.
///
/// A device that the scheduler chose for a numbered unit of the application is no choice of the plan either.
fn taken(index: &Index, key: &ApplicationKey, offer: &Offer) -> BTreeMap<CounterKey, Exact> {
    let placement = index.placements.get(key);
    let own: BTreeSet<&str> =
        placement.into_iter().flat_map(|it| &it.spec.assignments).map(|it| it.unit.as_str()).collect();
    let decided =
        offer.units.iter().filter(|unit| index.decided_on(&unit.id) > u64::from(own.contains(&*unit.id)));
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
fn whole_numbers(units: &BTreeMap<&str, Exact>, left: Exact) -> (BTreeMap<String, u64>, u64) {
    let mut amounts = units.values();
    let is_whole = |amount: &Exact| amount.is_integer();
    // Quantities of counters are counts or bytes: thousandths at most.
    let scale = if amounts.all(is_whole) && left.is_integer() { Exact::from(1) } else { Exact::from(1000) };
    let common = units.values().map(|amount| floor(*amount * scale)).fold(0, gcd).max(1);
    let rounded = |amount: &Exact| floor(*amount * scale).div_ceil(common);
    let units = units.iter().map(|(unit, amount)| ((*unit).to_owned(), rounded(amount))).collect();
    (units, floor(left.max(Exact::default()) * scale) / common)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
