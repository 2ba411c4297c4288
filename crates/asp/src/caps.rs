//! Caps on power in facts, and the largest sums that they make.

use std::collections::{BTreeMap, BTreeSet};

use placement::criteria::{Encoding, Facts};
use placement::ix::{PlaceIx, UnitIx};

/// A place under a cap.
#[derive(Default)]
struct Capped {
    /// Watts that are left beside what is drawn whoever comes.
    left: i64,
    /// The most that can come to that.
    most: i64,
    units: Vec<UnitIx>,
}

/// Places in which a cap can bind, by cap and place.
fn binding(world: &Encoding) -> Vec<Capped> {
    let meters: BTreeMap<UnitIx, i64> = world.meters().into_iter().collect();
    let mut all = Vec::new();
    for cap in &world.problem().caps {
        let mut places: BTreeMap<PlaceIx, Capped> = BTreeMap::new();
        for (unit, &place) in cap.place.enumerate() {
            let capped =
                places.entry(place).or_insert_with(|| Capped { left: cap.limit[place], ..Capped::default() });
            capped.left -= world.settled_watts(&meters, unit);
            capped.most += meters.get(&unit).copied().unwrap_or(0) + world.idle_watts(unit);
            capped.units.push(unit);
        }
        all.extend(places.into_values().filter(|capped| capped.most > capped.left));
    }
    all
}

/// Says what each capped place has left, and what its units draw.
pub(crate) fn say(world: &Encoding, facts: &mut Facts) {
    if world.problem().caps.is_empty() {
        return;
    }
    let places = binding(world);
    let capped: BTreeSet<UnitIx> = places.iter().flat_map(|place| &place.units).copied().collect();
    world.say_watts(facts, |unit| capped.contains(&unit));
    for (number, place) in (0i64..).zip(&places) {
        facts.say("power_left", [number.into(), place.left.into()]);
        for &unit in &place.units {
            facts.say("capped", [number.into(), unit.into()]);
        }
    }
}

/// The largest sum of watts.
pub(crate) fn most_watts(world: &Encoding) -> i64 {
    if world.problem().caps.is_empty() {
        return 0;
    }
    let left = binding(world).into_iter().map(|place| place.left.saturating_abs());
    left.fold(world.most_watts(), i64::saturating_add)
}

/// The largest sum of numbers of work.
pub(crate) fn most_work(world: &Encoding) -> i64 {
    if world.problem().caps.is_empty() { 0 } else { world.most_work_of_watts() }
}
