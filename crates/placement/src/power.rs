//! Watts: what a unit draws, and the caps that places have.

use std::collections::BTreeMap;

use crate::file::{Actor, CapScope, Constraint, Scope, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use crate::problem::{PowerCap, Problem};

impl PowerCap {
    /// The number of a unit's place, and the watts that may be drawn there: the cap, or what fixed actors draw there by
    /// themselves where that is more.
    pub fn of(&self, unit: usize) -> (usize, i64) {
        let place = self.place[UnitIx::new(unit)];
        (place.at(), self.limit[place])
    }

    /// By place, from what each unit draws.
    pub fn drawn(&self, units: &IxVec<UnitIx, i64>) -> IxVec<PlaceIx, i64> {
        let mut drawn = IxVec::of(0, self.limit.len());
        for (unit, watts) in units.enumerate() {
            drawn[self.place[unit]] += watts;
        }
        drawn
    }
}

impl Problem {
    /// As [`Snapshot::draw`].
    pub fn draw(&self, unit: UnitIx, load: i64, in_use: bool) -> i64 {
        let (idle, full) = self.watts[unit];
        if load == 0 || full == 0 {
            return if in_use { idle } else { 0 };
        }
        let capacity = i128::from(self.capacity[unit]);
        let share = (i128::from(load) * i128::from(full) + capacity - 1) / capacity;
        i64::try_from(share).expect("worlds whose watts could pass 2^53 are refused on input")
            + if in_use { idle } else { 0 }
    }

    fn unit_draws(&self, assignment: &IxVec<ActorIx, Option<UnitIx>>) -> IxVec<UnitIx, i64> {
        let mut load = IxVec::of((0, false), self.capacity.len());
        for (actor, place) in assignment.enumerate() {
            let Some(unit) = *place else { continue };
            let needs = self.implementation(actor, unit);
            load[unit].0 += needs.map_or(0, |needs| needs.work);
            load[unit].1 = true;
        }
        load.enumerate().map(|(unit, (load, in_use))| self.draw(unit, *load, *in_use)).collect()
    }

    pub(crate) fn read_caps(&mut self, file: &SnapshotFile) {
        let home = |(actor, given): (ActorIx, &Actor)| self.current[actor].filter(|_| given.fixed);
        let alone = self.current.positions().zip(&file.actors).map(home).collect();
        let mut caps = Vec::new();
        for (constraint, given) in file.constraints.iter().enumerate() {
            let Constraint::PowerCap { on, max, .. } = given else { continue };
            let mut cap = PowerCap { constraint, ..PowerCap::default() };
            let mut places: BTreeMap<PlaceIx, PlaceIx> = BTreeMap::new();
            for (unit, given) in self.capacity.positions().zip(&file.units) {
                let (place, name) = match on {
                    CapScope::Node => (self.place(Scope::Node, unit), &given.node),
                    CapScope::Zone => (self.unit_zone[unit], given.zone.as_ref().unwrap_or(&given.id)),
                    CapScope::All => (PlaceIx::new(0), &String::from("all units")),
                };
                let next = PlaceIx::new(cap.name.len());
                cap.place.push(*places.entry(place).or_insert(next));
                if next.at() < places.len() {
                    cap.name.push(name.clone());
                }
            }
            cap.limit = IxVec::of(0, cap.name.len());
            let max = &i64::try_from(*max).expect("numbers above 2^53 are refused on input");
            cap.limit = cap.drawn(&self.unit_draws(&alone)).iter().map(|drawn| *max.max(drawn)).collect();
            caps.push(cap);
        }
        self.caps = caps;
    }
}

/// All units in use, and each actor where it draws most.
pub(crate) fn most_power(file: &SnapshotFile) -> u128 {
    let mut by_kind: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for unit in &file.units {
        by_kind.entry(&unit.kind).or_default().push((unit.power_watts.unwrap_or(0), unit.capacity));
    }
    let share = |work: u64, &(watts, capacity): &(u64, u64)| {
        (u128::from(work) * u128::from(watts)).div_ceil(u128::from(capacity.max(1)))
    };
    for units in by_kind.values_mut() {
        units.sort_unstable();
        units.dedup();
    }
    let most = |actor: &Actor| {
        let shares = actor.runs_on.iter().flat_map(|(kind, needs)| {
            by_kind.get(kind.as_str()).into_iter().flatten().map(|unit| share(needs.work, unit))
        });
        shares.max().unwrap_or(0)
    };
    let idle: u128 = file.units.iter().map(|unit| u128::from(unit.idle_watts.unwrap_or(0))).sum();
    idle + file.actors.iter().map(most).sum::<u128>()
}
