//! What is no sum over items and pairs: figures of units, places, groups and of the whole. A step is judged by taking it
//! and, if it does not please, taking it back.

use crate::model::Model;
use placement::criteria::{Figure, Step};
use placement::ix::{ActorIx, ItemIx, IxVec, PlaceIx, UnitIx};
use placement::weighted::NOWHERE;
use placement::weighted::Weights;
use placement::{Criterion, Ruling, Snapshot};
use strum::IntoEnumIterator as _;

/// The figures that a snapshot asks for, for one placement.
#[derive(Clone)]
pub(crate) struct Figures<'m> {
    snapshot: &'m Snapshot,
    load: IxVec<UnitIx, i64>,
    hosted: IxVec<UnitIx, u32>,
    /// By criterion that is no sum over items and pairs: its weight, and its value.
    terms: Vec<(i64, Box<dyn Figure>)>,
    /// By cap and place: watts.
    drawn: Vec<IxVec<PlaceIx, i64>>,
    /// The weight of a penalty, and the policy's rules.
    ruling: Option<(i64, Ruling<'m>)>,
    /// By how much caps are passed, in hundredths of the cap.
    overdrawn: i64,
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
        let caps = &snapshot.problem().caps;
        let mut figures = Self {
            snapshot,
            load: IxVec::of(0, model.units),
            hosted: IxVec::of(0, model.units),
            terms: terms.collect(),
            drawn: caps.iter().map(|cap| IxVec::of(0, cap.limit.len())).collect(),
            ruling: snapshot.rules().map(|rules| (weights.of(Criterion::Policy), Ruling::new(rules))),
            overdrawn: 0,
            concerns: IxVec::new(),
        };
        let asked = !figures.terms.is_empty() || figures.ruling.is_some() || !caps.is_empty();
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
        let in_a_term = self.terms.iter().any(|(_, figure)| figure.concerns(self.snapshot, actor));
        let in_a_rule = self.snapshot.rules().is_some_and(|rules| !rules.inputs(actor.at()).is_empty());
        in_a_term || !self.drawn.is_empty() || in_a_rule
    }

    /// Whether anything here depends on where an item is. Changes of others need not be told.
    #[inline]
    pub fn concerns(&self, item: ItemIx) -> bool {
        self.concerns[item]
    }

    /// What they come to, in the objective's weights.
    pub fn value(&self) -> i64 {
        let terms: i64 = self.terms.iter().map(|(weight, figure)| weight * figure.value(self.snapshot)).sum();
        terms + self.ruling.as_ref().map_or(0, |(weight, ruling)| weight * ruling.penalty())
    }

    /// What could be saved at most: all of it, as nothing here is below 0. `None` where the value is read off all actors.
    pub fn value_at_stake(&self) -> Option<i64> {
        (!self.terms.iter().any(|(_, figure)| figure.is_slow())).then(|| self.value())
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
        let step = Step {
            actor,
            unit,
            comes: sign > 0,
            load: (load, self.load[unit]),
            hosted: (u64::from(hosted), u64::from(self.hosted[unit])),
        };
        self.terms.iter_mut().for_each(|(_, figure)| figure.count(snapshot, &step));
        if !self.drawn.is_empty() {
            self.draw(&step);
        }
        if let Some((_, ruling)) = &mut self.ruling {
            let (actor, unit) = (actor.at(), unit.at());
            if sign > 0 { ruling.put(actor, unit) } else { ruling.take(actor, unit) }
        }
    }

    /// Has the caps on power follow.
    fn draw(&mut self, step: &Step) {
        let problem = self.snapshot.problem();
        let unit = step.unit;
        let more = problem.draw(unit, step.load.1, step.hosted.1 > 0)
            - problem.draw(unit, step.load.0, step.hosted.0 > 0);
        for (cap, drawn) in problem.caps.iter().zip(&mut self.drawn) {
            let (place, limit) = (cap.place[unit], cap.limit[cap.place[unit]]);
            let passed = |drawn: i64| {
                ((drawn - limit).max(0) * 100).div_euclid(limit.max(1)) + i64::from(drawn > limit)
            };
            self.overdrawn += passed(drawn[place] + more) - passed(drawn[place]);
            drawn[place] += more;
        }
    }
}
