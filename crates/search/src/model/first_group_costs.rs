//! The costs of channels between groups before any item is placed, and the time that their updates take.

use std::collections::BTreeMap;

use placement::group_costs::GroupCosts;
use placement::ix::{EndIx, ItemIx, UnitIx};
use placement::weighted::{Groups, NOWHERE, Weighted};

use crate::stop_clock::{Expired, StopClock, TIES_PER_PRICE};

/// The costs with the fixed actors at home and all others unplaced; `None` where ties represent all channels.
pub(crate) fn first_costs(model: &Weighted, stop: &dyn Fn() -> bool) -> Result<Option<GroupCosts>, Expired> {
    let Some(groups) = &model.groups else { return Ok(None) };
    let mut counts: BTreeMap<(EndIx, UnitIx), i64> = BTreeMap::new();
    for (item, home) in (model.free..).map(ItemIx::new).zip(&model.fixed_places) {
        for (end, count) in groups.shares(item) {
            *counts.entry((*end, *home)).or_default() += count;
        }
    }
    let mut clock = StopClock::new(stop);
    let mut costs = GroupCosts::new(groups.of.len(), model.units);
    for ((end, home), count) in counts {
        clock.spend(update_work(groups, model.units, end))?;
        follow(&mut costs, model, end, count, (NOWHERE, home));
    }
    Ok(Some(costs))
}

/// The time of updating the costs after one actor of a group has moved, in prices.
pub(super) fn update_work(groups: &Groups, units: usize, end: EndIx) -> usize {
    let is_table = GroupCosts::has_table(groups.of.len(), units);
    1 + if is_table { groups.of[end].len() * units / TIES_PER_PRICE } else { 0 }
}

/// Moves actors of a group between two units, either of which may be none.
#[inline]
pub(crate) fn follow(
    costs: &mut GroupCosts,
    model: &Weighted,
    end: EndIx,
    count: i64,
    path: (UnitIx, UnitIx),
) {
    let Some(groups) = &model.groups else { return };
    let add_row = |place, times, costs: &mut [i64]| model.exchange.add_row(place, times, costs);
    costs.follow((end, &groups.of[end]), count, path, add_row);
}
