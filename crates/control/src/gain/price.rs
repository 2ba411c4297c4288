//! Costs of assignments by level, and gains relative to the scale of a level.

use placement::ix::{IxVec, UnitIx};
use placement::{Assignment, Criterion, Snapshot};

use crate::commit::full_cost;

/// The capacity of a unit in the unit of `bottleneck` and `busiest`.
const THOUSANDTHS: i64 = 1000;

/// The first level, from the end, at which two assignments differ by at least `part` of its scale, and at all.
pub(crate) fn noticeable_level(
    snapshot: &Snapshot,
    (stays, goes): (&Assignment, &Assignment),
    part: f64,
) -> Option<usize> {
    let levels = snapshot.objectives().levels().len();
    (0..levels).rev().find(|&from_end| {
        gain_at(snapshot, (stays, goes), from_end).is_some_and(|gain| gain != 0.0 && gain.abs() >= part)
    })
}

/// The gain at a level, counted from the end: other windows may lack the level of exceptions. `None` if there is no such level.
pub(crate) fn gain_at(
    snapshot: &Snapshot,
    (stays, goes): (&Assignment, &Assignment),
    from_end: usize,
) -> Option<f64> {
    let level = snapshot.objectives().levels().len().checked_sub(from_end + 1)?;
    let (stay, go) = (vector(snapshot, stays)[level + 1], vector(snapshot, goes)[level + 1]);
    let criteria = &snapshot.objectives().levels()[level];
    let scale = criteria.iter().map(|criterion| load_scale(snapshot, stays, *criterion)).max();
    let scale = scale.unwrap_or(0).max(stay).max(1);
    #[expect(clippy::cast_precision_loss, reason = "costs are at most 2^53")]
    let gain = (stay - go) as f64 / scale as f64;
    Some(gain)
}

/// Gains by level, the last one first, as parts of their scales.
pub fn gains_by_level(snapshot: &Snapshot, (stays, goes): (&Assignment, &Assignment)) -> Vec<f64> {
    let levels = snapshot.objectives().levels().len();
    (0..levels).map(|from_end| gain_at(snapshot, (stays, goes), from_end).unwrap_or_default()).collect()
}

/// The mean gain in several windows, of which each has its [`gains_by_level`]: at the first level at which it is noticeable, that
/// is, half of `least`.
///
/// `has_grown`: the actors do more than before. Then a loss of a level is what the additional work costs there, which the assignment
/// before would not have had to bear, and the first level that gains counts.
pub fn mean_gain(windows: &[Vec<f64>], least: f64, has_grown: bool) -> f64 {
    let levels = windows.iter().map(Vec::len).min().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "windows are few")]
    let mean = |level: usize| windows.iter().map(|gains| gains[level]).sum::<f64>() / windows.len() as f64;
    let is_noticeable = |gain: &f64| *gain != 0.0 && gain.abs() >= least / 2.0 && (*gain > 0.0 || !has_grown);
    (0..levels).rev().map(mean).find(is_noticeable).unwrap_or_default()
}

/// The smallest scale of a criterion of load: the capacity of the fullest unit, in the unit of the criterion. Otherwise 0.
///
/// An overload of 3 instead of 1 microseconds is no loss of two thirds.
fn load_scale(snapshot: &Snapshot, stays: &Assignment, criterion: Criterion) -> i64 {
    match criterion {
        Criterion::Overload => fullest_capacity(snapshot, stays),
        Criterion::Bottleneck | Criterion::Busiest => THOUSANDTHS,
        _ => 0,
    }
}

/// Capacity of the unit with the largest load relative to its capacity.
fn fullest_capacity(snapshot: &Snapshot, assignment: &Assignment) -> i64 {
    let mut loads: IxVec<UnitIx, i64> = IxVec::of(0, snapshot.units());
    for (actor, unit) in assignment.enumerate() {
        if let Some(unit) = *unit
            && let Some(implementation) = snapshot.implementation(actor, unit)
        {
            loads[unit] += implementation.work;
        }
    }
    let fullness =
        |unit: &UnitIx| i128::from(loads[*unit]) * (1 << 32) / i128::from(snapshot.capacity(*unit).max(1));
    UnitIx::first(snapshot.units()).max_by_key(fullness).map_or(0, |unit| snapshot.capacity(unit))
}

/// Costs by level, the first of which counts unplaced actors.
pub(crate) fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    full_cost(snapshot, assignment).vector(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_noticeable_level_counts_and_a_loss_through_more_work_does_not() {
        // From the last level to the first: communication gains, load loses a little or much.
        let windows = |load: f64, communication: f64| [vec![communication, load], vec![communication, load]];
        for (load, communication, has_grown, expected) in [
            (0.0, 0.6, false, 0.6),
            (-0.04, 0.6, false, 0.6),
            (-0.07, 0.6, false, -0.07),
            (-0.07, 0.6, true, 0.6),
            (0.3, 0.6, true, 0.3),
            (-0.07, -0.5, true, 0.0),
            (0.0, 0.0, false, 0.0),
        ] {
            let gain = mean_gain(&windows(load, communication), 0.1, has_grown);
            assert!((gain - expected).abs() < 1e-9, "{load} {communication} {has_grown}: {gain}");
        }
    }
}
