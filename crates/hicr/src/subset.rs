//! Whether devices have what other devices ask for: a maximum bipartite matching.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use super::Device;

/// Whether each wanted device can have a device of its own that contains it.
pub fn is_subset(have: &[Device], wanted: &[Device]) -> bool {
    if wanted.len() > have.len() {
        return false;
    }
    let haves: Vec<Needs> = have.iter().map(Needs::of).collect();
    let wants: Vec<Needs> = wanted.iter().map(Needs::of).collect();
    let candidates: Vec<Vec<usize>> = wants
        .iter()
        .map(|want| (0..haves.len()).filter(|&index| haves[index].contain(want)).collect())
        .collect();
    let mut taken_by = vec![None; have.len()];
    (0..wanted.len()).all(|want| place(want, &candidates, &mut taken_by))
}

/// Finds a device for one more wanted device, moving those that have one where that makes room.
///
/// By breadth, not by recursion: a chain of moves may be as long as the list.
fn place(want: usize, candidates: &[Vec<usize>], taken_by: &mut [Option<usize>]) -> bool {
    // For each device that was reached, the wanted device from which.
    let mut reached_from = BTreeMap::<usize, usize>::new();
    let mut queue = VecDeque::from([want]);
    while let Some(asking) = queue.pop_front() {
        for &device in &candidates[asking] {
            if reached_from.contains_key(&device) {
                continue;
            }
            reached_from.insert(device, asking);
            let Some(owner) = taken_by[device] else {
                let mut device = device;
                loop {
                    let asking = reached_from[&device];
                    let before = taken_by.iter().position(|owner| *owner == Some(asking));
                    taken_by[device] = Some(asking);
                    let Some(before) = before else { return true };
                    device = before;
                }
            };
            queue.push_back(owner);
        }
    }
    false
}

/// What a device has or asks for, in a form that is quick to compare.
struct Needs<'a> {
    type_: &'a str,
    /// How many compute resources of each type.
    resources: BTreeMap<&'a str, u64>,
    /// The sizes of the memory spaces of each type, largest first.
    spaces: BTreeMap<&'a str, Vec<u64>>,
}

impl<'a> Needs<'a> {
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

    /// Whether this is enough for `want`. Largest with largest is the best that can be done for memory spaces.
    fn contain(&self, want: &Self) -> bool {
        self.type_ == want.type_
            && want.resources.iter().all(|(type_, count)| self.resources.get(type_).unwrap_or(&0) >= count)
            && want.spaces.iter().all(|(type_, sizes)| {
                let have = self.spaces.get(type_).map(Vec::as_slice).unwrap_or_default();
                have.len() >= sizes.len() && sizes.iter().zip(have).all(|(want, have)| have >= want)
            })
    }
}
