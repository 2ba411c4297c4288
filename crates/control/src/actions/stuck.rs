//! Moves that are blocked by a pod that cannot be evicted, and would never proceed.

use std::collections::BTreeMap;

use crate::actions::blocked_on::BlockedOn;
use crate::backoff::refusals::RefusedPod;
use crate::model::{Decision, ObservedState, Pod};

/// Whether a pod holds what the other actor is blocked on.
pub(crate) fn is_in_the_way(pod: &Pod, wait: &BlockedOn) -> bool {
    match wait {
        BlockedOn::Unit(unit) => pod.unit.as_ref() == Some(unit),
        BlockedOn::Resource { node, .. } => {
            let at = pod.unit.as_deref().and_then(|unit| unit.rsplit_once('/'));
            at.is_some_and(|(at, _)| at == node)
        }
        _ => false,
    }
}

/// Stopped actors that are blocked by a pod in `kept`, whose eviction failed for the given reason. They count as
/// refused there and get another placement, possibly their former one.
///
/// For example, a disruption budget permits one of two evictions: the first half of a swap begins and the second never
/// can.
pub fn stuck_moves(
    decision: &Decision,
    observed: &ObservedState,
    waiting: &BTreeMap<String, BlockedOn>,
    kept: &BTreeMap<String, String>,
) -> Vec<RefusedPod> {
    let pod = |actor: &str| observed.instances.get(actor).and_then(|instance| instance.pod.as_ref());
    let refused = waiting.iter().filter(|(actor, _)| pod(actor).is_none()).filter_map(|(actor, wait)| {
        let in_the_way =
            |(other, _): &(&String, &String)| pod(other).is_some_and(|pod| is_in_the_way(pod, wait));
        let (other, why) = kept.iter().find(in_the_way)?;
        let unit = decision.places.get(actor)?;
        let (node, _) = unit.rsplit_once('/')?;
        let reason = format!("{wait} by {other}, which may not be evicted: {why}");
        Some(RefusedPod { actor: actor.clone(), unit: unit.clone(), node: node.to_owned(), reason })
    });
    refused.collect()
}
