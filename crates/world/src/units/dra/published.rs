//! Pools of DRA drivers, from their `ResourceSlice`s.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{Counter, CounterSet, Device, ResourceSlice};

use crate::numbers::{Exact, quantity};
use crate::units::dra::slices::{DeviceAvailability, SliceDevice, read};

/// Stands for the node of devices of several nodes.
const SEVERAL: &str = "";

/// Why kube-scheduler allocates no device of a driver's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolFault {
    /// Slices of the newest generation are missing: a driver replaces the slices of a pool one by one.
    Incomplete(String),
    /// The slices contradict each other.
    Invalid(String),
}

/// What of a pool counts on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// The generation of its devices there.
    pub generation: i64,
    /// Why none of its devices is allocated.
    pub fault: Option<PoolFault>,
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
    /// What counts for the devices of a node, by its name; that of devices of several nodes is empty.
    pub on_nodes: BTreeMap<String, PoolState>,
}

impl PublishedPool {
    /// Why none of its devices of a node is allocated.
    pub fn fault_on(&self, node: &str) -> Option<&PoolFault> {
        self.on_nodes.get(node)?.fault.as_ref()
    }
}

/// The pool of a driver as kube-scheduler sees it from each node, from all its slices.
///
/// While the newest generation is incomplete, the pool has the devices of the newest complete one, or what is known: running actors
/// stay on them.
pub fn published_pool<'a>(slices: impl IntoIterator<Item = &'a ResourceSlice>) -> PublishedPool {
    let slices: Vec<&ResourceSlice> = slices.into_iter().collect();
    let mut nodes = BTreeSet::from([SEVERAL]);
    for slice in &slices {
        nodes.extend(slice.spec.node_name.as_deref());
        nodes.extend(slice.spec.devices.iter().flatten().filter_map(|device| device.node_name.as_deref()));
    }
    let mut pool = PublishedPool::default();
    for node in nodes {
        let Some((of_node, state)) = on_node(&slices, node) else { continue };
        let all = devices(&of_node).map(|(slice, device)| read(slice, device));
        for mut device in all.filter(|device| device.node == node) {
            if state.fault.is_some() {
                device.availability = device.availability.max(DeviceAvailability::Withheld);
            }
            let known = if node == SEVERAL { &mut pool.of_several_nodes } else { &mut pool.devices };
            known.push(device);
        }
        if node == SEVERAL {
            pool.counters = counters(&of_node);
        }
        pool.on_nodes.insert(node.to_owned(), state);
    }
    for known in [&mut pool.devices, &mut pool.of_several_nodes] {
        known.sort_by(|a, b| (&a.key, &a.node).cmp(&(&b.key, &b.node)));
        known.dedup_by(|a, b| (&a.key, &a.node) == (&b.key, &b.node));
    }
    pool
}

/// The slices that count on a node, as in `GatherPools` of kube-scheduler; `None` if only other nodes have the newest generation.
fn on_node<'a>(slices: &[&'a ResourceSlice], node: &str) -> Option<(Vec<&'a ResourceSlice>, PoolState)> {
    let mut generations = BTreeMap::<i64, Vec<&ResourceSlice>>::new();
    for slice in slices.iter().copied().filter(|slice| is_relevant(slice, node)) {
        generations.entry(slice.spec.pool.generation).or_default().push(slice);
    }
    let of_all = |generation: i64| -> Vec<&'a ResourceSlice> {
        slices.iter().copied().filter(|slice| slice.spec.pool.generation == generation).collect()
    };
    let wanted = |of_node: &[&ResourceSlice]| {
        of_node.iter().map(|slice| slice.spec.pool.resource_slice_count).max().unwrap_or_default()
    };
    let has_wanted = |some: &[&ResourceSlice], of_node: &[&ResourceSlice]| {
        i64::try_from(some.len()) == Ok(wanted(of_node))
    };
    let (&newest, of_newest) = generations.last_key_value()?;
    let is_complete_there = has_wanted(of_newest, of_newest);
    if !is_complete_there && slices.iter().any(|slice| slice.spec.pool.generation > newest) {
        return None;
    }
    let is_complete = |generation: i64, of_node: &[&ResourceSlice]| {
        has_wanted(of_node, of_node) || has_wanted(&of_all(generation), of_node)
    };
    if is_complete(newest, of_newest) {
        let all = if is_complete_there { of_newest.clone() } else { of_all(newest) };
        let fault = contradiction(of_newest, &all, node).err().map(PoolFault::Invalid);
        return Some((of_newest.clone(), PoolState { generation: newest, fault }));
    }
    let (count, wanted) = (of_all(newest).len(), wanted(of_newest));
    let fault = Some(PoolFault::Incomplete(format!("{count} of {wanted} slices of generation {newest}")));
    let complete = generations.iter().rev().find(|(generation, of_node)| is_complete(**generation, of_node));
    let (&generation, of_node) = complete.unwrap_or((&newest, of_newest));
    Some((of_node.clone(), PoolState { generation, fault }))
}

/// Whether a slice counts on a node. Those of selected nodes count for devices of several nodes only.
fn is_relevant(slice: &ResourceSlice, node: &str) -> bool {
    let spec = &slice.spec;
    let is_of = |name: Option<&String>, all: Option<bool>| {
        name.is_some_and(|name| name == node) || name.is_none() && all == Some(true)
    };
    node == SEVERAL
        || spec.shared_counters.as_ref().is_some_and(|sets| !sets.is_empty())
        || is_of(spec.node_name.as_ref(), spec.all_nodes)
        || spec.per_device_node_selection == Some(true)
            && spec.devices.iter().flatten().any(|it| is_of(it.node_name.as_ref(), it.all_nodes))
}

fn counters(slices: &[&ResourceSlice]) -> BTreeMap<(String, String), Exact> {
    let amounts = |set: &CounterSet| {
        let amount = |(name, it): (&String, &Counter)| {
            Some(((set.name.clone(), name.clone()), quantity(&it.value.0).ok()?))
        };
        set.counters.iter().filter_map(amount).collect::<Vec<_>>()
    };
    sets(slices).flat_map(amounts).collect()
}

fn sets<'a>(slices: &[&'a ResourceSlice]) -> impl Iterator<Item = &'a CounterSet> {
    slices.iter().flat_map(|slice| slice.spec.shared_counters.iter().flatten())
}

fn devices<'a>(slices: &[&'a ResourceSlice]) -> impl Iterator<Item = (&'a ResourceSlice, &'a Device)> {
    slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten().map(|device| (*slice, device)))
}

/// What kube-scheduler checks of a pool before it allocates its devices: of the slices of a node, and of all.
fn contradiction(of_node: &[&ResourceSlice], all: &[&ResourceSlice], node: &str) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (slice, device) in devices(of_node) {
        // Which nodes share a slice of several nodes is unknown.
        let own = device.node_name.as_ref().or(slice.spec.node_name.as_ref()).filter(|_| node == SEVERAL);
        if !names.insert((own, &device.name)) {
            return Err(format!("duplicate device name {}", device.name));
        }
    }
    let mut known = BTreeMap::new();
    for set in sets(of_node) {
        if known.insert(&set.name, &set.counters).is_some() {
            return Err(format!("duplicate counter set name {}", set.name));
        }
    }
    for used in devices(all).flat_map(|(_, device)| device.consumes_counters.iter().flatten()) {
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
        let fault = pool.on_nodes.values().find_map(|state| state.fault.clone());
        let fault = fault.map_or(String::new(), |fault| format!(" {fault:?}"));
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
    fn a_node_sees_its_own_slices_of_a_pool() {
        let on = |node: &str, generation: i64, count: i64, device: &str| {
            slice(generation, count, &format!("nodeName: {node}, devices: [{{name: {device}}}]"))
        };
        let each =
            |devices: &str| slice(1, 2, &format!("perDeviceNodeSelection: true, devices: [{devices}]"));
        for (slices, expected) in [
            // complete for each node
            ([on("n0", 1, 1, "a"), on("n1", 1, 1, "b")], "a b"),
            // another node has a newer generation
            ([on("n0", 1, 2, "a"), on("n1", 2, 1, "b")], "b"),
            ([on("n0", 1, 1, "a"), on("n1", 2, 1, "b")], "a b"),
            // both slices have a device of n0, and one of the same name; n1 sees only the second
            (
                [each("{name: a, nodeName: n0}"), each("{name: a, nodeName: n1}, {name: b, nodeName: n0}")],
                "a! a b! Invalid(\"duplicate device name a\")",
            ),
        ] {
            let found = shown(&slices);
            let found =
                found.strip_suffix(" Incomplete(\"2 of 1 slices of generation 1\")").unwrap_or(&found);
            assert_eq!(found, expected);
        }
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
