//! Whether a plan gains enough to be carried out: moving costs what no criterion counts, and facts are not certain.

use placement::ix::ActorIx;
use placement::{Assignment, Criterion, FoundBy, Judged, Plan, Snapshot, Stage, Unplaced};

use crate::commit::full_cost;

/// Half the width of a 95 % interval, in standard errors (normal approximation).
const STANDARD_ERRORS: f64 = 1.96;

/// What an assignment gains against what runs, at the first level at which they differ, as a part of what staying costs
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// By all facts together; below 0 is a loss.
    pub expected: f64,
    /// Half the width of its 95 % interval, by how far the gains of single windows differ; 0 where there are less than two.
    pub margin: f64,
}

impl Gain {
    /// What is gained though chance is against it.
    pub fn lower_bound(self) -> f64 {
        self.expected - self.margin
    }
}

/// What going to `goes` gains; `None` where that is no question: what runs may not stay, more actors have a place, or fewer are
/// excused of what is broken already.
///
/// `windows` are the facts of single windows, each with the units, actors and levels of `snapshot`: those that it is made
/// of, and others that were seen before, which may come again.
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
    // What runs may break limits in one window and not in another, which has no level of who is excused then.
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

/// The plan, or staying where going gains too little: less than `least`, as a part of what staying costs at the first level
/// that differs, or where the 95 % interval of the [`gain`] has a loss in it.
///
/// `snapshot` has what the policy derives of it ([`Plan::world`]). Asked before [`still_stands`](crate::still_stands), by
/// the operator, at a desk, and in a simulated world; who knows of no single windows gives none, and then the facts count as
/// certain.
pub fn require_gain(snapshot: &Snapshot, windows: &[Snapshot], plan: Plan, least: f64) -> Plan {
    match gain(snapshot, windows, &plan.assignment) {
        Some(gain) if gain.expected < least || gain.lower_bound() < 0.0 => stay(snapshot, plan),
        _ => plan,
    }
}

/// What runs, as a plan; why who has no place, is for the caller to tell anew.
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

/// Of the mean of some numbers; 0 of less than two.
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
