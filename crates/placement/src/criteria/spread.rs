//! `spread`: actors of one group in one zone.

use std::collections::BTreeMap;

use super::encoding::sum_of_bits;
use super::{Amounts, CriterionClass, Encoding, Facts, IncrementalTerm, Measure, Placed, Step};
use crate::file::format::Scope;
use crate::ix::{ActorIx, GroupIx, IxVec, PlaceIx, UnitIx};
use crate::problem::room::Rooms;
use crate::{Problem, Snapshot};

/// Σ over groups of the largest number of its actors in one zone; a zone that is not known is the unit's own.
pub(super) struct Spread;

impl Measure for Spread {
    fn class(&self) -> CriterionClass {
        CriterionClass::Places
    }

    fn value(&self, placed: &Placed) -> i64 {
        let problem = placed.snapshot.problem();
        let mut counts: BTreeMap<(GroupIx, PlaceIx), i64> = BTreeMap::new();
        for (actor, place) in placed.assignment.enumerate().filter(|(actor, _)| placed.counts(*actor)) {
            if let (Some(group), Some(unit)) = (problem.group[actor], *place) {
                *counts.entry((group, problem.place(Scope::Zone, unit))).or_default() += 1;
            }
        }
        let mut largest: IxVec<GroupIx, i64> = IxVec::of(0, problem.groups);
        for ((group, _), count) in counts {
            largest[group] = count.max(largest[group]);
        }
        largest.iter().sum()
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.snapshot.actors() as i128
    }

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(ZoneCounts { in_zones: IxVec::of(BTreeMap::new(), snapshot.groups()), sum: 0 }))
    }

    fn symmetry_key(&self, snapshot: &Snapshot, _: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        let problem = snapshot.problem();
        let zone = problem.unit_zone[unit];
        if zone.at() >= problem.capacity.len() {
            return vec![Some(i64::from(zone.raw()))];
        }
        // A zone of its own: what counts is who is in it already.
        let here = problem.residents().filter(|(_, home)| *home == unit);
        let mut groups: Vec<GroupIx> = here.filter_map(|(actor, _)| problem.group[actor]).collect();
        groups.sort_unstable();
        groups.into_iter().map(|group| Some(i64::from(group.raw()))).chain([None]).collect()
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        for (group, members) in open_groups(world.problem()) {
            let number = i64::from(group.raw());
            for &actor in &members {
                facts.say("in_group", [actor.into(), number.into()]);
            }
            facts.bits("crowd_bit", &[number.into()], count(&members));
        }
    }

    fn constant_part(&self, world: &Encoding, _: i64) -> i64 {
        let problem = world.problem();
        let open = open_groups(problem);
        let mut crowds: BTreeMap<GroupIx, BTreeMap<PlaceIx, i64>> = BTreeMap::new();
        for (group, home) in problem.group.iter().zip(&problem.current) {
            if let (Some(group), Some(home)) = (group, home)
                && !open.contains_key(group)
            {
                let zones = crowds.entry(*group).or_default();
                *zones.entry(problem.place(Scope::Zone, *home)).or_default() += 1;
            }
        }
        crowds.values().filter_map(|zones| zones.values().max()).sum()
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        open_groups(world.problem()).values().map(|members| sum_of_bits(count(members))).sum()
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/spread.lp")
    }
}

/// The members of groups with a movable actor.
fn open_groups(problem: &Problem) -> BTreeMap<GroupIx, Vec<ActorIx>> {
    let mut groups: BTreeMap<GroupIx, Vec<ActorIx>> = BTreeMap::new();
    for (actor, group) in problem.group.enumerate() {
        if let Some(group) = group {
            groups.entry(*group).or_default().push(actor);
        }
    }
    groups.retain(|_, members| members.iter().any(|actor| !problem.fixed[*actor]));
    groups
}

fn count(members: &[ActorIx]) -> i64 {
    i64::try_from(members.len()).expect("a count of actors is small")
}

/// By group: how many of its actors are in each zone; and what the largest come to.
#[derive(Clone)]
struct ZoneCounts {
    in_zones: IxVec<GroupIx, BTreeMap<PlaceIx, i64>>,
    sum: i64,
}

impl IncrementalTerm for ZoneCounts {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let problem = snapshot.problem();
        let Some(group) = problem.group[step.actor] else { return };
        let zones = &mut self.in_zones[group];
        let most = |zones: &BTreeMap<PlaceIx, i64>| zones.values().copied().max().unwrap_or(0);
        let before = most(zones);
        *zones.entry(problem.place(Scope::Zone, step.unit)).or_default() += step.sign();
        self.sum += most(zones) - before;
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.sum
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        let problem = snapshot.problem();
        let Some(group) = problem.group[step.actor] else { return self.sum };
        let zones = &self.in_zones[group];
        let zone = problem.place(Scope::Zone, step.unit);
        let here = zones.get(&zone).copied().unwrap_or(0);
        let elsewhere = zones.iter().filter(|(other, _)| **other != zone).map(|(_, count)| *count);
        let elsewhere = elsewhere.max().unwrap_or(0);
        self.sum + elsewhere.max(here + step.sign()) - elsewhere.max(here)
    }

    fn concerns(&self, snapshot: &Snapshot, actor: ActorIx) -> bool {
        snapshot.problem().group[actor].is_some()
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}
