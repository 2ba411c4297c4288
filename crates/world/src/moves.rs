//! Elective moves of a decision: those that improve the placement and are not necessary.

use std::collections::BTreeMap;

use control::ElectiveMove;
use crds::{MicroTime, Move, MoveProgress, MoveStep, Placement};

/// An elective move of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecidedMove<'a> {
    /// The short name of the actor.
    pub actor: &'a str,
    /// The unit that it leaves.
    pub from: &'a str,
    /// Its new unit.
    pub to: &'a str,
    /// When the move was decided.
    pub decided_at: &'a MicroTime,
    /// Its recorded progress.
    pub progress: Option<&'a MoveProgress>,
}

/// All elective moves of a decision.
pub fn elective_moves(placement: &Placement) -> impl Iterator<Item = DecidedMove<'_>> {
    let status = placement.status.as_ref().map_or(&[][..], |status| status.moves.as_slice());
    placement.spec.moves.iter().filter_map(move |decided| {
        let Move { actor, from, to, gain_percent, decided_at, .. } = decided;
        let (from, decided_at, _) = (from.as_deref()?, decided_at.as_ref()?, (*gain_percent)?);
        let progress = status.iter().find(|it| it.actor == *actor && it.decided_at == *decided_at);
        Some(DecidedMove { actor, from, to, decided_at, progress })
    })
}

/// Elective moves that are not finished: the unit that the actor leaves stays reserved, so that it can go back.
pub fn moves_in_progress(placement: &Placement) -> Vec<DecidedMove<'_>> {
    let in_progress = |it: &DecidedMove| it.progress.is_none_or(|progress| progress.step.is_in_progress());
    let moves: Vec<DecidedMove> = elective_moves(placement).filter(in_progress).collect();
    if moves.is_empty() {
        return moves;
    }
    let assignments = placement.spec.assignments.iter();
    let places: BTreeMap<&str, &str> = assignments.map(|it| (it.actor.as_str(), it.unit.as_str())).collect();
    moves.into_iter().filter(|it| places.get(it.actor) == Some(&it.to)).collect()
}

/// The same for the decisions of `control`, by actor.
pub(crate) fn elective(placement: &Placement) -> BTreeMap<String, ElectiveMove> {
    let of = |it: DecidedMove| {
        let progress = it.progress.filter(|progress| progress.step == MoveStep::Starting);
        let starting_since = progress.and_then(|progress| progress.since.0.as_duration().try_into().ok());
        (it.actor.to_owned(), ElectiveMove { starting_since })
    };
    moves_in_progress(placement).into_iter().map(of).collect()
}
