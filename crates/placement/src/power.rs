//! Watts: what a unit draws, and the caps that places have.

use std::collections::BTreeMap;

use crate::file::{CapScope, Constraint, SnapshotFile};
use crate::problem::Problem;
use crate::{Assignment, Snapshot};

/// A `powerCap` over numbered places.
#[derive(Clone, Debug, Default)]
pub struct PowerCap {
    /// Position of the constraint in the snapshot.
    pub constraint: usize,
    /// By unit: the number of its place.
    pub place: Vec<usize>,
    /// By place: what may be drawn there. Where fixed actors alone draw more than the cap, nothing more than that.
    pub limit: Vec<i64>,
    /// By place: its name, for people.
    pub name: Vec<String>,
}

impl Snapshot {
    /// Watts that a unit draws: `idleWatts` while it hosts anything, and its share of `powerWatts` for the load,
    /// rounded up. A unit that is loaded beyond its capacity draws more than `powerWatts`.
    pub fn draw(&self, unit: usize, load: i64, in_use: bool) -> i64 {
        self.problem.draw(unit, load, in_use)
    }

    /// The caps on power.
    pub fn power_caps(&self) -> &[PowerCap] {
        &self.problem.caps
    }

    /// Places that draw more than a cap allows: the constraint, the place, watts, and what is allowed.
    pub(crate) fn overdrawn(&self, assignment: &Assignment) -> Vec<(usize, &str, i64, i64)> {
        let mut found = Vec::new();
        if self.problem.caps.is_empty() {
            return found;
        }
        let units = self.problem.unit_draws(assignment);
        for cap in &self.problem.caps {
            let drawn = cap.drawn(&units).into_iter().zip(&cap.limit).zip(&cap.name);
            found.extend(
                drawn
                    .filter(|((drawn, limit), _)| drawn > *limit)
                    .map(|((drawn, limit), name)| (cap.constraint, name.as_str(), drawn, *limit)),
            );
        }
        found
    }
}

impl PowerCap {
    /// The number of a unit's place, and the watts that may be drawn there: the cap, or what fixed actors draw there by
    /// themselves where that is more.
    pub fn of(&self, unit: usize) -> (usize, i64) {
        (self.place[unit], self.limit[self.place[unit]])
    }

    /// By place, from what each unit draws.
    pub fn drawn(&self, units: &[i64]) -> Vec<i64> {
        let mut drawn = vec![0; self.limit.len()];
        for (unit, watts) in units.iter().enumerate() {
            drawn[self.place[unit]] += watts;
        }
        drawn
    }
}

impl Problem {
    /// As [`Snapshot::draw`].
    pub fn draw(&self, unit: usize, load: i64, in_use: bool) -> i64 {
        let (idle, full) = self.watts[unit];
        if load == 0 || full == 0 {
            return if in_use { idle } else { 0 };
        }
        let capacity = i128::from(self.capacity[unit]);
        let share = (i128::from(load) * i128::from(full) + capacity - 1) / capacity;
        i64::try_from(share).expect("worlds whose watts could pass 2^53 are refused on input")
            + if in_use { idle } else { 0 }
    }

    fn unit_draws(&self, assignment: &Assignment) -> Vec<i64> {
        let mut load = vec![(0, false); self.capacity.len()];
        for (actor, place) in assignment.iter().enumerate() {
            let Some(unit) = *place else { continue };
            let needs = self.implementations[actor][self.unit_kind[unit]].as_ref();
            load[unit].0 += needs.map_or(0, |needs| needs.work);
            load[unit].1 = true;
        }
        load.into_iter().enumerate().map(|(unit, (load, in_use))| self.draw(unit, load, in_use)).collect()
    }

    pub(crate) fn read_caps(&mut self, file: &SnapshotFile) {
        let home = |actor: usize| self.current[actor].filter(|_| file.actors[actor].fixed);
        let alone: Assignment = (0..file.actors.len()).map(home).collect();
        let mut caps = Vec::new();
        for (constraint, given) in file.constraints.iter().enumerate() {
            let Constraint::PowerCap { on, max, .. } = given else { continue };
            let mut cap = PowerCap { constraint, ..PowerCap::default() };
            let mut places: BTreeMap<usize, usize> = BTreeMap::new();
            for (unit, given) in file.units.iter().enumerate() {
                let (place, name) = match on {
                    CapScope::Node => (self.unit_node[unit], &given.node),
                    CapScope::Zone => (self.unit_zone[unit], given.zone.as_ref().unwrap_or(&given.id)),
                    CapScope::All => (0, &String::from("all units")),
                };
                let next = cap.name.len();
                cap.place.push(*places.entry(place).or_insert(next));
                if next < places.len() {
                    cap.name.push(name.clone());
                }
            }
            cap.limit = vec![0; cap.name.len()];
            let max = i64::try_from(*max).expect("numbers above 2^53 are refused on input");
            cap.limit = cap.drawn(&self.unit_draws(&alone)).into_iter().map(|drawn| drawn.max(max)).collect();
            caps.push(cap);
        }
        self.caps = caps;
    }
}
