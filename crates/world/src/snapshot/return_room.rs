//! Room for actors on the way, so that they can go back.

use std::collections::BTreeMap;

use crds::Placement;

use crate::index::load::by_unit::LoadSum;
use crate::moves::moves_in_progress;

/// The room that actors on the way keep at the units which they leave, by unit, so that they can go back: what they need beyond
/// those that arrive there by other moves of the decision. `demand` returns what an actor needs on a unit, without its work.
pub(crate) fn room_for_return(
    placement: &Placement,
    keeps: impl Fn(&str) -> bool,
    demand: impl Fn(&str, &str) -> LoadSum,
) -> BTreeMap<String, LoadSum> {
    let (mut leave, mut arrive) = (BTreeMap::<&str, LoadSum>::new(), BTreeMap::<&str, LoadSum>::new());
    for it in moves_in_progress(placement).into_iter().filter(|it| keeps(it.actor)) {
        leave.entry(it.from).or_default().add(&demand(it.actor, it.from));
        arrive.entry(it.to).or_default().add(&demand(it.actor, it.to));
    }
    let none = LoadSum::default();
    let excess = |(unit, sum): (&str, LoadSum)| {
        let sum = sum.excess_over(arrive.get(unit).unwrap_or(&none));
        (sum != none).then(|| (unit.to_owned(), sum))
    };
    leave.into_iter().filter_map(excess).collect()
}
