//! From places that nobody checked to a lawful answer.

use placement::{Answer, Assignment, Budget, Greedy, Snapshot, SolveError, Strategy};

/// Keeps every place of `start` that is lawful beside those before it, places the rest, and mends what single steps
/// can mend.
///
/// It is `greedy` on the same world in which everybody runs where `start` says: keeping what runs is what it does first.
pub fn repair(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Result<Answer, SolveError> {
    let mut file = snapshot.file().clone();
    for (actor, given) in file.actors.iter_mut().enumerate().filter(|(_, given)| !given.fixed) {
        let place = start[actor].filter(|unit| snapshot.candidates(actor).binary_search(unit).is_ok());
        given.current = place.map(|unit| snapshot.unit_id(unit).to_owned());
        given.move_cost = 0;
    }
    let world = Snapshot::new(file).map_err(|problem| SolveError::Solver(problem.to_string()))?;
    Greedy.solve(&world, budget)
}
