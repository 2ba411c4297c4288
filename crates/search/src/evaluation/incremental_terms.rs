//! What is no sum over items and pairs: figures of units, places, groups and of the whole. A step is judged by taking it
//! and, if it does not please, taking it back.

use crate::model::{Change, Model};
use placement::constraints::{Excess, excesses};
use placement::criteria::{Figure, Step};
use placement::ix::{ActorIx, ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;
use placement::weighted::Weights;
use placement::{Criterion, Ruling, Snapshot};
use strum::IntoEnumIterator as _;

/// What figures come to in the objective's weights, and by how much limits are broken.
#[derive(Clone, Copy, Default)]
struct Sums {
    value: i64,
    broken: i64,
}

/// The figures that a snapshot asks for, for one placement.
#[derive(Clone)]
pub(crate) struct Figures<'m> {
    snapshot: &'m Snapshot,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u32>,
    /// By criterion that is no sum over items and pairs: its weight, and its value.
    pub terms: Vec<(i64, Box<dyn Figure>)>,
    /// By how much constraints are broken that are followed step by step.
    limits: Vec<Box<dyn Excess>>,
    /// The weight of who is excused and that of a penalty, and the policy's rules.
    ruling: Option<(i64, i64, Ruling<'m>)>,
    /// What they come to, and came to before the last changes.
    now: Sums,
    before: Sums,
    /// Whether what the value comes to is left open while changes follow.
    is_open: bool,
    /// By item: whether anything here depends on where it is.
    concerns: IxVec<ItemIx, bool>,
}

impl<'m> Figures<'m> {
    /// Those that the snapshot asks for with the fixed actors at home; `None` where there are none.
    pub fn new(model: &Model<'m>) -> Option<Self> {
        let snapshot: &'m Snapshot = model.snapshot;
        let weights: &Weights = &model.weights;
        let terms = Criterion::iter().filter_map(|criterion| {
            let weight = Some(weights.of(criterion)).filter(|weight| *weight > 0)?;
            Some((weight, criterion.measure().figure(snapshot)?))
        });
        let mut figures = Self {
            snapshot,
            load: IxVec::of(0, model.units),
            hosted: IxVec::of(0, model.units),
            terms: terms.collect(),
            limits: excesses(snapshot).into_iter().map(|(_, excess)| excess).collect(),
            ruling: snapshot.rules().map(|rules| {
                (weights.of(Criterion::Excused), weights.of(Criterion::Policy), Ruling::new(rules))
            }),
            now: Sums::default(),
            before: Sums::default(),
            is_open: false,
            concerns: IxVec::new(),
        };
        let asked = !figures.terms.is_empty() || figures.has_limits();
        if !asked {
            return None;
        }
        for (members, unit) in model.members.raw()[model.free..].iter().zip(&model.fixed_places) {
            figures.change(members, NOWHERE, *unit, Self::count);
        }
        figures.now = figures.sums();
        figures.concerns =
            model.members.iter().map(|members| members.iter().any(|actor| figures.counts(*actor))).collect();
        Some(figures)
    }

    /// Whether anything here depends on where an actor is.
    fn counts(&self, actor: ActorIx) -> bool {
        let in_a_term = self.terms.iter().any(|(_, figure)| figure.concerns(self.snapshot, actor));
        let in_a_limit = self.limits.iter().any(|excess| excess.concerns(self.snapshot, actor));
        let in_a_rule = self.snapshot.rules().is_some_and(|rules| !rules.inputs(actor).is_empty());
        in_a_term || in_a_limit || in_a_rule
    }

    /// Whether anything here depends on where an item is. Changes of others need not be told.
    #[inline]
    pub fn concerns(&self, item: ItemIx) -> bool {
        self.concerns[item]
    }

    /// What they come to, in the objective's weights; nothing here is below 0.
    #[inline]
    pub fn value(&self) -> i64 {
        self.now.value
    }

    /// Whether there are such constraints or rules.
    pub fn has_limits(&self) -> bool {
        self.ruling.is_some() || !self.limits.is_empty()
    }

    /// By how much such constraints and rules are broken; 0 when they are kept.
    #[inline]
    pub fn broken(&self) -> i64 {
        self.now.broken
    }

    /// Has everything follow changes of place: item, from, to. Says how value and breach change.
    pub fn take(&mut self, model: &Model<'m>, changes: &[Change]) -> (i64, i64) {
        self.before = self.now;
        if !self.is_open {
            // Whatever was taken and not taken back.
            self.terms.iter_mut().for_each(|(_, figure)| figure.keep(self.snapshot));
        }
        self.follow(model, changes.iter().copied(), Self::count);
        self.now = if self.is_open { Sums { broken: self.breach(), ..self.now } } else { self.sums() };
        (self.now.value - self.before.value, self.now.broken - self.before.broken)
    }

    /// Takes the last changes back.
    pub fn take_back(&mut self, model: &Model<'m>, changes: &[Change]) {
        self.follow(model, changes.iter().map(back), Self::count);
        self.now = self.before;
    }

    /// Leaves open what the value comes to from now on; false where it was open already.
    pub fn leave_open(&mut self) -> bool {
        !std::mem::replace(&mut self.is_open, true)
    }

    /// Says how the value has changed since that was left open.
    pub fn settle(&mut self) -> i64 {
        let before = self.now.value;
        (self.is_open, self.now) = (false, self.sums());
        self.now.value - before
    }

    /// How many are in a breach that is excused.
    pub fn excused(&self) -> i64 {
        self.ruling.as_ref().map_or(0, |(_, _, ruling)| ruling.excused())
    }

    /// How many would be after changes of place.
    pub fn excused_after(&mut self, model: &Model<'m>, changes: &[Change]) -> i64 {
        self.limits_after(model, changes, Self::excused)
    }

    /// Whether no more would be broken after changes of place.
    pub fn keeps_rules(&mut self, model: &Model<'m>, changes: &[Change]) -> bool {
        !self.has_limits() || self.limits_after(model, changes, Self::breach) <= self.now.broken
    }

    /// What is read of limits and rules after changes of place, which are taken back. Terms may take long to say, and are not asked.
    fn limits_after(&mut self, model: &Model<'m>, changes: &[Change], read: fn(&Self) -> i64) -> i64 {
        self.follow(model, changes.iter().copied(), Self::count_limits);
        let found = read(self);
        self.follow(model, changes.iter().map(back), Self::count_limits);
        found
    }

    fn sums(&self) -> Sums {
        let terms: i64 = self.terms.iter().map(|(weight, figure)| weight * figure.value(self.snapshot)).sum();
        let penalty = self
            .ruling
            .as_ref()
            .map_or(0, |(excused, penalty, ruling)| excused * ruling.excused() + penalty * ruling.penalty());
        Sums { value: terms + penalty, broken: self.breach() }
    }

    fn breach(&self) -> i64 {
        // Each of them fits, and a file may have any number of them.
        let limits = self.limits.iter().map(|excess| excess.value()).fold(0, i64::saturating_add);
        limits.saturating_add(self.ruling.as_ref().map_or(0, |(_, _, ruling)| ruling.degree()))
    }

    /// Has `count` follow those changes that anything here depends on.
    fn follow(
        &mut self,
        model: &Model<'m>,
        changes: impl Iterator<Item = Change>,
        count: impl Fn(&mut Self, ActorIx, UnitIx, i64) + Copy,
    ) {
        for (item, from, to) in changes {
            if self.concerns[item] {
                self.change(&model.members[item], from, to, count);
            }
        }
    }

    /// Actors go from one place to another; either may be nowhere.
    fn change(
        &mut self,
        actors: &[ActorIx],
        from: UnitIx,
        to: UnitIx,
        count: impl Fn(&mut Self, ActorIx, UnitIx, i64),
    ) {
        for &actor in actors {
            if from != NOWHERE {
                count(self, actor, from, -1);
            }
            if to != NOWHERE {
                count(self, actor, to, 1);
            }
        }
    }

    fn count(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) {
        let (snapshot, step) = (self.snapshot, self.step(actor, unit, sign));
        self.terms.iter_mut().for_each(|(_, figure)| figure.count(snapshot, &step));
        self.note(&step);
    }

    /// The same without the terms.
    fn count_limits(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) {
        let step = self.step(actor, unit, sign);
        self.note(&step);
    }

    /// Has limits and rules follow a step.
    fn note(&mut self, step: &Step) {
        let snapshot = self.snapshot;
        self.limits.iter_mut().for_each(|excess| excess.count(snapshot, step));
        if let Some((_, _, ruling)) = &mut self.ruling {
            if step.comes { ruling.put(step.actor, step.unit) } else { ruling.take(step.actor, step.unit) }
        }
    }

    /// What a unit becomes, which is noted, when an actor comes to it or leaves it.
    fn step(&mut self, actor: ActorIx, unit: UnitIx, sign: i64) -> Step {
        let work = self.snapshot.problem().work(actor, unit);
        let (load, hosted) = (self.load[unit], self.hosted[unit]);
        self.load[unit] += sign * work;
        self.hosted[unit] = if sign > 0 { hosted + 1 } else { hosted - 1 };
        Step {
            actor,
            unit,
            comes: sign > 0,
            load: (load, self.load[unit]),
            hosted: (u64::from(hosted), u64::from(self.hosted[unit])),
        }
    }
}

/// A change the other way round.
fn back((item, from, to): &Change) -> Change {
    (*item, *to, *from)
}

#[cfg(test)]
mod tests {
    use placement::LARGEST;

    use super::*;
    use crate::evaluation::solution::Solution;

    /// Each quota is passed by nearly as much as a file may name, all together by more than 64 bits hold.
    #[test]
    fn any_number_of_limits_is_broken_by_what_a_number_holds() {
        let most = LARGEST - 2;
        let quota = r#"{"type":"quota","actors":["a"],"resource":"memory","max":0}"#;
        let json = format!(
            r#"{{"version":1,"units":[{{"id":"u","kind":"cpu","node":"n","capacity":1,"provides":{{"memory":{most}}}}}],
            "actors":[{{"id":"a","runsOn":{{"cpu":1}},"requires":{{"memory":{most}}}}}],"exchangeCost":{{"otherKind":1}},
            "constraints":[{}]}}"#,
            vec![quota; 1_100].join(",")
        );
        let snapshot = Snapshot::read(&json).unwrap();
        let model = Model::new(&snapshot);
        let mut solution = Solution::new(&model);
        assert_eq!(solution.try_figures(&[(ItemIx::new(0), NOWHERE, UnitIx::new(0))]), (0, i64::MAX));
    }
}
