//! Whether devices satisfy required devices, by a maximum bipartite matching.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use super::Device;

/// Whether each required device can be matched with a distinct device that contains it.
pub fn is_subset(available: &[Device], required: &[Device]) -> bool {
    if required.len() > available.len() {
        return false;
    }
    let available: Vec<Capacity> = available.iter().map(Capacity::of).collect();
    let required: Vec<Capacity> = required.iter().map(Capacity::of).collect();
    let candidates: Vec<Vec<usize>> = required
        .iter()
        .map(|required| (0..available.len()).filter(|&index| available[index].contains(required)).collect())
        .collect();
    let mut matched = vec![None; available.len()];
    (0..required.len()).all(|index| augment(index, &candidates, &mut matched))
}

/// Finds an augmenting path that matches one more required device.
///
/// Breadth-first, not recursive, because a path can be as long as the list.
fn augment(start: usize, candidates: &[Vec<usize>], matched: &mut [Option<usize>]) -> bool {
    // The predecessor of each reached device.
    let mut reached_from = BTreeMap::<usize, usize>::new();
    let mut queue = VecDeque::from([start]);
    while let Some(required) = queue.pop_front() {
        for &device in &candidates[required] {
            if reached_from.contains_key(&device) {
                continue;
            }
            reached_from.insert(device, required);
            let Some(owner) = matched[device] else {
                let mut device = device;
                loop {
                    let required = reached_from[&device];
                    let previous = matched.iter().position(|owner| *owner == Some(required));
                    matched[device] = Some(required);
                    let Some(previous) = previous else { return true };
                    device = previous;
                }
            };
            queue.push_back(owner);
        }
    }
    false
}

/// The capacity of a device, in a form that is fast to compare.
struct Capacity<'a> {
    type_: &'a str,
    /// The number of compute resources by type.
    resources: BTreeMap<&'a str, u64>,
    /// The sizes of memory spaces by type, largest first.
    spaces: BTreeMap<&'a str, Vec<u64>>,
}

impl<'a> Capacity<'a> {
    fn of(device: &'a Device) -> Self {
        let mut resources = BTreeMap::<&str, u64>::new();
        for resource in &device.compute_resources {
            let count = resources.entry(&resource.type_).or_default();
            *count = count.saturating_add(resource.count);
        }
        let mut spaces = BTreeMap::<&str, Vec<u64>>::new();
        for space in &device.memory_spaces {
            spaces.entry(&space.type_).or_default().push(space.size);
        }
        for sizes in spaces.values_mut() {
            sizes.sort_by_key(|size| Reverse(*size));
        }
        Self { type_: &device.type_, resources, spaces }
    }

    /// Whether this capacity suffices. Pairing memory spaces in order of size is optimal.
    fn contains(&self, required: &Self) -> bool {
        self.type_ == required.type_
            && required
                .resources
                .iter()
                .all(|(type_, count)| self.resources.get(type_).unwrap_or(&0) >= count)
            && required.spaces.iter().all(|(type_, sizes)| {
                let available = self.spaces.get(type_).map(Vec::as_slice).unwrap_or_default();
                available.len() >= sizes.len()
                    && sizes.iter().zip(available).all(|(required, available)| available >= required)
            })
    }
}
