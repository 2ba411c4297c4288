//! Repairs a plan that conflicts with other commits, within milliseconds.

use std::collections::BTreeSet;

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Budget, Criterion, Plan, Rules, Snapshot, Strategy};

use crate::commit::{full_cost, insert_feasible, rebase_plan, transfer};
use crate::trigger::pressure;

/// Steps for each actor if the policy has rules, which the construction ignores.
const STEPS_PER_ACTOR: u64 = 4;

/// Limit on actors times units for placing actors again that did not conflict: a few tenths of a second.
const MAX_CHOICES: usize = 100_000;

/// Keeps what is still valid of a plan and lets `quick` place the conflicting actors again.
///
/// An actor conflicts if it lost its unit, or if other applications added load there. Running actors move only if this
/// improves the whole. `None` if no repair satisfies the policy's rules; then the plan has to be computed again.
///
/// When the budget's `stop` fires, the best repair so far is returned, or `None` if it places nothing.
pub fn repair_plan(
    planned: &Snapshot,
    plan: &Plan,
    newest: &Snapshot,
    quick: &dyn Strategy,
    budget: &Budget,
) -> Option<Box<Plan>> {
    let places = transfer(planned, plan, newest);
    let incumbent = newest.incumbent();
    let differs = |&actor: &ActorIx| {
        !newest.is_fixed(actor) && places[actor].is_some() && places[actor] != incumbent[actor]
    };
    let all: Vec<(ActorIx, UnitIx)> = ActorIx::first(newest.actors())
        .filter(differs)
        .filter_map(|actor| Some((actor, places[actor]?)))
        .collect();
    let newcomers: Vec<(ActorIx, UnitIx)> =
        all.iter().copied().filter(|(actor, _)| incumbent[*actor].is_none()).collect();
    // Three variants: without moves, with moves, and with all new actors placed again, which may have been planned
    // together where only some fit now. The last one is skipped for many actors.
    let anew: &[(ActorIx, UnitIx)] = &[];
    let may_begin_anew = newcomers.len().saturating_mul(newest.units()) <= MAX_CHOICES;
    let kept = [newcomers.as_slice(), all.as_slice()].into_iter().chain(may_begin_anew.then_some(anew));
    let in_time = kept.take_while(|_| !(budget.stop)());
    let mended = in_time.map(|some| {
        let kept = insert_feasible(newest, incumbent.clone(), some, budget.stop).0;
        place_again((planned, plan), newest, quick, (&kept, newcomers.as_slice()), budget)
    });
    let value = |assignment: &Assignment| {
        let cost = full_cost(newest, assignment);
        (cost.unplaced, cost.vector(newest))
    };
    // A rule may require an actor that no longer exists.
    let is_allowed = |assignment: &Assignment| {
        user_rules(newest).is_none_or(|rules| rules.violations(assignment).is_empty())
    };
    let best = mended.filter(is_allowed).min_by_key(value)?;
    if best == incumbent && (budget.stop)() {
        return None;
    }
    Some(Box::new(rebase_plan(planned, plan, newest, best)))
}

/// Rules of the policy. Grandfathered violations are also rules, but no actor placed here can cause one.
pub(crate) fn user_rules(snapshot: &Snapshot) -> Option<&Rules> {
    snapshot.rules().filter(|rules| rules.are_written())
}

/// Places actors again that have no unit, or whose unit is more loaded than planned. Returns `kept` if there is no time
/// or no improvement.
fn place_again(
    (planned, plan): (&Snapshot, &Plan),
    newest: &Snapshot,
    quick: &dyn Strategy,
    (kept, newcomers): (&Assignment, &[(ActorIx, UnitIx)]),
    budget: &Budget,
) -> Assignment {
    let before = pressure(planned, &plan.assignment).overload;
    let now = pressure(newest, kept).overload;
    let crowded: BTreeSet<UnitIx> = now
        .iter()
        .filter(|(unit, amount)| before.get(*unit).is_none_or(|before| before < *amount))
        .filter_map(|(unit, _)| newest.unit(unit))
        .collect();
    // Sorted by actor.
    let is_new = |actor: ActorIx| newcomers.binary_search_by_key(&actor, |(comer, _)| *comer).is_ok();
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
    // With all other actors fixed the rules are unchanged; satisfying them takes some steps.
    let (rest, effort) = match user_rules(newest) {
        Some(rules) => {
            (newest.in_numbers(file, Some(rules.clone())), STEPS_PER_ACTOR * newest.actors() as u64)
        }
        // Greedy construction only.
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
    // An overloaded unit is better than none.
    if is_feasible(&answer.assignment) && cost(&answer.assignment) <= cost(kept) {
        answer.assignment
    } else {
        kept.clone()
    }
}
