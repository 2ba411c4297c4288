//! `powerCap`: the maximum power of domains.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConstraintKind, ViolationTracker, watts};
use crate::checker::checked::{Checked, Rule, Violation};
use crate::checker::index::number;
use crate::criteria::{Encoding, Facts, Step};
use crate::evaluation::power::most_power;
use crate::file::format::{Actor, CapScope, Constraint, Scope, SnapshotFile, Unit};
use crate::ix::{ActorIx, IxVec, PlaceIx, UnitIx};
use crate::problem::dense::{self, Problem};
use crate::problem::room::Rooms;
use crate::rules::circuit::{CurrentPlacement, UNLIMITED, Writer};
use crate::rules::suspended_limits::{SuspendedLimit, SuspendedLimits, listed};
use crate::{Assignment, Snapshot};

/// The maximum power of every domain of a scope. Power of fixed actors alone is always permitted.
pub(super) struct PowerCap;

impl ConstraintKind for PowerCap {
    fn numeric_field(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let Constraint::PowerCap { max, .. } = given else { return None };
        Some(("max", *max))
    }

    fn largest(&self, file: &SnapshotFile) -> Option<(&'static str, &'static str, u128)> {
        let is_cap = |given: &Constraint| matches!(given, Constraint::PowerCap { .. });
        file.constraints.iter().any(is_cap).then(|| ("units", "power", most_power(file)))
    }

    fn add_to_problem(
        &self,
        constraint: usize,
        given: &Constraint,
        file: &SnapshotFile,
        problem: &mut Problem,
    ) {
        let Constraint::PowerCap { on, max, .. } = given else { return };
        let mut cap = dense::PowerDomains { constraint, ..dense::PowerDomains::default() };
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
        cap.limit = limits(&cap, *max, file, problem);
        problem.caps.push(cap);
    }

    fn find_violated(&self, now: &CurrentPlacement, found: &mut SuspendedLimits) {
        let (file, problem) = (now.file, now.problem);
        if problem.caps.is_empty() {
            return;
        }
        let draws = problem.unit_draws(&problem.running);
        let loads = watts::most_loads(problem);
        for cap in &problem.caps {
            // Power of fixed actors alone is permitted: an assignment that adds nothing violates nothing.
            for (place, _) in
                cap.drawn(&draws).enumerate().filter(|(place, drawn)| **drawn > cap.limit[*place])
            {
                let units = || cap.place.enumerate().filter(|(_, at)| **at == place).map(|(unit, _)| unit);
                let is_ours = |unit: UnitIx| {
                    let draws = |&actor: &ActorIx| {
                        let work = problem.implementation(actor, unit).map_or(0, |needs| needs.work);
                        !problem.fixed[actor] && changes_watts(&file.units[unit.at()], work.unsigned_abs())
                    };
                    now.on_unit[unit].iter().any(draws)
                };
                let is_affordable =
                    || watts::literals(file, units(), &loads).is_some_and(|many| now.affords(many));
                if units().any(is_ours) && is_affordable() {
                    found.insert(CAP, &listed(cap.constraint), &cap.name[place]);
                }
            }
        }
    }

    fn suspend(&self, suspended: &SuspendedLimits, _: &SnapshotFile, problem: &mut Problem) {
        for cap in &mut problem.caps {
            for place in cap.limit.positions() {
                if suspended.has(CAP, &listed(cap.constraint), &cap.name[place]) {
                    cap.limit[place] = UNLIMITED;
                }
            }
        }
    }

    fn ground(&self, writer: &mut Writer) {
        let (file, problem) = (writer.file, writer.problem);
        if writer.suspended.of(CAP).next().is_none() {
            return;
        }
        let loads = watts::most_loads(problem);
        for cap in &problem.caps {
            let Constraint::PowerCap { max, .. } = &file.constraints[cap.constraint] else { continue };
            let limits = limits(cap, *max, file, problem);
            for (place, name) in cap.name.enumerate() {
                if !writer.suspended.has(CAP, &listed(cap.constraint), name) {
                    continue;
                }
                let units = || cap.place.enumerate().filter(|(_, at)| **at == place).map(|(unit, _)| unit);
                let mut drawn = Vec::new();
                let literals = units().count().saturating_mul(file.actors.len());
                writer.everywhere_if(literals, |writer| {
                    units().for_each(|unit| watts::add_watts(writer, unit, loads[unit], &mut drawn));
                });
                let passed = writer.if_sum(limits[place] + 1, drawn);
                let demands = super::says(file, cap.constraint);
                writer.never(
                    passed,
                    SuspendedLimit::Constraint(cap.constraint),
                    format!("{name}: {demands}"),
                );
            }
        }
    }

    fn violation_trackers(&self, snapshot: &Snapshot) -> Vec<(usize, Box<dyn ViolationTracker>)> {
        let caps = snapshot.problem().caps.iter().enumerate();
        caps.map(|(position, cap)| {
            let drawn = Drawn { cap: position, watts: IxVec::of(0, cap.limit.len()), excess: 0 };
            (cap.constraint, Box::new(drawn) as Box<dyn ViolationTracker>)
        })
        .collect()
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
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
        let (all, fixed) =
            (watts_at(checked, checked.assignment, true), watts_at(checked, &checked.index.running, false));
        let mut now = None;
        let no_actor = BTreeSet::new();
        for (position, on, max) in caps {
            // In the order in which units name the domains.
            let mut drawn: Vec<(&str, bool, i64, i64)> = Vec::new();
            for (unit, given) in checked.file.units.iter().enumerate() {
                let (name, is_named) = (place_of(on, given), on != CapScope::Zone || given.zone.is_some());
                match drawn.iter_mut().find(|(known, named, ..)| (*known, *named) == (name, is_named)) {
                    Some(place) => (place.2, place.3) = (place.2 + all[unit], place.3 + fixed[unit]),
                    None => drawn.push((name, is_named, all[unit], fixed[unit])),
                }
            }
            drawn.retain(|(.., drawn, _)| *drawn > max);
            if drawn.is_empty() {
                continue;
            }
            let name = listed(position);
            let drawing = [checked.assignment, checked.now].map(|places| drawing_actors(checked, places, on));
            for (place, is_named, drawn, fixed) in drawn {
                if checked.is_suspended(CAP, &name, place) {
                    continue;
                }
                let is_here = |unit: &Unit| {
                    place_of(on, unit) == place && (on != CapScope::Zone || unit.zone.is_some() == is_named)
                };
                let now = now.get_or_insert_with(|| watts_at(checked, checked.now, true));
                let here = checked.file.units.iter().zip(now.iter()).filter(|(unit, _)| is_here(unit));
                let before: i64 = here.map(|(_, watts)| watts).sum();
                let [ours, ours_now] =
                    drawing.each_ref().map(|of| of.get(&(place, is_named)).unwrap_or(&no_actor));
                // What fixed actors draw is always allowed. What runs now exceeds it, which is grandfathered if it is grounded.
                let may_draw = max.max(fixed);
                let excuses =
                    before > may_draw && !ours_now.is_empty() && checked.ruled.has(CAP, &name, place);
                let is_excused = excuses && drawn <= before && ours.is_subset(ours_now);
                if drawn > may_draw && !ours.is_empty() && !is_excused {
                    let demands = super::says(checked.file, position);
                    let says = format!("{place}: {drawn} W drawn, {may_draw} W allowed: {demands}");
                    let rule = checked.kind((CAP, &name, place), Rule::Power);
                    found.push(Violation { rule, says });
                }
            }
        }
    }

    fn symmetry_counts(
        &self,
        snapshot: &Snapshot,
        rooms: &Rooms,
        report: &mut dyn FnMut(UnitIx, Vec<Option<i64>>),
    ) {
        for cap in &snapshot.problem().caps {
            let mut units: IxVec<PlaceIx, usize> = IxVec::of(0, cap.limit.len());
            cap.place.iter().for_each(|place| units[*place] += 1);
            for (unit, &place) in cap.place.enumerate() {
                // Domains with equal limits are equivalent.
                let shared = (units[place] > 1).then_some(i64::from(place.raw()));
                let own = [Some(cap.limit[place]), shared].into_iter();
                report(unit, own.chain(rooms.of_unit(snapshot.problem(), unit)).collect());
            }
        }
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
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

    fn most_sum(&self, world: &Encoding) -> Option<(&'static str, &'static str, i64)> {
        if world.problem().caps.is_empty() {
            return None;
        }
        let left = binding(world).into_iter().map(|place| place.left.saturating_abs());
        Some(("units", "watts", left.fold(world.most_watts(), i64::saturating_add)))
    }

    fn most_work(&self, world: &Encoding) -> i64 {
        if world.problem().caps.is_empty() { 0 } else { world.most_work_of_watts() }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/power-cap.lp")
    }
}

/// The power in a domain; a unit without a zone is a domain of its own, named after the unit.
fn place_of(on: CapScope, unit: &Unit) -> &str {
    match on {
        CapScope::All => "all units",
        CapScope::Node => &unit.node,
        CapScope::Zone => unit.zone.as_deref().unwrap_or(&unit.id),
    }
}

/// By domain: the cap, or what its fixed actors draw if that is more.
fn limits(
    cap: &dense::PowerDomains,
    max: u64,
    file: &SnapshotFile,
    problem: &Problem,
) -> IxVec<PlaceIx, i64> {
    let home = |(actor, given): (ActorIx, &Actor)| problem.current[actor].filter(|_| given.fixed);
    let fixed = problem.current.positions().zip(&file.actors).map(home).collect();
    cap.drawn(&problem.unit_draws(&fixed)).iter().map(|drawn| number(max).max(*drawn)).collect()
}

/// The name of a suspended cap in one domain.
const CAP: &str = "cap";

/// Whether an actor with this work can change a unit's power.
fn changes_watts(unit: &Unit, work: u64) -> bool {
    unit.idle_watts.unwrap_or(0) > 0 || (work > 0 && unit.power_watts.unwrap_or(0) > 0)
}

/// By domain, and whether it is named: the movable actors that draw power there.
fn drawing_actors<'a>(
    checked: &Checked<'a>,
    places: &Assignment,
    on: CapScope,
) -> BTreeMap<(&'a str, bool), BTreeSet<ActorIx>> {
    let mut drawing: BTreeMap<(&str, bool), BTreeSet<ActorIx>> = BTreeMap::new();
    for (actor, unit) in Checked::at(places).filter(|(actor, _)| !checked.is_fixed(*actor)) {
        let unit = checked.unit(unit);
        let work = checked.actor(actor).runs_on.get(&unit.kind).map_or(0, |way| way.work);
        if changes_watts(unit, work) {
            let is_named = on != CapScope::Zone || unit.zone.is_some();
            drawing.entry((place_of(on, unit), is_named)).or_default().insert(actor);
        }
    }
    drawing
}

/// By unit: watts, with all placed actors, or with fixed ones alone.
fn watts_at(checked: &Checked, places: &Assignment, all: bool) -> Vec<i64> {
    let mut load: IxVec<UnitIx, (i128, bool)> = IxVec::of((0, false), checked.file.units.len());
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

/// A domain under a cap.
#[derive(Default)]
struct Capped {
    /// The watts left, beyond the constant power.
    left: i64,
    /// The maximum additional power.
    most: i64,
    units: Vec<UnitIx>,
}

/// Domains in which a cap can bind, by cap and domain.
fn binding(world: &Encoding) -> Vec<Capped> {
    let meters: BTreeMap<UnitIx, i64> = world.meters().into_iter().collect();
    let mut all = Vec::new();
    for cap in &world.problem().caps {
        let mut places: BTreeMap<PlaceIx, Capped> = BTreeMap::new();
        for (unit, &place) in cap.place.enumerate() {
            let capped =
                places.entry(place).or_insert_with(|| Capped { left: cap.limit[place], ..Capped::default() });
            capped.left -= world.settled_watts(&meters, unit);
            // An actor with several candidates counts on each.
            let most = meters.get(&unit).copied().unwrap_or(0) + world.idle_watts(unit);
            capped.most = capped.most.saturating_add(most);
            capped.units.push(unit);
        }
        all.extend(places.into_values().filter(|capped| capped.most > capped.left));
    }
    all
}

/// The power of the domains of one cap.
#[derive(Clone)]
struct Drawn {
    /// The position of the cap in the problem.
    cap: usize,
    /// By domain.
    watts: IxVec<PlaceIx, i64>,
    /// The total excess over all domains, in hundredths of the cap.
    excess: i64,
}

/// The power that a step adds to its unit.
fn added(snapshot: &Snapshot, step: &Step) -> i64 {
    let problem = snapshot.problem();
    problem.draw(step.unit, step.load.1, step.hosted.1 > 0)
        - problem.draw(step.unit, step.load.0, step.hosted.0 > 0)
}

impl ViolationTracker for Drawn {
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

    fn boxed(&self) -> Box<dyn ViolationTracker> {
        Box::new(self.clone())
    }
}
