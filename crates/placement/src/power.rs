//! Watts: what a unit draws, and the caps that places have.

use std::collections::BTreeMap;

use crate::Snapshot;
use crate::file::{Actor, CapScope, Constraint, Scope, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use crate::problem::Problem;

/// A `powerCap` over numbered places.
#[derive(Clone, Debug, Default)]
pub struct PowerCap {
    /// Position of the constraint in the snapshot.
    pub constraint: usize,
    /// By unit: its place.
    pub place: IxVec<UnitIx, PlaceIx>,
    /// By place: what may be drawn there. Where fixed actors alone draw more than the cap, nothing more than that.
    pub limit: IxVec<PlaceIx, i64>,
    /// By place: its name, for people.
    pub name: IxVec<PlaceIx, String>,
}

impl Snapshot {
    /// Watts that a unit draws: `idleWatts` while it hosts anything, and its share of `powerWatts` for the load,
    /// rounded up. A unit that is loaded beyond its capacity draws more than `powerWatts`.
    pub fn draw(&self, unit: usize, load: i64, in_use: bool) -> i64 {
        self.problem.draw(UnitIx::new(unit), load, in_use)
    }

    /// The caps on power.
    pub fn power_caps(&self) -> &[PowerCap] {
        &self.problem.caps
    }
}

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
