//! Bounds of the sums of a snapshot, none of which may exceed 2^53.

use std::collections::BTreeMap;

use strum::IntoEnumIterator as _;

use crate::criteria::FileSums;
use crate::file::format::{Actor, Constraint, SnapshotFile};
use crate::{Criterion, LARGEST, Objectives, SnapshotError, channels, constraints};

/// Refuses snapshots in which a criterion or a load could exceed 2^53.
pub(crate) fn check_sums(file: &SnapshotFile, objectives: &Objectives) -> Result<(), SnapshotError> {
    let fits = |path: &str, what: &str, sum: u128| {
        if sum <= u128::from(LARGEST) {
            return Ok(());
        }
        Err(SnapshotError::new(
            path,
            format!("{what} can add up to {sum}, above 2^53; use smaller numbers or a coarser unit"),
        ))
    };
    let cost = &file.exchange_cost;
    let largest_kind_cost =
        cost.kinds.values().flat_map(BTreeMap::values).copied().chain(cost.other_kind).max();
    let by_class = u128::from(largest_kind_cost.unwrap_or(0).max(1))
        + u128::from(cost.other_numa)
        + u128::from(cost.other_node)
        + u128::from(cost.other_zone);
    let largest = cost.pairs.iter().map(|pair| u128::from(pair.cost)).fold(by_class, u128::max);
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.map(u128::from).sum::<u128>();
    let (of_groups, drags_of_groups) = channels::sums(file);
    // Messages and drag of an actor with itself are ignored.
    let messages = file.messages.iter().filter(|message| message.from != message.to);
    let messages = sum(&mut messages.map(|message| message.count)).saturating_add(of_groups);
    let drags = file.annoyance.iter().chain(&file.interference).filter(|pair| pair.a != pair.b);
    let drags = sum(&mut drags.map(|pair| pair.drag));
    let drags = drags.saturating_add(drags_of_groups);
    let moves = sum(&mut file.actors.iter().map(|actor| actor.move_cost));
    let preferences = sum(&mut file.constraints.iter().map(|constraint| match constraint {
        Constraint::Prefer { weight, .. } => *weight,
        _ => 0,
    }));
    let costs = messages.saturating_mul(largest);
    fits("messages", "communication", costs)?;
    let work = |actor: &Actor| actor.runs_on.values().map(|runs_on| runs_on.work).max().unwrap_or(0);
    let work = sum(&mut file.actors.iter().map(work));
    fits("actors", "work", work)?;
    let named = named_sums(file, objectives, &FileSums { work, message: largest });
    for (path, criterion, sum) in &named {
        fits(path, criterion, *sum)?;
    }
    // One level may name them all.
    let named = named.iter().map(|(_, _, sum)| sum).sum::<u128>();
    fits(
        "objectives",
        "the criteria",
        costs.saturating_add(drags).saturating_add(moves + preferences + work + named),
    )?;
    let mut resources: BTreeMap<&str, u128> = BTreeMap::new();
    for actor in &file.actors {
        let of_kinds =
            actor.runs_on.values().flat_map(|runs_on| runs_on.requires.iter().chain(&runs_on.node_requires));
        for (resource, quantity) in actor.requires.iter().chain(of_kinds) {
            *resources.entry(resource).or_default() += u128::from(*quantity);
        }
    }
    for constraint in &file.constraints {
        if let Constraint::Reserve { resource, quantity, .. } = constraint {
            *resources.entry(resource).or_default() += u128::from(*quantity);
        }
    }
    resources
        .into_iter()
        .try_for_each(|(resource, total)| fits("actors", &format!("what needs `{resource}`"), total))
}

/// Bounds of criteria that are only computed if a level names them, and what they are due to.
fn named_sums(
    file: &SnapshotFile,
    objectives: &Objectives,
    sums: &FileSums,
) -> Vec<(&'static str, &'static str, u128)> {
    let named = Criterion::iter().filter(|criterion| objectives.names(*criterion));
    let mut all: Vec<_> = named.filter_map(|criterion| criterion.measure().largest(file, sums)).collect();
    for sum in constraints::largest(file) {
        if !all.contains(&sum) {
            all.push(sum);
        }
    }
    all
}
