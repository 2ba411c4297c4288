//! Units of pools with unit `NumaDomain`.

use std::collections::BTreeSet;

use crds::{Device, Health};

use crate::demand::pods::allocatable;
use crate::numbers::{Exact, floor};
use crate::units::plugin::device_resource::{Provides, provides};
use crate::units::report::PoolReport;
use crate::units::unit::{CordonReason, Unit};
use crate::units::{PoolClaims, PoolOnNode, memory};

/// The computing resources of the domains of a node.
struct Shares {
    /// The sum of the capacities of all cores.
    capacity: i128,
    /// The share of the node's CPUs that the domains have; less than 1 if the agent does not report all of them.
    reported: Exact,
}

impl Shares {
    fn of(domains: &[&Device], cpus: Exact) -> Self {
        let units: i128 = domains.iter().map(|device| processing_units(device)).sum();
        let is_whole = units == 0 || cpus <= Exact::from(units);
        let reported = if is_whole { Exact::from(1) } else { Exact::from(units) / cpus };
        Self { capacity: domains.iter().map(|device| cores(device)).sum::<i128>().max(1), reported }
    }

    /// The share of a domain in the CPUs of the node.
    fn share(&self, domain: &Device) -> Exact {
        Exact::new(cores(domain), self.capacity) * self.reported
    }
}

/// The capacity of the cores of a domain, relative to those of other domains.
fn cores(device: &Device) -> i128 {
    let of = |type_: &str| {
        let resource = device.compute_resources.iter().find(|resource| resource.type_ == type_)?;
        Some(resource.relative_capacity().into())
    };
    of("Core").or_else(|| of("Processing Unit")).unwrap_or(1024)
}

fn processing_units(device: &Device) -> i128 {
    let units = device.compute_resources.iter().find(|resource| resource.type_ == "Processing Unit");
    units.map_or(0, |resource| resource.count.into())
}

impl PoolOnNode<'_> {
    pub(crate) fn offer_domains(
        &self,
        claims: &mut PoolClaims,
        report: &mut PoolReport,
        units: &mut Vec<Unit>,
    ) {
        let domains = self.devices("numa-domain");
        if domains.is_empty() || !self.claims_cores(claims, report) {
            return;
        }
        let cpus = allocatable(self.node.node).get("cpu").copied().unwrap_or_default();
        let shares = Shares::of(&domains, cpus);
        for (position, device) in domains.iter().enumerate() {
            report.units += 1;
            let index = device.numa_node.unwrap_or_else(|| i32::try_from(position).unwrap_or(i32::MAX));
            let resource = self.resource(index);
            let offered = floor(self.node.left(&resource));
            let position = usize::try_from(index).unwrap_or(position);
            let share = shares.share(device);
            let lanes = self.measures.lanes.unwrap_or_else(|| self.node.left("cpu") * share);
            if device.health != Health::Ok || offered == 0 {
                let claims = self.node.claims(self.name);
                if claims.held.contains(&position) && device.health != Health::Lost {
                    // Running actors stay: a resource that is not offered does not prove a fault of the domain.
                    let mut unit = self.unit(position, lanes, None, Some(index), Some(resource.clone()));
                    unit.memory_mib = memory(&[device]);
                    unit.device = Some(device.id.clone());
                    let held = |holders: Option<&u64>| holders.copied().unwrap_or(0);
                    let decided = held(self.node.decided.and_then(|decided| decided.get(&unit.id)));
                    unit.slots = Some(held(self.node.room.held.get(&unit.id)).max(decided));
                    unit.cordoned = unit.cordoned.or(Some(CordonReason::Overcommitted));
                    units.push(unit);
                }
                let problem = format!(
                    "{} offers no {resource}: its device plugin is missing or all devices are in use",
                    self.node.name
                );
                report.add_problem("Degraded", problem);
                continue;
            }
            report.healthy += usize::from(!self.node.is_agent_stale);
            let slots = Some(self.measures.sharing.unwrap_or(u64::MAX).min(offered));
            let (memory_mib, device) = (memory(&[device]), Some(device.id.clone()));
            let unit = self.unit(position, lanes, slots, Some(index), Some(resource));
            units.push(Unit { memory_mib, device, ..unit });
        }
        self.offer_unreported(&domains, &shares, report, units);
    }

    /// Offers the domains that the kubelet has a resource of and the agent does not report, with equal shares of the CPUs that no
    /// reported domain has. Their memory is unknown.
    fn offer_unreported(
        &self,
        domains: &[&Device],
        shares: &Shares,
        report: &mut PoolReport,
        units: &mut Vec<Unit>,
    ) {
        let rest = Exact::from(1) - shares.reported;
        let known: BTreeSet<i32> = domains.iter().filter_map(|device| device.numa_node).collect();
        let resources = allocatable(self.node.node);
        let indices = resources.keys().filter_map(|resource| match provides(self.pool, resource) {
            Provides::Domain(number) => number.parse::<i32>().ok().filter(|index| !known.contains(index)),
            Provides::None | Provides::Any => None,
        });
        let indices: BTreeSet<i32> = indices.collect();
        if rest <= Exact::default() || known.len() < domains.len() {
            return;
        }
        let share = rest / Exact::from(i128::try_from(indices.len().max(1)).unwrap_or(1));
        for index in indices {
            let resource = self.resource(index);
            let offered = floor(self.node.left(&resource));
            let Ok(position) = usize::try_from(index) else { continue };
            if offered == 0 {
                continue;
            }
            report.units += 1;
            report.healthy += usize::from(!self.node.is_agent_stale);
            let note = format!(
                "{} offers {resource}, but its agent reports no such domain; the unit has a share of the CPUs that no domain has",
                self.node.name
            );
            report.add_note("UnreportedDomain", note);
            let lanes = self.measures.lanes.unwrap_or_else(|| self.node.left("cpu") * share);
            let slots = Some(self.measures.sharing.unwrap_or(u64::MAX).min(offered));
            units.push(self.unit(position, lanes, slots, Some(index), Some(resource)));
        }
    }
}
