//! The devices that a resource of a device plugin may hand out, as far as a pool's selectors select them.

use std::collections::BTreeSet;

use crds::{Device, DeviceMatch};

use super::PoolOnNode;
use crate::demand::pods::allocatable;
use crate::numbers::{Exact, floor};

/// The type of partitions of GPUs.
const PARTITION: &str = "GPU Partition";

/// Label by which NVIDIA's GPU feature discovery reports how partitions are offered: `single`, `mixed` or `none`.
const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// Resources that are not for whole devices: monitoring of all of them, parts of one, partitions.
const NOT_WHOLE: [&str; 5] = ["memory.max", "millicores", "monitoring", "neuroncore", "tiles"];
const PARTITIONS: [&str; 4] = ["cpx_", "dpx_", "mig-", "qpx_"];

/// Vendors whose device plugins own a domain of resource names.
const DOMAINS: [(&str, &str); 9] = [
    ("amd.com", "amd"),
    ("aws.amazon.com", "amazon"),
    ("google.com", "google"),
    ("gpu.intel.com", "intel"),
    ("habana.ai", "habana"),
    ("huawei.com", "huawei"),
    ("npu.intel.com", "intel"),
    ("nvidia.com", "nvidia"),
    ("qualcomm.com", "qualcomm"),
];

/// The devices of a pool on a node.
pub(super) struct Candidates<'a> {
    /// Those that the pool selects.
    pub selected: Vec<&'a Device>,
    /// Others that the same device plugin may hand out.
    pub others: Vec<&'a Device>,
}

impl PoolOnNode<'_> {
    /// The devices that belong to the pool, and others of their kind that may be behind the same resource.
    ///
    /// A GPU with partitions is not a device that a plugin hands out: its partitions are, by a resource of their profile
    /// (`nvidia.com/mig-1g.5gb`), or by that of whole GPUs if no GPU of the node is whole.
    pub(super) fn candidates(&self, resource: &str) -> Candidates<'_> {
        let all = self.node.topology.map(|topology| topology.spec.devices.as_slice()).unwrap_or_default();
        let parents: BTreeSet<&str> =
            all.iter().filter(|it| it.type_ == PARTITION).filter_map(|it| it.parent.as_deref()).collect();
        let wanted = self.pool.spec.devices.clone().unwrap_or_default();
        let kind = &self.pool.spec.kind;
        let is_of_kind = |device: &&Device| {
            // the kind of an accelerator is unknown to its agent; a pool that selects its vendor or model knows it
            let is_named = wanted.vendor.is_some() || wanted.model.is_some();
            let is_unknown = device.type_ == "Accelerator" && is_named && matches(&wanted, device);
            kind_of(device) == *kind || is_unknown && ["fpga", "gpu", "npu"].contains(&kind.as_str())
        };
        let of_vendor = |device: &&Device| is_of_vendor(resource, device);
        let profile = resource.rsplit('/').next().and_then(|name| name.strip_prefix("mig-"));
        let of_kind: Vec<&Device> = all.iter().filter(is_of_kind).filter(of_vendor).collect();
        let (partitioned, whole): (Vec<_>, Vec<_>) =
            of_kind.into_iter().partition(|device| parents.contains(device.id.as_str()));
        let partitions = all.iter().filter(|part| {
            part.type_ == PARTITION && partitioned.iter().any(|gpu| part.parent.as_deref() == Some(&gpu.id))
        });
        let mut candidates: Vec<&Device> = match profile {
            Some(profile) if kind == "gpu" => partitions.filter(|part| has_profile(part, profile)).collect(),
            Some(profile) => whole.into_iter().filter(|device| has_profile(device, profile)).collect(),
            None if whole.is_empty() && self.offers_partitions_as_gpus() => partitions.collect(),
            None => whole,
        };
        candidates.sort_by(|a, b| (a.numa_node, &a.id).cmp(&(b.numa_node, &b.id)));
        let is_selected = |device: &&Device| {
            let parent = partitioned.iter().find(|gpu| device.parent.as_deref() == Some(&gpu.id));
            matches(&wanted, device) || parent.is_some_and(|gpu| matches(&wanted, gpu))
        };
        let (selected, mut others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(is_selected);
        others.retain(|other| selected.iter().any(|device| device.vendor == other.vendor));
        Candidates { selected, others }
    }

    /// Whether partitions are offered under the name of whole GPUs.
    fn offers_partitions_as_gpus(&self) -> bool {
        let labels = self.node.node.metadata.labels.as_ref();
        if let Some(strategy) = labels.and_then(|labels| labels.get(MIG_STRATEGY)) {
            return strategy == "single";
        }
        let is_partition =
            |(resource, amount): (&String, &Exact)| resource.contains("/mig-") && *amount > Exact::default();
        !allocatable(self.node.node).iter().any(is_partition)
    }

    /// Whether the resource hands out other devices, too: then it is unknown which device a pod gets.
    ///
    /// The plugin offers each healthy device as often as it is shared. Other devices have resources of their own if there are such
    /// of the same vendor with enough of them, or are not offered if the number is that of the selected ones.
    pub(super) fn is_ambiguous(&self, candidates: &Candidates<'_>, resource: &str) -> bool {
        let healthy = |devices: &[&Device]| devices.iter().filter(|it| it.health == crds::Health::Ok).count();
        let (own, others) = (healthy(&candidates.selected), healthy(&candidates.others));
        let resources = allocatable(self.node.node);
        let total = resources.get(resource).map_or(0, |amount| floor(*amount));
        let Ok(total) = usize::try_from(total) else { return false };
        if total == 0 || others == 0 || own == 0 || total == own {
            return false;
        }
        let domain = resource.split('/').next().unwrap_or_default();
        let is_sibling = |name: &String| {
            let last = name.strip_prefix(domain).and_then(|rest| rest.strip_prefix('/'));
            name != resource && last.is_some_and(is_of_whole_devices)
        };
        let amounts = resources.iter().filter(|(name, _)| is_sibling(name)).map(|(_, amount)| floor(*amount));
        let amounts: Vec<u64> = amounts.filter(|amount| *amount > 0).collect();
        let wanted = u64::try_from(others).unwrap_or(u64::MAX);
        let have_own = match amounts[..] {
            // each is offered as often as it is shared
            [amount] => amount.is_multiple_of(wanted),
            _ => amounts.iter().copied().fold(0, u64::saturating_add) >= wanted,
        };
        !total.is_multiple_of(own) || !have_own && total.is_multiple_of(own + others)
    }
}

/// Whether a resource, without its domain, may be that of whole devices.
fn is_of_whole_devices(name: &str) -> bool {
    let name = name.to_lowercase();
    NOT_WHOLE.iter().all(|part| !name.ends_with(part))
        && PARTITIONS.iter().all(|part| !name.starts_with(part))
}

/// The kind of a device: its type in lower case with `-` for spaces.
fn kind_of(device: &Device) -> String {
    device.type_.to_lowercase().replace(' ', "-")
}

/// Whether the plugin of a resource may hand out a device: not if its domain is that of another vendor.
fn is_of_vendor(resource: &str, device: &Device) -> bool {
    let domain = resource.split('/').next().unwrap_or_default();
    let owner = DOMAINS.iter().find(|(known, _)| *known == domain).map(|(_, vendor)| *vendor);
    let vendor = device.vendor.as_deref().unwrap_or_default().to_lowercase();
    let is_known = DOMAINS.iter().any(|(_, known)| *known == vendor);
    device.type_ == "FPGA" || !is_known || owner.is_none_or(|owner| owner == vendor)
}

/// Whether a partition has the profile of a resource, such as `1g.5gb`; its model ends with it. In names of resources `+` is `.`.
fn has_profile(partition: &Device, profile: &str) -> bool {
    let Some(model) = &partition.model else { return true };
    let Some(name) = model.rsplit(' ').next() else { return true };
    !model.contains("MIG") || name.replace('+', ".").eq_ignore_ascii_case(profile)
}

fn matches(wanted: &DeviceMatch, device: &Device) -> bool {
    let same = |wanted: &Option<String>, found: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| found.as_ref().is_some_and(|found| glob(wanted, found)))
    };
    same(&wanted.vendor, &device.vendor) && same(&wanted.model, &device.model)
}

/// Whether a text matches a pattern with `*` wildcards, ignoring case.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
