//! Progress of elective moves. Pure.

use std::collections::BTreeMap;

use control::MoveState;
use crds::{MicroTime, Move, MoveOutcome, MoveProgress, MoveStep, OutcomeVerdict, Placement};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::{Event, EventType};
use world::DecidedMove;

use crate::runtime::clock::micro_time;
use crate::status::report::event;

/// Most moves in a status.
const MAX_MOVES: usize = 64;
/// Finished moves in a full status after which they are dropped from the decision, so that others can be listed.
const MAX_FINISHED: usize = MAX_MOVES / 2;

/// Times of objects are cut to whole seconds.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// What an actor's pod says about its move.
#[derive(Clone, Copy, Debug)]
pub struct ObservedMove {
    /// How far it is.
    pub state: MoveState,
    /// Since when the actor is down, at the latest: its pod was deleted, or is a new one.
    pub down_since: Option<Timestamp>,
    /// Since when the pod is ready.
    pub ready_since: Option<Timestamp>,
}

impl ObservedMove {
    /// A move to this unit, as the actor's pod shows.
    pub fn of(to: &str, pod: Option<&Pod>) -> Self {
        let state = world::move_state(to, pod);
        let metadata = pod.map(|pod| &pod.metadata);
        let down_since = metadata.and_then(|metadata| match state {
            // The timestamp is when its grace period ends.
            MoveState::Stopping => {
                let grace = SignedDuration::from_secs(metadata.deletion_grace_period_seconds.unwrap_or(0));
                metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
            }
            MoveState::Starting | MoveState::Running => Some(metadata.creation_timestamp.as_ref()?.0),
            MoveState::Decided | MoveState::Stopped => None,
        });
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|it| it.type_ == "Ready" && it.status == "True");
        let ready_since = ready.and_then(|ready| Some(ready.last_transition_time.as_ref()?.0));
        Self { state, down_since, ready_since }
    }
}

/// The progress of the elective moves of a decision, as many as a status lists.
///
/// Steps follow from the pods; the recorded status adds when each began. `outcome` is the verdict on a decision's moves. If not all
/// moves can be listed, those that began come first, then those that ended; others that are not listed have not begun.
pub fn move_progress(
    decision: &Placement,
    observed: &dyn Fn(&DecidedMove) -> ObservedMove,
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
        let is_current = before.step.is_in_progress() && is_assigned(it.actor, it.to);
        let seen = is_current.then(|| observed(it));
        let step = seen.map_or(before.step, |seen| step(seen.state));
        (before, step, seen)
    });
    // Finished moves of the last gain that later decisions do not list, and moves that they replaced.
    let recorded = decision.status.iter().flat_map(|status| &status.moves);
    let is_listed =
        |it: &MoveProgress| decided.iter().any(|of| of.actor == it.actor && *of.decided_at == it.decided_at);
    let last = decision.spec.gain.as_ref().map(|gain| &gain.decided_at);
    let is_shown = |it: &&MoveProgress| Some(&it.decided_at) == last || it.step.is_in_progress();
    let earlier = recorded.filter(|it| !is_listed(it)).filter(is_shown).cloned();
    let earlier = earlier.map(|before| {
        let step = before.step;
        (before, step, None)
    });
    let all = current.chain(earlier).filter_map(|(before, step, seen)| {
        let is_replaced = step.is_in_progress() && seen.is_none()
            || step == MoveStep::Running && !is_assigned(&before.actor, &before.to);
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
            _ if !is_listed(&before) => 3,
            MoveStep::Stopping | MoveStep::Stopped | MoveStep::Starting => 0,
            MoveStep::Running | MoveStep::Judged | MoveStep::Withdrawn => 1,
            MoveStep::Decided => 2,
        };
        Some((rank, MoveProgress { realised_percent: judged, ..advanced(before, step, seen, now) }))
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

/// The move at a step that it may have reached now, or before as its pod says; the time that the actor was down adds up.
///
/// A leader that sees a move late, or that did not see all its steps, counts from the times of the pods.
fn advanced(
    before: MoveProgress,
    step: MoveStep,
    seen: Option<ObservedMove>,
    now: Timestamp,
) -> MoveProgress {
    if before.step == step {
        return before;
    }
    let milliseconds = |from: Timestamp, to: Timestamp| {
        i64::try_from(to.duration_since(from).as_millis()).unwrap_or(i64::MAX).max(0)
    };
    // The clock of the operator is more precise, if it saw the step at once. A pod that is older than the move is not of it.
    let is_of_it = |at: &Timestamp| at.duration_since(before.since.0) > -SECOND;
    let down_since = seen.and_then(|seen| seen.down_since).filter(is_of_it);
    let reached = match step {
        MoveStep::Stopping | MoveStep::Starting => down_since,
        MoveStep::Running => seen.and_then(|seen| seen.ready_since).filter(is_of_it),
        _ => None,
    };
    let reached = reached.filter(|at| now.duration_since(*at) > SECOND).unwrap_or(now);
    let since = reached.max(before.since.0);
    let stopped = match before.step {
        MoveStep::Stopping | MoveStep::Stopped | MoveStep::Starting => Some(before.since.0),
        MoveStep::Decided if step == MoveStep::Running => down_since.map(|at| at.max(before.since.0)),
        _ => None,
    };
    let spent = stopped.map_or(0, |stopped| milliseconds(stopped, since));
    let pause = before.pause_milliseconds.unwrap_or(0).saturating_add(spent);
    MoveProgress {
        step,
        since: micro_time(since),
        pause_milliseconds: (pause > 0).then_some(pause),
        ..before
    }
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
                    "the move of {actor} from {from} to {to} was withdrawn: it was refused there, as the refusals of the Placement \
                     say, or another decision replaced it"
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
    use crds::{Assignment, DecidedGain, Move, PlacementSpec, PlacementStatus, labels};
    use serde_json::json;

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

    /// A move in this state, whose pods say nothing about times.
    fn seen(state: MoveState) -> ObservedMove {
        ObservedMove { state, down_since: None, ready_since: None }
    }

    #[test]
    fn times_of_pods_count_if_a_step_is_seen_late() {
        let time = |second: i64| json!(crds::Time(at(second).0));
        // The pod on a unit, when it was created, became ready, and was deleted with a grace period of 30 s.
        let pod = |unit: &str, created: i64, ready: Option<i64>, deleted: Option<i64>| -> Pod {
            let metadata = json!({"annotations": {labels::UNIT: unit}, "creationTimestamp": time(created),
                "deletionTimestamp": deleted.map(|at| time(at + 30)), "deletionGracePeriodSeconds": deleted.map(|_| 30)});
            let ready =
                ready.map(|at| json!({"type": "Ready", "status": "True", "lastTransitionTime": time(at)}));
            let status = json!({"phase": "Running", "conditions": ready.into_iter().collect::<Vec<_>>()});
            serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
        };
        for (before, pod, milliseconds, expected) in [
            (None, pod("n/u", -100, Some(-90), Some(5)), 20_000, "Stopping at 5000 after None"),
            // Another leader saw it last when it was decided.
            (None, pod("n/v", 4, None, None), 20_000, "Starting at 4000 after None"),
            (None, pod("n/v", 4, Some(7), None), 20_000, "Running at 7000 after Some(3000)"),
            (
                Some((MoveStep::Stopping, 2)),
                pod("n/v", 4, Some(7), None),
                20_000,
                "Running at 7000 after Some(5000)",
            ),
            // At once.
            (
                Some((MoveStep::Starting, 4)),
                pod("n/v", 4, Some(20), None),
                20_500,
                "Running at 20500 after Some(16500)",
            ),
            // The actor never left this unit.
            (None, pod("n/v", -100, Some(-90), None), 5_000, "Running at 5000 after None"),
        ] {
            let mut moves =
                move_progress(&decision("n/v", Vec::new()), &|_| seen(MoveState::Decided), None, at(0).0);
            if let Some((step, second)) = before {
                (moves[0].step, moves[0].since) = (step, at(second));
            }
            let now = Timestamp::from_millisecond(milliseconds).unwrap();
            let observed = |it: &DecidedMove| ObservedMove::of(it.to, Some(&pod));
            let moves = move_progress(&decision("n/v", moves), &observed, None, now);
            let MoveProgress { step, since, pause_milliseconds, .. } = &moves[0];
            let said = format!("{step} at {} after {pause_milliseconds:?}", since.0.as_millisecond());
            assert_eq!(said, expected, "{before:?}");
        }
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
            moves = move_progress(&decision, &|_| seen(state), None, at(second).0);
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
        let running =
            move_progress(&decision("n/v", Vec::new()), &|_| seen(MoveState::Running), None, at(1).0);
        let starting =
            move_progress(&decision("n/v", Vec::new()), &|_| seen(MoveState::Starting), None, at(1).0);
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
            let moves = move_progress(&decision, &|_| seen(state), outcome, at(2).0);
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
            let listed = move_progress(&decision, &|it| seen(state(it)), None, at(second).0);
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
        let running =
            move_progress(&decision("n/v", Vec::new()), &|_| seen(MoveState::Running), None, at(1).0);
        let mut later = decision("n/v", running);
        later.spec.moves.clear();
        assert_eq!(move_progress(&later, &|_| seen(MoveState::Running), None, at(2).0).len(), 1);
        later.spec.gain.as_mut().unwrap().decided_at = at(5);
        assert_eq!(move_progress(&later, &|_| seen(MoveState::Running), None, at(6).0), []);
    }

    #[test]
    fn moves_that_another_decision_replaced_are_withdrawn_once() {
        let before =
            move_progress(&decision("n/v", Vec::new()), &|_| seen(MoveState::Starting), None, at(1).0);
        let mut later = decision("n/w", before.clone());
        later.spec.moves.clear();
        later.spec.gain.as_mut().unwrap().decided_at = at(5);
        let withdrawn = move_progress(&later, &|_| seen(MoveState::Starting), None, at(6).0);
        let events = move_events(&transitions(&before, &withdrawn));
        let reasons: Vec<_> = events.into_iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["MoveWithdrawn"]);
        later.status.get_or_insert_default().moves = withdrawn;
        assert_eq!(move_progress(&later, &|_| seen(MoveState::Starting), None, at(7).0), []);
    }
}
