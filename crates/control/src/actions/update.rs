//! Whose turn it is to get the newest template: a few at a time, and those that do not run first.

use std::collections::BTreeSet;

use crate::model::{Decision, DesiredState, ObservedState, Pod, PodPhase};

/// How far an update is, counted over the actors that are wanted.
pub(crate) struct Update {
    /// Not ready, for whatever reason.
    down: u64,
    /// Without a pod where it has a place, or with one that goes.
    between: u64,
    /// With a pod of the newest template that is not ready.
    trying: u64,
    /// How many may be down for the update.
    most: u64,
}

impl Update {
    pub fn new(wanted: &DesiredState, decision: &Decision, seen: &ObservedState) -> Self {
        let pods = || {
            wanted.actors.iter().map(|actor| {
                let pod = seen.instances.get(&actor.name).and_then(|instance| instance.pod.as_ref());
                (pod, decision.places.contains_key(&actor.name))
            })
        };
        let count = |those: &dyn Fn(Option<&Pod>, bool) -> bool| {
            u64::try_from(pods().filter(|(pod, has_place)| those(*pod, *has_place)).count())
                .unwrap_or(u64::MAX)
        };
        let is_going = |pod: &Pod| pod.phase == PodPhase::Terminating;
        Self {
            down: count(&|pod, _| !pod.is_some_and(Pod::is_serving)),
            // Who has neither a place nor a pod tries nothing: pods that hang do not wait for it.
            between: count(&|pod, has_place| pod.map_or(has_place, is_going)),
            trying: count(&|pod, _| {
                pod.is_some_and(|pod| !pod.outdated && !pod.is_serving() && !is_going(pod))
            }),
            most: wanted.max_unavailable,
        }
    }

    /// The actors whose pods make room for ones of the newest template now; `stays` says which could start again there.
    ///
    /// One that does not serve costs nobody anything, so those come first, and are bounded only by how many of the newest
    /// do not serve yet. A template that never becomes ready takes no more than that from an application that ran.
    pub fn turns(
        &self,
        wanted: &DesiredState,
        seen: &ObservedState,
        stays: impl Fn(&str, &Pod) -> bool,
    ) -> BTreeSet<String> {
        let (mut down, mut tried) = (self.down, self.trying + self.between);
        let outdated = |serves: bool| {
            let pods = wanted.actors.iter().filter_map(move |actor| {
                let pod = seen.instances.get(&actor.name)?.pod.as_ref()?;
                (pod.outdated && pod.phase != PodPhase::Terminating && pod.is_serving() == serves)
                    .then_some((actor, pod))
            });
            pods.filter(|(actor, pod)| stays(&actor.name, pod))
        };
        let mut turns = BTreeSet::new();
        for (actor, _) in outdated(false) {
            if tried < self.most {
                tried += 1;
                turns.insert(actor.name.clone());
            }
        }
        for (actor, _) in outdated(true) {
            if down < self.most {
                down += 1;
                turns.insert(actor.name.clone());
            }
        }
        turns
    }

    /// Whether an actor that starts now starts with the newest template; else with the last one that served.
    pub fn starts_newest(&mut self) -> bool {
        let may = self.trying < self.most;
        self.trying += u64::from(may);
        may
    }
}
