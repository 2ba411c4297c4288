//! History of the decisions that moved actors: a `ControllerRevision` each, with its outcome. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::{Moment, wait_after_failures};
use crds::{ActorApplication, MicroTime, MoveDecision, MoveOutcome, OutcomeVerdict, Placement, labels};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;

use crate::apply::owned::ownership::metadata;

/// Decisions that are kept.
const KEPT: usize = 10;
/// Moves of a group whose pauses are looked at.
const PAUSES: usize = 8;
/// Largest size of the data in bytes.
const MAX_BYTES: usize = 64 << 10;

/// The decisions of an application that moved actors, the oldest first.
pub struct History(Vec<Arc<ControllerRevision>>);

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

/// The decisions whose moves a Placement lists, the oldest first. `services` are service times of actors before their last move.
fn decisions(placement: &Placement, services: &BTreeMap<String, f64>) -> Vec<MoveDecision> {
    let spec = &placement.spec;
    let times: BTreeSet<&MicroTime> = spec.moves.iter().filter_map(|it| it.decided_at.as_ref()).collect();
    let decision = |at: &MicroTime| {
        let moves = spec.moves.iter().filter(|it| it.decided_at.as_ref() == Some(at));
        let gain = spec.gain.clone().filter(|gain| gain.decided_at == *at);
        let is_measured = gain.as_ref().is_some_and(|gain| gain.messages_per_second.is_some());
        let actors = moves.clone().filter(|_| is_measured).map(|it| &it.actor);
        let services = actors.filter_map(|actor| Some((actor.clone(), *services.get(actor)?)));
        MoveDecision {
            decided_at: at.clone(),
            service_microseconds: services.collect(),
            moves: moves.cloned().collect(),
            more_moves: 0,
            gain,
        }
    };
    times.into_iter().map(decision).collect()
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

    /// The history of these revisions.
    pub fn new(mut revisions: Vec<Arc<ControllerRevision>>) -> Self {
        revisions.sort_by_cached_key(|it| (decided_at(it), it.revision));
        Self(revisions)
    }

    /// The revisions that do not exist yet of the decisions whose moves a Placement lists.
    pub fn missing(
        &self,
        application: &ActorApplication,
        placement: &Placement,
        services: &BTreeMap<String, f64>,
    ) -> Vec<ControllerRevision> {
        // A revision that was deleted as one too many is not created again.
        let oldest = self.0.first().filter(|_| self.0.len() >= KEPT).and_then(|it| decided_at(it));
        let mut missing = decisions(placement, services);
        missing.retain(|it| self.find(&it.decided_at).is_none() && Some(&it.decided_at) > oldest.as_ref());
        let surplus = missing.len().saturating_sub(KEPT);
        let last = self.0.iter().map(|it| it.revision).max().unwrap_or(0);
        let revision = |(number, decision): (i64, MoveDecision)| {
            let mut metadata = metadata(application, format!("{}-plan-{number}", application.name_any()));
            let labels = metadata.labels.get_or_insert_default();
            labels.insert(labels::HISTORY.to_owned(), labels::MOVES.to_owned());
            ControllerRevision { metadata, revision: number, data: data(decision) }
        };
        (last + 1..).zip(missing.into_iter().skip(surplus)).map(revision).collect()
    }

    /// Decisions for a gain that have no outcome, and get none: another one was made, and none of their moves is in progress.
    pub fn superseded(
        &self,
        placement: &Placement,
        judged_at: &MicroTime,
    ) -> Vec<(&Arc<ControllerRevision>, MoveOutcome)> {
        let Some(last) = &placement.spec.gain else { return Vec::new() };
        let in_progress = world::moves_in_progress(placement);
        let superseded = |revision: &ControllerRevision| {
            let decided_at = decided_at(revision).filter(|at| *at < last.decided_at)?;
            let has_gain = revision.data.as_ref().is_some_and(|data| data.0.get("gain").is_some());
            let is_open = in_progress.iter().any(|it| *it.decided_at == decided_at);
            (has_gain && !is_open && outcome_of(revision).is_none()).then(|| MoveOutcome {
                verdict: OutcomeVerdict::Superseded,
                judged_at: judged_at.clone(),
                realised_percent: None,
                messages_per_second: None,
                pauses: pauses(placement, &decided_at),
                decided_at,
            })
        };
        self.0.iter().filter_map(|it| Some((it, superseded(it)?))).collect()
    }

    /// Service times of the actors of a decision before they moved.
    pub fn services(&self, at: &MicroTime) -> Option<BTreeMap<String, f64>> {
        let services = self.find(at)?.data.as_ref()?.0.get("serviceMicroseconds")?;
        serde_json::from_value(services.clone()).ok()
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
    /// decisions did not pay. A decision that paid ends the wait, unless nothing was expected of it.
    pub fn waits_until(&self, window: Duration) -> Option<Moment> {
        let expects_gain = |revision: &ControllerRevision| {
            let expected = revision.data.as_ref().and_then(|data| data.0["gain"]["expectedPercent"].as_i64());
            expected.is_none_or(|percent| percent > 0)
        };
        let outcomes = self.0.iter().rev().filter_map(|it| Some((outcome_of(it)?, expects_gain(it))));
        let says_something = |(outcome, expects_gain): (MoveOutcome, bool)| match outcome.verdict {
            OutcomeVerdict::Superseded => None,
            OutcomeVerdict::Paid if !expects_gain => None,
            _ => Some(outcome),
        };
        let outcomes: Vec<MoveOutcome> = outcomes.filter_map(says_something).collect();
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

    /// The revision with this number, of the decision of this second.
    fn recorded((number, second): (i64, i64)) -> Arc<ControllerRevision> {
        let data = Some(RawExtension(json!({"decidedAt": at(second), "moves": []})));
        Arc::new(ControllerRevision { revision: number, data, ..ControllerRevision::default() })
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
        let mut revision = Arc::unwrap_or_clone(recorded((number, number)));
        revision.metadata.annotations = annotations;
        Arc::new(revision)
    }

    /// A gain of the decision of this second.
    fn gain(second: i64, messages_per_second: Option<i64>) -> crds::DecidedGain {
        let why = "change".to_owned();
        crds::DecidedGain { expected_percent: 20, why, decided_at: at(second), messages_per_second }
    }

    /// A Placement with a move of each of these seconds.
    fn placement(seconds: &[i64]) -> Placement {
        let of = |second: &i64| crds::Move {
            actor: "a-0".to_owned(),
            from: Some("n/u".to_owned()),
            to: "n/v".to_owned(),
            gain_percent: Some(20),
            decided_at: Some(at(*second)),
            ..crds::Move::default()
        };
        let moves = seconds.iter().map(of).collect();
        Placement::new("app", crds::PlacementSpec { moves, ..crds::PlacementSpec::default() })
    }

    fn application() -> ActorApplication {
        ActorApplication::new("app", serde_json::from_value(json!({"actors": []})).unwrap())
    }

    #[test]
    fn every_decision_whose_moves_are_listed_is_recorded_once() {
        for (known, listed, expected) in [
            (vec![], vec![], vec![]),
            // The second decision was made before a reconcile of the first.
            (vec![], vec![2, 1, 2], vec![(1, 1), (2, 2)]),
            (vec![(1, 1)], vec![1, 2], vec![(2, 2)]),
            // The write of the first failed.
            (vec![(1, 2)], vec![1, 2], vec![(2, 1)]),
            (vec![(1, 2), (2, 1)], vec![1, 2], vec![]),
            // The first was deleted as one too many.
            ((2..12).map(|number| (number, number)).collect(), vec![1, 12], vec![(12, 12)]),
            (vec![], (1..13).collect(), (1..11).map(|number| (number, number + 2)).collect()),
        ] {
            let history = History::new(known.iter().copied().map(recorded).collect());
            let missing = history.missing(&application(), &placement(&listed), &BTreeMap::new());
            let missing: Vec<_> =
                missing.into_iter().map(|it| (it.name_any(), it.revision, decided_at(&it))).collect();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(number, second)| (format!("app-plan-{number}"), number, Some(at(second))))
                .collect();
            assert_eq!(missing, expected, "{known:?} {listed:?}");
        }
    }

    #[test]
    fn the_newest_decisions_are_kept() {
        let known = |last: i64| (1..=last).map(|number| (number, number + 1)).collect::<Vec<_>>();
        for (known, expected) in [
            (known(10), vec![]),
            (known(12), vec![1, 2]),
            // The last number is that of the oldest decision.
            ([known(11), vec![(12, 1)]].concat(), vec![12, 1]),
        ] {
            let history = History::new(known.iter().copied().map(recorded).collect());
            let surplus: Vec<i64> = history.surplus().iter().map(|it| it.revision).collect();
            assert_eq!(surplus, expected, "{known:?}");
        }
    }

    #[test]
    fn a_decision_that_another_one_replaced_is_superseded() {
        let mut decision = placement(&[1, 5]);
        decision.spec.gain = Some(gain(5, None));
        decision.spec.assignments = vec![crds::Assignment {
            actor: "a-0".to_owned(),
            unit: "n/v".to_owned(),
            ..crds::Assignment::default()
        }];
        let moved = json!({"actor": "a-0", "from": "n/u", "to": "n/v", "decidedAt": at(1), "step": "Running",
            "since": at(3), "pauseMilliseconds": 7});
        let moved: crds::MoveProgress = serde_json::from_value(moved).unwrap();
        for (second, has_gain, verdict, step, expected) in [
            (1, true, None, crds::MoveStep::Running, Some(7)),
            // Its moves are not finished.
            (1, true, None, crds::MoveStep::Starting, None),
            (1, false, None, crds::MoveStep::Running, None),
            (1, true, Some(OutcomeVerdict::Loss), crds::MoveStep::Running, None),
            (5, true, None, crds::MoveStep::Running, None),
        ] {
            let mut known = Arc::unwrap_or_clone(revision(second, verdict));
            if has_gain {
                known.data.as_mut().unwrap().0["gain"] = json!(gain(second, None));
            }
            decision.status.get_or_insert_default().moves =
                vec![crds::MoveProgress { step, ..moved.clone() }];
            let history = History::new(vec![Arc::new(known)]);
            let superseded = history.superseded(&decision, &at(9));
            let said: Vec<_> = superseded.into_iter().map(|(_, it)| (it.verdict, it.pauses["a-0"])).collect();
            let expected: Vec<_> =
                expected.map(|pause| (OutcomeVerdict::Superseded, pause)).into_iter().collect();
            assert_eq!(said, expected, "{second} {has_gain} {verdict:?} {step}");
        }
    }

    #[test]
    fn service_times_before_a_move_outlive_the_leader() {
        let known = [("a-0".to_owned(), 20.5), ("b-0".to_owned(), 1.0)].into();
        for (messages, expected) in [(Some(900), Some([("a-0".to_owned(), 20.5)].into())), (None, None)] {
            let mut decision = placement(&[1]);
            decision.spec.gain = Some(gain(1, messages));
            let missing = History::new(Vec::new()).missing(&application(), &decision, &known);
            let history = History::new(missing.into_iter().map(Arc::new).collect());
            assert_eq!(history.services(&at(1)), expected);
        }
    }

    #[test]
    fn waits_double_after_losses_and_end_when_moves_pay() {
        use OutcomeVerdict::{Less, Loss, Paid, Superseded, Withdrawn};
        for (verdicts, expected) in [
            (vec![Some(Superseded)], None),
            (vec![Some(Loss), Some(Superseded)], Some(100 + 100)),
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
        // A new manifest moves actors without a gain, and so without a loss.
        for (expected_percent, expected) in [(0, Some(200)), (1, None)] {
            let mut paid = Arc::unwrap_or_clone(revision(2, Some(Paid)));
            paid.data = Some(RawExtension(json!({"gain": {"expectedPercent": expected_percent}})));
            let history = History(vec![revision(1, Some(Loss)), Arc::new(paid)]);
            let until = history.waits_until(Duration::from_secs(10));
            assert_eq!(until, expected.map(Duration::from_secs), "{expected_percent}");
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
            placement.spec.gain = Some(gain(2, None));
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
        let data = data(decisions(&placement, &BTreeMap::new()).remove(0)).unwrap();
        assert!(data.0.to_string().len() <= MAX_BYTES);
        let read: MoveDecision = serde_json::from_value(data.0).unwrap();
        assert_eq!(read.moves.len() + read.more_moves, 500);
    }
}
