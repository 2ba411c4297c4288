//! Units of devices among which kube-scheduler chooses, because claims cannot tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::DraDevices;

use crate::numbers::Exact;
use crate::units::PoolOnNode;
use crate::units::dra::claimed_device::{Candidate, Holder, any_device};
use crate::units::dra::counters::{any_choice_of, fits, sharing_groups};
use crate::units::dra::slices::{CounterKey, DeviceKey, DevicePin, SliceDevice, pin};
use crate::units::plugin::slots::{SlotState, slots};
use crate::units::report::PoolReport;
use crate::units::unit::{CordonReason, Unit};

/// A selector that no device satisfies which several claims may share.
const EXCLUSIVE: &str = "!device.allowMultipleAllocations";

/// The devices of a pool on a node that have numbered units.
pub(crate) struct Numbered<'a> {
    pub candidates: Vec<Candidate<'a>>,
    /// Free devices that do not fit beside the others, whichever of them the scheduler chooses.
    pub unfit: usize,
    /// Free devices with shared counters that the scheduler may choose.
    choices: Arc<[DeviceKey]>,
}

impl PoolOnNode<'_> {
    /// Separates devices with a unit of their own from those among which the scheduler chooses.
    ///
    /// A device that shares counters with one of the latter is one of them: which of both fits is then the scheduler's choice. A
    /// device in use keeps its unit.
    pub(crate) fn numbered<'a>(&self, candidates: Vec<Candidate<'a>>) -> (Vec<Candidate<'a>>, Numbered<'a>) {
        let mut uses = BTreeMap::<&str, usize>::new();
        for candidate in &candidates {
            *uses.entry(&candidate.device.key.device).or_default() += 1;
        }
        let is_unnamed = |candidate: &Candidate| match candidate.holder {
            Holder::Own => false,
            Holder::Numbered => true,
            Holder::None | Holder::Other => {
                candidate.pin.is_none() || uses[&*candidate.device.key.device] > 1
            }
        };
        let mut unnamed: Vec<bool> = candidates.iter().map(is_unnamed).collect();
        if unnamed.contains(&true) {
            let devices: Vec<&SliceDevice> = candidates.iter().map(|it| it.device).collect();
            for group in sharing_groups(&devices) {
                if group.iter().any(|at| unnamed[*at]) {
                    for at in group {
                        unnamed[at] |= candidates[at].holder != Holder::Own;
                    }
                }
            }
            // A name that is a number would be the id of two units.
            let is_number = |candidate: &Candidate| candidate.device.key.device.parse::<usize>().is_ok();
            if candidates.iter().any(is_number) {
                for (is_unnamed, candidate) in unnamed.iter_mut().zip(&candidates) {
                    *is_unnamed |= candidate.holder != Holder::Own || is_number(candidate);
                }
            }
        }
        let (numbered, named): (Vec<_>, Vec<_>) =
            candidates.into_iter().zip(unnamed).partition(|(_, is_unnamed)| *is_unnamed);
        let candidates: Vec<Candidate> = numbered.into_iter().map(|(candidate, _)| candidate).collect();
        let free: Vec<&SliceDevice> = candidates
            .iter()
            .filter(|it| it.is_usable() && it.holder == Holder::None)
            .map(|it| it.device)
            .collect();
        let left = self.counters_left(&free);
        let fitting = |group: Vec<usize>| {
            let devices: Vec<&SliceDevice> = group.into_iter().map(|at| free[at]).collect();
            any_choice_of(&devices, &left)
        };
        let unfit = free.len() - sharing_groups(&free).into_iter().map(fitting).sum::<usize>();
        let sharing = free.iter().filter(|device| !device.consumes.is_empty() && fits(device, &left));
        let choices = sharing.map(|device| device.key.clone()).collect();
        (named.into_iter().map(|(candidate, _)| candidate).collect(), Numbered { candidates, unfit, choices })
    }

    /// What allocated devices and those of decided units leave of the counters of these devices.
    fn counters_left(&self, devices: &[&SliceDevice]) -> BTreeMap<CounterKey, Exact> {
        let consumers = devices.iter().filter(|device| !device.consumes.is_empty());
        let pools: BTreeSet<_> =
            consumers.map(|device| (device.key.driver.clone(), device.key.pool.clone())).collect();
        let mut left = BTreeMap::new();
        for (key, pool) in pools.iter().filter_map(|key| self.index.published.pools.get_key_value(key)) {
            for ((set, name), amount) in &pool.counters {
                left.insert((key.0.clone(), key.1.clone(), set.clone(), name.clone()), *amount);
            }
            for device in pool.devices.iter().filter(|device| self.is_taken(device)) {
                for (counter, amount) in device.counters() {
                    *left.entry(counter).or_default() -= amount;
                }
            }
        }
        left
    }

    /// Whether a device is allocated, or its unit in any pool is decided.
    fn is_taken(&self, device: &SliceDevice) -> bool {
        let unit = |pool: &str| format!("{}/{pool}-{}", device.node, device.key.device);
        self.index.published.holders(&device.key).next().is_some()
            || self.index.pools.keys().any(|pool| self.index.decided_on(&unit(pool)) > 0)
    }

    /// Offers the numbered units, whose claims select none of the other devices of the pool.
    pub(crate) fn offer_numbered(
        &self,
        devices: &DraDevices,
        selected: &[&SliceDevice],
        numbered: &Numbered<'_>,
        (lanes, units): (Exact, &mut Vec<Unit>),
    ) {
        let usable: Vec<&Candidate> = numbered.candidates.iter().filter(|it| it.is_usable()).collect();
        if numbered.candidates.is_empty() {
            return;
        }
        let domains: BTreeSet<_> = usable.iter().map(|it| it.numa_node()).collect();
        let numa = usable.first().filter(|_| domains.len() == 1).and_then(|it| it.numa_node());
        let memory_mib = usable.iter().map(|it| it.memory_mib()).min().flatten();
        let mut claim = any_device(devices);
        claim.selectors.extend(numbered.exclusions(devices, selected));
        claim.choices = numbered.choices.clone();
        let unit = |(index, state): (usize, SlotState)| Unit {
            memory_mib,
            claim: Some(claim.clone()),
            cordoned: (state == SlotState::Cordoned).then_some(CordonReason::Overcommitted),
            ..self.unit(index, lanes, Some(1), numa, None)
        };
        let room = usable.len() - numbered.unfit;
        units.extend(slots(&self.node.claims(self.name), room).into_iter().map(unit));
    }
}

impl Numbered<'_> {
    /// Selectors that exclude all other devices that class and pool select on the node, as far as claims can tell them apart.
    fn exclusions(&self, devices: &DraDevices, selected: &[&SliceDevice]) -> Vec<String> {
        let own: BTreeSet<_> = self.candidates.iter().map(|it| &it.device.key).collect();
        let others = selected.iter().copied().filter(|device| !own.contains(&device.key));
        let (shared, others): (Vec<_>, Vec<_>) = others.partition(|it| it.allows_multiple_allocations);
        let pins: Vec<DevicePin> =
            others.iter().filter_map(|device| pin(selected, device, devices.pin_attribute())).collect();
        let no_shared = shared.first().map(|_| EXCLUSIVE.to_owned());
        DevicePin::exclusions(&pins).into_iter().chain(no_shared).collect()
    }

    /// Notes why the units are numbered.
    pub fn note(&self, node: &str, report: &mut PoolReport) {
        let same_name = |it: &&Candidate| {
            self.candidates.iter().filter(|other| other.device.key.device == it.device.key.device).count() > 1
        };
        let unpinned = self.candidates.iter().find(|it| it.pin.is_none());
        // Otherwise each can be identified again, once the actors that use numbered units have left.
        let Some(first) = unpinned.or_else(|| self.candidates.iter().find(same_name)) else { return };
        let message = format!(
            "{node}: no unique attribute or name identifies device {} in the pool, so kube-scheduler chooses among {} \
             devices and their locality is unknown; set resource.dra.pinBy to a unique attribute",
            first.device.key,
            self.candidates.len()
        );
        report.add_note("NotPinnable", message);
    }
}
