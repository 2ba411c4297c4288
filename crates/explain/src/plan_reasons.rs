//! The reasons of a plan: why actors move, and why some are unplaced.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{Core, UnplacedCause, explain_unplaced};
use crate::kept_rules::{Effects, Policy};
use crate::limit::{Limit, actors_of};
use crate::obstacles::moves;
use crate::wording::few;
use placement::ix::{ActorIx, IxVec, UnitIx};
use placement::{Assignment, Judge, Plan, Snapshot, Unplaced};

/// A reasonable effort for reasons: a second or two at 500 nodes.
pub const REASONS_EFFORT: u64 = 20_000_000;

/// What unplaced actors with the same reasons share: requirements, constraints that name them, current unit, and effects on the
/// policy's rules.
type UnplacedClass = (String, Vec<usize>, Option<UnitIx>, Vec<(UnitIx, Effects)>);

/// Fills in why each actor of a plan moves, and why each unplaced one has no place.
///
/// `snapshot` and `judge` are those of the plan; `effort` is as for [`explain_unplaced`](crate::explain_unplaced), for all
/// unplaced actors together.
pub fn explain_plan(plan: &mut Plan, snapshot: &Snapshot, judge: &dyn Judge, effort: u64) {
    let world = plan.world(snapshot);
    plan.moves = moves(&world, &plan.assignment);
    if !plan.unplaced.is_empty() {
        let asked = with_open_rules(&world, snapshot, judge, &plan.assignment);
        plan.unplaced = reasons(&asked, &plan.assignment, effort);
    }
}

/// The same snapshot with the policy grounded also for placements that only a dropped limit permits, for questions about
/// unplaced actors. `bare` is the snapshot before the policy derived anything. If the grounding exceeds its budget, the rules
/// stay as they are.
#[must_use]
pub fn with_open_rules(
    snapshot: &Snapshot,
    bare: &Snapshot,
    judge: &dyn Judge,
    assignment: &Assignment,
) -> Snapshot {
    let displaced: Vec<ActorIx> =
        ActorIx::first(snapshot.actors()).filter(|&actor| assignment[actor].is_none()).collect();
    match snapshot.rules().map(|_| judge.rules_everywhere(bare, &displaced)) {
        Some(Ok(rules)) => snapshot.clone().with_rules_everywhere(rules),
        _ => snapshot.clone(),
    }
}

/// Why each unplaced actor of a feasible assignment has no place. Similar actors share one answer.
pub fn reasons(snapshot: &Snapshot, assignment: &Assignment, effort: u64) -> Vec<Unplaced> {
    let actors: Vec<ActorIx> =
        ActorIx::first(snapshot.actors()).filter(|&actor| assignment[actor].is_none()).collect();
    let alike = alike(snapshot, &actors);
    let different = alike.iter().collect::<BTreeSet<_>>().len();
    let share = effort / (different.max(1) as u64);
    let mut known: BTreeMap<&UnplacedClass, (ActorIx, UnplacedCause)> = BTreeMap::new();
    let unplaced = actors.iter().zip(&alike).map(|(&actor, alike)| {
        let (asked, why) = known
            .entry(alike)
            .or_insert_with(|| (actor, explain_unplaced(snapshot, actor, assignment, share)));
        unplaced_because(snapshot, actor, &why.of_another(*asked, actor), assignment)
    });
    unplaced.collect()
}

fn alike(snapshot: &Snapshot, actors: &[ActorIx]) -> Vec<UnplacedClass> {
    let mut rules: IxVec<ActorIx, Vec<usize>> = IxVec::of(Vec::new(), snapshot.actors());
    if !actors.is_empty() {
        for (position, constraint) in snapshot.file().constraints.iter().enumerate() {
            for actor in actors_of(snapshot, constraint) {
                rules[actor].push(position);
            }
        }
    }
    let policy = snapshot.rules().map(|rules| Policy::new(rules, actors));
    let alike = |(at, &actor): (usize, &ActorIx)| {
        let given = &snapshot.file().actors[actor.at()];
        let needs = serde_json::to_string(&(&given.runs_on, &given.requires))
            .expect("plain data with text keys always serializes");
        let effects =
            policy.as_ref().map(|policy| policy.effects(ActorIx::new(at)).to_vec()).unwrap_or_default();
        (needs, std::mem::take(&mut rules[actor]), snapshot.running(actor), effects)
    };
    actors.iter().enumerate().map(alike).collect()
}

fn unplaced_because(
    snapshot: &Snapshot,
    actor: ActorIx,
    why: &UnplacedCause,
    assignment: &Assignment,
) -> Unplaced {
    let (reasons, holds) = match why {
        UnplacedCause::Blocked(core) => (core.lines(snapshot, assignment), Some(core.holds)),
        UnplacedCause::Room(moves) => {
            let place = |&(actor, unit): &(ActorIx, UnitIx)| {
                format!("{} on {}", snapshot.short_name(actor), snapshot.unit_id(unit))
            };
            let places: Vec<String> = moves.iter().map(place).collect();
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            (vec![format!("there is room: {}", few(&places))], None)
        }
    };
    Unplaced { actor, reasons, holds }
}

impl UnplacedCause {
    /// The same reason, for a similar actor.
    fn of_another(&self, asked: ActorIx, actor: ActorIx) -> Self {
        match self {
            UnplacedCause::Blocked(core) => {
                let mut core = Core { actor, ..core.clone() };
                for limit in core.elements.iter_mut().flat_map(|element| &mut element.limits) {
                    if *limit == (Limit::Kinds { actor: asked }) {
                        *limit = Limit::Kinds { actor };
                    }
                }
                UnplacedCause::Blocked(core)
            }
            UnplacedCause::Room(moves) => {
                let of =
                    |&(moved, unit): &(ActorIx, UnitIx)| (if moved == asked { actor } else { moved }, unit);
                UnplacedCause::Room(moves.iter().map(of).collect())
            }
        }
    }
}
