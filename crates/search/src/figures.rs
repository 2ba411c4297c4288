//! What is no sum over items and pairs: figures of units, places, groups and of the whole. A step is judged by taking it
//! and, if it does not please, taking it back.

use std::collections::BTreeMap;

use crate::model::Model;
use placement::file::Scope;
use placement::ix::{ActorIx, GroupIx, ItemIx, IxVec, PlaceIx, UnitIx};
use placement::weighted::NOWHERE;
use placement::weighted::Weights;
use placement::{Assignment, Counts, Criterion, Ruling, Snapshot};

/// The figures that a snapshot asks for, for one placement.
#[derive(Clone)]
pub(crate) struct Figures<'m> {
    snapshot: &'m Snapshot,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u32>,
    /// Weight, and how many units have each overload.
    overload: Option<(i64, Counts)>,
    /// Weight, and how many units have each load in thousandths of capacity.
    bottleneck: Option<(i64, Counts)>,
    consolidate: i64,
    energy: i64,
    /// Weight, and by group how many actors are in each zone.
    spread: Option<(i64, IxVec<GroupIx, BTreeMap<PlaceIx, i64>>)>,
    /// Weight, and where actors are.
    latency: Option<(i64, Assignment)>,
    /// By cap and place: watts.
    drawn: Vec<IxVec<PlaceIx, i64>>,
    /// The weight of a penalty, and the policy's rules.
    ruling: Option<(i64, Ruling<'m>)>,
    /// What units in use, watts and groups come to.
    sum: i64,
    /// By how much caps are passed, in hundredths of the cap.
    overdrawn: i64,
    /// By item: whether anything here depends on where it is.
    concerns: IxVec<ItemIx, bool>,
}

impl<'m> Figures<'m> {
    /// Those that the snapshot asks for with the fixed actors at home; `None` where there are none.
    pub fn new(model: &Model<'m>) -> Option<Self> {
        use Criterion::{Bottleneck, Consolidate, Energy, Latency, Overload, Policy, Spread};
        let snapshot: &'m Snapshot = model.snapshot;
        let weights: &Weights = &model.weights;
        let weight = |criterion| Some(weights.of(criterion)).filter(|weight| *weight > 0);
        let counts = || Counts::of(model.units);
        let groups = || IxVec::of(BTreeMap::new(), snapshot.groups());
        let caps = &snapshot.problem().caps;
        let mut figures = Self {
            snapshot,
            load: IxVec::of(0, model.units),
            hosted: IxVec::of(0, model.units),
            overload: weight(Overload).map(|weight| (weight, counts())),
            bottleneck: weight(Bottleneck).map(|weight| (weight, counts())),
            consolidate: weights.of(Consolidate),
            energy: weights.of(Energy),
            spread: weight(Spread).map(|weight| (weight, groups())),
            latency: weight(Latency).map(|weight| (weight, vec![None; snapshot.actors()])),
            drawn: caps.iter().map(|cap| IxVec::of(0, cap.limit.len())).collect(),
            ruling: snapshot.rules().map(|rules| (weights.of(Policy), Ruling::new(rules))),
            sum: 0,
            overdrawn: 0,
            concerns: IxVec::new(),
        };
        let asked = figures.overload.is_some()
            || figures.bottleneck.is_some()
            || figures.spread.is_some()
            || figures.latency.is_some()
            || figures.ruling.is_some()
            || figures.consolidate + figures.energy > 0
            || !caps.is_empty();
        if !asked {
            return None;
        }
        for (members, unit) in model.members.raw()[model.free..].iter().zip(&model.fixed_places) {
            figures.change(members, NOWHERE, *unit);
        }
        figures.concerns =
            model.members.iter().map(|members| members.iter().any(|actor| figures.counts(*actor))).collect();
        Some(figures)
    }

    /// Whether anything here depends on where an actor is.
    fn counts(&self, actor: ActorIx) -> bool {
        let loads = self.overload.is_some()
            || self.bottleneck.is_some()
            || self.consolidate + self.energy > 0
            || !self.drawn.is_empty();
        let in_a_group = self.spread.is_some() && self.snapshot.problem().group[actor].is_some();
        let in_a_rule = self.snapshot.rules().is_some_and(|rules| !rules.inputs(actor.at()).is_empty());
        loads || self.latency.is_some() || in_a_group || in_a_rule
    }

    /// Whether anything here depends on where an item is. Changes of others need not be told.
    #[inline]
    pub fn concerns(&self, item: ItemIx) -> bool {
        self.concerns[item]
    }

    /// What they come to, in the energy's weights.
    pub fn value(&self) -> i64 {
        let overload = self.overload.as_ref().map_or(0, |(weight, all)| weight * (all.most() - all.least()));
        let bottleneck = self.bottleneck.as_ref().map_or(0, |(weight, all)| weight * all.most());
        let latency = self.latency.as_ref().map_or(0, |(weight, at)| weight * self.snapshot.latency(at));
        let penalty = self.ruling.as_ref().map_or(0, |(weight, ruling)| weight * ruling.penalty());
        self.sum + overload + bottleneck + latency + penalty
    }

    /// What could be saved at most: all of it, as nothing here is below 0. `None` where the value is read off all actors.
    pub fn value_at_stake(&self) -> Option<i64> {
        self.latency.is_none().then(|| self.value())
    }

    /// Whether there are caps or rules.
    pub fn has_limits(&self) -> bool {
        self.ruling.is_some() || !self.drawn.is_empty()
    }

    /// By how much caps and rules are broken; 0 when they are kept.
    pub fn broken(&self) -> i64 {
        self.overdrawn + self.ruling.as_ref().map_or(0, |(_, ruling)| ruling.degree())
    }

    /// Actors go from one place to another; either may be nowhere.
    pub fn change(&mut self, actors: &[ActorIx], from: UnitIx, to: UnitIx) {
        for &actor in actors {
            if from != NOWHERE {
                self.count(actor, from, -1);
            }
            if to != NOWHERE {
                self.count(actor, to, 1);
            }
        }
    }

    fn count(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) {
        let snapshot = self.snapshot;
        let problem = snapshot.problem();
        let work = problem.implementation(actor, unit).map_or(0, |needs| needs.work);
        let (load, hosted) = (self.load[unit], self.hosted[unit]);
        self.load[unit] += sign * work;
        self.hosted[unit] = if sign > 0 { hosted + 1 } else { hosted - 1 };
        let over = |load: i64| (load - problem.capacity[unit]).max(0);
        if let Some((_, all)) = &mut self.overload {
            all.change(over(load), over(self.load[unit]));
        }
        if let Some((_, all)) = &mut self.bottleneck {
            all.change(snapshot.fullness(unit.at(), load), snapshot.fullness(unit.at(), self.load[unit]));
        }
        self.sum += self.consolidate * (i64::from(self.hosted[unit] > 0) - i64::from(hosted > 0));
        let more =
            problem.draw(unit, self.load[unit], self.hosted[unit] > 0) - problem.draw(unit, load, hosted > 0);
        self.sum += self.energy * more;
        for (cap, drawn) in problem.caps.iter().zip(&mut self.drawn) {
            let (place, limit) = (cap.place[unit], cap.limit[cap.place[unit]]);
            let passed = |drawn: i64| {
                ((drawn - limit).max(0) * 100).div_euclid(limit.max(1)) + i64::from(drawn > limit)
            };
            self.overdrawn += passed(drawn[place] + more) - passed(drawn[place]);
            drawn[place] += more;
        }
        if let Some((weight, groups)) = &mut self.spread
            && let Some(group) = problem.group[actor]
        {
            let zones = &mut groups[group];
            let most = |zones: &BTreeMap<PlaceIx, i64>| zones.values().copied().max().unwrap_or(0);
            let before = most(zones);
            *zones.entry(problem.place(Scope::Zone, unit)).or_default() += sign;
            self.sum += *weight * (most(zones) - before);
        }
        if let Some((_, at)) = &mut self.latency {
            at[actor.at()] = (sign > 0).then_some(unit.at());
        }
        if let Some((_, ruling)) = &mut self.ruling {
            if sign > 0 { ruling.put(actor.at(), unit.at()) } else { ruling.take(actor.at(), unit.at()) }
        }
    }
}
