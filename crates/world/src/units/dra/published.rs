//! Pools of DRA drivers, from their `ResourceSlice`s.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{Counter, CounterSet, ResourceSlice};

use crate::numbers::{Exact, quantity};
use crate::units::dra::slices::{DeviceAvailability, SliceDevice, read};

/// Why kube-scheduler allocates no device of a driver's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolFault {
    /// Slices of the newest generation are missing: a driver replaces the slices of a pool one by one.
    Incomplete(String),
    /// The slices contradict each other.
    Invalid(String),
}

/// What a pool of a driver offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedPool {
    /// Its devices of single nodes, by name.
    pub devices: Vec<SliceDevice>,
    /// Its devices of several nodes, by name.
    pub of_several_nodes: Vec<SliceDevice>,
    /// The amounts of counters that its devices share, by counter set and counter.
    pub counters: BTreeMap<(String, String), Exact>,
    /// Why none of its devices is allocated.
    pub fault: Option<PoolFault>,
}

/// The newest generation of a driver's pool, from all its slices.
///
/// While it is incomplete, the pool has the devices of the newest complete one, or what is known: running actors stay on them.
pub fn published_pool<'a>(slices: impl IntoIterator<Item = &'a ResourceSlice>) -> PublishedPool {
    let mut generations = BTreeMap::<i64, Vec<&ResourceSlice>>::new();
    for slice in slices {
        generations.entry(slice.spec.pool.generation).or_default().push(slice);
    }
    let wanted = |slices: &[&ResourceSlice]| {
        slices.iter().map(|slice| slice.spec.pool.resource_slice_count).max().unwrap_or_default()
    };
    let is_complete = |slices: &[&ResourceSlice]| i64::try_from(slices.len()) == Ok(wanted(slices));
    let Some((generation, newest)) = generations.last_key_value() else { return PublishedPool::default() };
    let complete = generations.values().rev().find(|slices| is_complete(slices));
    let fault = if is_complete(newest) {
        contradiction(newest).err().map(PoolFault::Invalid)
    } else {
        let (count, wanted) = (newest.len(), wanted(newest));
        Some(PoolFault::Incomplete(format!("{count} of {wanted} slices of generation {generation}")))
    };
    let slices = complete.unwrap_or(newest);
    let devices =
        slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten().map(|device| read(slice, device)));
    let mut devices: Vec<SliceDevice> = devices.collect();
    devices.sort_by(|a, b| (&a.key, &a.node).cmp(&(&b.key, &b.node)));
    devices.dedup_by(|a, b| (&a.key, &a.node) == (&b.key, &b.node));
    if fault.is_some() {
        for device in &mut devices {
            device.availability = device.availability.max(DeviceAvailability::Withheld);
        }
    }
    let (devices, of_several_nodes) = devices.into_iter().partition(|device| !device.node.is_empty());
    let amounts = |set: &'a CounterSet| {
        let amount = |(name, it): (&'a String, &'a Counter)| {
            Some(((set.name.clone(), name.clone()), quantity(&it.value.0).ok()?))
        };
        set.counters.iter().filter_map(amount)
    };
    let counters = sets(slices).flat_map(amounts).collect();
    PublishedPool { devices, of_several_nodes, counters, fault }
}

fn sets<'a>(slices: &[&'a ResourceSlice]) -> impl Iterator<Item = &'a CounterSet> {
    slices.iter().flat_map(|slice| slice.spec.shared_counters.iter().flatten())
}

/// What kube-scheduler checks of a pool before it allocates its devices.
fn contradiction(slices: &[&ResourceSlice]) -> Result<(), String> {
    let devices =
        || slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten().map(|device| (*slice, device)));
    let mut names = BTreeSet::new();
    for (slice, device) in devices() {
        // A node sees only its own devices.
        let node = device.node_name.as_ref().or(slice.spec.node_name.as_ref());
        if !names.insert((node, &device.name)) {
            return Err(format!("duplicate device name {}", device.name));
        }
    }
    let mut known = BTreeMap::new();
    for set in sets(slices) {
        if known.insert(&set.name, &set.counters).is_some() {
            return Err(format!("duplicate counter set name {}", set.name));
        }
    }
    for used in devices().flat_map(|(_, device)| device.consumes_counters.iter().flatten()) {
        let Some(counters) = known.get(&used.counter_set) else {
            return Err(format!("counter set {} not found", used.counter_set));
        };
        if let Some(name) = used.counters.keys().find(|name| !counters.contains_key(*name)) {
            return Err(format!("counter {name} not found in counter set {}", used.counter_set));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of a pool: its generation and count, and the rest of its spec.
    fn slice(generation: i64, count: i64, rest: &str) -> ResourceSlice {
        let text = format!(
            "{{metadata: {{name: s}}, spec: {{driver: gpu.example.com, pool: {{name: n0, generation: {generation}, \
             resourceSliceCount: {count}}}, {rest}}}}}"
        );
        serde_yaml::from_str(&text).unwrap()
    }

    fn on_n0(generation: i64, count: i64, devices: &str) -> ResourceSlice {
        slice(generation, count, &format!("nodeName: n0, devices: [{devices}]"))
    }

    /// The names of the devices, `!` for each that is withheld, and the fault.
    fn shown(slices: &[ResourceSlice]) -> String {
        let pool = published_pool(slices);
        let name = |device: &SliceDevice| {
            let mark = if device.availability == DeviceAvailability::Usable { "" } else { "!" };
            format!("{}{mark}", device.key.device)
        };
        let names: Vec<String> = pool.devices.iter().chain(&pool.of_several_nodes).map(name).collect();
        let fault = pool.fault.map_or(String::new(), |fault| format!(" {fault:?}"));
        format!("{}{fault}", names.join(" "))
    }

    #[test]
    fn nothing_is_allocated_while_the_newest_generation_is_incomplete() {
        let old = [on_n0(1, 2, "{name: a}"), on_n0(1, 2, "{name: b}")];
        assert_eq!(shown(&old), "a b");
        let half = [&old[..], &[on_n0(2, 2, "{name: c}")]].concat();
        assert_eq!(shown(&half), "a! b! Incomplete(\"1 of 2 slices of generation 2\")");
        let whole = [&half[..], &[on_n0(2, 2, "{name: d}")]].concat();
        assert_eq!(shown(&whole), "c d");
        assert_eq!(shown(&whole[2..3]), "c! Incomplete(\"1 of 2 slices of generation 2\")");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn devices_of_several_nodes_are_apart() {
        let all = [slice(1, 1, "allNodes: true, devices: [{name: a}]")];
        assert_eq!((published_pool(&all).devices, shown(&all).as_str()), (Vec::new(), "a"));
        let mixed =
            "perDeviceNodeSelection: true, devices: [{name: a, nodeName: n0}, {name: b, allNodes: true}]";
        let found = published_pool(&[slice(1, 1, mixed)]);
        assert_eq!((found.devices.len(), found.of_several_nodes.len()), (1, 1));
    }

    #[test]
    fn pools_that_contradict_themselves_are_invalid() {
        let counters = |set: &str| {
            slice(
                1,
                2,
                &format!("nodeName: n0, sharedCounters: [{{name: {set}, counters: {{m: {{value: '8'}}}}}}]"),
            )
        };
        let uses = |set: &str, counter: &str| {
            on_n0(
                1,
                2,
                &format!(
                    "{{name: a, consumesCounters: [{{counterSet: {set}, counters: {{{counter}: {{value: '1'}}}}}}]}}"
                ),
            )
        };
        let other_node = slice(1, 2, "nodeName: n1, devices: [{name: a}]");
        for (slices, expected) in [
            ([on_n0(1, 2, "{name: a}"), on_n0(1, 2, "{name: a}")], "a! Invalid(\"duplicate device name a\")"),
            ([on_n0(1, 2, "{name: a}"), other_node], "a a"),
            ([counters("s"), counters("s")], " Invalid(\"duplicate counter set name s\")"),
            ([counters("s"), uses("s", "m")], "a"),
            ([counters("s"), uses("t", "m")], "a! Invalid(\"counter set t not found\")"),
            ([counters("s"), uses("s", "n")], "a! Invalid(\"counter n not found in counter set s\")"),
        ] {
            assert_eq!(shown(&slices), expected);
        }
    }
}
