//! Converts the kubelet's answer to allocations. Pure.

use std::collections::BTreeMap;

use crds::Allocation;

use super::Known;
use crate::podresources::wire::{ContainerResources, PodResources};

/// The maximum number of allocations of a NodeTopology.
const MOST: usize = 1024;
/// The maximum number of ids per allocation, and their maximum length.
const MOST_IDS: usize = 1024;
const LONGEST_ID: usize = 256;
/// The maximum number of ids in total: a NodeTopology has to fit into one API object.
const MOST_IDS_OF_ALL: usize = 8192;

/// The resource name of exclusive CPUs.
pub const CPU: &str = "cpu";

/// Whether a resource is a type of memory, whose ids are NUMA domains.
pub fn is_memory(resource: &str) -> bool {
    resource == "memory" || resource.starts_with("hugepages-")
}

/// A container's holdings of one resource: the resource, and the claim through which it was allocated.
type Held = (String, Option<String>);

/// The allocations of pods with a known uid; sorted.
pub fn allocations<'a>(
    list: &[PodResources],
    uid: impl Fn(&(String, String)) -> Option<&'a String>,
) -> Known {
    let mut known = Known::default();
    for pod in list {
        let Some(pod_uid) = uid(&(pod.namespace.clone(), pod.name.clone())) else { continue };
        for container in &pod.containers {
            for ((resource, claim), mut device_ids) in held(container) {
                // A CPU is a number, and is sorted as one.
                device_ids.sort_by_cached_key(|id| (id.parse::<u64>().ok(), id.clone()));
                device_ids.dedup();
                let before = device_ids.len();
                device_ids.retain(|id| (1..=LONGEST_ID).contains(&id.len()));
                device_ids.truncate(MOST_IDS);
                known.left_out += before - device_ids.len();
                known.list.push(Allocation {
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
    known.list.retain(fits);
    known.list.sort();
    known.left_out += known.list.len().saturating_sub(MOST);
    known.list.truncate(MOST);
    let mut room = MOST_IDS_OF_ALL;
    for allocation in &mut known.list {
        let kept = allocation.device_ids.len().min(room);
        known.left_out += allocation.device_ids.len() - kept;
        allocation.device_ids.truncate(kept);
        room -= kept;
    }
    known.list.retain(|allocation| !allocation.device_ids.is_empty());
    known
}

/// Whether the schema accepts it: only a broken kubelet reports names that Kubernetes itself would refuse.
fn fits(allocation: &Allocation) -> bool {
    let names = [(&allocation.container, 63), (&allocation.resource, 317)];
    let claim_fits = allocation.claim.as_ref().is_none_or(|claim| claim.len() <= 317);
    !allocation.device_ids.is_empty()
        && claim_fits
        && names.iter().all(|(name, most)| (1..=*most).contains(&name.len()))
}

/// The allocations of a container, by resource.
fn held(container: &ContainerResources) -> BTreeMap<Held, Vec<String>> {
    let mut held = BTreeMap::<Held, Vec<String>>::new();
    for devices in &container.devices {
        let ids = held.entry((devices.resource_name.clone(), None)).or_default();
        ids.extend(devices.device_ids.iter().cloned());
    }
    if !container.cpu_ids.is_empty() {
        let ids = held.entry((CPU.to_owned(), None)).or_default();
        ids.extend(container.cpu_ids.iter().map(ToString::to_string));
    }
    for memory in &container.memory {
        let ids = held.entry((memory.memory_type.clone(), None)).or_default();
        let domains = memory.topology.iter().flat_map(|topology| &topology.nodes);
        ids.extend(domains.map(|domain| format!("numa-{}", domain.id)));
    }
    for claim in &container.dynamic_resources {
        let name = format!("{}/{}", claim.claim_namespace, claim.claim_name);
        for device in &claim.claim_resources {
            let ids = held.entry((device.driver_name.clone(), Some(name.clone()))).or_default();
            ids.push(format!("{}/{}", device.pool_name, device.device_name));
        }
    }
    held
}
