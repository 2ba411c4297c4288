//! Converts the kubelet's response to allocations. Pure.

use std::collections::BTreeMap;

use crds::Allocation;

use super::NodeAllocations;
use crate::podresources::wire::{ContainerResources, PodResources};

/// The maximum number of allocations of a NodeTopology.
const MAX_ALLOCATIONS: usize = 1024;
/// The maximum number of ids per allocation, and their maximum length in bytes.
const MAX_IDS: usize = 1024;
const MAX_ID_LENGTH: usize = 256;
/// The maximum number of ids in total: a NodeTopology must fit into one API object.
const MAX_TOTAL_IDS: usize = 8192;

/// The resource name of exclusive CPUs.
pub const CPU: &str = "cpu";

/// Whether a resource is a type of memory, whose ids are NUMA domains.
pub fn is_memory(resource: &str) -> bool {
    resource == "memory" || resource.starts_with("hugepages-")
}

/// A resource of a container, and the claim through which it was allocated.
type ResourceKey = (String, Option<String>);

/// The allocations of pods with a known uid; sorted.
pub fn allocations<'a>(
    list: &[PodResources],
    uid: impl Fn(&(String, String)) -> Option<&'a String>,
) -> NodeAllocations {
    let mut result = NodeAllocations::default();
    for pod in list {
        let Some(pod_uid) = uid(&(pod.namespace.clone(), pod.name.clone())) else { continue };
        for container in &pod.containers {
            for ((resource, claim), mut device_ids) in by_resource(container) {
                // CPU ids are numbers, and are sorted as such.
                device_ids.sort_by_cached_key(|id| (id.parse::<u64>().ok(), id.clone()));
                device_ids.dedup();
                let before = device_ids.len();
                device_ids.retain(|id| (1..=MAX_ID_LENGTH).contains(&id.len()));
                device_ids.truncate(MAX_IDS);
                result.dropped += before - device_ids.len();
                result.list.push(Allocation {
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    pod_uid: pod_uid.clone(),
                    container: container.name.clone(),
                    resource,
                    claim,
                    device_ids,
                });
            }
        }
    }
    result.list.retain(fits);
    result.list.sort();
    result.dropped += result.list.len().saturating_sub(MAX_ALLOCATIONS);
    result.list.truncate(MAX_ALLOCATIONS);
    let mut remaining = MAX_TOTAL_IDS;
    for allocation in &mut result.list {
        let kept = allocation.device_ids.len().min(remaining);
        result.dropped += allocation.device_ids.len() - kept;
        allocation.device_ids.truncate(kept);
        remaining -= kept;
    }
    result.list.retain(|allocation| !allocation.device_ids.is_empty());
    result
}

/// Whether the schema accepts an allocation. Only a broken kubelet reports names that Kubernetes itself rejects.
fn fits(allocation: &Allocation) -> bool {
    let names = [(&allocation.container, 63), (&allocation.resource, 317)];
    let claim_fits = allocation.claim.as_ref().is_none_or(|claim| claim.len() <= 317);
    !allocation.device_ids.is_empty()
        && claim_fits
        && names.iter().all(|(name, max)| (1..=*max).contains(&name.len()))
}

/// The allocations of a container, by resource.
fn by_resource(container: &ContainerResources) -> BTreeMap<ResourceKey, Vec<String>> {
    let mut allocated = BTreeMap::<ResourceKey, Vec<String>>::new();
    for devices in &container.devices {
        let ids = allocated.entry((devices.resource_name.clone(), None)).or_default();
        ids.extend(devices.device_ids.iter().cloned());
    }
    if !container.cpu_ids.is_empty() {
        let ids = allocated.entry((CPU.to_owned(), None)).or_default();
        ids.extend(container.cpu_ids.iter().map(ToString::to_string));
    }
    for memory in &container.memory {
        let ids = allocated.entry((memory.memory_type.clone(), None)).or_default();
        let domains = memory.topology.iter().flat_map(|topology| &topology.nodes);
        ids.extend(domains.map(|domain| format!("numa-{}", domain.id)));
    }
    for claim in &container.dynamic_resources {
        let name = format!("{}/{}", claim.claim_namespace, claim.claim_name);
        for device in &claim.claim_resources {
            let ids = allocated.entry((device.driver_name.clone(), Some(name.clone()))).or_default();
            ids.push(format!("{}/{}", device.pool_name, device.device_name));
        }
    }
    allocated
}
