//! Rolling updates: a few pods at a time, those that are not ready first.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Decision, DesiredState, ObservedState, Pod, PodPhase};

/// Progress of a rollout, over all desired actors.
pub(crate) struct Update {
    /// Not ready, though placed or with a pod.
    unavailable: u64,
    /// Neither placed nor with a pod, by group. They delay the rollout of their own group only: the new template may be why they
    /// have no place, and other groups' actors may be what they wait for.
    unplaced: BTreeMap<usize, u64>,
    /// Placed without a pod, or with a terminating one.
    missing: u64,
    /// Pods of the newest template that are not ready.
    not_ready_yet: u64,
    /// How many may be unavailable during the rollout.
    max_unavailable: u64,
}

impl Update {
    pub fn new(desired: &DesiredState, decision: &Decision, observed: &ObservedState) -> Self {
        let pods = || {
            desired.actors.iter().map(|actor| {
                let pod = observed.instances.get(&actor.name).and_then(|instance| instance.pod.as_ref());
                (pod, decision.places.contains_key(&actor.name))
            })
        };
        let count = |those: &dyn Fn(Option<&Pod>, bool) -> bool| {
            u64::try_from(pods().filter(|(pod, has_place)| those(*pod, *has_place)).count())
                .unwrap_or(u64::MAX)
        };
        let mut unplaced: BTreeMap<usize, u64> = BTreeMap::new();
        for (actor, (pod, has_place)) in desired.actors.iter().zip(pods()) {
            if pod.is_none() && !has_place {
                *unplaced.entry(actor.group).or_default() += 1;
            }
        }
        let is_going = |pod: &Pod| pod.phase == PodPhase::Terminating;
        Self {
            unavailable: count(&|pod, has_place| pod.map_or(has_place, |pod| !pod.is_serving())),
            unplaced,
            // An unplaced actor without a pod is not counted: it must not delay the replacement of failing pods.
            missing: count(&|pod, has_place| pod.map_or(has_place, is_going)),
            not_ready_yet: count(&|pod, _| {
                pod.is_some_and(|pod| !pod.outdated && !pod.is_serving() && !is_going(pod))
            }),
            max_unavailable: desired.max_unavailable,
        }
    }

    /// Actors whose pods are replaced now; `stays` tells which can restart in place.
    ///
    /// Pods that are not ready come first, limited only by the number of new pods that are not ready yet. A template
    /// that never becomes ready takes down no more than that.
    pub fn pods_to_replace(
        &self,
        desired: &DesiredState,
        observed: &ObservedState,
        stays: impl Fn(&str, &Pod) -> bool,
    ) -> BTreeSet<String> {
        let (mut down, mut tried) = (self.unavailable, self.not_ready_yet + self.missing);
        let outdated = |serves: bool| {
            let pods = desired.actors.iter().filter_map(move |actor| {
                let pod = observed.instances.get(&actor.name)?.pod.as_ref()?;
                (pod.outdated && pod.phase != PodPhase::Terminating && pod.is_serving() == serves)
                    .then_some((actor, pod))
            });
            pods.filter(|(actor, pod)| stays(&actor.name, pod))
        };
        let mut turns = BTreeSet::new();
        for (actor, _) in outdated(false) {
            if tried < self.max_unavailable {
                tried += 1;
                turns.insert(actor.name.clone());
            }
        }
        for (actor, _) in outdated(true) {
            let unplaced = self.unplaced.get(&actor.group).copied().unwrap_or(0);
            if down + unplaced < self.max_unavailable {
                down += 1;
                turns.insert(actor.name.clone());
            }
        }
        turns
    }

    /// Whether the next start uses the newest template rather than the last one that became ready.
    pub fn starts_newest(&mut self) -> bool {
        let may = self.not_ready_yet < self.max_unavailable;
        self.not_ready_yet += u64::from(may);
        may
    }
}
