//! Progress of elective moves. Pure.

use std::collections::BTreeMap;

use control::MoveState;
use crds::{MicroTime, Move, MoveOutcome, MoveProgress, MoveStep, OutcomeVerdict, Placement};
use jiff::Timestamp;
use kube::runtime::events::{Event, EventType};
use world::DecidedMove;

use crate::runtime::clock::micro_time;
use crate::status::report::event;

/// Most moves in a status.
const MAX_MOVES: usize = 64;
/// Finished moves in a full status after which they are dropped from the decision, so that others can be listed.
const MAX_FINISHED: usize = MAX_MOVES / 2;

/// The progress of the elective moves of a decision, as many as a status lists.
///
/// Steps follow from the pods; the recorded status adds when each began. `outcome` is the verdict on a decision's moves. If not all
/// moves can be listed, those that began come first, then those that ended; others that are not listed have not begun.
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
        (before, step, true)
    });
    // Finished moves that later decisions do not list, and those that they replaced.
    let recorded = decision.status.iter().flat_map(|status| &status.moves);
    let is_listed =
        |it: &MoveProgress| decided.iter().any(|of| of.actor == it.actor && *of.decided_at == it.decided_at);
    let last = decision.spec.gain.as_ref().map(|gain| &gain.decided_at);
    let earlier = recorded.filter(|it| !is_listed(it) && Some(&it.decided_at) == last).cloned();
    let earlier = earlier.map(|before| {
        let step = before.step;
        (before, step, false)
    });
    let all = current.chain(earlier).filter_map(|(before, step, is_listed)| {
        let is_replaced =
            !is_assigned(&before.actor, &before.to) && (step.is_in_progress() || step == MoveStep::Running);
        if is_replaced && step == MoveStep::Running && !is_assigned(&before.actor, &before.from) {
            // It ran, and did not go back: nothing of it is left to be judged.
            return None;
        }
        let judged = outcome.filter(|outcome| {
            outcome.decided_at == before.decided_at && outcome.verdict != OutcomeVerdict::Withdrawn
        });
        let (step, judged) = match judged {
            _ if is_replaced => (MoveStep::Withdrawn, None),
            Some(outcome) if step == MoveStep::Running => (MoveStep::Judged, outcome.realised_percent),
            _ => (step, before.realised_percent),
        };
        let rank = match step {
            _ if !is_listed => 3,
            MoveStep::Stopping | MoveStep::Stopped | MoveStep::Starting => 0,
            MoveStep::Running | MoveStep::Judged | MoveStep::Withdrawn => 1,
            MoveStep::Decided => 2,
        };
        Some((rank, MoveProgress { realised_percent: judged, ..advanced(before, step, now) }))
    });
    let mut all: Vec<(u8, MoveProgress)> = all.collect();
    if all.len() > MAX_MOVES {
        all.sort_by_key(|(rank, _)| *rank);
        all.truncate(MAX_MOVES);
    }
    all.into_iter().map(|(_, progress)| progress).collect()
}

/// The moves of a decision without those that its status records as finished; `None` as long as there is room for the others in
/// the status.
pub fn moves_without_finished(decision: &Placement) -> Option<Vec<Move>> {
    let finished = |it: &DecidedMove| it.progress.is_some_and(|progress| !progress.step.is_in_progress());
    let (finished, others): (Vec<_>, Vec<_>) = world::elective_moves(decision).partition(finished);
    if finished.len() < MAX_FINISHED || finished.len() + others.len() <= MAX_MOVES {
        return None;
    }
    let is_finished = |it: &Move| {
        finished.iter().any(|of| of.actor == it.actor && Some(of.decided_at) == it.decided_at.as_ref())
    };
    Some(decision.spec.moves.iter().filter(|it| !is_finished(it)).cloned().collect())
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
        let (mut moves, mut reported) = (Vec::new(), Vec::new());
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
            reported.extend(events.into_iter().filter_map(|event| event.note));
            reported.push(format!("{} {:?}", moves[0].step, moves[0].pause_milliseconds));
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
        assert_eq!(reported, expected);
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
        let starting = move_progress(&decision("n/v", Vec::new()), &|_| MoveState::Starting, None, at(1).0);
        for (assigned, moves, state, outcome, expected) in [
            ("n/v", running.clone(), MoveState::Running, Some(&outcome), "Judged Some(18)"),
            ("n/v", Vec::new(), MoveState::Starting, Some(&outcome), "Starting None"),
            ("n/u", Vec::new(), MoveState::Decided, None, "Withdrawn None"),
            ("n/u", running.clone(), MoveState::Running, None, "Withdrawn None"),
            // A drain replaces the move: the actor does not go back.
            ("n/w", starting, MoveState::Starting, None, "Withdrawn None"),
            ("n/w", running, MoveState::Running, None, ""),
        ] {
            let mut decision = decision(assigned, moves);
            if assigned == "n/w" {
                decision.spec.moves.clear();
            }
            let moves = move_progress(&decision, &|_| state, outcome, at(2).0);
            let reported = moves.first().map(|it| format!("{} {:?}", it.step, it.realised_percent));
            assert_eq!(reported.unwrap_or_default(), expected);
        }
    }

    #[test]
    fn all_moves_of_a_large_decision_end() {
        const MOVES: usize = 500;
        let mut decision = decision("n/v", Vec::new());
        let (place, moved) = (decision.spec.assignments.remove(0), decision.spec.moves.remove(0));
        let name = |number: usize| format!("a-{number}");
        decision.spec.assignments =
            (0..MOVES).map(|number| Assignment { actor: name(number), ..place.clone() }).collect();
        decision.spec.moves =
            (0..MOVES).map(|number| Move { actor: name(number), ..moved.clone() }).collect();
        let (mut running, mut reported) = (0, Vec::new());
        for second in 1.. {
            // Three actors at a time, the last ones first; one of the others stops.
            running = (running + 3).min(MOVES);
            let state = |it: &DecidedMove| match it.actor[2..].parse::<usize>().unwrap() + running + 1 {
                MOVES => MoveState::Stopping,
                number if number > MOVES => MoveState::Running,
                _ => MoveState::Decided,
            };
            let listed = move_progress(&decision, &state, None, at(second).0);
            assert!(listed.len() <= MAX_MOVES);
            let stopping = listed.iter().filter(|it| it.step == MoveStep::Stopping).count();
            assert_eq!(stopping, usize::from(running < MOVES), "moves that began are listed");
            let status = decision.status.get_or_insert_default();
            let before = std::mem::replace(&mut status.moves, listed);
            let events = move_events(&transitions(&before, &status.moves));
            reported.extend(events.into_iter().filter_map(|event| event.note));
            if let Some(moves) = moves_without_finished(&decision) {
                decision.spec.moves = moves;
            }
            let in_progress = world::moves_in_progress(&decision).len();
            assert_eq!(in_progress, MOVES - running);
            if in_progress == 0 {
                break;
            }
        }
        assert_eq!(reported.len(), MOVES, "each move is reported once");
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
