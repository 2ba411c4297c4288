//! Units of pools with `resource.dra`: devices of `ResourceSlice`s that actors claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use crds::{DevicePool, DraDevices, Health};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};

use crate::Index;
use crate::numbers::Exact;
use crate::units::dra::claimed_device::{Candidate, Described, Holder, any_device};
use crate::units::dra::numbered::Numbered;
use crate::units::dra::published::PoolFault;
use crate::units::dra::selectors::{DeviceSelector, functions};
use crate::units::dra::slices::{DeviceAvailability, DeviceKey, SliceDevice, pin};
use crate::units::report::{PoolReport, one_line};
use crate::units::unit::{CordonReason, DeviceClaim, Unit};
use crate::units::{PoolClaims, PoolOnNode};

/// Why no node can offer devices of the pool's class, with the type of the condition.
pub(crate) fn class_problem(index: &Index, pool: &DevicePool) -> Option<(&'static str, String)> {
    let devices = pool.spec.resource.as_ref()?.dra.as_ref()?;
    if index.scheduling.is_unserved::<ResourceSlice>() {
        let problem = "the API server does not serve resource.k8s.io/v1: dynamic resource allocation needs Kubernetes 1.34 \
                       or later; use resource.devicePlugin, or upgrade the cluster";
        return Some(("Unsupported", problem.to_owned()));
    }
    let problem = compiled(index, &devices.device_class_name, &devices.selectors).err()?;
    Some(("Invalid", one_line(problem)))
}

/// The selectors of the class and of the pool.
fn compiled(index: &Index, name: &str, of_pool: &[String]) -> Result<Vec<Arc<DeviceSelector>>, String> {
    let Some(class) = index.scheduling.device_classes.get(name) else {
        return Err(format!(
            "spec.resource.dra.deviceClassName: DeviceClass {name} does not exist; create it or correct the name"
        ));
    };
    let of_class = class_selectors(class).map(|text| (text, format!("DeviceClass {name}")));
    let of_pool = of_pool.iter().map(|text| (text, "spec.resource.dra.selectors".to_owned()));
    let mut known = index.selectors.lock().unwrap_or_else(PoisonError::into_inner);
    of_class
        .chain(of_pool)
        .map(|(text, at)| known.get(text).map_err(|e| format!("{at}: {e}; correct it")))
        .collect()
}

fn class_selectors(class: &DeviceClass) -> impl Iterator<Item = &String> {
    let selectors = class.spec.selectors.iter().flatten();
    selectors.filter_map(|selector| Some(&selector.cel.as_ref()?.expression))
}

/// Notes devices of several nodes that the pool selects.
pub(crate) fn note_devices_of_several_nodes(index: &Index, pool: &DevicePool, report: &mut PoolReport) {
    let Some(devices) = pool.spec.resource.as_ref().and_then(|resource| resource.dra.as_ref()) else {
        return;
    };
    let mut all = index.published.pools.values().flat_map(|pool| &pool.of_several_nodes).peekable();
    if all.peek().is_none() {
        return;
    }
    let Ok(selectors) = compiled(index, &devices.device_class_name, &devices.selectors) else { return };
    let functions = functions();
    let is_selected = |device: &&SliceDevice| {
        selectors.iter().all(|selector| selector.selects(device, &functions).unwrap_or(false))
    };
    let selected: Vec<_> = all.filter(is_selected).collect();
    if let Some(first) = selected.first() {
        let note = format!(
            "{} of several nodes (allNodes or nodeSelector) and cannot be used as units",
            devices_are(selected.len(), &first.key)
        );
        report.add_note("MultiNodeDevices", note);
    }
}

/// The beginning of a sentence about so many devices.
fn devices_are(count: usize, first: &DeviceKey) -> String {
    if count == 1 { format!("{first} is") } else { format!("{count} devices, the first is {first}, are") }
}

impl PoolOnNode<'_> {
    /// The devices of claims that the pool requests.
    pub(crate) fn dra(&self) -> Option<&DraDevices> {
        self.pool.spec.resource.as_ref()?.dra.as_ref()
    }

    /// One unit for each device that its claim can select, or numbered units if devices cannot be told apart.
    pub(crate) fn offer_claimed(
        &self,
        devices: &DraDevices,
        claims: &mut PoolClaims,
        report: &mut PoolReport,
        units: &mut Vec<Unit>,
    ) {
        let all: Vec<&SliceDevice> = self.index.published.on_node(self.node.name).collect();
        let selected = match self.selected(devices, &all) {
            Ok(selected) => selected,
            Err(problem) => {
                // A problem of all nodes is the pool's.
                if let Some(problem) = problem {
                    report.add_problem("Invalid", format!("{}: {problem}", self.node.name));
                }
                units.extend(self.in_use(Some(&any_device(devices))));
                return;
            }
        };
        self.note_faults(&selected, report);
        let (shared, exclusive): (Vec<_>, Vec<_>) =
            selected.iter().copied().partition(|device| device.allows_multiple_allocations);
        self.note_shared(&shared, report);
        let exclusive = self.unclaimed(exclusive, &all, claims, report);
        if exclusive.is_empty() {
            return;
        }
        let mut candidates = Vec::new();
        for device in exclusive {
            let pin = pin(&selected, device, devices.pin_attribute());
            candidates.push(Candidate { pin, ..self.candidate(device, &all) });
        }
        let (named, numbered) = self.numbered(candidates);
        numbered.note(self.node.name, report);
        self.report(&named, &numbered, report);
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        self.offer_numbered(devices, &selected, &numbered, (lanes, units));
        for candidate in named {
            let name = &candidate.device.key.device;
            let is_held = self.is_held(name);
            // The device is another claim's, whatever was decided.
            let is_lost = candidate.holder == Holder::Other;
            if candidate.availability == DeviceAvailability::Gone || is_lost {
                continue;
            }
            let cordoned = match candidate.availability {
                DeviceAvailability::Withheld => Some(CordonReason::DeviceWithheld),
                DeviceAvailability::HoldersOnly => Some(CordonReason::DeviceTainted),
                DeviceAvailability::Usable | DeviceAvailability::Gone => None,
            };
            if cordoned.is_some() && !is_held {
                continue;
            }
            let unit = self.unit(name, lanes, Some(1), candidate.numa_node(), None);
            let mut claim = any_device(devices);
            match &candidate.pin {
                Some(pin) => claim.selectors.push(pin.expression()),
                None => {
                    claim.selectors =
                        self.selectors_of(&candidate.device.key, &unit.id).unwrap_or(claim.selectors);
                }
            }
            claim.device = Some(candidate.device.key.clone());
            let unpinned = Some(CordonReason::NotPinnable).filter(|_| candidate.pin.is_none());
            units.push(Unit {
                memory_mib: candidate.memory_mib(),
                claim: Some(claim),
                device: candidate.described.map(|described| described.device.id.clone()),
                cordoned: cordoned.or(unpinned),
                ..unit
            });
        }
    }

    /// Whether the class selects a published device of the node; not if that cannot be evaluated, as then it serves none.
    pub(crate) fn has_device_of(&self, class: &str) -> bool {
        let Ok(selectors) = compiled(self.index, class, &[]) else { return false };
        let functions = functions();
        let is_selected = |device: &SliceDevice| {
            selectors.iter().all(|selector| selector.selects(device, &functions).unwrap_or(false))
        };
        self.index.published.on_node(self.node.name).any(is_selected)
    }

    /// Reports pools of drivers of which kube-scheduler allocates no device.
    fn note_faults(&self, selected: &[&SliceDevice], report: &mut PoolReport) {
        let pools: BTreeSet<_> =
            selected.iter().map(|device| (device.key.driver.clone(), device.key.pool.clone())).collect();
        let node = self.node.name;
        for ((driver, name), pool) in
            pools.iter().filter_map(|key| self.index.published.pools.get_key_value(key))
        {
            match pool.fault_on(node) {
                Some(PoolFault::Incomplete(slices)) => report.add_note(
                    "IncompletePool",
                    format!("{node}: pool {name} of {driver} is incomplete: {slices}; running actors stay and no new ones are placed"),
                ),
                Some(PoolFault::Invalid(why)) => report.add_problem(
                    "Degraded",
                    format!("{node}: pool {name} of {driver} is invalid: {why}; kube-scheduler allocates none of its devices, correct the driver"),
                ),
                None => {}
            }
        }
    }

    /// Notes devices that several claims may share.
    fn note_shared(&self, shared: &[&SliceDevice], report: &mut PoolReport) {
        let Some(first) = shared.first() else { return };
        let note = format!(
            "{}: {} open to several claims (allowMultipleAllocations) and cannot be used as units; exclude such devices by \
             resource.dra.selectors",
            self.node.name,
            devices_are(shared.len(), &first.key)
        );
        report.add_note("SharedDevices", note);
    }

    /// The selectors of the claim by which the actor of a unit holds a device.
    fn selectors_of(&self, device: &DeviceKey, unit: &str) -> Option<Vec<String>> {
        let mut holders = self.index.published.holders(device);
        let name = holders.find(|claim| self.index.unit_of_claim(claim) == Some(unit))?;
        let claim = self.index.scheduling.resource_claims.get(name)?;
        let request = claim.spec.devices.as_ref()?.requests.as_ref()?.first()?.exactly.as_ref()?;
        let selectors = request.selectors.iter().flatten();
        Some(selectors.filter_map(|selector| Some(selector.cel.as_ref()?.expression.clone())).collect())
    }

    /// The devices of the node that the class and the pool select; the error is `None` if it concerns all nodes.
    pub(crate) fn selected<'a>(
        &self,
        devices: &DraDevices,
        all: &[&'a SliceDevice],
    ) -> Result<Vec<&'a SliceDevice>, Option<String>> {
        if self.index.scheduling.is_unserved::<ResourceSlice>() {
            return Err(None);
        }
        let selectors =
            compiled(self.index, &devices.device_class_name, &devices.selectors).map_err(|_| None)?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let functions = functions();
        let mut selected = Vec::new();
        for device in all {
            let mut is_selected = true;
            for selector in &selectors {
                is_selected = is_selected && selector.selects(device, &functions).map_err(Some)?;
            }
            if is_selected {
                selected.push(*device);
            }
        }
        Ok(selected)
    }

    /// The devices that no other pool has; claims them.
    ///
    /// Partitions are told apart by their own names only: those of one GPU may be in several pools.
    fn unclaimed<'a>(
        &self,
        selected: Vec<&'a SliceDevice>,
        all: &[&SliceDevice],
        claims: &mut PoolClaims,
        report: &mut PoolReport,
    ) -> Vec<&'a SliceDevice> {
        let mut own = Vec::new();
        let mut taken = BTreeMap::<String, Vec<String>>::new();
        for device in selected {
            let whole = self.described(device, all).filter(|described| described.is_whole);
            let published = ("published".to_owned(), device.key.to_string());
            let of_agent = whole.map(|whole| (self.pool.spec.kind.clone(), whole.device.id.clone()));
            let keys: Vec<_> = of_agent.into_iter().chain([published]).collect();
            let mut owners = keys.iter().filter_map(|key| claims.devices.get(key));
            if let Some(owner) = owners.find(|owner| *owner != self.name) {
                taken.entry(owner.clone()).or_default().push(device.key.device.clone());
                continue;
            }
            claims.devices.extend(keys.into_iter().map(|key| (key, self.name.to_owned())));
            own.push(device);
        }
        for (owner, devices) in taken {
            let problem = format!(
                "pool {owner} already claims {} of {}; narrow resource.dra.selectors or nodeSelector",
                devices.join(", "),
                self.node.name
            );
            report.add_problem("Overlap", problem);
        }
        own
    }

    /// The agent's device of one of the devices that are published for the node.
    fn described(&self, device: &SliceDevice, all: &[&SliceDevice]) -> Option<Described<'_>> {
        let (name, found) = device.described_by(&self.node.topology?.spec)?;
        let is_same = |other: &&&SliceDevice| {
            other.key.driver == device.key.driver && other.string(name) == device.string(name)
        };
        Some(Described { device: found, is_whole: all.iter().filter(is_same).count() == 1 })
    }

    pub(crate) fn candidate<'a>(&'a self, device: &'a SliceDevice, all: &[&SliceDevice]) -> Candidate<'a> {
        let described = self.described(device, all);
        // The driver that publishes a device answers for it, also where the agent cannot read its health.
        let health = match described.map(|described| described.device.health) {
            Some(Health::Lost) => DeviceAvailability::Gone,
            Some(Health::Degraded) => DeviceAvailability::HoldersOnly,
            Some(Health::Ok | Health::Unknown) | None => DeviceAvailability::Usable,
        };
        let unit = format!("{}/{}-{}", self.node.name, self.name, device.key.device);
        let holders = self.index.published.holders(&device.key);
        // An actor that left may still hold its device for a moment.
        let is_in_use = |unit: &str| self.node.room.pods_on(unit) > 0 || self.index.decided_on(unit) > 0;
        let holder = holders.fold(Holder::None, |found, claim| match self.index.unit_of_claim(claim) {
            Some(of) if of == unit && is_in_use(of) => found.or(Holder::Own),
            Some(of) if self.is_numbered(of) && is_in_use(of) => found.or(Holder::Numbered),
            _ => Holder::Other,
        });
        Candidate { device, pin: None, described, holder, availability: device.availability.max(health) }
    }

    /// Whether a unit of this pool on this node is numbered.
    fn is_numbered(&self, unit: &str) -> bool {
        let name = unit.strip_prefix(&format!("{}/{}-", self.node.name, self.name));
        name.is_some_and(|name| name.parse::<usize>().is_ok())
    }

    /// Whether a pod is on the unit of the device.
    fn is_held(&self, name: &str) -> bool {
        self.node.room.pods_on(&format!("{}/{}-{name}", self.node.name, self.name)) > 0
    }

    fn report(&self, named: &[Candidate], numbered: &Numbered, report: &mut PoolReport) {
        let candidates = || named.iter().chain(&numbered.candidates);
        let usable = candidates().filter(|candidate| candidate.is_usable()).count() - numbered.unfit;
        report.units += candidates().count() - numbered.unfit;
        report.healthy += usable;
        // Devices of other claims are in use, and no fault, also if they are all of a node.
        let tainted = candidates().filter(|it| it.availability > DeviceAvailability::Withheld).count();
        if tainted == 0 {
            return;
        }
        let unfit = match numbered.unfit {
            0 => String::new(),
            unfit => format!(", {unfit} without room in the counters that they share"),
        };
        let problem = format!(
            "{}: {} devices of its class, {tainted} tainted or unhealthy, {} allocated to other claims{unfit}",
            self.node.name,
            candidates().count(),
            candidates().filter(|it| it.holder == Holder::Other).count()
        );
        report.add_problem("Degraded", problem);
    }

    /// Units in use, while it is unknown which devices the pool has.
    pub(crate) fn in_use(&self, claim: Option<&DeviceClaim>) -> Vec<Unit> {
        let prefix = format!("{}/{}-", self.node.name, self.name);
        let names = self.node.room.held.keys().filter_map(|unit| unit.strip_prefix(&prefix));
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        let unit = |name| Unit {
            memory_mib: None,
            claim: claim.cloned(),
            cordoned: Some(CordonReason::UnknownPool),
            ..self.unit(name, lanes, Some(1), None, None)
        };
        names.map(unit).collect()
    }
}
