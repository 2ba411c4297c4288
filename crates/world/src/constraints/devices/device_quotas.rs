//! Limits of the devices of nodes where units are devices, too, or where claims request all of them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use placement::file::{Constraint, Places};

use crate::ApplicationKey;
use crate::constraints::devices::device_demand::{DeviceDemand, ScopeDemand, need};
use crate::constraints::volumes::volume_rooms::Room;

/// What an actor of a group takes of the devices of a node on each unit, and the group's actors.
type GroupUse<'a> = (BTreeMap<&'a str, u64>, &'a [String]);

/// One quota for each node and group, and for all groups together: an actor counts the device of its unit and those of its requests.
///
/// Groups together count what each of them needs at least, so mixtures may exceed the devices; the scheduler then refuses a pod.
pub(crate) fn unit_limits(demand: &DeviceDemand, scope: &ScopeDemand) -> Vec<Constraint> {
    let mut inside = demand.own.iter().flatten().filter(|request| scope.has(request));
    let has_all = inside.any(|request| request.any_of.iter().any(|need| need.is_all));
    let mut unfit = BTreeMap::<usize, Vec<String>>::new();
    let mut rules = Vec::new();
    for (name, units) in &demand.units {
        let has_device = || units.iter().any(|(_, found)| scope.devices.has_all(found));
        let Some(node) = demand.hosts.get(name).filter(|_| has_all || has_device()) else { continue };
        let Some(room) = demand.room(scope, node) else { continue };
        let uses = uses(demand, scope, (name, node), &room, &mut unfit);
        rules.extend(quotas(demand, scope, (name, &room), &uses));
    }
    let never = |(at, units): (usize, Vec<String>)| Constraint::Never {
        actors: demand.of.templates[at].ids.clone(),
        places: Places::Units(units),
        except_current: true,
        reason: Some(scope.reason()),
    };
    unfit.into_iter().map(never).chain(rules).collect()
}

/// The use of each group. Notes the units on which a template does not fit alone.
fn uses<'a>(
    demand: &'a DeviceDemand,
    scope: &ScopeDemand,
    (name, node): (&str, &Node),
    room: &Room,
    unfit: &mut BTreeMap<usize, Vec<String>>,
) -> BTreeMap<&'a str, GroupUse<'a>> {
    let mut uses = BTreeMap::<&str, GroupUse>::new();
    for (at, (template, requests)) in demand.of.templates.iter().zip(&demand.own).enumerate() {
        let here = demand.here(scope, requests, name);
        let need = need(here.map(|request| (request, demand.devices.least_on(request, node))));
        let (of_units, _) =
            uses.entry(template.group()).or_insert_with(|| (BTreeMap::new(), template.ids.as_slice()));
        let is_known = need.claims() > scope.devices.free.on(node);
        for (unit, found) in demand.units.get(name).into_iter().flatten() {
            if !template.kinds.contains(unit.kind.as_str()) {
                continue;
            }
            let own = need.each.saturating_add(u64::from(scope.devices.has_all(found)));
            of_units.insert(&unit.id, own);
            let shared = need.shared.difference(&room.taken).count();
            // Nodes with fewer devices than the requests need are excluded already.
            if !is_known && own > 0 && own.saturating_add(length(shared)) > left(room) {
                unfit.entry(at).or_default().push(unit.id.clone());
            }
        }
    }
    uses.retain(|_, (units, _)| units.values().any(|amount| *amount > 0));
    uses
}

fn quotas(
    demand: &DeviceDemand,
    scope: &ScopeDemand,
    (name, room): (&str, &Room),
    uses: &BTreeMap<&str, GroupUse>,
) -> Vec<Constraint> {
    let together = Some(uses.values().collect::<Vec<_>>()).filter(|all| all.len() > 1);
    let alone = uses.values().map(|of_group| vec![of_group]);
    let quota = |groups: Vec<&GroupUse>| {
        let mut units = BTreeMap::<&str, u64>::new();
        for (unit, amount) in groups.iter().flat_map(|(units, _)| units) {
            units.entry(*unit).and_modify(|least| *least = (*least).min(*amount)).or_insert(*amount);
        }
        units.retain(|_, amount| *amount > 0);
        let actors: BTreeSet<&String> = groups.iter().flat_map(|(_, actors)| actors.iter()).collect();
        let max = left(room).max(running(demand, name, &units));
        let slots = demand.units.get(name).into_iter().flatten();
        let slots: BTreeMap<&str, u64> =
            slots.map(|(unit, _)| (unit.id.as_str(), unit.slots.unwrap_or(u64::MAX))).collect();
        let amounts = units.iter().map(|(unit, amount)| amount.saturating_mul(slots[unit]));
        let largest = units.values().copied().max().unwrap_or(0);
        let most = amounts.fold(0, u64::saturating_add).min(largest.saturating_mul(length(actors.len())));
        (most > max).then(|| Constraint::Quota {
            actors: actors.into_iter().cloned().collect(),
            pool: None,
            pools: None,
            numa: None,
            units: Some(units.into_iter().map(|(unit, amount)| (unit.to_owned(), amount)).collect()),
            resource: None,
            max,
            reason: Some(scope.reason()),
        })
    };
    together.into_iter().chain(alone).filter_map(quota).collect()
}

/// The devices of a node that others leave.
fn left(room: &Room) -> u64 {
    room.total.saturating_sub(length(room.taken.len()))
}

/// What running actors use: they stay, even if there are fewer devices than they need.
fn running(demand: &DeviceDemand, node: &str, units: &BTreeMap<&str, u64>) -> u64 {
    let index = demand.of.index;
    let placement = index.placements.get(&ApplicationKey::of(demand.of.application));
    let mut decided = BTreeMap::<&str, u64>::new();
    for it in placement.into_iter().flat_map(|it| &it.spec.assignments) {
        *decided.entry(&it.unit).or_default() += 1;
    }
    let used = units.iter().map(|(unit, amount)| {
        let pods = index.room(node).map_or(0, |room| room.pods_on(unit));
        amount.saturating_mul(pods.min(decided.get(unit).copied().unwrap_or(0)))
    });
    used.fold(0, u64::saturating_add)
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
