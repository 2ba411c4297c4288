//! The elective moves of a plan: those that are not necessary, with what each of them gains. Pure.

use std::collections::BTreeMap;

use control::{ElectiveMoves, GateRule, PlanReason, necessary_part};
use crds::{DecidedGain, MicroTime};
use placement::{Plan, Snapshot};

/// Why a plan is committed.
#[derive(Clone, Copy, Debug)]
pub struct DecisionReason {
    /// Why it was planned.
    pub why: PlanReason,
    /// The rule that its moves passed, and the messages per second before, if it is for measured load.
    pub load: Option<(GateRule, f64)>,
    /// Minimum gain of its elective moves.
    pub least: f64,
}

/// The moves of a decision.
#[derive(Clone, Debug)]
pub struct DecisionMoves {
    /// When it is made.
    pub at: MicroTime,
    /// Gains of its elective moves in percent, by short name of the actor.
    pub gains: BTreeMap<String, i64>,
    /// What they gain together; `None` if there are none.
    pub gain: Option<DecidedGain>,
}

impl DecisionMoves {
    /// Those of a plan for this snapshot.
    pub fn of(snapshot: &Snapshot, plan: &Plan, reason: &DecisionReason, at: MicroTime) -> Self {
        let derived = plan.world(snapshot);
        let stays = necessary_part(&derived, &plan.assignment);
        let moves = ElectiveMoves::all(&derived, stays, &plan.assignment, reason.least);
        let Some(moves) = moves else { return Self { at, gains: BTreeMap::new(), gain: None } };
        let is_move =
            |actor: &placement::ix::ActorIx| moves.stays[*actor].is_some() && moves.goes[*actor].is_some();
        let gains = moves.gains.iter().filter(|(actor, _)| is_move(actor));
        let gains: BTreeMap<String, i64> =
            gains.map(|(actor, gain)| (derived.short_name(*actor).to_owned(), percent(*gain))).collect();
        let gain = DecidedGain {
            expected_percent: percent(moves.gain(&derived)),
            why: reason.load.map_or_else(|| reason.why.to_string(), |(rule, _)| rule.to_string()),
            decided_at: at.clone(),
            messages_per_second: reason.load.map(|(_, messages)| whole(messages)),
        };
        Self { gain: (!gains.is_empty()).then_some(gain), at, gains }
    }
}

/// A fraction in whole percent.
pub fn percent(fraction: f64) -> i64 {
    whole(fraction * 100.0)
}

/// The nearest whole number; it saturates.
pub fn whole(number: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let whole = number.round() as i64;
    whole
}
