//! Progress of elective moves. Pure.

use std::collections::BTreeMap;

use control::MoveState;
use crds::{MicroTime, MoveOutcome, MoveProgress, MoveStep, OutcomeVerdict, Placement};
use jiff::Timestamp;
use kube::runtime::events::{Event, EventType};
use world::DecidedMove;

use crate::runtime::clock::micro_time;
use crate::status::report::event;

/// Most moves in a status.
const MAX_MOVES: usize = 64;

/// The progress of the elective moves of a decision.
///
/// Steps follow from the pods; the recorded status adds when each began. `outcome` is the verdict on a decision's moves.
pub fn move_progress(
    decision: &Placement,
    state: &dyn Fn(&DecidedMove) -> MoveState,
    outcome: Option<&MoveOutcome>,
    now: Timestamp,
) -> Vec<MoveProgress> {
    let places: BTreeMap<&str, &str> =
        decision.spec.assignments.iter().map(|it| (it.actor.as_str(), it.unit.as_str())).collect();
    let is_assigned = |actor: &str, to: &str| places.get(actor) == Some(&to);
    let expected = |decided_at: &MicroTime| {
        let gain = decision.spec.gain.as_ref().filter(|gain| gain.decided_at == *decided_at);
        gain.map(|gain| gain.expected_percent)
    };
    let decided: Vec<DecidedMove> = world::elective_moves(decision).collect();
    let current = decided.iter().map(|it| {
        let before = it.progress.cloned().unwrap_or_else(|| MoveProgress {
            actor: it.actor.to_owned(),
            from: it.from.to_owned(),
            to: it.to.to_owned(),
            decided_at: it.decided_at.clone(),
            step: MoveStep::Decided,
            since: it.decided_at.clone(),
            pause_milliseconds: None,
            expected_percent: expected(it.decided_at),
            realised_percent: None,
        });
        let step = if before.step.is_in_progress() && is_assigned(it.actor, it.to) {
            step(state(it))
        } else {
            before.step
        };
        (before, step)
    });
    // Finished moves that later decisions do not list, and those that they replaced.
    let recorded = decision.status.iter().flat_map(|status| &status.moves);
    let is_listed =
        |it: &MoveProgress| decided.iter().any(|of| of.actor == it.actor && *of.decided_at == it.decided_at);
    let last = decision.spec.gain.as_ref().map(|gain| &gain.decided_at);
    let earlier = recorded.filter(|it| !is_listed(it) && Some(&it.decided_at) == last).cloned();
    let earlier = earlier.map(|before| {
        let step = before.step;
        (before, step)
    });
    let all = current.chain(earlier).map(|(before, step)| {
        let is_replaced =
            !is_assigned(&before.actor, &before.to) && (step.is_in_progress() || step == MoveStep::Running);
        let judged = outcome.filter(|outcome| {
            outcome.decided_at == before.decided_at && outcome.verdict != OutcomeVerdict::Withdrawn
        });
        let (step, judged) = match judged {
            _ if is_replaced => (MoveStep::Withdrawn, None),
            Some(outcome) if step == MoveStep::Running => (MoveStep::Judged, outcome.realised_percent),
            _ => (step, before.realised_percent),
        };
        MoveProgress { realised_percent: judged, ..advanced(before, step, now) }
    });
    all.take(MAX_MOVES).collect()
}

fn step(state: MoveState) -> MoveStep {
    match state {
        MoveState::Decided => MoveStep::Decided,
        MoveState::Stopping => MoveStep::Stopping,
        MoveState::Stopped => MoveStep::Stopped,
        MoveState::Starting => MoveStep::Starting,
        MoveState::Running => MoveStep::Running,
    }
}

/// The move at a step that it may have reached now; the time that the actor was stopped adds up.
fn advanced(before: MoveProgress, step: MoveStep, now: Timestamp) -> MoveProgress {
    if before.step == step {
        return before;
    }
    let was_stopped = matches!(before.step, MoveStep::Stopping | MoveStep::Stopped | MoveStep::Starting);
    let spent = i64::try_from(now.duration_since(before.since.0).as_millis()).unwrap_or(i64::MAX).max(0);
    let pause = before.pause_milliseconds.unwrap_or(0).saturating_add(if was_stopped { spent } else { 0 });
    MoveProgress { step, since: micro_time(now), pause_milliseconds: (pause > 0).then_some(pause), ..before }
}

/// A step that a move went on to.
pub struct MoveTransition<'a> {
    /// The move after it.
    pub progress: &'a MoveProgress,
    /// The step before.
    pub from: MoveStep,
    /// Seconds that it took.
    pub seconds: f64,
}

/// The steps that moves went on to between two statuses.
pub fn transitions<'a>(before: &[MoveProgress], now: &'a [MoveProgress]) -> Vec<MoveTransition<'a>> {
    let transition = |progress: &'a MoveProgress| {
        let is_it = |it: &&MoveProgress| it.actor == progress.actor && it.decided_at == progress.decided_at;
        let before = before.iter().find(is_it);
        let (from, since) =
            before.map_or((MoveStep::Decided, &progress.decided_at), |before| (before.step, &before.since));
        let seconds = progress.since.0.duration_since(since.0).as_secs_f64();
        (from != progress.step).then_some(MoveTransition { progress, from, seconds })
    };
    now.iter().filter_map(transition).collect()
}

/// Events of moves that ended or were withdrawn.
pub fn move_events(transitions: &[MoveTransition]) -> Vec<Event> {
    let events = transitions.iter().filter_map(|MoveTransition { progress, .. }| {
        let MoveProgress { actor, from, to, pause_milliseconds, .. } = progress;
        #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
        let pause = pause_milliseconds.unwrap_or(0) as f64 / 1000.0;
        match progress.step {
            MoveStep::Running => {
                let note = format!("{actor} moved from {from} to {to}; it was stopped for {pause:.1} s");
                Some(event(EventType::Normal, "Moved", "Move", note))
            }
            MoveStep::Withdrawn => {
                let note = format!(
                    "the move of {actor} from {from} to {to} was withdrawn; see the refusals of the Placement"
                );
                Some(event(EventType::Warning, "MoveWithdrawn", "Move", note))
            }
            _ => None,
        }
    });
    events.collect()
}

/// The event of a verdict on the moves of a decision.
pub fn outcome_event(outcome: &MoveOutcome, expected_percent: i64) -> Event {
    let realised = outcome.realised_percent.unwrap_or(0);
    let note =
        format!("the moves gained {realised} %, and {expected_percent} % was expected: {}", outcome.verdict);
    let type_ = match outcome.verdict {
        OutcomeVerdict::Loss => EventType::Warning,
        _ => EventType::Normal,
    };
    event(type_, "MoveJudged", "Move", note)
}

#[cfg(test)]
mod tests {
    use crds::{Assignment, DecidedGain, Move, PlacementSpec, PlacementStatus};

    use super::*;

    fn at(second: i64) -> MicroTime {
        MicroTime(Timestamp::from_second(second).unwrap())
    }

    /// A decision of second 0 that moves `a-0` from `n/u` to `n/v`, in which it is assigned this unit.
    fn decision(assigned: &str, progress: Vec<MoveProgress>) -> Placement {
        let moved = Move {
            actor: "a-0".to_owned(),
            from: Some("n/u".to_owned()),
            to: "n/v".to_owned(),
            gain_percent: Some(20),
            decided_at: Some(at(0)),
            ..Move::default()
        };
        let gain = DecidedGain {
            expected_percent: 20,
            why: "change".to_owned(),
            decided_at: at(0),
            messages_per_second: None,
        };
        let place =
            Assignment { actor: "a-0".to_owned(), unit: assigned.to_owned(), ..Assignment::default() };
        let spec = PlacementSpec {
            assignments: vec![place],
            moves: vec![moved],
            gain: Some(gain),
            ..PlacementSpec::default()
        };
        let mut decision = Placement::new("app", spec);
        decision.status = Some(PlacementStatus { moves: progress, ..PlacementStatus::default() });
        decision
    }

    #[test]
    fn steps_follow_the_pod_and_the_pause_adds_up() {
        let (mut moves, mut said) = (Vec::new(), Vec::new());
        for (second, state) in [
            (1, MoveState::Decided),
            (3, MoveState::Stopping),
            (5, MoveState::Stopped),
            (6, MoveState::Starting),
            (9, MoveState::Running),
            (12, MoveState::Decided),
        ] {
            let before = std::mem::take(&mut moves);
            let decision = decision("n/v", before.clone());
            moves = move_progress(&decision, &|_| state, None, at(second).0);
            let events = move_events(&transitions(&before, &moves));
            said.extend(events.into_iter().filter_map(|event| event.note));
            said.push(format!("{} {:?}", moves[0].step, moves[0].pause_milliseconds));
        }
        let expected = [
            "Decided None",
            "Stopping None",
            "Stopped Some(2000)",
            "Starting Some(3000)",
            "a-0 moved from n/u to n/v; it was stopped for 6.0 s",
            "Running Some(6000)",
            "Running Some(6000)",
        ];
        assert_eq!(said, expected);
        assert_eq!(moves[0].expected_percent, Some(20));
    }

    #[test]
    fn a_move_ends_judged_or_withdrawn() {
        let outcome = MoveOutcome {
            decided_at: at(0),
            verdict: OutcomeVerdict::Paid,
            judged_at: at(9),
            realised_percent: Some(18),
            messages_per_second: None,
            pauses: BTreeMap::new(),
        };
        let running = move_progress(&decision("n/v", Vec::new()), &|_| MoveState::Running, None, at(1).0);
        for (assigned, moves, state, outcome, expected) in [
            ("n/v", running.clone(), MoveState::Running, Some(&outcome), "Judged Some(18)"),
            ("n/v", Vec::new(), MoveState::Starting, Some(&outcome), "Starting None"),
            ("n/u", Vec::new(), MoveState::Decided, None, "Withdrawn None"),
            ("n/u", running, MoveState::Running, None, "Withdrawn None"),
        ] {
            let moves = move_progress(&decision(assigned, moves), &|_| state, outcome, at(2).0);
            assert_eq!(format!("{} {:?}", moves[0].step, moves[0].realised_percent), expected);
        }
    }

    #[test]
    fn moves_that_a_later_decision_does_not_list_are_kept_until_the_next_gain() {
        let running = move_progress(&decision("n/v", Vec::new()), &|_| MoveState::Running, None, at(1).0);
        let mut later = decision("n/v", running);
        later.spec.moves.clear();
        assert_eq!(move_progress(&later, &|_| MoveState::Running, None, at(2).0).len(), 1);
        later.spec.gain.as_mut().unwrap().decided_at = at(5);
        assert_eq!(move_progress(&later, &|_| MoveState::Running, None, at(6).0), []);
    }
}
