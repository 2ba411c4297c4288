//! Whether a plan gains enough to justify its migrations, given that measured facts are uncertain.

use placement::ix::ActorIx;
use placement::{Assignment, Criterion, FoundBy, Judged, Plan, Snapshot, Stage, Unplaced};

use crate::commit::full_cost;

/// Half the width of a 95 % interval, in standard errors (normal approximation).
const STANDARD_ERRORS: f64 = 1.96;

/// Relative gain of an assignment over the incumbent, at the first objective level at which they differ.
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

/// The gain of `goes` over the incumbent. `None` if the gain does not matter: the incumbent is infeasible, more actors
/// are placed, or fewer grandfathered violations remain.
///
/// `windows` are snapshots of single time windows with the units, actors and levels of `snapshot`: those it was made
/// from, and earlier ones, which may recur.
pub fn gain(snapshot: &Snapshot, windows: &[Snapshot], goes: &Assignment) -> Option<Gain> {
    let stays = snapshot.incumbent();
    if !snapshot.violations(&stays).is_empty() {
        return None;
    }
    let costs = |of: &Snapshot| (vector(of, &stays), vector(of, goes));
    let (stay, go) = costs(snapshot);
    let Some(level) = stay.iter().zip(&go).position(|(stay, go)| stay != go) else {
        return Some(Gain::default());
    };
    let is_mended = |level: usize| snapshot.objectives().levels()[level - 1].contains(&Criterion::Excused);
    if level == 0 || is_mended(level) {
        return None;
    }
    // The incumbent may violate limits in one window only; other windows then lack the level of grandfathered
    // violations.
    let from_end = stay.len() - level;
    let part = |stay: i64, go: i64| {
        #[expect(clippy::cast_precision_loss, reason = "costs are at most 2^53")]
        let part = (stay - go) as f64 / stay.max(1) as f64;
        part
    };
    let each = windows.iter().map(|window| {
        let (stay, go) = costs(window);
        part(stay[stay.len() - from_end], go[go.len() - from_end])
    });
    let uncertain = STANDARD_ERRORS * standard_error(&each.collect::<Vec<f64>>());
    Some(Gain { expected: part(stay[level], go[level]), margin: uncertain })
}

/// Returns the plan, or the incumbent if the gain is below `least` or its 95 % interval includes a loss.
///
/// `snapshot` includes the constraints that the policy derives ([`Plan::world`]). Call this before
/// [`revalidate_plan`](crate::revalidate_plan). Without `windows` the facts count as certain.
pub fn require_gain(snapshot: &Snapshot, windows: &[Snapshot], plan: Plan, least: f64) -> Plan {
    match gain(snapshot, windows, &plan.assignment) {
        Some(gain) if gain.expected < least || gain.lower_bound() < 0.0 => stay(snapshot, plan),
        _ => plan,
    }
}

/// The incumbent as a plan. The caller adds the reasons of unplaced actors.
fn stay(snapshot: &Snapshot, plan: Plan) -> Plan {
    let assignment = snapshot.incumbent();
    let cost = full_cost(snapshot, &assignment);
    let optimal = plan.optimal && cost.vector(snapshot) == plan.cost.vector(snapshot);
    let waits = ActorIx::first(snapshot.actors()).filter(|actor| assignment[*actor].is_none());
    Plan {
        unplaced: waits.map(|actor| Unplaced { actor, reasons: Vec::new(), holds: None }).collect(),
        excused: snapshot.excused(&assignment),
        moves: Vec::new(),
        cost,
        optimal,
        proven_by: plan.proven_by.filter(|_| optimal),
        judged: Judged::None,
        stage: Stage::Incumbent,
        found_by: FoundBy::Incumbent,
        assignment,
        ..plan
    }
}

fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    full_cost(snapshot, assignment).vector(snapshot)
}

/// Standard error of the mean; 0 for fewer than two numbers.
#[expect(clippy::cast_precision_loss, reason = "windows are few")]
fn standard_error(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (variance / count).sqrt()
}
