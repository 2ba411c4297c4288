//! The unit of memory in a snapshot: MiB, or bytes if the requests of the planned actors need them.

use std::collections::BTreeMap;

use placement::file::{Actor, Constraint, SnapshotFile};

use crate::demand::MAX_PER_ACTOR;
use crate::demand::pods::{BYTES, MEBIBYTE, mebibytes_above};
use crate::snapshot::entries::program_mentions;

/// End of the names of resources in MiB.
const MEBIBYTES: &str = "MiB";

fn in_mebibytes(resource: &str) -> Option<String> {
    resource.strip_suffix(BYTES).map(|name| format!("{name}{MEBIBYTES}"))
}

/// Renames the resources in bytes that `chosen` names, and converts their amounts.
fn convert(amounts: &mut BTreeMap<String, u64>, chosen: &dyn Fn(&str) -> bool, to: fn(u64) -> u64) {
    if !amounts.keys().any(|name| name.ends_with(BYTES) && chosen(name)) {
        return;
    }
    let convert = |(name, amount): (String, u64)| match in_mebibytes(&name).filter(|_| chosen(&name)) {
        Some(renamed) => (renamed, to(amount)),
        None => (name, amount),
    };
    *amounts = std::mem::take(amounts).into_iter().map(convert).collect();
}

/// Rounds the requests of actors up to MiB.
pub(crate) fn round_requests_up(actors: &mut [Actor]) {
    for way in actors.iter_mut().flat_map(|actor| actor.runs_on.values_mut()) {
        convert(&mut way.node_requires, &|_| true, mebibytes_above);
    }
}

/// Counts each resource in MiB where this is exact: all planned actors request whole MiB.
///
/// Otherwise bytes stay, as four pods of `1G` fit a node of `4G` only by bytes. Requests above 2^40 bytes are rounded up,
/// and so are all if the policy's program names the resource in MiB.
pub(crate) fn choose(file: &mut SnapshotFile) {
    let is_whole = |bytes: u64| bytes.is_multiple_of(MEBIBYTE);
    let planned = file.actors.iter().filter(|actor| !actor.fixed);
    let requests = planned.flat_map(|actor| actor.runs_on.values()).flat_map(|way| &way.node_requires);
    let (mut odd, mut huge) = (BTreeMap::new(), BTreeMap::new());
    for (name, amount) in requests.filter(|(name, _)| name.ends_with(BYTES)) {
        *odd.entry(name.clone()).or_insert(false) |= !is_whole(*amount);
        *huge.entry(name.clone()).or_insert(false) |= *amount > MAX_PER_ACTOR;
    }
    let stays_exact = |name: &String| {
        odd.get(name) == Some(&true)
            && huge.get(name) == Some(&false)
            && in_mebibytes(name).is_some_and(|renamed| !program_mentions(file, &renamed))
    };
    let exact: Vec<String> = odd.keys().filter(|name| stays_exact(name)).cloned().collect();
    let chosen = |name: &str| !exact.iter().any(|exact| exact == name);
    for way in file.actors.iter_mut().flat_map(|actor| actor.runs_on.values_mut()) {
        convert(&mut way.node_requires, &chosen, mebibytes_above);
    }
    for node in &mut file.nodes {
        convert(&mut node.provides, &chosen, |bytes| bytes / MEBIBYTE);
    }
    for rule in &mut file.constraints {
        let Constraint::Quota { resource: Some(resource), max, .. } = rule else { continue };
        if let Some(renamed) = in_mebibytes(resource).filter(|_| chosen(resource)) {
            (*resource, *max) = (renamed, *max / MEBIBYTE);
        }
    }
}
