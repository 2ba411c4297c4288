//! Lower bounds of a snapshot's levels.

use std::collections::BTreeMap;

use placement::criteria::CriterionClass;
use placement::ix::ActorIx;
use placement::{Criterion, Objectives, Snapshot};

use crate::bound::kind_view::KindView;
use crate::bound::linear_program::MAX_COEFFICIENTS;
use crate::bound::pairs::Pairs;
use crate::bound::pdhg::{IterationLimit, Point, ascend};
use crate::bound::relaxation::Relaxation;
use crate::bound::triangle_cuts;

/// A round that gains less than the bound over this is idle.
const MIN_GAIN_DIVISOR: i64 = 5000;

/// Idle rounds in a row after which the level is given up.
const MAX_IDLE_ROUNDS: usize = 2;

/// Coefficients times iterations for one level: about half a minute.
const MAX_WORK: usize = 4_000_000_000;

/// Iterations between two separations of triangle cuts, at least.
const ITERATIONS: usize = 1500;

/// Proven lower bounds by key of the level, given that a placement with the vector `best`, `unplaced` first, exists.
///
/// A level is bounded under the condition that the levels above are at their bounds, so the first level that `best` does
/// not prove is the last one reported. There is no bound with unplaced actors. `stop` is checked often; once it is true,
/// the bounds proven so far are returned. Without it the result is the same on every machine.
pub fn lower_bounds(snapshot: &Snapshot, best: &[i64], stop: &dyn Fn() -> bool) -> BTreeMap<String, i64> {
    let mut bounds = BTreeMap::new();
    if best.first() != Some(&0) {
        return bounds;
    }
    let mut overload_limit = None;
    for (level, &value) in snapshot.objectives().levels().iter().zip(&best[1..]) {
        let bound = if value == 0 {
            // No criterion is negative.
            Some(0)
        } else if limits_load(level) || needs_listed_pairs(snapshot, level) {
            None
        } else {
            level_bound(snapshot, level, overload_limit, value, stop)
        };
        // That a level is not negative is no news.
        let Some(bound) = bound.filter(|bound| *bound > 0 || value == 0) else { break };
        bounds.insert(Objectives::key(level), bound);
        if bound != value {
            break;
        }
        if limits_load(level) {
            overload_limit = max_equal_overload(snapshot);
        }
    }
    bounds
}

/// Estimated coefficients times iterations until the first bound. `None` where the program would be too large to be
/// solved.
pub fn estimated_work(snapshot: &Snapshot) -> Option<u64> {
    let view = KindView::new(snapshot, None);
    let pairs = Pairs::new(&view).all.len();
    let ties = view.problem.edges.iter().map(Vec::len).sum::<usize>() / 2;
    let kinds = view.problem.kinds.len();
    // A message has a variable for each two kinds, in two rows. A pair that may share a unit has one for each kind, in a
    // few rows of its own and in two for each dimension.
    let coefficients = ties * 2 * kinds * kinds + pairs * kinds * (6 + 2 * view.dimensions.len());
    u64::try_from(coefficients.checked_mul(ITERATIONS)?).ok().filter(|_| coefficients <= MAX_COEFFICIENTS)
}

/// How far above its capacity a unit can be where the difference between the units is 0: then all are equally far above,
/// which bounds the overload by the total work. `None` where there is no unit.
fn max_equal_overload(snapshot: &Snapshot) -> Option<i64> {
    let problem = snapshot.problem();
    let heaviest = |actor: ActorIx| {
        problem.candidates(actor).iter().map(|&unit| problem.work(actor, unit)).max().unwrap_or(0)
    };
    let work: i128 = problem.current.positions().map(|actor| i128::from(heaviest(actor))).sum();
    let room: i128 = problem.capacity.iter().map(|capacity| i128::from(*capacity)).sum();
    let units = i128::try_from(snapshot.units()).ok()?;
    i64::try_from((work - room).max(0).checked_div(units)?).ok()
}

/// Whether a level counts pairs of actors that no edge represents.
fn needs_listed_pairs(snapshot: &Snapshot, level: &[Criterion]) -> bool {
    let is_of_pairs = |criterion: &Criterion| criterion.measure().class() == CriterionClass::Pairs;
    snapshot.problem().channels.are_whole() && level.iter().any(is_of_pairs)
}

fn limits_load(level: &[Criterion]) -> bool {
    level.iter().any(|criterion| criterion.measure().is_limit_of_load())
}

/// The best bound found for one level, at most `value`, which is attained.
fn level_bound(
    snapshot: &Snapshot,
    level: &[Criterion],
    overload_limit: Option<i64>,
    value: i64,
    stop: &dyn Fn() -> bool,
) -> Option<i64> {
    let view = KindView::new(snapshot, overload_limit);
    let mut relaxation = Relaxation::new(&view, level, stop);
    let mut point = Point::default();
    let mut best: Option<i64> = None;
    let (mut work, mut idle) = (0, 0);
    loop {
        let coefficients = relaxation.program.coefficients();
        if coefficients > MAX_COEFFICIENTS || work >= MAX_WORK || best == Some(value) || stop() {
            return best;
        }
        let program = &relaxation.program;
        let before = best;
        ascend(program, &mut point, IterationLimit { steps: ITERATIONS, stop }, &mut |multipliers| {
            // No criterion is negative.
            best = best.max(program.proven_bound(multipliers).map(|bound| bound.max(0)));
        });
        if stop() {
            return best;
        }
        work += ITERATIONS * coefficients;
        let found = triangle_cuts::add_cuts(&mut relaxation, &point.values, 500 + coefficients / 20, stop);
        let gain = best.unwrap_or(0) - before.unwrap_or(0);
        idle = if gain.saturating_mul(MIN_GAIN_DIVISOR) <= best.unwrap_or(0) { idle + 1 } else { 0 };
        if idle > MAX_IDLE_ROUNDS || (found == 0 && gain == 0) {
            return best;
        }
    }
}
