//! The elective moves of a plan: those that are not necessary, with what each of them gains. Pure.

use std::collections::{BTreeMap, BTreeSet};

use control::{ElectiveMoves, GateRule, PlanReason, necessary_part};
use crds::{ActorApplication, DecidedGain, MicroTime};
use placement::{Plan, Snapshot};
use world::{AssembledSnapshot, Policy};

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

/// What elective moves of a plan must gain, and the actors that make none.
#[derive(Clone, Debug)]
pub struct ElectiveGate {
    least: f64,
    /// Groups whose actors move only when they must.
    stays_put: BTreeSet<String>,
}

impl ElectiveGate {
    /// The gate for the plans of an application that are made for this reason.
    pub fn of(
        why: PlanReason,
        world: &AssembledSnapshot,
        policy: &Policy,
        application: Option<&ActorApplication>,
    ) -> Self {
        let least = match why {
            // Its moves are judged by the windows.
            PlanReason::Load => 0.0,
            // Without a Placement the running pods are the decision.
            PlanReason::Undecided => f64::INFINITY,
            // Load is no reason to move an actor that need not move.
            _ if world.is_judged_by_windows() && !why.is_requested() => f64::INFINITY,
            _ => policy.min_gain(),
        };
        Self { least, stays_put: application.map(world::groups_that_stay).unwrap_or_default() }
    }

    /// A gate for this least gain, for actors that may all move.
    #[cfg(test)]
    pub fn with_least(least: f64) -> Self {
        Self { least, stays_put: BTreeSet::new() }
    }

    /// The plan with its elective moves if they gain enough together, except those of actors that move only when they must. The
    /// caller renews its judgement.
    ///
    /// `snapshot` includes the constraints that the policy derives. Rates of a manifest are the same in every window.
    #[must_use]
    pub fn apply(&self, snapshot: &Snapshot, plan: Plan) -> Plan {
        let plan = control::require_gain(snapshot, &[], plan, self.least);
        control::hold_actors(snapshot, plan, |group| self.stays_put.contains(group))
    }
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use world::{ApplicationKey, Index, Objects};

    use super::*;

    const APPLICATION: &str = r"{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: app, namespace: ns}, spec: {
      actors: [{name: cam, arrivals: 1/s, implementations: [
        {kind: cpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}}";

    #[test]
    fn nothing_moves_for_load_in_plans_for_other_reasons_while_counters_are_unavailable() {
        let (policy, key) =
            (Policy::builtin("p"), ApplicationKey { namespace: "ns".to_owned(), name: "app".to_owned() });
        let mut objects = Objects::default();
        objects.read("test", APPLICATION).unwrap();
        for (reads_counters, why, expected) in [
            (false, PlanReason::CapacityFreed, policy.min_gain()),
            (true, PlanReason::CapacityFreed, f64::INFINITY),
            (true, PlanReason::ResumeSearch, f64::INFINITY),
            (true, PlanReason::Opening, f64::INFINITY),
            (true, PlanReason::Infeasible, f64::INFINITY),
            (true, PlanReason::Manifest, policy.min_gain()),
            (false, PlanReason::Undecided, f64::INFINITY),
            (true, PlanReason::Load, 0.0),
        ] {
            let mut index = Index::of(&objects);
            if reads_counters {
                index.expect_counters();
            }
            let world = world::assemble(&index, &key, &policy, Timestamp::UNIX_EPOCH).unwrap();
            let gate = ElectiveGate::of(why, &world, &policy, None);
            assert_eq!(gate.least.to_bits(), expected.to_bits(), "{why} {reads_counters}");
        }
    }
}
