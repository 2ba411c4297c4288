//! History of the decisions that moved actors: a `ControllerRevision` each, with its outcome. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::{Moment, wait_after_failures};
use crds::{ActorApplication, MicroTime, MoveDecision, MoveOutcome, OutcomeVerdict, Placement, labels};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;

use crate::apply::ownership::metadata;

/// Decisions that are kept.
const KEPT: usize = 10;
/// Moves of a group whose pauses are looked at.
const PAUSES: usize = 8;
/// Largest size of the data in bytes.
const MAX_BYTES: usize = 64 << 10;

/// The decisions of an application that moved actors, the oldest first.
pub struct History(pub Vec<Arc<ControllerRevision>>);

/// Whether a revision is of the history, as opposed to a template.
pub fn is_history(revision: &ControllerRevision) -> bool {
    revision.labels().get(labels::HISTORY).is_some_and(|value| value == labels::MOVES)
}

/// When the decision of a revision was made.
fn decided_at(revision: &ControllerRevision) -> Option<MicroTime> {
    let data = revision.data.as_ref()?.0.get("decidedAt")?;
    serde_json::from_value(data.clone()).ok()
}

/// The outcome of the decision of a revision.
pub fn outcome_of(revision: &ControllerRevision) -> Option<MoveOutcome> {
    serde_json::from_str(revision.annotations().get(labels::OUTCOME)?).ok()
}

/// The last decision of a Placement that moved actors.
fn last_decision(placement: &Placement) -> Option<MoveDecision> {
    let spec = &placement.spec;
    let decided_at = spec.moves.iter().filter_map(|it| it.decided_at.as_ref()).max()?.clone();
    let moves = spec.moves.iter().filter(|it| it.decided_at.as_ref() == Some(&decided_at)).cloned();
    let gain = spec.gain.clone().filter(|gain| gain.decided_at == decided_at);
    Some(MoveDecision { moves: moves.collect(), more_moves: 0, gain, decided_at })
}

/// The data of a revision, with as many moves as fit.
fn data(mut decision: MoveDecision) -> Option<RawExtension> {
    loop {
        let data = serde_json::to_value(&decision).ok()?;
        if data.to_string().len() <= MAX_BYTES || decision.moves.is_empty() {
            return Some(RawExtension(data));
        }
        let kept = decision.moves.len() / 2;
        decision.more_moves += decision.moves.len() - kept;
        decision.moves.truncate(kept);
    }
}

impl History {
    /// The revision of the decision that was made at this time.
    pub fn find(&self, at: &MicroTime) -> Option<&Arc<ControllerRevision>> {
        self.0.iter().find(|it| decided_at(it).as_ref() == Some(at))
    }

    /// The revision of a Placement's last decision that moved actors, unless it exists.
    pub fn missing(
        &self,
        application: &ActorApplication,
        placement: &Placement,
    ) -> Option<ControllerRevision> {
        let last = last_decision(placement).filter(|last| self.find(&last.decided_at).is_none())?;
        let number = self.0.last().map_or(0, |last| last.revision) + 1;
        let mut metadata = metadata(application, format!("{}-plan-{number}", application.name_any()));
        metadata.labels.get_or_insert_default().insert(labels::HISTORY.to_owned(), labels::MOVES.to_owned());
        Some(ControllerRevision { metadata, revision: number, data: data(last) })
    }

    /// The oldest revisions beyond the limit.
    pub fn surplus(&self) -> &[Arc<ControllerRevision>] {
        &self.0[..self.0.len().saturating_sub(KEPT)]
    }

    /// The median pause of each group's last moves, in seconds.
    pub fn median_pauses(&self) -> BTreeMap<String, f64> {
        let mut by_group: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for outcome in self.0.iter().rev().filter_map(|it| outcome_of(it)) {
            for (actor, milliseconds) in outcome.pauses {
                let Some((group, _)) = actor.rsplit_once('-') else { continue };
                let known = by_group.entry(group.to_owned()).or_default();
                if known.len() < PAUSES {
                    known.push(milliseconds);
                }
            }
        }
        let median = |(group, mut pauses): (String, Vec<i64>)| {
            pauses.sort_unstable();
            #[expect(clippy::cast_precision_loss, reason = "a pause is shorter than 2^53 ms")]
            let milliseconds = pauses[pauses.len() / 2] as f64;
            (group, milliseconds / 1000.0)
        };
        by_group.into_iter().map(median).collect()
    }

    /// Until when, by the wall clock, an application waits with further moves for a gain, with windows of this length: its last
    /// decisions did not pay. A decision that paid ends the wait.
    pub fn waits_until(&self, window: Duration) -> Option<Moment> {
        let outcomes: Vec<MoveOutcome> = self.0.iter().rev().filter_map(|it| outcome_of(it)).collect();
        let failed = outcomes.iter().take_while(|outcome| outcome.verdict != OutcomeVerdict::Paid).count();
        let last = outcomes.first().filter(|_| failed > 0)?;
        let judged: Moment = last.judged_at.0.as_duration().try_into().ok()?;
        Some(judged + wait_after_failures(failed, window))
    }
}

/// The outcome that is recorded: that of the last decision for a gain and, as long as it has none, that of an earlier one.
pub fn outcome_to_record(
    placement: &Placement,
    judged: Option<MoveOutcome>,
    now: MicroTime,
) -> Option<MoveOutcome> {
    let last = placement.spec.gain.as_ref().map(|gain| &gain.decided_at);
    let is_last = judged.as_ref().is_some_and(|judged| Some(&judged.decided_at) == last);
    let withdrawn = if is_last { None } else { withdrawn(placement, now) };
    withdrawn.or(judged)
}

/// The outcome of a decision all of whose elective moves were withdrawn.
fn withdrawn(placement: &Placement, judged_at: MicroTime) -> Option<MoveOutcome> {
    let decided_at = placement.spec.gain.as_ref()?.decided_at.clone();
    let moves = placement.status.iter().flat_map(|status| &status.moves);
    let mut moves = moves.filter(|it| it.decided_at == decided_at).peekable();
    moves.peek()?;
    moves.all(|it| it.step == crds::MoveStep::Withdrawn).then_some(MoveOutcome {
        decided_at,
        verdict: OutcomeVerdict::Withdrawn,
        judged_at,
        realised_percent: None,
        messages_per_second: None,
        pauses: pauses(placement, &placement.spec.gain.as_ref()?.decided_at),
    })
}

/// By actor that a decision stopped for a move: how long it was down, in milliseconds.
pub fn pauses(placement: &Placement, decided_at: &MicroTime) -> BTreeMap<String, i64> {
    let moves = placement.status.iter().flat_map(|status| &status.moves);
    let moves = moves.filter(|it| it.decided_at == *decided_at);
    moves.filter_map(|it| Some((it.actor.clone(), it.pause_milliseconds?))).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> MicroTime {
        MicroTime(Timestamp::from_second(second).unwrap())
    }

    fn revision(number: i64, verdict: Option<OutcomeVerdict>) -> Arc<ControllerRevision> {
        let outcome = verdict.map(|verdict| MoveOutcome {
            decided_at: at(number),
            verdict,
            judged_at: at(100 * number),
            realised_percent: None,
            messages_per_second: None,
            pauses: [("a-0".to_owned(), 1000 * number), ("b-0".to_owned(), 1)].into(),
        });
        let annotations = outcome
            .map(|outcome| [(labels::OUTCOME.to_owned(), serde_json::to_string(&outcome).unwrap())].into());
        let mut revision = ControllerRevision { revision: number, ..ControllerRevision::default() };
        revision.data = Some(RawExtension(json!({"decidedAt": at(number), "moves": []})));
        revision.metadata.annotations = annotations;
        Arc::new(revision)
    }

    #[test]
    fn waits_double_after_losses_and_end_when_moves_pay() {
        use OutcomeVerdict::{Less, Loss, Paid, Withdrawn};
        for (verdicts, expected) in [
            (vec![], None),
            (vec![None], None),
            (vec![Some(Paid)], None),
            (vec![Some(Less)], Some(100 + 100)),
            (vec![Some(Loss), None], Some(100 + 100)),
            (vec![Some(Loss), Some(Withdrawn)], Some(200 + 200)),
            (vec![Some(Loss), Some(Less), Some(Loss)], Some(300 + 400)),
            (vec![Some(Loss), Some(Paid), Some(Loss)], Some(300 + 100)),
            (vec![Some(Loss); 9], Some(900 + 3600)),
        ] {
            let revisions =
                (1..).zip(&verdicts).map(|(number, verdict)| revision(number, *verdict)).collect();
            let until = History(revisions).waits_until(Duration::from_secs(10));
            assert_eq!(until, expected.map(Duration::from_secs), "{verdicts:?}");
        }
    }

    #[test]
    fn the_median_of_the_last_pauses_counts() {
        use OutcomeVerdict::{Less, Loss, Paid};
        let of = |verdicts: &[Option<OutcomeVerdict>]| {
            let revisions = (1..).zip(verdicts).map(|(number, verdict)| revision(number, *verdict)).collect();
            History(revisions).median_pauses().get("a").copied()
        };
        assert_eq!(of(&[None]), None);
        assert_eq!(of(&[Some(Paid), Some(Less), Some(Loss), None]), Some(2.0));
        // Of ten, the last eight.
        assert_eq!(of(&[Some(Paid); 10]), Some(7.0));
    }

    #[test]
    fn a_withdrawn_decision_has_an_outcome_although_an_earlier_one_was_judged() {
        use OutcomeVerdict::{Paid, Withdrawn};
        let judged = |second| outcome_of(&revision(second, Some(Paid)));
        for (judged, step, expected) in [
            (None, "Withdrawn", Some((2, Withdrawn))),
            (judged(1), "Withdrawn", Some((2, Withdrawn))),
            (judged(1), "Stopping", Some((1, Paid))),
            (judged(2), "Withdrawn", Some((2, Paid))),
        ] {
            let mut placement = Placement::new("app", crds::PlacementSpec::default());
            placement.spec.gain = Some(crds::DecidedGain {
                expected_percent: 20,
                why: "change".to_owned(),
                decided_at: at(2),
                messages_per_second: None,
            });
            let moved = json!({"actor": "a-0", "from": "n/u", "to": "n/v", "decidedAt": at(2), "step": step,
                "since": at(3)});
            let status = placement.status.get_or_insert_default();
            status.moves.push(serde_json::from_value(moved).unwrap());
            let outcome = outcome_to_record(&placement, judged, at(4));
            let expected = expected.map(|(second, verdict)| (at(second), verdict));
            assert_eq!(outcome.map(|outcome| (outcome.decided_at, outcome.verdict)), expected);
        }
    }

    #[test]
    fn large_decisions_are_cut() {
        let moved = |number: usize| crds::Move {
            actor: format!("a-{number}"),
            reason: "x".repeat(900),
            decided_at: Some(at(1)),
            ..crds::Move::default()
        };
        let mut placement = Placement::new("app", crds::PlacementSpec::default());
        placement.spec.moves = (0..500).map(moved).collect();
        let data = data(last_decision(&placement).unwrap()).unwrap();
        assert!(data.0.to_string().len() <= MAX_BYTES);
        let read: MoveDecision = serde_json::from_value(data.0).unwrap();
        assert_eq!(read.moves.len() + read.more_moves, 500);
    }
}
