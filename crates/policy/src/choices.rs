//! Where actors can be, which bounds what a policy has to be written out for.

use placement::Snapshot;

/// Where actors can be, and who is asked about having no place.
pub(crate) struct Choices {
    /// Actor and unit.
    pub places: Vec<(usize, usize)>,
    /// Actors that can be without a place.
    pub movable: Vec<usize>,
    /// Whether what the program forbids is left out.
    pub forbids: bool,
}

/// Where actors could be if limits fell: on any unit of their kinds, and those of `anywhere` on any unit.
pub(crate) fn open_choices(snapshot: &Snapshot, anywhere: &[usize]) -> Choices {
    let mut open = Choices { forbids: false, ..choices(snapshot) };
    for &actor in &open.movable {
        let closed = |unit: &usize| snapshot.candidates(actor).binary_search(unit).is_err();
        let of_kind =
            |unit: &usize| anywhere.contains(&actor) || snapshot.implementation(actor, *unit).is_some();
        let more = (0..snapshot.units()).filter(closed).filter(of_kind);
        open.places.extend(more.map(|unit| (actor, unit)));
    }
    open
}

/// Where actors can be.
pub(crate) fn choices(snapshot: &Snapshot) -> Choices {
    let mut choices = Choices { places: Vec::new(), movable: Vec::new(), forbids: true };
    for actor in 0..snapshot.actors() {
        if snapshot.is_fixed(actor) {
            choices.places.extend(snapshot.current(actor).map(|home| (actor, home)));
        } else {
            choices.movable.push(actor);
            choices.places.extend(snapshot.candidates(actor).iter().map(|unit| (actor, *unit)));
        }
    }
    choices
}
