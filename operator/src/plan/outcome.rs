//! What came of moves that were made for a gain.

use control::{gains_by_level, mean_gain};
use counters::{WindowChoice, Windows};
use crds::{MicroTime, MoveOutcome, MoveStep, OutcomeVerdict, Placement};
use jiff::Timestamp;

use crate::commit::elective::{percent, whole};
use crate::error::Error;
use crate::plan::load_search::{LoadSearch, MoverService};
use crate::runtime::clock::micro_time;
use crate::runtime::context::Context;

/// Settled windows that moves are judged by.
const JUDGED_WINDOWS: usize = 4;
/// An actor is slower than before from this factor of its service time.
const SLOWER: f64 = 1.1;

/// The verdict on the elective moves of a decision, once four settled windows have passed since the last one was finished.
///
/// The realised gain is the mean gain of the present places over the places before, each window on its own numbers. It is a
/// loss, too, if the movers are slower than `before` and the actors exchange less than they did.
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
    let realised = percent(mean_gain(&gains, least));
    let messages = due.messages_per_second(windows);
    let is_slower = before.is_some_and(|before| due.has_slower_mover(before, windows));
    let verdict = verdict((due.expected, realised), (due.messages_before, messages), is_slower, least);
    Ok(Some(MoveOutcome {
        decided_at: due.decided_at,
        verdict,
        judged_at: micro_time(Timestamp::now()),
        realised_percent: Some(realised),
        messages_per_second: Some(whole(messages)),
    }))
}

/// Moves that can be judged now.
struct DueJudgement {
    decided_at: MicroTime,
    expected: i64,
    messages_before: Option<i64>,
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
            messages_before: gain.messages_per_second,
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
            now.zip(before.get(actor)).is_some_and(|(now, before)| now > before * SLOWER)
        })
    }
}

/// Whether moves paid: `realised` and `expected` gain in percent, messages per second before and after.
fn verdict(
    (expected, realised): (i64, i64),
    (before, after): (Option<i64>, f64),
    is_slower: bool,
    least: f64,
) -> OutcomeVerdict {
    #[expect(clippy::cast_precision_loss, reason = "messages are far fewer than 2^53")]
    let exchanges_less = before.is_some_and(|before| after < before as f64 * (1.0 - least));
    match () {
        () if realised < 0 || is_slower && exchanges_less => OutcomeVerdict::Loss,
        () if 2 * realised < expected => OutcomeVerdict::Less,
        () => OutcomeVerdict::Paid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_judged_by_their_gain_and_by_slower_actors() {
        use OutcomeVerdict::{Less, Loss, Paid};
        for (expected, realised, before, after, is_slower, wanted) in [
            (30, 28, Some(100), 130.0, false, Paid),
            (30, 15, Some(100), 100.0, false, Paid),
            (30, 14, Some(100), 100.0, false, Less),
            (30, -1, Some(100), 130.0, false, Loss),
            // A trap: the model promises a gain, but the actor is slower at its new place.
            (30, 28, Some(100), 89.0, true, Loss),
            (30, 28, Some(100), 91.0, true, Paid),
            // Less is exchanged, but not for the movers' sake.
            (30, 28, Some(100), 50.0, false, Paid),
            (30, 28, None, 0.0, true, Paid),
        ] {
            let found = verdict((expected, realised), (before, after), is_slower, 0.1);
            assert_eq!(found, wanted, "{expected} {realised} {before:?} {after} {is_slower}");
        }
    }
}
