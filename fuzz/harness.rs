//! What must hold of any bytes whatever: no panic, what is accepted is sound, and its numbers are exact or refused.

use std::cell::Cell;

use exact::{bound, branch};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Budget, Cost, Criterion, NoPolicy, Plan, PlanError, Snapshot};
use scale::{Rounding, Scale};
use search::{Greedy, Local};
use testkit::naive;

/// clingo's scaling, by its file: it is arithmetic alone, and the crate that it is of links clingo.
#[path = "../crates/asp/src/scale.rs"]
mod scale;

/// Worlds above this are read and not planned: finding faults needs many worlds, not large ones.
const LARGEST: usize = 40;
const EFFORT: u64 = 2_000;
/// Thousands of steps of the walk.
const WALK: u64 = 2;
/// Steps of branch and bound.
const WORK: u64 = 100_000;
/// How often the search for bounds asks whether it is to stop.
const LOOKS: u32 = 60;
/// At most so many pairs of actors, and assignments, are looked at one by one.
const PAIRS: usize = 2_000;
const ASSIGNMENTS: usize = 300;

/// Reads; what is accepted is written and read back as the same bytes, what is refused says where and why.
pub fn snapshot(data: &[u8]) -> Option<Snapshot> {
    let text = std::str::from_utf8(data).ok()?;
    match Snapshot::read(text) {
        Ok(snapshot) => {
            let written = snapshot.write();
            let again = Snapshot::read(&written).expect("what was written is read");
            assert_eq!(again.write(), written);
            Some(snapshot)
        }
        Err(error) => {
            assert!(!error.path.is_empty() && !error.problem.is_empty(), "{error:?}");
            None
        }
    }
}

/// Reads, plans, proves, scales and explains; the plan is feasible, and priced by what the definitions say.
pub fn plan(data: &[u8]) {
    let Some(snapshot) = snapshot(data) else { return };
    if snapshot.actors() > LARGEST || snapshot.units() > LARGEST {
        return;
    }
    let budget = Budget::effort(Some(EFFORT), 1);
    let plan = placement::plan(&snapshot, &Greedy, &NoPolicy, &budget);
    if snapshot.file().policy.as_ref().is_some_and(|policy| policy.program.is_some()) {
        // Nothing here runs programs, and none is passed over in silence.
        assert!(matches!(plan, Err(PlanError::Judge(_))), "{plan:?}");
        return;
    }
    let plan = plan.expect("greedy always has a feasible answer");
    is_sound(&snapshot, &plan);
    let walked = placement::plan(&snapshot, &Local, &NoPolicy, &Budget::effort(Some(WALK), 1));
    let walked = walked.expect("so has the walk");
    is_sound(&snapshot, &walked);
    bounds(&snapshot, &walked.cost);
    branches(&snapshot, &plan);
    scales(&snapshot, &walked);
    let everybody: Vec<_> = plan.assignment.positions().collect();
    let explained = explain::explain(&snapshot, &plan.assignment, &everybody);
    assert_eq!(explained.placed.len(), plan.assignment.iter().flatten().count());
    let reasons = explain::reasons(&snapshot, &plan.assignment, EFFORT);
    assert_eq!(reasons.len(), plan.unplaced.len());
    assert!(reasons.iter().all(|unplaced| !unplaced.reasons.is_empty()), "{reasons:?}");
}

fn is_sound(snapshot: &Snapshot, plan: &Plan) {
    is_feasible(snapshot, &plan.assignment);
    let policy = snapshot.penalty(&plan.assignment);
    assert_eq!(plan.cost, Cost { policy, ..snapshot.cost(&plan.assignment) });
}

/// Criteria that are always worked out, with their place among the values of [`naive::cost`], and those that are where a level
/// names them.
const TOLD: [(Criterion, usize); 5] = [
    (Criterion::Overload, 0),
    (Criterion::Communication, 1),
    (Criterion::Annoyance, 2),
    (Criterion::Interference, 3),
    (Criterion::Migration, 4),
];
const AIMED: [(Criterion, usize); 8] = [
    (Criterion::Bottleneck, 7),
    (Criterion::Consolidate, 8),
    (Criterion::Energy, 9),
    (Criterion::Spread, 10),
    (Criterion::Latency, 11),
    (Criterion::Licence, 12),
    (Criterion::Busiest, 13),
    (Criterion::Congestion, 14),
];

/// Feasible, and priced, as the definitions say once more, by names and in 128 bits.
fn is_feasible(snapshot: &Snapshot, assignment: &Assignment) {
    assert_eq!(snapshot.violations(assignment), []);
    if snapshot.problem().channels.pairs > PAIRS {
        return;
    }
    let file = testkit::written_out(snapshot.file());
    let place = |(actor, place): (ActorIx, &Option<UnitIx>)| {
        Some((snapshot.actor_id(actor), &file.units[(*place)?.at()]))
    };
    let placed: naive::Placed = assignment.enumerate().filter_map(place).collect();
    assert!(naive::feasible(&file, &placed), "{}", snapshot.write());
    let aimed = AIMED.into_iter().filter(|(criterion, _)| snapshot.objectives().names(*criterion));
    let (cost, naive) = (snapshot.cost(assignment), naive::cost(&file, &placed));
    for (criterion, at) in TOLD.into_iter().chain(aimed) {
        assert_eq!(i128::from(cost.of(criterion)), naive[at], "{criterion} in {}", snapshot.write());
    }
    assert_eq!([i128::from(cost.unplaced), snapshot.penalty(assignment).into()], naive[5..7]);
}

/// No bound is above what was found.
fn bounds(snapshot: &Snapshot, found: &Cost) {
    let (vector, looks) = (found.vector(snapshot), Cell::new(0));
    let stop = || {
        looks.set(looks.get() + 1);
        looks.get() > LOOKS
    };
    let bounds = bound::lower_bounds(snapshot, &vector, &stop);
    for (level, value) in snapshot.objectives().levels().iter().zip(&vector[1..]) {
        let Some(bound) = bounds.get(&placement::Objectives::key(level)) else { return };
        assert!(bound <= value, "{bound} bounds {value}: {}", snapshot.write());
        if bound < value {
            return;
        }
    }
}

/// What branch and bound finds is better each time, and sound; what it proves nothing is better than.
fn branches(snapshot: &Snapshot, start: &Plan) {
    let (mut best, limits) =
        (start.cost.vector(snapshot), branch::WorkLimits { work: WORK, stop: &|| false });
    let mut found = |assignment: Assignment| {
        is_feasible(snapshot, &assignment);
        let vector = vector(snapshot, &assignment);
        assert!(vector < best, "{vector:?} after {best:?}: {}", snapshot.write());
        best = vector;
        true
    };
    let Some(solved) = branch::solve(snapshot, &start.assignment, &limits, &mut found) else { return };
    let movable = &snapshot.problem().movable;
    let choices = snapshot.units() + 1;
    let all = u32::try_from(movable.len()).ok().and_then(|movable| choices.checked_pow(movable));
    let Some(all) = all.filter(|all| *all <= ASSIGNMENTS && solved.status == branch::ProofStatus::Proven)
    else {
        return;
    };
    let mut assignment = start.assignment.clone();
    for number in 0..all {
        let mut digits = number;
        for &actor in movable {
            assignment[actor] = (digits % choices).checked_sub(1).map(UnitIx::new);
            digits /= choices;
        }
        if snapshot.violations(&assignment).is_empty() {
            assert!(vector(snapshot, &assignment) >= best, "{assignment:?} in {}", snapshot.write());
        }
    }
}

fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) }.vector(snapshot)
}

/// Numbers that clingo can compute with, or a refusal: what is feasible with cautious ones is feasible, and what is feasible is
/// so with relaxed ones, and costs no more there.
fn scales(snapshot: &Snapshot, plan: &Plan) {
    let Ok(scale) = Scale::of(snapshot) else { return };
    let apply = |rounding| scale.apply(snapshot, rounding).expect("what was scaled is a snapshot");
    let [cautious, relaxed] = [Rounding::Cautious, Rounding::Relaxed].map(apply);
    let (ours, theirs) = (vector(snapshot, &plan.assignment), vector(&relaxed, &plan.assignment));
    if scale.is_exact() {
        assert!(scale.keeps_limits(snapshot));
        assert_eq!(ours, theirs);
        return;
    }
    assert_eq!(relaxed.violations(&plan.assignment), [], "{}", snapshot.write());
    if scale.bounds(snapshot) {
        let levels = snapshot.objectives().levels().iter().enumerate();
        // The difference of two overloads does not shrink with both.
        for (level, _) in levels.filter(|(_, level)| !level.contains(&Criterion::Overload)) {
            let bound = i128::from(theirs[level + 1]) * i128::from(scale.level(snapshot, level));
            assert!(bound <= ours[level + 1].into(), "{bound} bounds {ours:?}: {}", snapshot.write());
        }
    }
    let planned = placement::plan(&cautious, &Greedy, &NoPolicy, &Budget::effort(Some(EFFORT), 1));
    let planned = planned.expect("greedy always has a feasible answer");
    assert_eq!(snapshot.violations(&planned.assignment), [], "{}", snapshot.write());
}
