//! The bounds of a snapshot's levels, as far as something is known.

use std::collections::BTreeMap;

use placement::criteria::Class;
use placement::ix::ActorIx;
use placement::{Criterion, Objectives, Snapshot};

use crate::bound::kind_view::KindView;
use crate::bound::linear_program::MOST_COEFFICIENTS;
use crate::bound::pairs::Pairs;
use crate::bound::pdhg::{Leave, Point, ascend};
use crate::bound::relaxation::Relaxation;
use crate::bound::triangle_cuts;

/// A round that gains less than the bound over this is idle.
const LEAST_GAIN: i64 = 5000;

/// Idle rounds in a row that are borne.
const PATIENCE: usize = 2;

/// Coefficients times steps of one search: half a minute or so.
const WORK: usize = 4_000_000_000;

/// Steps between two looks for triangles, at least.
const STEPS: usize = 1500;

/// Proven lower bounds by key of the level, for whoever knows a placement with the vector `best`, `unplaced` first.
///
/// A level is bounded given that those above it are at their bounds; the first that `best` does not reach is the last
/// that is spoken of. Nothing is said where nothing is known: with actors left over, or where a level above is open.
/// `stop` is asked often; once it is true, what is proven by then is returned. Without it the result is the same on
/// every machine.
pub fn lower_bounds(snapshot: &Snapshot, best: &[i64], stop: &dyn Fn() -> bool) -> BTreeMap<String, i64> {
    let mut bounds = BTreeMap::new();
    if best.first() != Some(&0) {
        return bounds;
    }
    let mut full = None;
    for (level, &value) in snapshot.objectives().levels().iter().zip(&best[1..]) {
        let bound = if value == 0 {
            // Nothing is below 0.
            Some(0)
        } else if limits_load(level) || reads_pairs(snapshot, level) {
            None
        } else {
            level_bound(snapshot, level, full, value, stop)
        };
        // Of a level above 0, that it is not below 0 is no news.
        let Some(bound) = bound.filter(|bound| *bound > 0 || value == 0) else { break };
        bounds.insert(Objectives::key(level), bound);
        if bound != value {
            break;
        }
        if limits_load(level) {
            full = most_over(snapshot);
        }
    }
    bounds
}

/// Coefficients times steps until the first of several searches has an idea of a bound, roughly. `None` where the program would be
/// larger than any that is searched.
pub fn estimated_work(snapshot: &Snapshot) -> Option<u64> {
    let world = KindView::new(snapshot, None);
    let pairs = Pairs::new(&world).all.len();
    let ties = world.problem.edges.iter().map(Vec::len).sum::<usize>() / 2;
    let kinds = world.problem.kinds.len();
    // A message has a variable for each two kinds, in two rows; whoever may share a unit has one for each kind, in a few of its own and
    // in two for each quantity that is limited.
    let coefficients = ties * 2 * kinds * kinds + pairs * kinds * (6 + 2 * world.dimensions.len());
    u64::try_from(coefficients.checked_mul(STEPS)?).ok().filter(|_| coefficients <= MOST_COEFFICIENTS)
}

/// How far above its capacity a unit can be where the difference between the units is 0.
///
/// Then all are equally far above, which takes work that there may not be. `None` where there is no unit.
fn most_over(snapshot: &Snapshot) -> Option<i64> {
    let problem = snapshot.problem();
    let heaviest = |actor: ActorIx| {
        problem.candidates(actor).iter().map(|&unit| problem.work(actor, unit)).max().unwrap_or(0)
    };
    let work: i128 = problem.current.positions().map(|actor| i128::from(heaviest(actor))).sum();
    let room: i128 = problem.capacity.iter().map(|capacity| i128::from(*capacity)).sum();
    let units = i128::try_from(snapshot.units()).ok()?;
    i64::try_from((work - room).max(0).checked_div(units)?).ok()
}

/// Whether a level counts pairs of actors that no edge stands for.
fn reads_pairs(snapshot: &Snapshot, level: &[Criterion]) -> bool {
    let is_of_pairs = |criterion: &Criterion| criterion.measure().class() == Class::Pairs;
    snapshot.problem().channels.are_whole() && level.iter().any(is_of_pairs)
}

fn limits_load(level: &[Criterion]) -> bool {
    level.iter().any(|criterion| criterion.measure().is_limit_of_load())
}

/// The best bound of one level that the search finds; never above `value`, which is reached.
fn level_bound(
    snapshot: &Snapshot,
    level: &[Criterion],
    full: Option<i64>,
    value: i64,
    stop: &dyn Fn() -> bool,
) -> Option<i64> {
    let world = KindView::new(snapshot, full);
    let mut relaxation = Relaxation::new(&world, level, stop);
    let mut point = Point::default();
    let mut best: Option<i64> = None;
    let (mut work, mut idle) = (0, 0);
    loop {
        let coefficients = relaxation.program.coefficients();
        if coefficients > MOST_COEFFICIENTS || work >= WORK || best == Some(value) || stop() {
            return best;
        }
        let program = &relaxation.program;
        let before = best;
        ascend(program, &mut point, Leave { steps: STEPS, stop }, &mut |multipliers| {
            // No criterion is negative.
            best = best.max(program.proves(multipliers).map(|bound| bound.max(0)));
        });
        if stop() {
            return best;
        }
        work += STEPS * coefficients;
        let found = triangle_cuts::add_cuts(&mut relaxation, &point.values, 500 + coefficients / 20, stop);
        let gain = best.unwrap_or(0) - before.unwrap_or(0);
        idle = if gain.saturating_mul(LEAST_GAIN) <= best.unwrap_or(0) { idle + 1 } else { 0 };
        if idle > PATIENCE || (found == 0 && gain == 0) {
            return best;
        }
    }
}
