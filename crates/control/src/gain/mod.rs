//! Whether a plan gains enough to justify its migrations, given that measured facts are uncertain.

pub(crate) mod gate;
pub(crate) mod necessary;
pub(crate) mod prune;

use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, Criterion, FoundBy, Judged, Plan, Snapshot, Stage, Unplaced};

use crate::commit::full_cost;
use crate::gain::gate::standard_error;
use crate::gain::necessary::necessary_part;

/// Half the width of a 95 % interval, in standard errors (normal approximation).
const STANDARD_ERRORS: f64 = 1.96;

/// The capacity of a unit in the unit of `bottleneck` and `busiest`.
const THOUSANDTHS: i64 = 1000;

/// Gain of an assignment over another, relative to the scale of the first objective level at which they differ noticeably.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Gain under all facts together; negative is a loss.
    pub expected: f64,
    /// Half the width of its 95 % interval, from the variation between windows; 0 with fewer than two windows.
    pub margin: f64,
}

impl Gain {
    /// Lower end of the 95 % interval.
    pub fn lower_bound(self) -> f64 {
        self.expected - self.margin
    }
}

/// The gain of `goes` over `stays`, both feasible and with the same actors placed; nothing if no level differs by half of `least`.
///
/// `windows` are snapshots of single time windows with the units, actors and levels of `snapshot`: those it was made
/// from, and earlier ones, which may recur.
pub fn gain(
    snapshot: &Snapshot,
    windows: &[Snapshot],
    (stays, goes): (&Assignment, &Assignment),
    least: f64,
) -> Gain {
    let Some(level) = noticeable_level(snapshot, (stays, goes), least / 2.0) else { return Gain::default() };
    let each: Vec<f64> =
        windows.iter().map(|window| gain_at(window, (stays, goes), level).unwrap_or_default()).collect();
    Gain {
        expected: gain_at(snapshot, (stays, goes), level).unwrap_or_default(),
        margin: STANDARD_ERRORS * standard_error(&each),
    }
}

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

/// Returns the plan if its elective moves gain enough, and the plan with only its necessary moves otherwise: if the gain is below
/// `least`, or its 95 % interval includes a loss. See [`necessary_part`].
///
/// `snapshot` includes the constraints that the policy derives ([`Plan::world`]). Call this before
/// [`revalidate_plan`](crate::revalidate_plan). Without `windows` the facts count as certain.
pub fn require_gain(snapshot: &Snapshot, windows: &[Snapshot], plan: Plan, least: f64) -> Plan {
    let stays = necessary_part(snapshot, &plan.assignment);
    if stays == plan.assignment {
        return plan;
    }
    let gain = gain(snapshot, windows, (&stays, &plan.assignment), least);
    if gain.expected < least || gain.lower_bound() < 0.0 { only(snapshot, plan, stays) } else { plan }
}

/// The plan with only a part of its moves. The caller adds the reasons of unplaced actors.
fn only(snapshot: &Snapshot, plan: Plan, assignment: Assignment) -> Plan {
    let cost = full_cost(snapshot, &assignment);
    let optimal = plan.optimal && cost.vector(snapshot) == plan.cost.vector(snapshot);
    let waits = ActorIx::first(snapshot.actors()).filter(|actor| assignment[*actor].is_none());
    let is_incumbent = assignment == snapshot.incumbent();
    Plan {
        unplaced: waits.map(|actor| Unplaced { actor, reasons: Vec::new(), holds: None }).collect(),
        excused: snapshot.excused(&assignment),
        moves: plan
            .moves
            .into_iter()
            .filter(|it| assignment[it.actor] == plan.assignment[it.actor])
            .collect(),
        cost,
        optimal,
        proven_by: plan.proven_by.filter(|_| optimal),
        judged: Judged::None,
        stage: if is_incumbent { Stage::Incumbent } else { plan.stage },
        found_by: if is_incumbent { FoundBy::Incumbent } else { plan.found_by },
        assignment,
        ..plan
    }
}

fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    full_cost(snapshot, assignment).vector(snapshot)
}
