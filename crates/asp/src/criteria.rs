//! Facts of the criteria that not every world is judged by, and of caps on power; and the largest sums they can make.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::Constraint;
use placement::{Criterion, Snapshot};

use crate::room::Rooms;
use crate::writer::Writer;

/// Criteria whose values cannot be divided: they count, or are rounded themselves.
pub const INDIVISIBLE: [Criterion; 6] = [
    Criterion::Bottleneck,
    Criterion::Consolidate,
    Criterion::Energy,
    Criterion::Spread,
    Criterion::Latency,
    Criterion::Licence,
];

/// What there is to say of loads and of power, worked out once.
pub(crate) struct Extras {
    /// Units whose fullness is told.
    pub full: Vec<usize>,
    /// The most thousandths that the bottleneck can reach.
    pub peak: i64,
    /// Units whose watts for the load are told, and the most that these can be.
    pub meters: Vec<(usize, i64)>,
    /// By unit: whether fixed actors keep it in use.
    pub kept_in_use: Vec<bool>,
    /// By cap and place: watts that are left, and the units that can draw of them. Those that cannot bind are left out.
    pub caps: Vec<(i64, Vec<usize>)>,
    /// Groups with an actor that can move: its members.
    pub groups: BTreeMap<usize, Vec<usize>>,
    /// The most that the latency can reach.
    pub latest: i64,
}

impl Extras {
    pub fn new(snapshot: &Snapshot, rooms: &Rooms) -> Self {
        let aims_at = |criterion| snapshot.objectives().names(criterion);
        let mut kept_in_use = vec![false; snapshot.units()];
        for actor in (0..snapshot.actors()).filter(|&actor| snapshot.is_fixed(actor)) {
            snapshot.current(actor).into_iter().for_each(|home| kept_in_use[home] = true);
        }
        let mut extras = Self {
            full: Vec::new(),
            peak: 0,
            meters: Vec::new(),
            kept_in_use,
            caps: Vec::new(),
            groups: BTreeMap::new(),
            latest: 0,
        };
        if aims_at(Criterion::Bottleneck) {
            extras.fullness(snapshot, rooms);
        }
        let is_capped = |constraint: &Constraint| matches!(constraint, Constraint::PowerCap { .. });
        let has_caps = snapshot.file().constraints.iter().any(is_capped);
        if has_caps || aims_at(Criterion::Energy) {
            let meters = (0..snapshot.units()).map(|unit| {
                let share = |load: i64| snapshot.draw(unit, load, false);
                (unit, if rooms.work[unit].wanted > 0 { share(most_load(snapshot, rooms, unit)) } else { 0 })
            });
            extras.meters = meters.filter(|(_, most)| *most > 0).collect();
        }
        if has_caps {
            extras.caps(snapshot, rooms);
        }
        if aims_at(Criterion::Spread) {
            extras.groups(snapshot);
        }
        if aims_at(Criterion::Latency) {
            let messages = i64::try_from(snapshot.longest_path()).expect("a count of actors is small");
            extras.latest = messages.saturating_mul(dearest_message(snapshot));
        }
        extras
    }

    fn fullness(&mut self, snapshot: &Snapshot, rooms: &Rooms) {
        let of = |unit: usize| snapshot.fullness(unit, most_load(snapshot, rooms, unit));
        let (wanted, others): (Vec<usize>, Vec<usize>) =
            (0..snapshot.units()).partition(|&unit| rooms.work[unit].wanted > 0);
        // Of those whose load nobody changes the fullest says it all.
        let fullest = others.into_iter().max_by_key(|&unit| of(unit));
        self.full = wanted.into_iter().chain(fullest).collect();
        self.peak = self.full.iter().map(|&unit| of(unit)).max().unwrap_or(0);
    }

    fn caps(&mut self, snapshot: &Snapshot, rooms: &Rooms) {
        let metered: BTreeMap<usize, i64> = self.meters.iter().copied().collect();
        for cap in snapshot.power_caps() {
            let mut places: BTreeMap<usize, (i64, i64, Vec<usize>)> = BTreeMap::new();
            for unit in 0..snapshot.units() {
                let (place, limit) = cap.of(unit);
                let entry = places.entry(place).or_insert((limit, 0, Vec::new()));
                // What is drawn whoever comes, and the most that can come to it.
                let fixed = snapshot.capacity(unit) - rooms.work[unit].left;
                let load = if metered.contains_key(&unit) { 0 } else { fixed };
                entry.0 -= snapshot.draw(unit, load, self.kept_in_use[unit]);
                entry.1 += metered.get(&unit).copied().unwrap_or(0) + self.idle(snapshot, unit);
                entry.2.push(unit);
            }
            let binding = places.into_values().filter(|(left, most, _)| most > left);
            self.caps.extend(binding.map(|(left, _, units)| (left, units)));
        }
    }

    /// Watts that the unit draws as soon as somebody comes who is not there yet.
    pub fn idle(&self, snapshot: &Snapshot, unit: usize) -> i64 {
        if self.kept_in_use[unit] { 0 } else { snapshot.draw(unit, 0, true) }
    }

    fn groups(&mut self, snapshot: &Snapshot) {
        for actor in 0..snapshot.actors() {
            if let Some(group) = snapshot.group(actor) {
                self.groups.entry(group).or_default().push(actor);
            }
        }
        self.groups.retain(|_, members| members.iter().any(|&actor| !snapshot.is_fixed(actor)));
    }

    /// What of a criterion the program leaves out: it is so whoever comes.
    pub fn settled(&self, snapshot: &Snapshot, criterion: Criterion) -> i64 {
        let kept = || (0..snapshot.units()).filter(|&unit| self.kept_in_use[unit]);
        match criterion {
            Criterion::Consolidate => i64::try_from(kept().count()).expect("a count of units is small"),
            Criterion::Energy => {
                let metered: BTreeSet<usize> = self.meters.iter().map(|(unit, _)| *unit).collect();
                let load = |unit: usize| {
                    if metered.contains(&unit) { 0 } else { fixed_load(snapshot, unit) }
                };
                kept().map(|unit| snapshot.draw(unit, load(unit), true)).sum()
            }
            Criterion::Spread => self.settled_spread(snapshot),
            Criterion::Licence => {
                licences(snapshot).sum::<i64>() - self.unpaid(snapshot).map(|(_, cost)| cost).sum::<i64>()
            }
            _ => 0,
        }
    }

    /// Nodes that cost something as soon as somebody comes, and what.
    pub fn unpaid(&self, snapshot: &Snapshot) -> impl Iterator<Item = (usize, i64)> {
        let kept = (0..snapshot.units()).filter(|&unit| self.kept_in_use[unit]);
        let paid: BTreeSet<usize> = kept.map(|unit| snapshot.node_of(unit)).collect();
        licences(snapshot).enumerate().filter(move |(node, cost)| *cost > 0 && !paid.contains(node))
    }

    fn settled_spread(&self, snapshot: &Snapshot) -> i64 {
        let mut zones: BTreeMap<usize, BTreeMap<usize, i64>> = BTreeMap::new();
        for actor in 0..snapshot.actors() {
            if let (Some(group), Some(home)) = (snapshot.group(actor), snapshot.current(actor))
                && !self.groups.contains_key(&group)
            {
                let zone = snapshot.place(placement::file::Scope::Zone, home);
                *zones.entry(group).or_default().entry(zone).or_default() += 1;
            }
        }
        zones.values().filter_map(|zones| zones.values().max()).sum()
    }

    /// The largest sums of numbers of work in these rules.
    pub fn most_work(&self, snapshot: &Snapshot, rooms: &Rooms) -> i64 {
        let full = self.full.iter().map(|&unit| {
            let bits = snapshot.capacity(unit).saturating_mul(sum_of_bits(self.peak));
            most_load(snapshot, rooms, unit).saturating_mul(1000).saturating_add(bits)
        });
        let meters = self.meters.iter().map(|&(unit, most)| {
            let bits = snapshot.capacity(unit).saturating_mul(sum_of_bits(most).saturating_add(1));
            watts(snapshot, unit).saturating_mul(most_load(snapshot, rooms, unit)).saturating_add(bits)
        });
        full.chain(meters).max().unwrap_or(0)
    }

    /// The largest sum of a criterion's tuples.
    pub fn most(&self, snapshot: &Snapshot, criterion: Criterion) -> i64 {
        let units = i64::try_from(snapshot.units()).expect("a count of units is small");
        match criterion {
            Criterion::Bottleneck => sum_of_bits(self.peak),
            Criterion::Consolidate => units,
            Criterion::Licence => self.unpaid(snapshot).fold(0, |sum, (_, cost)| sum.saturating_add(cost)),
            Criterion::Energy => self.most_watts(snapshot),
            Criterion::Spread => {
                let sizes = self.groups.values().map(|members| sum_of_bits(count(members)));
                sizes.sum()
            }
            Criterion::Latency => {
                sum_of_bits(self.latest).saturating_mul(2).saturating_add(dearest_message(snapshot))
            }
            _ => 0,
        }
    }

    /// The most that all units can draw, for the sums of energy and of caps.
    pub fn most_watts(&self, snapshot: &Snapshot) -> i64 {
        let idle = (0..snapshot.units()).map(|unit| self.idle(snapshot, unit));
        let loads = self.meters.iter().map(|(_, most)| sum_of_bits(*most));
        let left = self.caps.iter().map(|(left, _)| left.saturating_abs());
        idle.chain(loads).chain(left).fold(0, i64::saturating_add)
    }
}

impl Writer<'_> {
    /// Everything about the criteria of this file.
    pub(crate) fn extras(&mut self, extras: &Extras, rooms: &Rooms) {
        self.bottleneck(extras, rooms);
        self.power(extras, rooms);
        self.licences(extras);
        for (group, members) in &extras.groups {
            for &actor in members {
                self.resident(actor);
                self.fact("in_group", &[&self.actors[actor].clone(), group]);
            }
            self.bits("crowd_bit", &[group], count(members));
        }
        self.paths(extras);
    }

    fn bottleneck(&mut self, extras: &Extras, rooms: &Rooms) {
        for &unit in &extras.full {
            let capacity = self.snapshot.capacity(unit);
            let fixed = 1000 * (capacity - rooms.work[unit].left);
            self.fact("full", &[&self.units[unit].clone(), &capacity, &fixed]);
        }
        self.bits("peak_bit", &[], extras.peak);
    }

    fn power(&mut self, extras: &Extras, rooms: &Rooms) {
        let snapshot = self.snapshot;
        let (of_energy, of_use) = (self.aims_at(Criterion::Energy), self.aims_at(Criterion::Consolidate));
        let capped: BTreeSet<usize> =
            extras.caps.iter().flat_map(|(_, units)| units.iter().copied()).collect();
        for &(unit, most) in extras.meters.iter().filter(|(unit, _)| of_energy || capped.contains(unit)) {
            let (symbol, watts) = (self.units[unit].clone(), watts(snapshot, unit));
            let fixed = watts * (snapshot.capacity(unit) - rooms.work[unit].left);
            self.fact("meter", &[&symbol, &watts, &snapshot.capacity(unit), &fixed]);
            self.bits("watt_bit", &[&symbol], most);
        }
        for unit in (0..snapshot.units()).filter(|&unit| !extras.kept_in_use[unit]) {
            let (symbol, idle) = (self.units[unit].clone(), extras.idle(snapshot, unit));
            if of_use {
                self.fact("counted", &[&symbol]);
            }
            if idle > 0 && (of_energy || capped.contains(&unit)) {
                self.fact("idle_watts", &[&symbol, &idle]);
            }
        }
        for (number, (left, units)) in extras.caps.iter().enumerate() {
            self.fact("power_left", &[&number, left]);
            for &unit in units {
                self.fact("capped", &[&number, &self.units[unit].clone()]);
            }
        }
    }

    fn licences(&mut self, extras: &Extras) {
        if !self.aims_at(Criterion::Licence) {
            return;
        }
        let snapshot = self.snapshot;
        for (node, cost) in extras.unpaid(snapshot) {
            self.fact("licence", &[&node, &cost]);
            for unit in (0..snapshot.units()).filter(|&unit| snapshot.node_of(unit) == node) {
                self.fact("licensed", &[&self.units[unit].clone(), &node]);
            }
        }
    }

    fn paths(&mut self, extras: &Extras) {
        if !self.aims_at(Criterion::Latency) {
            return;
        }
        for from in 0..self.snapshot.actors() {
            for &to in self.snapshot.sends_to(from) {
                self.resident(from);
                self.resident(to);
                let (first, second) = (from.min(to), from.max(to));
                self.fact("sends", &[&self.actors[from].clone(), &self.actors[to].clone()]);
                self.fact("link", &[&self.actors[first].clone(), &self.actors[second].clone()]);
            }
        }
        self.bits("until_bit", &[], extras.latest);
    }

    /// The bits of a number up to `most`: what they belong to, which, and what it is worth.
    pub(crate) fn bits(&mut self, name: &str, of: &[&dyn std::fmt::Display], most: i64) {
        for bit in 0..bit_count(most) {
            let worth = 1i64 << bit;
            let terms: Vec<&dyn std::fmt::Display> =
                of.iter().copied().chain([&bit as &dyn std::fmt::Display, &worth]).collect();
            self.fact(name, &terms);
        }
    }
}

/// By node: what it costs while it hosts anything.
fn licences(snapshot: &Snapshot) -> impl Iterator<Item = i64> {
    snapshot.problem().licence_cost.iter().copied()
}

/// Work of everybody who could be there.
fn most_load(snapshot: &Snapshot, rooms: &Rooms, unit: usize) -> i64 {
    snapshot.capacity(unit) - rooms.work[unit].left + rooms.work[unit].wanted
}

fn fixed_load(snapshot: &Snapshot, unit: usize) -> i64 {
    let here = (0..snapshot.actors()).filter(|&a| snapshot.is_fixed(a) && snapshot.current(a) == Some(unit));
    here.filter_map(|actor| snapshot.implementation(actor, unit)).map(|needs| needs.work).sum()
}

/// Watts added at full load.
fn watts(snapshot: &Snapshot, unit: usize) -> i64 {
    let given = snapshot.file().units[unit].power_watts.unwrap_or(0);
    i64::try_from(given).expect("numbers above 2^53 are refused on input")
}

fn count(members: &[usize]) -> i64 {
    i64::try_from(members.len()).expect("a count of actors is small")
}

fn bit_count(most: i64) -> u32 {
    i64::BITS - most.leading_zeros()
}

/// All bits of a number up to `most` together.
pub(crate) fn sum_of_bits(most: i64) -> i64 {
    most.saturating_mul(2)
}

/// What one message can cost at most, over all classes and the correction for a pair of units.
pub(crate) fn dearest_message(snapshot: &Snapshot) -> i64 {
    let file = snapshot.file();
    let kinds = file.units.iter().map(|unit| unit.kind.as_str()).collect::<BTreeSet<_>>();
    let pairs = kinds.iter().flat_map(|a| kinds.iter().map(|b| snapshot.kind_cost(a, b)));
    let cost = &file.exchange_cost;
    let added = [cost.other_numa, cost.other_node, cost.other_zone];
    let dearest_pair = cost.pairs.iter().map(|pair| pair.cost).max().unwrap_or(0);
    let added = added.into_iter().chain([dearest_pair]).map(|cost| i64::try_from(cost).unwrap_or(i64::MAX));
    pairs.max().unwrap_or(0).saturating_add(added.fold(0, i64::saturating_add))
}
