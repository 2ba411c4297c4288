//! `powerCap`: places draw at most so many watts.

use std::collections::BTreeMap;

use super::{Excess, Limit};
use crate::Snapshot;
use crate::checked::{Checked, Rule, Violation};
use crate::criteria::Step;
use crate::file::{Actor, CapScope, Constraint, Scope, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use crate::power::most_power;
use crate::problem::{self, Problem};
use crate::reading::number;

/// At most so many watts in every place of a scope. What fixed actors draw by themselves, beyond a cap or not, may be drawn.
pub(super) struct PowerCap;

impl Limit for PowerCap {
    fn number(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let Constraint::PowerCap { max, .. } = given else { return None };
        Some(("max", *max))
    }

    fn largest(&self, file: &SnapshotFile) -> Option<(&'static str, &'static str, u128)> {
        let is_cap = |given: &Constraint| matches!(given, Constraint::PowerCap { .. });
        file.constraints.iter().any(is_cap).then(|| ("units", "power", most_power(file)))
    }

    fn enter(&self, constraint: usize, given: &Constraint, file: &SnapshotFile, problem: &mut Problem) {
        let Constraint::PowerCap { on, max, .. } = given else { return };
        let home = |(actor, given): (ActorIx, &Actor)| problem.current[actor].filter(|_| given.fixed);
        let alone = problem.current.positions().zip(&file.actors).map(home).collect();
        let mut cap = problem::PowerCap { constraint, ..problem::PowerCap::default() };
        let mut places: BTreeMap<PlaceIx, PlaceIx> = BTreeMap::new();
        for (unit, given) in problem.capacity.positions().zip(&file.units) {
            let (place, name) = match on {
                CapScope::Node => (problem.place(Scope::Node, unit), &given.node),
                CapScope::Zone => (problem.unit_zone[unit], given.zone.as_ref().unwrap_or(&given.id)),
                CapScope::All => (PlaceIx::new(0), &String::from("all units")),
            };
            let next = PlaceIx::new(cap.name.len());
            cap.place.push(*places.entry(place).or_insert(next));
            if next.at() < places.len() {
                cap.name.push(name.clone());
            }
        }
        cap.limit = IxVec::of(0, cap.name.len());
        let drawn = cap.drawn(&problem.unit_draws(&alone));
        cap.limit = drawn.iter().map(|drawn| number(*max).max(*drawn)).collect();
        problem.caps.push(cap);
    }

    fn excesses(&self, snapshot: &Snapshot) -> Vec<(usize, Box<dyn Excess>)> {
        let caps = snapshot.problem().caps.iter().enumerate();
        caps.map(|(position, cap)| {
            let drawn = Drawn { cap: position, watts: IxVec::of(0, cap.limit.len()), excess: 0 };
            (cap.constraint, Box::new(drawn) as Box<dyn Excess>)
        })
        .collect()
    }

    fn demands(&self, position: usize, given: &Constraint) -> String {
        match given {
            Constraint::PowerCap { on: CapScope::All, max, .. } => format!("at most {max} W in all"),
            Constraint::PowerCap { on, max, .. } => format!("at most {max} W on each {on}"),
            _ => format!("constraints[{position}]"),
        }
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let caps = checked.file.constraints.iter().enumerate();
        let caps: Vec<(usize, CapScope, i64)> = caps
            .filter_map(|(position, constraint)| match constraint {
                Constraint::PowerCap { on, max, .. } => Some((position, *on, number(*max))),
                _ => None,
            })
            .collect();
        if caps.is_empty() {
            return;
        }
        let (all, fixed) = (watts(checked, true), watts(checked, false));
        for (position, on, max) in caps {
            // In the order in which units name the places.
            let mut drawn: Vec<(&str, bool, i64, i64)> = Vec::new();
            for (unit, given) in checked.file.units.iter().enumerate() {
                let (name, is_named) = match on {
                    CapScope::All => ("all units", true),
                    CapScope::Node => (given.node.as_str(), true),
                    CapScope::Zone => (given.zone.as_deref().unwrap_or(&given.id), given.zone.is_some()),
                };
                match drawn.iter_mut().find(|(known, named, ..)| (*known, *named) == (name, is_named)) {
                    Some(place) => (place.2, place.3) = (place.2 + all[unit], place.3 + fixed[unit]),
                    None => drawn.push((name, is_named, all[unit], fixed[unit])),
                }
            }
            for (place, _, drawn, fixed) in drawn {
                let limit = max.max(fixed);
                if drawn > limit {
                    let demands = super::says(checked.file, position);
                    let says = format!("{place}: {drawn} W drawn, {limit} W allowed: {demands}");
                    found.push(Violation { rule: Rule::Power, says });
                }
            }
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/power-cap.lp")
    }
}

/// By unit: watts, with all who are placed, or with the fixed ones alone.
fn watts(checked: &Checked, all: bool) -> Vec<i64> {
    let mut load: IxVec<UnitIx, (i128, bool)> = IxVec::of((0, false), checked.file.units.len());
    let places = if all { checked.assignment } else { &checked.reading.home };
    for (actor, place) in places.enumerate() {
        if let Some(unit) = place.filter(|_| all || checked.is_fixed(actor)) {
            let way = checked.actor(actor).runs_on.get(&checked.unit(unit).kind);
            load[unit] = (load[unit].0 + way.map_or(0, |way| i128::from(way.work)), true);
        }
    }
    let draws = checked.file.units.iter().zip(load).map(|(unit, (load, in_use))| {
        let idle = if in_use { unit.idle_watts.unwrap_or(0) } else { 0 };
        let full = i128::from(unit.power_watts.unwrap_or(0));
        let share = (load * full + i128::from(unit.capacity) - 1) / i128::from(unit.capacity);
        i64::try_from(share).expect("worlds whose watts could pass 2^53 are refused on input") + number(idle)
    });
    draws.collect()
}

/// What the places of one cap draw.
#[derive(Clone)]
struct Drawn {
    /// The position of the cap in the problem.
    cap: usize,
    /// By place.
    watts: IxVec<PlaceIx, i64>,
    /// By how much the cap is passed over all places, in hundredths of it.
    excess: i64,
}

/// Watts that a step adds to its unit.
fn added(snapshot: &Snapshot, step: &Step) -> i64 {
    let problem = snapshot.problem();
    problem.draw(step.unit, step.load.1, step.hosted.1 > 0)
        - problem.draw(step.unit, step.load.0, step.hosted.0 > 0)
}

impl Excess for Drawn {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let cap = &snapshot.problem().caps[self.cap];
        let place = cap.place[step.unit];
        let (limit, before) = (cap.limit[place], self.watts[place]);
        let passed =
            |drawn: i64| ((drawn - limit).max(0) * 100).div_euclid(limit.max(1)) + i64::from(drawn > limit);
        let after = before + added(snapshot, step);
        self.watts[place] = after;
        self.excess += passed(after) - passed(before);
    }

    fn value(&self) -> i64 {
        self.excess
    }

    fn refuses(&self, snapshot: &Snapshot, step: &Step) -> bool {
        let cap = &snapshot.problem().caps[self.cap];
        let place = cap.place[step.unit];
        self.watts[place] + added(snapshot, step) > cap.limit[place]
    }

    fn boxed(&self) -> Box<dyn Excess> {
        Box::new(self.clone())
    }
}
