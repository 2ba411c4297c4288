//! Who was stopped for a place that another one holds who may not be evicted: neither would ever move again.

use std::collections::BTreeMap;

use crate::actions::blocked_on::BlockedOn;
use crate::backoff::refusals::RefusedPod;
use crate::model::{Decision, ObservedState, Pod};

/// Whether a pod holds what is waited for.
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

/// Actors without a pod that wait for a place of one of `kept`, by what was said against its eviction: they are refused there, so
/// that they get another place, which may be the one that they had.
///
/// A budget that lets one of two go is enough to stop the first of an exchange, and then none is left to go for the second.
pub fn stuck_moves(
    decision: &Decision,
    seen: &ObservedState,
    waiting: &BTreeMap<String, BlockedOn>,
    kept: &BTreeMap<String, String>,
) -> Vec<RefusedPod> {
    let pod = |actor: &str| seen.instances.get(actor).and_then(|instance| instance.pod.as_ref());
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
