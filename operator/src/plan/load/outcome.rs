//! The outcome of moves that were made for a gain.

use std::collections::BTreeMap;

use control::{JUDGED_WINDOWS, RealisedGain, RealisedMoves, gains_by_level, has_grown, is_slower, mean_gain};
use counters::{WindowChoice, Windows};
use crds::{MicroTime, MoveOutcome, MoveProgress, MoveStep, OutcomeVerdict, Placement};
use jiff::Timestamp;
use world::ApplicationKey;

use crate::apply::moves::history::pauses;
use crate::commit::elective::{percent, whole};
use crate::error::Error;
use crate::plan::load::search::{LoadSearch, MoverService};
use crate::runtime::clock::micro_time;
use crate::runtime::context::Context;

/// When the elective moves of last decisions were first seen finished, by the window that Prometheus had answered then.
///
/// The operator's clock says nothing about windows. After a change of leader the windows are counted from its first one on.
#[derive(Debug, Default)]
pub struct FinishedMoves(BTreeMap<ApplicationKey, (MicroTime, f64)>);

impl FinishedMoves {
    /// When the moves of a decision were finished, in seconds of Prometheus' clock; `None` while they are not, or until a window
    /// is answered. `newest` is the end of the newest answered window.
    pub fn since(&mut self, key: &ApplicationKey, decision: &Placement, newest: Option<f64>) -> Option<f64> {
        let Some((decided_at, _)) = finished_moves(decision) else {
            self.forget(key);
            return None;
        };
        let newest = newest?;
        let (known, since) = self.0.entry(key.clone()).or_insert_with(|| (decided_at.clone(), newest));
        // Another decision, or Prometheus' clock was set back.
        if known != decided_at || *since > newest {
            (*known, *since) = (decided_at.clone(), newest);
        }
        Some(*since)
    }

    /// Forgets an application.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.0.remove(key);
    }
}

/// When the last decision for a gain was made, and its moves that were finished; `None` if any is in progress or judged, or all
/// were withdrawn.
fn finished_moves(decision: &Placement) -> Option<(&MicroTime, Vec<&MoveProgress>)> {
    let decided_at = &decision.spec.gain.as_ref()?.decided_at;
    let moves = decision.status.iter().flat_map(|status| &status.moves);
    let moves = moves.filter(|it| it.decided_at == *decided_at);
    if moves.clone().any(|it| it.step.is_in_progress() || it.step == MoveStep::Judged) {
        return None;
    }
    let running: Vec<&MoveProgress> = moves.filter(|it| it.step == MoveStep::Running).collect();
    (!running.is_empty()).then_some((decided_at, running))
}

/// The verdict on the elective moves of a decision, once four settled windows have passed since the last one was finished, at this
/// second of Prometheus' clock.
///
/// The realised gain is the mean gain of the present places over the places before, each window on its own numbers; if the
/// application processes more messages than before, at the first level that gains. `before` has the movers' service times before. If a mover or a unit that it
/// left is gone for as many windows again, the decision is not judged.
///
/// # Errors
/// When no snapshot can be taken.
pub async fn judge_moves(
    request: &LoadSearch<'_>,
    (decision, finished): (&Placement, f64),
    before: Option<&MoverService>,
    ctx: &Context,
) -> Result<Option<MoveOutcome>, Error> {
    let windows = &request.windows;
    let Some(due) = DueJudgement::of(decision, finished, windows) else { return Ok(None) };
    let mut gains = Vec::new();
    for at in due.windows() {
        let world = request.snapshot(ctx, WindowChoice::One(at)).await?;
        let snapshot = &world.snapshot;
        let goes = snapshot.incumbent();
        let mut stays = goes.clone();
        for (actor, from) in &due.moves {
            let actor = snapshot.actor(&format!("{}/{actor}", request.key));
            let (Some(actor), Some(unit)) = (actor, snapshot.unit(from)) else {
                // The unit may be back soon.
                return Ok(due.is_overdue().then(|| due.not_judged()));
            };
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
    fn of(decision: &Placement, finished: f64, windows: &Windows) -> Option<Self> {
        let gain = decision.spec.gain.as_ref()?;
        let (_, running) = finished_moves(decision)?;
        let windows = windows.usable_since(finished);
        (windows >= JUDGED_WINDOWS).then(|| Self {
            decided_at: gain.decided_at.clone(),
            expected: gain.expected_percent,
            messages_before: gain.messages_per_second.map(messages),
            pauses: pauses(decision, &gain.decided_at),
            moves: running.into_iter().map(|it| (it.actor.clone(), it.from.clone())).collect(),
            windows,
        })
    }

    /// Whether twice as many windows have passed as are needed.
    fn is_overdue(&self) -> bool {
        self.windows >= 2 * JUDGED_WINDOWS
    }

    /// The outcome if a mover, or the unit that it left, is gone: the places before have no price any more.
    fn not_judged(&self) -> MoveOutcome {
        MoveOutcome {
            decided_at: self.decided_at.clone(),
            verdict: OutcomeVerdict::Superseded,
            judged_at: micro_time(Timestamp::now()),
            realised_percent: None,
            messages_per_second: None,
            pauses: self.pauses.clone(),
        }
    }

    /// The first windows after the moves, counted from the newest.
    fn windows(&self) -> std::ops::Range<usize> {
        self.windows - JUDGED_WINDOWS..self.windows
    }

    #[expect(clippy::cast_precision_loss, reason = "four windows")]
    fn messages_per_second(&self, windows: &Windows) -> f64 {
        let messages = self.windows().map(|at| windows.messages_per_second(WindowChoice::One(at)));
        messages.sum::<f64>() / JUDGED_WINDOWS as f64
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

#[cfg(test)]
mod tests {
    use counters::{WindowEntry, WindowsFile};
    use crds::{DecidedGain, PlacementSpec, PlacementStatus};

    use super::*;

    /// Settled windows of ten seconds that ended at these times, the newest first.
    fn windows(ended_at: &[f64]) -> Windows {
        let window = |ended_at: &f64| WindowEntry {
            ended_at: *ended_at,
            settled: true,
            has_data: true,
            min_scrapes: None,
            bad_value: false,
            incomplete: false,
            groups: [("g".to_owned(), [1, 1, 1, 0])].into(),
        };
        Windows::of_file(&WindowsFile {
            window_seconds: 10.0,
            message_quantum: 1.0,
            windows: ended_at.iter().map(window).collect(),
            messages: Vec::new(),
            annoyance: Vec::new(),
            actors: BTreeMap::new(),
        })
    }

    /// A decision of this second, whose only move reached a step at second 1000 of the operator's clock.
    fn decision(decided_at: i64, step: MoveStep) -> Placement {
        let at = |second| MicroTime(Timestamp::from_second(second).unwrap());
        let gain = DecidedGain {
            expected_percent: 20,
            why: "change".to_owned(),
            decided_at: at(decided_at),
            messages_per_second: None,
        };
        let moved = MoveProgress {
            actor: "a-0".to_owned(),
            from: "n/u".to_owned(),
            to: "n/v".to_owned(),
            decided_at: at(decided_at),
            step,
            since: at(1000),
            pause_milliseconds: None,
            expected_percent: None,
            realised_percent: None,
        };
        let mut decision =
            Placement::new("app", PlacementSpec { gain: Some(gain), ..PlacementSpec::default() });
        decision.status = Some(PlacementStatus { moves: vec![moved], ..PlacementStatus::default() });
        decision
    }

    #[test]
    fn windows_are_counted_from_the_one_that_prometheus_had_answered_when_the_moves_were_finished() {
        let key = ApplicationKey { namespace: "n".to_owned(), name: "app".to_owned() };
        let (moving, running) = (decision(900, MoveStep::Starting), decision(900, MoveStep::Running));
        // Prometheus' clock is right, 60 s ahead of the operator's, or 60 s behind.
        for ahead in [0.0, 60.0, -60.0] {
            let mut finished = FinishedMoves::default();
            let mut ended: Vec<f64> = (0..9).map(|at| 1002.0 + ahead - 10.0 * f64::from(at)).collect();
            assert_eq!(finished.since(&key, &moving, Some(ended[0])), None);
            let mut due = Vec::new();
            for _ in 0..6 {
                let newest = windows(&ended);
                let since = finished.since(&key, &running, newest.newest_answered()).unwrap();
                let judgement = DueJudgement::of(&running, since, &newest);
                due.push(judgement.map(|due| due.windows()));
                ended.insert(0, ended[0] + 10.0);
            }
            assert_eq!(due, [None, None, None, None, Some(0..4), Some(1..5)], "{ahead}");
        }
        // Windows after which a unit that is gone is not waited for.
        for (count, expected) in [(4, Some(false)), (7, Some(false)), (8, Some(true)), (3, None)] {
            let ended: Vec<f64> = (0..count).rev().map(|at| 1100.0 + 10.0 * f64::from(at)).collect();
            let due = DueJudgement::of(&running, 1090.0, &windows(&ended));
            assert_eq!(due.map(|due| due.is_overdue()), expected, "{count} windows");
        }
    }

    #[test]
    fn a_new_leader_or_decision_restarts_the_count() {
        let key = ApplicationKey { namespace: "n".to_owned(), name: "app".to_owned() };
        let running = decision(900, MoveStep::Running);
        let mut finished = FinishedMoves::default();
        assert_eq!(finished.since(&key, &running, None), None, "no window is answered yet");
        assert_eq!(finished.since(&key, &running, Some(2000.0)), Some(2000.0));
        assert_eq!(finished.since(&key, &running, Some(2010.0)), Some(2000.0));
        assert_eq!(finished.since(&key, &decision(950, MoveStep::Running), Some(2020.0)), Some(2020.0));
        assert_eq!(finished.since(&key, &decision(950, MoveStep::Judged), Some(2030.0)), None);
        assert_eq!(finished.since(&key, &running, Some(2040.0)), Some(2040.0));
        assert_eq!(finished.since(&key, &running, Some(600.0)), Some(600.0), "the clock was set back");
    }
}
