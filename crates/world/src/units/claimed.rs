//! Units of pools with `resource.dra`: devices of `ResourceSlice`s that actors claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use crds::{Device, DevicePool, DraDevices, Health};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};

use super::report::PoolReport;
use super::selectors::{DeviceSelector, functions};
use super::slices::{DeviceAvailability, SliceDevice, pin};
use super::slots::{SlotState, slots};
use super::unit::{CordonReason, DeviceClaim, Unit};
use super::{PoolClaims, PoolOnNode, memory};
use crate::Index;
use crate::numbers::Exact;

/// Why no node can offer devices of the pool's class, with the type of the condition.
pub(super) fn class_problem(index: &Index, pool: &DevicePool) -> Option<(&'static str, String)> {
    let devices = pool.spec.resource.as_ref()?.dra.as_ref()?;
    if index.scheduling.is_unserved::<ResourceSlice>() {
        let problem = "the API server does not serve resource.k8s.io/v1: dynamic resource allocation needs Kubernetes 1.34 \
                       or later; use resource.devicePlugin, or upgrade the cluster";
        return Some(("Unsupported", problem.to_owned()));
    }
    Some(("Invalid", compiled(index, devices).err()?))
}

/// The selectors of the class and of the pool.
fn compiled(index: &Index, devices: &DraDevices) -> Result<Vec<Arc<DeviceSelector>>, String> {
    let name = &devices.device_class_name;
    let Some(class) = index.scheduling.device_classes.get(name) else {
        return Err(format!(
            "spec.resource.dra.deviceClassName: DeviceClass {name} does not exist; create it or correct the name"
        ));
    };
    let of_class = class_selectors(class).map(|text| (text, format!("DeviceClass {name}")));
    let of_pool = devices.selectors.iter().map(|text| (text, "spec.resource.dra.selectors".to_owned()));
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

/// A claim of any device of the pool.
fn any_device(devices: &DraDevices) -> DeviceClaim {
    DeviceClaim {
        class: devices.device_class_name.clone(),
        selectors: devices.selectors.clone(),
        device: None,
    }
}

/// Who holds a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    None,
    /// The actor on the unit of this device.
    Own,
    /// Another claim.
    Other,
}

/// A device of the pool on the node.
struct Candidate<'a> {
    device: &'a SliceDevice,
    /// As the agent describes it.
    described: Option<&'a Device>,
    holder: Holder,
    availability: DeviceAvailability,
}

impl Candidate<'_> {
    fn memory_mib(&self) -> Option<u64> {
        self.device.memory_mib.or_else(|| memory(&[self.described?]))
    }

    fn numa_node(&self) -> Option<i32> {
        self.device.numa_node.or_else(|| self.described?.numa_node)
    }

    fn is_usable(&self) -> bool {
        self.availability == DeviceAvailability::Usable && self.holder != Holder::Other
    }
}

impl PoolOnNode<'_> {
    /// The devices of claims that the pool requests.
    pub(super) fn dra(&self) -> Option<&DraDevices> {
        self.pool.spec.resource.as_ref()?.dra.as_ref()
    }

    /// One unit for each device that its claim can select, or numbered units if devices cannot be told apart.
    pub(super) fn offer_claimed(
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
                units.extend(self.in_use(devices));
                return;
            }
        };
        let selected = self.unclaimed(selected, claims, report);
        if selected.is_empty() {
            return;
        }
        let candidates: Vec<Candidate> = selected.iter().map(|device| self.candidate(device)).collect();
        self.report(&candidates, report);
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        let names: BTreeSet<&str> = selected.iter().map(|device| device.key.device.as_str()).collect();
        let pins: Vec<_> = selected.iter().map(|device| pin(&all, device, devices.pin_attribute())).collect();
        if let Some(at) =
            pins.iter().position(Option::is_none).or((names.len() < selected.len()).then_some(0))
        {
            let note = format!(
                "{}: no attribute tells device {} apart from the others of its driver, so the scheduler chooses among the {} \
                 devices of the pool, and locality is unknown; name an attribute in resource.dra.pinBy if there is one",
                self.node.name,
                selected[at].key,
                selected.len()
            );
            report.add_note("NotPinnable", note);
            units.extend(self.numbered(devices, &candidates, lanes));
            return;
        }
        for (candidate, pin) in candidates.iter().zip(pins.into_iter().flatten()) {
            let name = &candidate.device.key.device;
            let is_held = self.is_held(name);
            // The device is another claim's, whatever was decided.
            let is_lost = candidate.holder == Holder::Other;
            if candidate.availability == DeviceAvailability::Gone || is_lost {
                continue;
            }
            let tainted = candidate.availability == DeviceAvailability::HoldersOnly;
            if tainted && !is_held {
                continue;
            }
            let mut claim = any_device(devices);
            claim.selectors.push(pin.expression());
            claim.device = Some(candidate.device.key.clone());
            let unit = self.unit(name, lanes, Some(1), candidate.numa_node(), None);
            units.push(Unit {
                memory_mib: candidate.memory_mib(),
                claim: Some(claim),
                device: candidate.described.map(|device| device.id.clone()),
                cordoned: tainted.then_some(CordonReason::DeviceTainted),
                ..unit
            });
        }
    }

    /// The devices of the node that the class and the pool select; the error is `None` if it concerns all nodes.
    fn selected<'a>(
        &self,
        devices: &DraDevices,
        all: &[&'a SliceDevice],
    ) -> Result<Vec<&'a SliceDevice>, Option<String>> {
        if self.index.scheduling.is_unserved::<ResourceSlice>() {
            return Err(None);
        }
        let selectors = compiled(self.index, devices).map_err(|_| None)?;
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
    fn unclaimed<'a>(
        &self,
        selected: Vec<&'a SliceDevice>,
        claims: &mut PoolClaims,
        report: &mut PoolReport,
    ) -> Vec<&'a SliceDevice> {
        let mut own = Vec::new();
        let mut taken = BTreeMap::<String, Vec<String>>::new();
        for device in selected {
            let described = self.described(device);
            let published = ("published".to_owned(), device.key.to_string());
            let of_agent = described.map(|described| (self.pool.spec.kind.clone(), described.id.clone()));
            let keys: Vec<_> = of_agent.into_iter().chain([published]).collect();
            if let Some(owner) = keys.iter().find_map(|key| claims.devices.get(key)) {
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

    fn described(&self, device: &SliceDevice) -> Option<&Device> {
        device.described(&self.node.topology?.spec)
    }

    fn candidate<'a>(&'a self, device: &'a SliceDevice) -> Candidate<'a> {
        let described = self.described(device);
        let health = match described.map(|device| device.health) {
            Some(Health::Lost) => DeviceAvailability::Gone,
            Some(Health::Degraded) => DeviceAvailability::HoldersOnly,
            _ => DeviceAvailability::Usable,
        };
        let unit = format!("{}/{}-{}", self.node.name, self.name, device.key.device);
        let holders = self.index.published.holders(&device.key);
        // An actor that left may still hold its device for a moment.
        let is_in_use = |unit: &str| self.node.room.pods_on(unit) > 0 || self.index.decided_on(unit) > 0;
        let holder = holders.fold(Holder::None, |found, claim| match self.index.unit_of_claim(claim) {
            Some(of) if (of == unit || self.is_numbered(of)) && is_in_use(of) => found.or(Holder::Own),
            _ => Holder::Other,
        });
        Candidate { device, described, holder, availability: device.availability.max(health) }
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

    fn report(&self, candidates: &[Candidate], report: &mut PoolReport) {
        let usable = candidates.iter().filter(|candidate| candidate.is_usable()).count();
        report.units += candidates.len();
        report.healthy += usable;
        // Devices of other claims are in use, and no fault.
        let tainted = candidates.iter().filter(|it| it.availability != DeviceAvailability::Usable).count();
        if tainted == 0 && usable > 0 {
            return;
        }
        let problem = format!(
            "{}: {} devices of its class, {tainted} tainted or unhealthy, {} allocated to other claims",
            self.node.name,
            candidates.len(),
            candidates.iter().filter(|it| it.holder == Holder::Other).count()
        );
        report.add_problem("Degraded", problem);
    }

    /// Numbered units: the scheduler chooses the device.
    fn numbered(&self, devices: &DraDevices, candidates: &[Candidate], lanes: Exact) -> Vec<Unit> {
        let usable: Vec<&Candidate> = candidates.iter().filter(|it| it.is_usable()).collect();
        let domains: BTreeSet<_> = usable.iter().map(|it| it.numa_node()).collect();
        let numa = usable.first().filter(|_| domains.len() == 1).and_then(|it| it.numa_node());
        let memory_mib = usable.iter().map(|it| it.memory_mib()).min().flatten();
        let claim = any_device(devices);
        let unit = |(index, state): (usize, SlotState)| Unit {
            memory_mib,
            claim: Some(claim.clone()),
            cordoned: (state == SlotState::Cordoned).then_some(CordonReason::Overcommitted),
            ..self.unit(index, lanes, Some(1), numa, None)
        };
        slots(&self.node.claims(self.name), usable.len()).into_iter().map(unit).collect()
    }

    /// Units in use, while it is unknown which devices the pool has.
    fn in_use(&self, devices: &DraDevices) -> Vec<Unit> {
        let prefix = format!("{}/{}-", self.node.name, self.name);
        let names = self.node.room.held.keys().filter_map(|unit| unit.strip_prefix(&prefix));
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        let claim = any_device(devices);
        let unit = |name| Unit {
            memory_mib: None,
            claim: Some(claim.clone()),
            cordoned: Some(CordonReason::UnknownPool),
            ..self.unit(name, lanes, Some(1), None, None)
        };
        names.map(unit).collect()
    }
}

impl Holder {
    /// The first known holder.
    fn or(self, other: Self) -> Self {
        if self == Self::None { other } else { self }
    }
}
