//! The moves that carry the gain of a plan.

use std::collections::BTreeMap;

use placement::ix::ActorIx;
use placement::{Assignment, Plan, Snapshot};

use crate::gain::gate::{GateRule, GateVerdict, mean};
use crate::gain::necessary::{MoveReverter, necessary_part, only};
use crate::gain::price::{gain_at, noticeable_level};

/// A move is taken back if the plan loses less than this part of the scale without it.
const LEAST_PER_MOVE: f64 = 0.01;

/// Most moves whose gains are computed one by one; those of more moves share the gain.
const MOST_SINGLE_GAINS: usize = 64;

/// The elective moves of a plan that are worth being made.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectiveMoves {
    /// The assignment without them: the incumbent with the necessary moves.
    pub stays: Assignment,
    /// The assignment with them.
    pub goes: Assignment,
    /// What the plan loses without each, as a part of the scale; moves that are only possible together share theirs.
    pub gains: BTreeMap<ActorIx, f64>,
    /// The level that they improve, counted from the last.
    level: usize,
}

impl ElectiveMoves {
    /// Takes back elective moves of `goes` that gain less than 1 % each, and then the weakest until at most `most` are left.
    ///
    /// `None` if nothing is left, or no level changes by half of `least`.
    pub fn of(
        snapshot: &Snapshot,
        stays: Assignment,
        goes: &Assignment,
        least: f64,
        most: usize,
    ) -> Option<Self> {
        let level = noticeable_level(snapshot, (&stays, goes), least / 2.0)?;
        let mut pruned = Pruned { snapshot, stays: &stays, goes: goes.clone(), level };
        // What is worth little may be worth more without another, and conversely.
        while pruned.take_back_weak() {}
        let mut gains = pruned.gains();
        while gains.len() > most {
            let mut weakest: Vec<ActorIx> = gains.keys().copied().collect();
            weakest.sort_by(|a, b| gains[a].total_cmp(&gains[b]));
            // A move that cannot be taken back by itself stays.
            let (back, _) = weakest.into_iter().find_map(|actor| pruned.without(actor))?;
            pruned.goes = back;
            gains = pruned.gains();
        }
        let goes = pruned.goes;
        (!gains.is_empty()).then_some(Self { stays, goes, gains, level })
    }

    /// All elective moves of `goes`, none taken back. `None` if there are none.
    pub fn all(snapshot: &Snapshot, stays: Assignment, goes: &Assignment, least: f64) -> Option<Self> {
        if stays == *goes {
            return None;
        }
        let level = noticeable_level(snapshot, (&stays, goes), least / 2.0).unwrap_or_default();
        let all = Pruned { snapshot, stays: &stays, goes: goes.clone(), level };
        let movers = all.movers();
        let gains: BTreeMap<ActorIx, f64> = if movers.len() <= MOST_SINGLE_GAINS {
            all.gains()
        } else {
            let each = all.gain(goes) / as_number(movers.len());
            movers.into_iter().map(|actor| (actor, each)).collect()
        };
        (!gains.is_empty()).then(|| Self { goes: goes.clone(), gains, level, stays })
    }

    /// The plan with these elective moves and its necessary ones only; the caller renews its judgement.
    #[must_use]
    pub fn only(&self, snapshot: &Snapshot, plan: Plan) -> Plan {
        only(snapshot, plan, self.goes.clone())
    }

    /// The gain on the facts of another window, as a part of the scale there.
    pub fn gain(&self, window: &Snapshot) -> f64 {
        gain_at(window, (&self.stays, &self.goes), self.level).unwrap_or_default()
    }

    /// Gain and loss on the facts of another window.
    pub fn price(&self, window: &Snapshot) -> WindowPrice {
        let levels = window.objectives().levels().len();
        let above =
            (self.level + 1..levels).filter_map(|level| gain_at(window, (&self.stays, &self.goes), level));
        WindowPrice { gain: self.gain(window), loss: above.fold(0.0, |most, gain| most.max(-gain)) }
    }

    /// Judges their prices in single windows, oldest first: see [`GateRule::judge`]. A gain does not count if a more important
    /// level loses on average.
    pub fn judge(&self, rule: GateRule, prices: &[WindowPrice], required: f64) -> GateVerdict {
        let gains: Vec<f64> = prices.iter().map(|price| price.gain).collect();
        let losses: Vec<f64> = prices.iter().map(|price| price.loss).collect();
        match rule.judge(&gains, required) {
            GateVerdict::Pays { gain, .. } if mean(&losses) >= LEAST_PER_MOVE => {
                GateVerdict::Uncertain { gain }
            }
            verdict => verdict,
        }
    }
}

/// What moves change on the facts of a window, as parts of the scales of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowPrice {
    /// Gain at the level that the moves improve.
    pub gain: f64,
    /// Largest loss at a more important level.
    pub loss: f64,
}

/// The plan without elective moves of actors in these groups, which move only when they must.
#[must_use]
pub fn hold_actors(snapshot: &Snapshot, plan: Plan, is_held: impl Fn(&str) -> bool) -> Plan {
    let is_held = |actor: &ActorIx| {
        snapshot.file().actors[actor.at()].group.as_ref().is_some_and(|group| is_held(group))
    };
    let incumbent = snapshot.incumbent();
    let moves = |actor: &ActorIx| incumbent[*actor].is_some() && incumbent[*actor] != plan.assignment[*actor];
    if !ActorIx::first(snapshot.actors()).any(|actor| moves(&actor) && is_held(&actor)) {
        return plan;
    }
    let stays = necessary_part(snapshot, &plan.assignment);
    let mut held = Pruned { snapshot, stays: &stays, goes: plan.assignment.clone(), level: 0 };
    for actor in held.movers().into_iter().filter(is_held) {
        if held.stays[actor] != held.goes[actor]
            && let Some((back, _)) = held.without(actor)
        {
            held.goes = back;
        }
    }
    let goes = held.goes;
    if goes == plan.assignment { plan } else { only(snapshot, plan, goes) }
}

struct Pruned<'a> {
    snapshot: &'a Snapshot,
    stays: &'a Assignment,
    goes: Assignment,
    level: usize,
}

impl Pruned<'_> {
    fn movers(&self) -> Vec<ActorIx> {
        let moves = |actor: &ActorIx| self.stays[*actor] != self.goes[*actor];
        ActorIx::first(self.snapshot.actors()).filter(moves).collect()
    }

    fn gain(&self, goes: &Assignment) -> f64 {
        gain_at(self.snapshot, (self.stays, goes), self.level).unwrap_or_default()
    }

    /// The assignment without a move, and without those that took the place the actor returns to.
    fn without(&self, actor: ActorIx) -> Option<(Assignment, usize)> {
        let rules = MoveReverter::new(self.snapshot, self.stays, &self.goes);
        let (mut back, mut step) = (self.goes.clone(), vec![actor]);
        back[actor] = self.stays[actor];
        while !rules.is_as_good(&back) {
            let took_place = |other: &ActorIx| {
                back[*other] != self.stays[*other]
                    && step.iter().any(|actor| self.goes[*other] == self.stays[*actor])
            };
            let next = self.movers().into_iter().find(took_place)?;
            back[next] = self.stays[next];
            step.push(next);
        }
        Some((back, step.len()))
    }

    /// What the plan loses without each move; nothing for moves that cannot be taken back.
    fn gains(&self) -> BTreeMap<ActorIx, f64> {
        let all = self.gain(&self.goes);
        let lost = |actor: &ActorIx| match self.without(*actor) {
            Some((back, moves)) => (all - self.gain(&back)) / as_number(moves),
            None => 0.0,
        };
        self.movers().into_iter().map(|actor| (actor, lost(&actor))).collect()
    }

    /// Takes back each move that is weak at this moment; returns whether there was one.
    fn take_back_weak(&mut self) -> bool {
        let mut found = false;
        for actor in self.movers() {
            if self.stays[actor] == self.goes[actor] {
                // Taken back with another.
                continue;
            }
            let Some((back, moves)) = self.without(actor) else { continue };
            if self.gain(&self.goes) - self.gain(&back) < LEAST_PER_MOVE * as_number(moves) {
                (self.goes, found) = (back, true);
            }
        }
        found
    }
}

#[expect(clippy::cast_precision_loss, reason = "moves are few")]
fn as_number(moves: usize) -> f64 {
    moves as f64
}
