//! A plan that others overtook is mended where it collided, in the newest world and in milliseconds.

use std::collections::BTreeSet;

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Budget, Criterion, Plan, Rules, Snapshot, Strategy};

use crate::commit::{full_cost, insert, rebase_plan, transfer};
use crate::trigger::pressure;

/// Pieces of effort for each actor where a policy has rules: what is placed without regard to them is repaired.
const OBEYING: u64 = 4;

/// Places that are looked at at most for actors that are placed anew though they did not collide: a few tenths of a second.
const MOST_CHOICES: usize = 100_000;

/// The plan in the newest world: what still holds of it stays, and what collided is placed again by `quick`.
///
/// Collided is who has no place any more, or came to where others brought more work meanwhile than was planned with.
/// Nobody moves unless the whole is better for it. `None` where no way of that is found that a policy's rules allow; then the
/// plan is made again.
///
/// Of the budget the clock counts: where it says stop, the best of what was found until then is taken, with as many as had a place by
/// then, and `None` is what is left where nobody had.
pub fn repair_plan(
    planned: &Snapshot,
    plan: &Plan,
    newest: &Snapshot,
    quick: &dyn Strategy,
    budget: &Budget,
) -> Option<Box<Plan>> {
    let places = transfer(planned, plan, newest);
    let runs = newest.incumbent();
    let differs =
        |&actor: &ActorIx| !newest.is_fixed(actor) && places[actor].is_some() && places[actor] != runs[actor];
    let all: Vec<(ActorIx, UnitIx)> = ActorIx::first(newest.actors())
        .filter(differs)
        .filter_map(|actor| Some((actor, places[actor]?)))
        .collect();
    let comers: Vec<(ActorIx, UnitIx)> =
        all.iter().copied().filter(|(actor, _)| runs[*actor].is_none()).collect();
    // Without moves; with them; and as if nothing had been planned for those who are nowhere yet: they may have been
    // planned to be together where only some of them fit now. Where those are many what did not collide stays.
    let anew: &[(ActorIx, UnitIx)] = &[];
    let may_begin_anew = comers.len().saturating_mul(newest.units()) <= MOST_CHOICES;
    let kept = [comers.as_slice(), all.as_slice()].into_iter().chain(may_begin_anew.then_some(anew));
    let in_time = kept.take_while(|_| !(budget.stop)());
    let mended = in_time.map(|some| {
        let kept = insert(newest, runs.clone(), some, budget.stop).0;
        place_again((planned, plan), newest, quick, (&kept, comers.as_slice()), budget)
    });
    let value = |assignment: &Assignment| {
        let cost = full_cost(newest, assignment);
        (cost.unplaced, cost.vector(newest))
    };
    // A rule may ask for somebody who is not there any more.
    let is_allowed = |assignment: &Assignment| {
        user_rules(newest).is_none_or(|rules| rules.violations(assignment).is_empty())
    };
    let best = mended.filter(is_allowed).min_by_key(value)?;
    if best == runs && (budget.stop)() {
        return None;
    }
    Some(Box::new(rebase_plan(planned, plan, newest, best)))
}

/// The rules that somebody wrote. Limits that are broken already are rules as well, and nobody who is placed again can come to
/// one.
pub(crate) fn user_rules(snapshot: &Snapshot) -> Option<&Rules> {
    snapshot.rules().filter(|rules| rules.are_written())
}

/// Places those again who have no place, or came to where it is more crowded than was planned. Where there is no time, or nothing better
/// is found in it, what is kept stays as it is.
fn place_again(
    (planned, plan): (&Snapshot, &Plan),
    newest: &Snapshot,
    quick: &dyn Strategy,
    (kept, comers): (&Assignment, &[(ActorIx, UnitIx)]),
    budget: &Budget,
) -> Assignment {
    let before = pressure(planned, &plan.assignment).overload;
    let now = pressure(newest, kept).overload;
    let crowded: BTreeSet<UnitIx> = now
        .iter()
        .filter(|(unit, amount)| before.get(*unit).is_none_or(|before| before < *amount))
        .filter_map(|(unit, _)| newest.unit(unit))
        .collect();
    // They are in order.
    let is_new = |actor: ActorIx| comers.binary_search_by_key(&actor, |(comer, _)| *comer).is_ok();
    let is_free = |actor: ActorIx| {
        !newest.is_fixed(actor) && kept[actor].is_none_or(|unit| crowded.contains(&unit) && is_new(actor))
    };
    let free = ActorIx::first(newest.actors()).filter(|&actor| is_free(actor)).count() as u64;
    if free == 0 || (budget.stop)() {
        return kept.clone();
    }
    let mut file = newest.file().clone();
    let actors = ActorIx::first(newest.actors()).zip(&mut file.actors);
    for (position, actor) in actors.filter(|(_, actor)| !actor.fixed) {
        actor.fixed = !is_free(position);
        actor.current = kept[position].filter(|_| actor.fixed).map(|unit| newest.unit_id(unit).to_owned());
    }
    // Where everybody stays who is not placed again the rules are the same ones, and it takes some steps to obey them.
    let (rest, effort) = match user_rules(newest) {
        Some(rules) => (newest.in_numbers(file, Some(rules.clone())), OBEYING * newest.actors() as u64),
        // Each of them is placed where it costs least, and nobody is moved after that.
        None => (Snapshot::new(file), free),
    };
    let budget = Budget { effort: Some(effort), seed: plan.seed, ..*budget };
    let Some(answer) = rest.ok().and_then(|rest| quick.solve(&rest, &budget).ok()) else {
        return kept.clone();
    };
    let is_feasible = |assignment: &Assignment| {
        let broken = |assignment: &Assignment| pressure(newest, assignment).violated;
        broken(assignment).is_subset(&broken(kept))
    };
    let cost = |assignment: &Assignment| {
        let cost = full_cost(newest, assignment);
        (cost.unplaced, cost.of(Criterion::Overload))
    };
    // A place that is more crowded is better than none.
    if is_feasible(&answer.assignment) && cost(&answer.assignment) <= cost(kept) {
        answer.assignment
    } else {
        kept.clone()
    }
}
