//! Whether some more actors can have a place beside those that have one, wherever all of them may then be.
//!
//! In this order, each from cheap to expensive: a free unit; a chain of moves that ends at one; proofs that there is none,
//! by the views of [`super::views`]; and at last a complete search of what the actors' places can depend on. What is
//! answered is certain; where the effort ends first, that is said.

use std::collections::BTreeSet;

use crate::caps;
use crate::ruled::{Kept, Seats};
use crate::search::Search;
use crate::verdict::{Effort, Verdict};
use crate::views::Views;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, Snapshot};

/// Asks whether all of `whom` can join those that `base`, a feasible assignment without them, gives a place. There is nobody
/// else in the world.
pub(crate) fn ask(
    world: &Snapshot,
    kept: &Kept,
    whom: &[ActorIx],
    base: &Assignment,
    effort: &mut Effort,
) -> Verdict {
    if let Some(found) = one_by_one(world, kept, whom, base, effort) {
        return Verdict::Fits(found);
    }
    let views = Views::new(world, kept, whom, base);
    effort.spend(world.units() + world.actors());
    if views.refute() || caps::refute(&views) {
        return Verdict::Never;
    }
    Search::new(&views).run(effort)
}

/// Gives each a place in turn, others making way where they have to; none where somebody finds none so.
fn one_by_one(
    world: &Snapshot,
    kept: &Kept,
    whom: &[ActorIx],
    base: &Assignment,
    effort: &mut Effort,
) -> Option<Assignment> {
    let most = effort.left;
    let mut seats = Seats::of(world, kept, base);
    for &actor in whom {
        effort.spend(world.candidates(actor).len());
        if let Some(&unit) = world.candidates(actor).iter().find(|unit| seats.seats(actor, **unit)) {
            seats.put(actor, unit);
            continue;
        }
        let found = effort.lend(most / 8, |effort| chain(world, actor, &mut seats, effort))?;
        seats = Seats::of(world, kept, &found);
    }
    Some(seats.state.assignment)
}

/// Somebody without a place, and the step that made it so.
struct Homeless {
    actor: ActorIx,
    /// Where it was, and which step's actor goes there.
    displaced: Option<(UnitIx, usize)>,
}

/// Looks for moves, one actor to where another makes way, that end with everybody placed: breadth first, each actor
/// made homeless once. The state is left as it was.
fn chain(world: &Snapshot, actor: ActorIx, seats: &mut Seats, effort: &mut Effort) -> Option<Assignment> {
    let mut hosted: IxVec<UnitIx, Vec<ActorIx>> = IxVec::of(Vec::new(), world.units());
    for (other, place) in seats.state.assignment.enumerate().filter(|(other, _)| !world.is_fixed(*other)) {
        if let Some(unit) = *place {
            hosted[unit].push(other);
        }
    }
    let mut seen = BTreeSet::from([actor]);
    let mut queue = vec![Homeless { actor, displaced: None }];
    let mut next = 0;
    while next < queue.len() {
        let steps = steps(&queue, next);
        for &(mover, _) in &steps {
            seats.take(mover);
        }
        let homeless = queue[next].actor;
        seats.take(homeless);
        for &(mover, to) in &steps {
            seats.put(mover, to);
        }
        let mut found = None;
        for &unit in world.candidates(homeless) {
            if !effort.spend(1) {
                break;
            }
            if seats.seats(homeless, unit) {
                seats.put(homeless, unit);
                found = Some(seats.state.assignment.clone());
                seats.take(homeless);
                break;
            }
            for &other in &hosted[unit] {
                if seen.contains(&other) || seats.state.assignment[other] != Some(unit) {
                    continue;
                }
                effort.spend(1);
                seats.take(other);
                if seats.admits(homeless, unit) {
                    seen.insert(other);
                    queue.push(Homeless { actor: other, displaced: Some((unit, next)) });
                }
                seats.put(other, unit);
            }
        }
        // Back to where everybody was, the latest step first.
        for &(mover, _) in &steps {
            seats.take(mover);
        }
        for homeless in ancestors(&queue, next) {
            if let Some((unit, _)) = queue[homeless].displaced {
                seats.put(queue[homeless].actor, unit);
            }
        }
        if found.is_some() || effort.left == 0 {
            return found;
        }
        next += 1;
    }
    None
}

/// The entry and those that led to it.
fn ancestors(queue: &[Homeless], from: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |&entry| queue[entry].displaced.map(|(_, parent)| parent)).collect()
}

/// The moves that make the entry's actor homeless: who goes where.
fn steps(queue: &[Homeless], entry: usize) -> Vec<(ActorIx, UnitIx)> {
    let displaced = ancestors(queue, entry).into_iter().filter_map(|entry| queue[entry].displaced);
    displaced.map(|(unit, parent)| (queue[parent].actor, unit)).collect()
}
