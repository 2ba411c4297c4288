//! The outcome of moves that were made for a gain.

use std::collections::BTreeMap;

use control::{JUDGED_WINDOWS, RealisedGain, RealisedMoves, gains_by_level, has_grown, is_slower, mean_gain};
use counters::{WindowChoice, Windows};
use crds::{MicroTime, MoveOutcome, MoveStep, OutcomeVerdict, Placement};
use jiff::Timestamp;

use crate::apply::history::pauses;
use crate::commit::elective::{percent, whole};
use crate::error::Error;
use crate::plan::load_search::{LoadSearch, MoverService};
use crate::runtime::clock::micro_time;
use crate::runtime::context::Context;

/// The verdict on the elective moves of a decision, once four settled windows have passed since the last one was finished.
///
/// The realised gain is the mean gain of the present places over the places before, each window on its own numbers; if the actors
/// exchange more than before, at the first level that gains. `before` has the movers' service times before.
///
/// # Errors
/// When no snapshot can be taken.
pub async fn judge_moves(
    request: &LoadSearch<'_>,
    decision: &Placement,
    before: Option<&MoverService>,
    ctx: &Context,
) -> Result<Option<MoveOutcome>, Error> {
    let windows = &request.windows;
    let Some(due) = DueJudgement::of(decision, windows) else { return Ok(None) };
    let mut gains = Vec::new();
    for at in due.windows() {
        let world = request.snapshot(ctx, WindowChoice::One(at)).await?;
        let snapshot = &world.snapshot;
        let goes = snapshot.incumbent();
        let mut stays = goes.clone();
        for (actor, from) in &due.moves {
            let actor = snapshot.actor(&format!("{}/{actor}", request.key));
            let (Some(actor), Some(unit)) = (actor, snapshot.unit(from)) else { return Ok(None) };
            stays[actor] = Some(unit);
        }
        gains.push(gains_by_level(snapshot, (&stays, &goes)));
    }
    let least = request.policy.rebalance.min_gain();
    let messages = due.messages_per_second(windows);
    let has_grown = has_grown(due.messages_before, messages, least);
    let realised = percent(mean_gain(&gains, least, has_grown));
    let moves = RealisedMoves {
        expected_percent: due.expected,
        realised_percent: realised,
        messages_before: due.messages_before,
        messages_after: messages,
        has_slower_mover: before.is_some_and(|before| due.has_slower_mover(before, windows)),
    };
    let verdict = verdict(moves.gain(least));
    Ok(Some(MoveOutcome {
        decided_at: due.decided_at,
        verdict,
        judged_at: micro_time(Timestamp::now()),
        realised_percent: Some(realised),
        messages_per_second: Some(whole(messages)),
        pauses: due.pauses,
    }))
}

/// Moves that can be judged now.
struct DueJudgement {
    decided_at: MicroTime,
    expected: i64,
    messages_before: Option<f64>,
    /// By actor: how long it was down, in milliseconds.
    pauses: BTreeMap<String, i64>,
    /// Actors with the units that they left.
    moves: Vec<(String, String)>,
    /// Settled windows since then.
    windows: usize,
}

impl DueJudgement {
    fn of(decision: &Placement, windows: &Windows) -> Option<Self> {
        let gain = decision.spec.gain.as_ref()?;
        let moves = decision.status.iter().flat_map(|status| &status.moves);
        let moves = moves.filter(|it| it.decided_at == gain.decided_at);
        if moves.clone().any(|it| it.step.is_in_progress() || it.step == MoveStep::Judged) {
            return None;
        }
        let running = moves.filter(|it| it.step == MoveStep::Running);
        let since = running.clone().map(|it| it.since.0).max()?.as_duration().as_secs_f64();
        let windows = windows.usable_since(since);
        (windows >= JUDGED_WINDOWS).then(|| Self {
            decided_at: gain.decided_at.clone(),
            expected: gain.expected_percent,
            messages_before: gain.messages_per_second.map(messages),
            pauses: pauses(decision, &gain.decided_at),
            moves: running.map(|it| (it.actor.clone(), it.from.clone())).collect(),
            windows,
        })
    }

    /// The first windows after the moves, counted from the newest.
    fn windows(&self) -> std::ops::Range<usize> {
        self.windows - JUDGED_WINDOWS..self.windows
    }

    #[expect(clippy::cast_precision_loss, reason = "four windows")]
    fn messages_per_second(&self, windows: &Windows) -> f64 {
        let messages = self.windows().map(|at| windows.load(WindowChoice::One(at)).total_messages());
        messages.sum::<f64>() / (JUDGED_WINDOWS as f64 * windows.scale().window_seconds)
    }

    fn has_slower_mover(&self, before: &MoverService, windows: &Windows) -> bool {
        self.moves.iter().any(|(actor, _)| {
            let now = windows.service_microseconds(actor, WindowChoice::Newest(self.windows));
            now.zip(before.get(actor)).is_some_and(|(now, before)| is_slower(*before, now))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "messages are far fewer than 2^53")]
fn messages(count: i64) -> f64 {
    count as f64
}

fn verdict(gain: RealisedGain) -> OutcomeVerdict {
    match gain {
        RealisedGain::Paid => OutcomeVerdict::Paid,
        RealisedGain::Less => OutcomeVerdict::Less,
        RealisedGain::Loss => OutcomeVerdict::Loss,
    }
}
