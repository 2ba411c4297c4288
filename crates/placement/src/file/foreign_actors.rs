//! Foreign actors that a file lists only in total: on each unit they are represented by one fixed actor.
//!
//! No plan can distinguish many foreign actors of one unit from one. It takes one slot, and the unit has fewer slots accordingly.

use std::collections::BTreeMap;

use crate::error::fits;
use crate::file::format::{Actor, Others, RunsOn, SnapshotFile};
use crate::{LARGEST, SnapshotError};

/// The namespace of representatives, which no real namespace can have.
pub(crate) fn name(unit: &str) -> String {
    format!("*/{unit}")
}

/// Appends one representative for each unit with foreign actors.
///
/// # Errors
/// Numbers that are too large.
pub(crate) fn list(file: &mut SnapshotFile) -> Result<(), SnapshotError> {
    for (position, unit) in file.units.iter_mut().enumerate() {
        let Some(others) = unit.others.take() else { continue };
        for (field, value) in [("work", others.work), ("count", others.count)] {
            fits(&|| format!("units[{position}].others.{field}"), value)?;
        }
        fits(&|| format!("units[{position}].slots"), unit.slots.unwrap_or(0))?;
        if others.work == 0 && others.count == 0 {
            continue;
        }
        // With as many as a file may list, an off-by-one is irrelevant.
        unit.slots = unit.slots.map(|slots| (slots.saturating_sub(others.count) + 1).min(LARGEST));
        file.summed_up.push(others.count);
        file.actors.push(Actor {
            id: name(&unit.id),
            runs_on: BTreeMap::from([(unit.kind.clone(), RunsOn { work: others.work, ..RunsOn::default() })]),
            fixed: true,
            current: Some(unit.id.clone()),
            ..Actor::default()
        });
    }
    Ok(())
}

/// The file without representatives.
pub(crate) fn summed(file: &SnapshotFile) -> SnapshotFile {
    let mut file = file.clone();
    let listed = file.actors.len() - file.summed_up.len();
    let mut stand: BTreeMap<String, Others> = BTreeMap::new();
    for (actor, count) in file.actors.drain(listed..).zip(std::mem::take(&mut file.summed_up)) {
        let work = actor.runs_on.values().map(|there| there.work).sum();
        stand.extend(actor.current.map(|unit| (unit, Others { work, count })));
    }
    for unit in &mut file.units {
        let Some(others) = stand.remove(&unit.id) else { continue };
        unit.slots = unit.slots.map(|slots| (slots + others.count).saturating_sub(1));
        unit.others = Some(others);
    }
    file
}
