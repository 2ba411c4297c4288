//! Repairs an unchecked assignment to a feasible one.

use placement::ix::ActorIx;
use placement::{Assignment, Budget, Snapshot, SolveError, Strategy};
use search::{Greedy, improve};

/// Two feasible answers near `start`: one by improving moves, one with overload repaired before the moves.
///
/// # Errors
/// As for the strategies of `placement`.
pub fn repair(
    snapshot: &Snapshot,
    start: &Assignment,
    budget: &Budget,
) -> Result<[Assignment; 2], SolveError> {
    // Zero effort means no search: actors that violate a limit are placed anew, and overload is repaired.
    let repaired = improve(snapshot, start, &Budget { effort: Some(0), ..*budget });
    Ok([steps(snapshot, start, budget)?, steps(snapshot, &repaired.assignment, budget)?])
}

/// Keeps each placement of `start` that is feasible with the previous ones, places the rest, and applies improving moves.
///
/// Implemented as `greedy` on the snapshot in which `start` is running, since greedy keeps running actors first.
fn steps(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Result<Assignment, SolveError> {
    let mut file = snapshot.file().clone();
    let actors = ActorIx::first(snapshot.actors()).zip(&mut file.actors);
    for (actor, given) in actors.filter(|(_, given)| !given.fixed) {
        // Grandfathered placements are valid only where the actor runs now.
        let place = start[actor].filter(|unit| snapshot.candidates(actor).binary_search(unit).is_ok());
        given.current = place.map(|unit| snapshot.unit_id(unit).to_owned());
        given.move_cost = 0;
    }
    // Violations in `start` must not become grandfathered.
    let world = snapshot
        .in_numbers(file, snapshot.rules().cloned())
        .map_err(|problem| SolveError::Solver(problem.to_string()))?;
    Ok(Greedy.solve(&world, &Budget { effort: None, ..*budget })?.assignment)
}
