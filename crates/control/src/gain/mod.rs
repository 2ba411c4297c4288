//! Whether a plan gains enough to justify its migrations, given that measured facts are uncertain.

pub(crate) mod gate;
pub(crate) mod load;
pub(crate) mod necessary;
pub(crate) mod outcome;
pub(crate) mod price;
pub(crate) mod prune;

use placement::{Assignment, Plan, Snapshot};

use crate::gain::gate::standard_error;
use crate::gain::necessary::{necessary_part, only};
use crate::gain::price::{gain_at, noticeable_level};

/// Half the width of a 95 % interval, in standard errors (normal approximation).
const STANDARD_ERRORS: f64 = 1.96;

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
