//! From places that nobody checked to a feasible answer.

use placement::ix::ActorIx;
use placement::{Assignment, Budget, Snapshot, SolveError, Strategy};
use search::{Greedy, improve};

/// Two feasible answers near `start`: with single steps that pay, and with overload mended first and such steps after.
///
/// # Errors
/// As the strategies of `placement`.
pub fn repair(
    snapshot: &Snapshot,
    start: &Assignment,
    budget: &Budget,
) -> Result<[Assignment; 2], SolveError> {
    // Without effort nothing is searched: whoever stands against a limit is placed anew, and overload is mended.
    let mended = improve(snapshot, start, &Budget { effort: Some(0), ..*budget });
    Ok([steps(snapshot, start, budget)?, steps(snapshot, &mended.assignment, budget)?])
}

/// Keeps every place of `start` that is feasible beside those before it, places the rest, and takes steps that pay.
///
/// It is `greedy` on the same world in which everybody runs where `start` says: keeping what runs is what it does first.
fn steps(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Result<Assignment, SolveError> {
    let mut file = snapshot.file().clone();
    let actors = ActorIx::first(snapshot.actors()).zip(&mut file.actors);
    for (actor, given) in actors.filter(|(_, given)| !given.fixed) {
        // What may stay only where it runs now may not where METIS put it.
        let place = start[actor].filter(|unit| snapshot.candidates(actor).binary_search(unit).is_ok());
        given.current = place.map(|unit| snapshot.unit_id(unit).to_owned());
        given.move_cost = 0;
    }
    // Limits that `start` passes are none that what runs breaks: nobody is excused of them.
    let world = snapshot
        .in_numbers(file, snapshot.rules().cloned())
        .map_err(|problem| SolveError::Solver(problem.to_string()))?;
    Ok(Greedy.solve(&world, &Budget { effort: None, ..*budget })?.assignment)
}
