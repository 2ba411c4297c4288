//! The devices that a resource of a device plugin may hand out, as far as a pool's selectors select them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crds::{Device, DeviceMatch};

use crate::demand::pods::allocatable;
use crate::numbers::{Exact, floor};
use crate::units::PoolOnNode;

/// The type of partitions of GPUs.
const PARTITION: &str = "GPU Partition";
/// The kinds of devices of plugins.
const KINDS: [&str; 3] = ["fpga", "gpu", "npu"];
/// The type of accelerators whose kind the agent does not know.
const UNKNOWN_KIND: &str = "Accelerator";

/// Label by which NVIDIA's GPU feature discovery reports how partitions are offered: `single`, `mixed` or `none`.
const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// Resources that are not for whole devices: monitoring of all of them, parts of one, partitions.
const NOT_WHOLE: [&str; 5] = ["memory.max", "millicores", "monitoring", "neuroncore", "tiles"];
const PARTITIONS: [&str; 5] = ["cpx_", "dpx_", "mig-", "qpx_", "tpx_"];
/// Words in the names of resources for network interfaces, which network operators offer in the domains of GPUs.
const NETWORK: [&str; 8] = ["hostdev", "ib", "mlnxnics", "nic", "nics", "rdma", "sriov", "vnic"];

/// Drivers of Intel GPUs; the device plugin has a resource for each (`gpu.intel.com/xe`).
const INTEL_DRIVERS: [&str; 2] = ["i915", "xe"];

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
pub(crate) struct Candidates<'a> {
    /// Those that the pool selects.
    pub selected: Vec<&'a Device>,
    /// Others that the same device plugin may hand out.
    pub others: Vec<&'a Device>,
}

impl PoolOnNode<'_> {
    /// The devices that belong to the pool, and others of their kind that may be behind the same resource.
    ///
    /// A GPU with partitions is not a device that a plugin hands out: its partitions are, by a resource of their profile
    /// or mode (`nvidia.com/mig-1g.5gb`, `amd.com/cpx_nps4`), or by that of whole GPUs if no GPU of the node is whole.
    pub(crate) fn candidates(&self, resource: &str) -> Candidates<'_> {
        let all = self.node.topology.map(|topology| topology.spec.devices.as_slice()).unwrap_or_default();
        let parents: BTreeSet<&str> =
            all.iter().filter(|it| it.type_ == PARTITION).filter_map(|it| it.parent.as_deref()).collect();
        let wanted = self.pool.spec.devices.clone().unwrap_or_default();
        let kind = &self.pool.spec.kind;
        let is_of_kind = |device: &&Device| {
            // the kind of an accelerator is unknown to its agent; a pool that selects its vendor or model knows it
            let is_named = wanted.vendor.is_some() || wanted.model.is_some();
            let is_unknown = device.type_ == UNKNOWN_KIND && is_named && matches(&wanted, device);
            kind_of(device) == *kind || is_unknown && KINDS.contains(&kind.as_str())
        };
        let may_hand_out = |device: &&Device| is_behind(resource, device);
        let profile = resource.rsplit('/').next().and_then(|name| name.strip_prefix("mig-"));
        // the plugin adds the suffix to the names of shared resources
        let profile = profile.map(|name| name.strip_suffix(".shared").unwrap_or(name));
        let mode = self.parts_of_mode(resource).filter(|_| !parents.is_empty());
        let of_kind: Vec<&Device> = all.iter().filter(is_of_kind).filter(may_hand_out).collect();
        let (partitioned, whole): (Vec<_>, Vec<_>) =
            of_kind.into_iter().partition(|device| parents.contains(device.id.as_str()));
        let partitions = all.iter().filter(|part| {
            part.type_ == PARTITION && partitioned.iter().any(|gpu| part.parent.as_deref() == Some(&gpu.id))
        });
        let mut candidates: Vec<&Device> = match (profile, mode) {
            (Some(profile), _) if kind == "gpu" => {
                partitions.filter(|part| has_profile(part, profile)).collect()
            }
            (Some(profile), _) => whole.into_iter().filter(|device| has_profile(device, profile)).collect(),
            (None, Some(mode)) => {
                let all_parts = || all.iter().filter(|part| part.type_ == PARTITION);
                let parts = |device: &Device| {
                    let gpu = device.parent.as_ref().filter(|_| device.type_ == PARTITION);
                    gpu.map_or(0, |gpu| all_parts().filter(|part| part.parent.as_ref() == Some(gpu)).count())
                };
                whole.into_iter().chain(partitions).filter(|device| mode.contains(&parts(device))).collect()
            }
            (None, None) if whole.is_empty() && self.offers_partitions_as_gpus() => partitions.collect(),
            (None, None) => whole,
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

    /// How many partitions a GPU has whose mode is that of a resource, such as `amd.com/cpx_nps4`: by AMD's naming strategy `mixed`
    /// the GPUs of a node may have several modes.
    fn parts_of_mode(&self, resource: &str) -> Option<RangeInclusive<usize>> {
        let (mode, _) = resource.strip_prefix("amd.com/")?.split_once("_nps")?;
        let is_of_four = |name: &String| name.starts_with("amd.com/qpx_");
        Some(match mode {
            "spx" => 0..=1,
            "dpx" => 2..=2,
            "tpx" => 3..=3,
            "qpx" => 4..=4,
            // one for each die, of which some models have four
            "cpx" if allocatable(self.node.node).keys().any(is_of_four) => 5..=usize::MAX,
            "cpx" => 4..=usize::MAX,
            _ => return None,
        })
    }

    /// Whether partitions are offered under the name of whole GPUs.
    fn offers_partitions_as_gpus(&self) -> bool {
        let labels = self.node.node.metadata.labels.as_ref();
        if let Some(strategy) = labels.and_then(|labels| labels.get(MIG_STRATEGY)) {
            return strategy == "single";
        }
        let is_partition = |(resource, amount): (&String, &Exact)| {
            let name = resource.rsplit('/').next().unwrap_or_default();
            *amount > Exact::default() && PARTITIONS.iter().any(|part| name.starts_with(part))
        };
        !allocatable(self.node.node).iter().any(is_partition)
    }

    /// Whether the resource hands out other devices, too: then it is unknown which device a pod gets.
    ///
    /// The plugin offers each healthy device as often as it is shared. Other devices have resources of their own if there are such
    /// of the same vendor with enough of them, or are not offered if the number is that of the selected ones.
    pub(crate) fn is_ambiguous(&self, candidates: &Candidates<'_>, resource: &str) -> bool {
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
        let sum = amounts.iter().copied().fold(0, u64::saturating_add);
        let have_own = match amounts[..] {
            // each is offered as often as it is shared
            [amount] => amount.is_multiple_of(wanted),
            _ => sum >= wanted,
        };
        // all others are behind the resource, or those that the resources beside it do not cover
        let without_own = others - usize::try_from(sum).unwrap_or(usize::MAX).min(others);
        let may_be_behind = |number: usize| number > 0 && total.is_multiple_of(own + number);
        !total.is_multiple_of(own) || !have_own && [others, without_own].into_iter().any(may_be_behind)
    }

    /// What the node has that the plugin may hand out, and what the pool wants instead: `it has 4 GPU nvidia A100, ...`.
    pub(crate) fn mismatch(&self, resource: &str) -> String {
        let devices = self.node.topology.map(|topology| topology.spec.devices.as_slice()).unwrap_or_default();
        let wanted = self.pool.spec.devices.clone().unwrap_or_default();
        let mut found = BTreeMap::<String, usize>::new();
        let is_unnamed = wanted.vendor.is_none() && wanted.model.is_none();
        let mut is_unknown = false;
        let mut kinds = BTreeSet::new();
        for device in devices.iter().filter(|device| is_accelerator(device) && is_behind(resource, device)) {
            let names = [Some(&device.type_), device.vendor.as_ref(), device.model.as_ref()];
            let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
            *found.entry(names.join(" ")).or_default() += 1;
            is_unknown |= is_unnamed && device.type_ == UNKNOWN_KIND;
            kinds.insert(if device.type_ == PARTITION { "gpu".to_owned() } else { kind_of(device) });
        }
        let found: Vec<String> = found.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let found =
            if found.is_empty() { "none that its plugin hands out".to_owned() } else { found.join(", ") };
        let named = [("vendor", &wanted.vendor), ("model", &wanted.model)];
        let named: String = named
            .into_iter()
            .filter_map(|(what, name)| Some(format!(", {what} {}", name.as_ref()?)))
            .collect();
        let kinds: Vec<String> = kinds.into_iter().filter(|kind| KINDS.contains(&kind.as_str())).collect();
        let hint = if !KINDS.contains(&self.pool.spec.kind.as_str()) && !kinds.is_empty() {
            format!("; set spec.kind to {}, the kind of these devices", kinds.join(" or "))
        } else if is_unknown {
            format!("; a pool of devices of type {UNKNOWN_KIND} names their vendor or model")
        } else {
            String::new()
        };
        format!("it has {found}, and the pool wants kind {}{named}{hint}", self.pool.spec.kind)
    }
}

/// Whether a resource, without its domain, may be that of whole devices.
fn is_of_whole_devices(name: &str) -> bool {
    let name = name.to_lowercase();
    NOT_WHOLE.iter().all(|part| !name.ends_with(part))
        && PARTITIONS.iter().all(|part| !name.starts_with(part))
        && !name.split(|letter: char| !letter.is_ascii_alphabetic()).any(|word| NETWORK.contains(&word))
}

/// The kind of a device: its type in lower case with `-` for spaces.
fn kind_of(device: &Device) -> String {
    device.type_.to_lowercase().replace(' ', "-")
}

/// Whether a device is no memory domain and no network interface.
fn is_accelerator(device: &Device) -> bool {
    ["GPU", "FPGA", "NPU", PARTITION, UNKNOWN_KIND].contains(&device.type_.as_str())
}

/// Whether the plugin of a resource may hand out a device: not if the resource is for another vendor or another driver.
fn is_behind(resource: &str, device: &Device) -> bool {
    let driver = resource.strip_prefix("gpu.intel.com/").filter(|name| INTEL_DRIVERS.contains(name));
    let given = device.driver.as_ref().and_then(|driver| driver.split(' ').next());
    let given = given.filter(|name| INTEL_DRIVERS.contains(name));
    is_of_vendor(resource, device) && driver.is_none_or(|driver| given.is_none_or(|given| given == driver))
}

/// Whether the domain of a resource is not that of another vendor than the device's.
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
