//! Places that plans avoid.

use placement::file::Constraint;
use placement::ix::UnitIx;
use placement::{Answer, Budget, NoPolicy, PlanError, Snapshot, SolveError, Strategy, plan};
use search::Greedy;
use testkit::line::world;

/// Places of the actors in a plan, in order.
fn places(snapshot: &Snapshot) -> String {
    let plan = plan(snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let place = |unit: &Option<UnitIx>| unit.map_or("-", |unit| snapshot.unit_id(unit)).to_owned();
    plan.assignment.iter().map(place).collect::<Vec<_>>().join(" ")
}

#[test]
fn places_to_avoid_are_used_only_if_actors_stay_unplaced_otherwise() {
    for (units, actors, rules, expected) in [
        // a talks to c on u, which it avoids
        ("u:cpu:9 v:cpu:9", "a:cpu=1 c:cpu=1:at=u,fixed", "a to c 9; avoid a units u", "v"),
        ("u:cpu:9 v:cpu:9", "a:cpu=1 c:cpu=1:at=u,fixed", "a to c 9", "u"),
        // one that is there stays
        ("u:cpu:9 v:cpu:9", "a:cpu=1:at=u c:cpu=1:at=u,fixed", "a to c 9; avoid a units u", "u"),
        ("u:cpu:9 v:cpu:9:slots=1", "a:cpu=1 b:cpu=1", "apart unit a b; avoid a,b units u", "u v"),
        ("u:cpu:9 v:cpu:9", "a:cpu=1 b:gpu=1", "avoid a units u", "v -"),
        ("u:cpu:9:node=n v:cpu:9:node=m", "a:cpu=1", "avoid a nodes n,m", "u"),
    ] {
        let found = places(&world(units, actors, rules));
        let found = found.split(' ').take(expected.split(' ').count()).collect::<Vec<_>>();
        let (mut found, mut expected) = (found, expected.split(' ').collect::<Vec<_>>());
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{units}; {actors}; {rules}");
    }
}

/// Fails while places are excluded, and searches otherwise.
struct FailsStrictly(fn(String) -> SolveError);

impl Strategy for FailsStrictly {
    fn name(&self) -> &'static str {
        "fails"
    }
    fn summary(&self) -> &'static str {
        "fails"
    }
    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let is_strict = snapshot.file().constraints.iter().any(|it| matches!(it, Constraint::Never { .. }));
        if is_strict { Err((self.0)("gone".to_owned())) } else { Greedy.solve(snapshot, budget) }
    }
}

#[test]
fn a_defect_in_the_search_without_places_to_avoid_is_not_hidden_by_a_second_plan() {
    let snapshot = world("u:cpu:9", "a:cpu=1", "avoid a units u");
    let planned = |error: fn(String) -> SolveError| {
        plan(&snapshot, &FailsStrictly(error), &NoPolicy, &Budget::effort(None, 1))
    };
    assert!(planned(SolveError::Solver).unwrap().unplaced.is_empty(), "a solver that crashed proves nothing");
    let refused = planned(SolveError::Proof).unwrap_err();
    assert!(matches!(refused, PlanError::Solve { source: SolveError::Proof(_), .. }), "{refused:?}");
}
