//! From a snapshot to a plan: properties of `plan` with any strategy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use placement::file::{Constraint, Policy};
use placement::ix::{ActorIx, UnitIx};
use placement::{
    Answer, Assignment, Budget, Derived, FoundBy, Judge, JudgeError, Judgement, NoPolicy, Plan, PlanError,
    ProvenBy, Snapshot, SolveError, Stage, StoppedBy, Strategy, Unplaced, plan,
};
use proptest::prelude::*;
use search::{Greedy, Random};

use testkit::line::{any_world, assignment, at_most_two, world};

use crate::strategies;

fn by(strategy: &dyn Strategy, snapshot: &Snapshot) -> Plan {
    plan(snapshot, strategy, &NoPolicy, &Budget::effort(None, 1)).unwrap()
}

/// A plan as text.
fn describe(snapshot: &Snapshot, plan: &Plan) -> String {
    let mut lines = Vec::new();
    for (actor, place) in plan.assignment.enumerate().filter(|(actor, _)| !snapshot.is_fixed(*actor)) {
        if let (Some(unit), None) = (*place, snapshot.current(actor)) {
            lines.push(format!("start {} on {}", snapshot.actor_id(actor), snapshot.unit_id(unit)));
        }
    }
    let world = plan.world(snapshot);
    for step in explain::moves(&world, &plan.assignment) {
        let [actor, from, to] =
            [snapshot.actor_id(step.actor), snapshot.unit_id(step.from), snapshot.unit_id(step.to)];
        lines.push(format!("move {actor} from {from} to {to}: {}", step.reason));
    }
    for left in &plan.unplaced {
        let obstacles = explain::obstacles(&world, left.actor, &plan.assignment);
        lines.push(format!("unplaced {}: {}", snapshot.actor_id(left.actor), obstacles.join("; ")));
    }
    lines.push(plan.cost.in_words(snapshot));
    lines.join("\n")
}

/// A strategy that returns a given answer with a given claim.
struct Fixed {
    places: &'static str,
    optimal: bool,
}

impl Strategy for Fixed {
    fn name(&self) -> &'static str {
        "says"
    }
    fn summary(&self) -> &'static str {
        "answers what it was given"
    }
    fn solve(&self, snapshot: &Snapshot, _: &Budget) -> Result<Answer, SolveError> {
        Ok(Answer {
            assignment: assignment(snapshot, self.places),
            bound: [("overload".to_owned(), 0)].into(),
            optimal: self.optimal,
            effort: 1,
            stage: Stage::Whole,
            found_by: FoundBy::Exact,
            proven_by: self.optimal.then_some(ProvenBy::Enumeration),
            stopped_by: if self.optimal { StoppedBy::Proof } else { StoppedBy::Effort },
        })
    }
}

fn described(snapshot: &Snapshot, places: &'static str) -> String {
    describe(snapshot, &by(&Fixed { places, optimal: false }, snapshot))
}

/// An error with its causes.
fn rejection(snapshot: &Snapshot, places: &'static str, judge: &dyn Judge) -> String {
    let error =
        plan(snapshot, &Fixed { places, optimal: false }, judge, &Budget::effort(None, 1)).unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn an_actor_that_fits_nowhere_is_named_and_does_not_block_the_others() {
    let snapshot =
        world("gpu0:gpu:8:mem=4 cpu0:cpu:64", "cam:cpu=9,gpu=2 big:gpu=1:mem=16 log:cpu=1", "cam to log 3");
    insta::assert_snapshot!(describe(&snapshot, &by(&Greedy, &snapshot)), @r"
    start cam on cpu0
    start log on cpu0
    unplaced big: gpu0: the unit has 4 mem left, 16 needed
    unplaced 1, overload 0, communication+migration 0, annoyance 0
    ");
}

#[test]
fn every_obstacle_of_an_unplaced_actor_is_reported() {
    let units = "u0:cpu:9:slots=0 u1:cpu:9:slots=0 v:cpu:9:mem=1,slots=1 w:cpu:9:node=m,mem=9 x:cpu:9:mem=9 g:gpu:9 h:gpu:9";
    let actors =
        "a:cpu=1,fpga=1:mem=4,node.cores=2 taken:cpu=1:at=v,fixed b:gpu=1 c:gpu=1 d:gpu=1 e:npu=1 f:";
    let rules =
        "node n cores=1; node m cores=9; never a units w; apart unit b c d; pin d g; pin b g; pin c h";
    let snapshot = world(units, actors, rules);
    insta::assert_snapshot!(describe(&snapshot, &by(&Greedy, &snapshot)), @r"
    start b on g
    start c on h
    unplaced a: there is no unit of kind fpga; 2 units of kind cpu: all 0 slots are taken; v: in use; w: kept away by constraints[0]; x: the node has 1 cores left, 2 needed
    unplaced d: g: each on a unit of its own; h: pinned to g
    unplaced e: there is no unit of kind npu
    unplaced f: no implementation
    unplaced 4, overload 0, communication+migration 0, annoyance 0
    ");
}

#[test]
fn every_reason_for_a_move_is_reported() {
    let units = "u:cpu:9 v:cpu:9:slots=1 g:gpu:9 w:cpu:9:node=m";
    let actors = "a:cpu=1:at=g b:cpu=1:at=v,move=3 c:cpu=1:at=u,move=3 d:cpu=1:at=w,fixed e:cpu=9:at=v";
    let snapshot = world(units, actors, "c to d 1; never e units v");
    insta::assert_snapshot!(describe(&snapshot, &by(&Greedy, &snapshot)), @r"
    move a from g to w: no implementation for gpu any more
    move c from u to w: staying would raise overload by 1
    move e from v to u: cannot stay on v: kept away by constraints[0]
    excused 0, overload 0, communication+migration 3, annoyance 0
    ");
}

#[test]
fn swapping_actors_make_room_for_each_other() {
    let snapshot = world(
        "u:cpu:9:slots=1 v:cpu:9:slots=1,mem=1 w:gpu:9",
        "a:cpu=1:at=u b:cpu=1:at=v c:gpu=1:at=w,fixed",
        "a to c 1; prefer a v 9",
    );
    insta::assert_snapshot!(described(&snapshot, "a=v b=u"), @r"
    move a from u to v: not enough room beside the other actors on u
    move b from v to u: not enough room beside the other actors on v
    overload 0, communication+migration 5, annoyance 0, policy 0
    ");
}

#[test]
fn running_actors_stay_unless_the_answer_is_better() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1:at=u b:cpu=1:at=v", "");
    let kept = by(&Fixed { places: "a=v b=u", optimal: true }, &snapshot);
    assert_eq!(kept.moves, vec![]);
    assert!(kept.optimal, "an answer of equal cost is as optimal");
    let worse = world("u:cpu:9 v:cpu:9", "a:cpu=1:at=u b:cpu=1:at=u", "a to b 1");
    let kept = by(&Fixed { places: "a=u b=v", optimal: false }, &worse);
    assert_eq!(kept.moves, vec![]);
}

/// A claim of optimality that the incumbent refutes is a defect of the strategy.
#[test]
fn a_claim_refuted_by_the_incumbent_is_an_error() {
    let snapshot =
        world("u:cpu:9 v:cpu:9:node=m", "a:cpu=1:at=u b:cpu=1:at=u,move=1", "a to b 1; a annoys b 1");
    assert!(refuted(&snapshot).starts_with("says claims that no placement costs less than ["));
    let snapshot = world(
        "u:cpu:9 v:cpu:9:node=m g:gpu:9",
        "a:cpu=1:at=u b:cpu=1:at=u,move=1 c:gpu=1:at=g,fixed",
        "a to b 1; a to c 1",
    );
    assert!(refuted(&snapshot).starts_with("says claims that no placement costs less than ["));
    let modest = by(&Fixed { places: "a=u b=v", optimal: false }, &snapshot);
    assert_eq!((modest.moves, modest.optimal), (vec![], false), "what runs is kept");
    assert_eq!(modest.bound.keys().map(String::as_str).collect::<Vec<_>>(), ["annoyance", "overload"]);
}

/// The error of a strategy that claims optimality for b on v.
fn refuted(snapshot: &Snapshot) -> String {
    let says = Fixed { places: "a=u b=v", optimal: true };
    plan(snapshot, &says, &NoPolicy, &Budget::effort(None, 1)).unwrap_err().to_string()
}

#[test]
fn moves_without_gain_are_reverted() {
    let snapshot = world("u:cpu:9 v:cpu:9 w:cpu:9", "a:cpu=1:at=u b:cpu=1:at=u c:cpu=1:at=v", "a to c 5");
    insta::assert_snapshot!(described(&snapshot, "a=v b=w c=v"), @r"
    move a from u to v: staying would raise communication+migration by 5
    overload 0, communication+migration 0, annoyance 0
    ");
}

#[test]
fn levels_at_their_bounds_are_proven() {
    let snapshot = world("u:cpu:9", "a:cpu=1", "");
    let plan = by(&Greedy, &snapshot);
    assert!(plan.optimal, "nothing is below 0");
    let bounds: Vec<String> = plan.bound.iter().map(|(level, bound)| format!("{level} {bound}")).collect();
    assert_eq!(bounds.join(", "), "annoyance 0, communication+migration 0, overload 0");
    let full = world("u:cpu:9:slots=0", "a:cpu=1", "");
    assert!(!by(&Greedy, &full).optimal, "something is unplaced: only a proof would do");
}

#[test]
fn an_infeasible_answer_is_refused() {
    let snapshot = world("u:cpu:9:slots=0 g:gpu:9", "a:cpu=1 b:cpu=1", "");
    insta::assert_snapshot!(rejection(&snapshot, "a=g b=u", &NoPolicy), @"says proposed what is not feasible: a cannot run on g: no implementation for gpu; u hosts 1 actors and has 0 slots; this is a defect, report it with the snapshot");
}

struct Strict;

impl Judge for Strict {
    fn derive(&self, _: &Snapshot) -> Result<Derived, JudgeError> {
        Ok(Derived::default())
    }
    fn judge(&self, _: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        let violations = if assignment.iter().any(|place| *place == Some(UnitIx::new(0))) {
            vec!["nothing on the first unit".into()]
        } else {
            vec![]
        };
        Ok(Judgement { violations, penalty: 7, is_unverified: false })
    }
}

#[test]
fn violations_found_by_the_judge_reject_a_plan_and_penalties_count() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1", "objectives policy");
    insta::assert_snapshot!(rejection(&snapshot, "a=u", &Strict), @"says found no placement that obeys the policy: nothing on the first unit");
    let plan =
        plan(&snapshot, &Fixed { places: "a=v", optimal: false }, &Strict, &Budget::effort(None, 1)).unwrap();
    assert_eq!(plan.cost.policy, 7);
}

/// Needs some time to confirm a plan.
struct Slow(Duration);

impl Judge for Slow {
    fn derive(&self, _: &Snapshot) -> Result<Derived, JudgeError> {
        Ok(Derived::default())
    }
    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        NoPolicy.judge(snapshot, assignment)
    }
    fn time_to_confirm(&self, _: &Snapshot, most: Duration) -> Duration {
        self.0.min(most)
    }
}

/// Records the time that it is given.
#[derive(Default)]
struct Punctual(Mutex<Vec<(Option<Duration>, bool)>>);

impl Strategy for Punctual {
    fn name(&self) -> &'static str {
        "punctual"
    }
    fn summary(&self) -> &'static str {
        "for tests"
    }
    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        self.0.lock().unwrap().push((budget.left.map(|left| left()), (budget.stop)()));
        Greedy.solve(snapshot, &Budget::effort(None, 1))
    }
}

#[test]
fn a_search_leaves_the_judge_its_time() {
    let snapshot = world("u:cpu:9", "a:cpu=1", "");
    let given = |left: Option<u64>, judge: u64| {
        let strategy = Punctual::default();
        let left = left.map(|left| move || Duration::from_millis(left));
        let left = left.as_ref().map(|left| left as &(dyn Fn() -> Duration + Sync));
        let budget = Budget { effort: None, seed: 1, stop: &|| false, left };
        plan(&snapshot, &strategy, &Slow(Duration::from_millis(judge)), &budget).unwrap();
        let (left, stops) = strategy.0.into_inner().unwrap()[0];
        (left.map(|left| left.as_millis()), stops)
    };
    assert_eq!(given(None, 300), (None, false), "without a clock nothing is reserved");
    assert_eq!(given(Some(2000), 0), (Some(2000), false));
    assert_eq!(given(Some(2000), 300), (Some(1700), false));
    assert_eq!(given(Some(2000), 4000), (Some(1500), false), "at most a quarter");
    assert_eq!(given(Some(0), 300), (Some(0), false));
}

#[test]
fn grounded_rules_need_one_judgement() {
    // Three actors run on u, where two are allowed; two moves without gain are reverted.
    let snapshot =
        world("u:cpu:9 v:cpu:9 w:cpu:9", "a:cpu=1:at=u b:cpu=1:at=u c:cpu=1:at=u d:cpu=1:at=w", "");
    let (says, judge) = (Fixed { places: "a=v b=w c=v d=w", optimal: false }, AtMostTwo::default());
    let plan = plan(&snapshot, &says, &judge, &Budget::effort(None, 1)).unwrap();
    assert_eq!(plan.assignment, assignment(&snapshot, "a=u b=u c=v d=w"));
    assert_eq!(judge.verdicts(), 1);
}

/// Derives a pin, and nothing else.
struct Pins(&'static str, &'static str);

impl Judge for Pins {
    fn derive(&self, _: &Snapshot) -> Result<Derived, JudgeError> {
        let pin = Constraint::Pin {
            actor: self.0.into(),
            unit: self.1.into(),
            reason: Some("the policy says so".into()),
        };
        Ok(Derived { constraints: vec![pin], rules: None })
    }
    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        NoPolicy.judge(snapshot, assignment)
    }
}

#[test]
fn derived_constraints_reach_every_strategy() {
    let snapshot = world("u:cpu:9 v:cpu:9 w:cpu:9", "a:cpu=1 b:cpu=1", "");
    for strategy in strategies() {
        let plan = plan(&snapshot, strategy, &Pins("a", "w"), &Budget::effort(None, 3)).unwrap();
        assert_eq!(plan.assignment[ActorIx::new(0)], Some(UnitIx::new(2)), "{}", strategy.name());
    }
    insta::assert_snapshot!(rejection(&snapshot, "a=u", &Pins("a", "w")), @"says proposed what is not feasible: a not on u: the policy says so; this is a defect, report it with the snapshot");
    insta::assert_snapshot!(rejection(&snapshot, "a=u", &Pins("a", "x")), @"the policy derived a constraint that does not fit: constraints[0].unit: there is no unit `x`; add it or correct the name");
}

#[test]
fn an_answer_that_violates_a_rule_is_repaired() {
    let crowded = world("u:cpu:9", "a:cpu=1 b:cpu=1 c:cpu=1 d:cpu=1", "");
    let unrestricted = Random.solve(&crowded, &Budget::effort(None, 1)).unwrap();
    assert_eq!(
        unrestricted.assignment,
        Assignment::of(Some(UnitIx::new(0)), 4),
        "random does not know the rule"
    );
    let plan = plan(&crowded, &Random, &AtMostTwo::default(), &Budget::effort(None, 1)).unwrap();
    assert_eq!(plan.cost.unplaced, 2);
    assert!(at_most_two().violations(&plan.assignment).is_empty());
}

/// Records the message counts of the snapshots that it plans.
struct Counts(std::sync::Mutex<Vec<u64>>);

impl Strategy for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }
    fn summary(&self) -> &'static str {
        "records the messages"
    }
    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let counts = snapshot.file().messages.iter().map(|message| message.count);
        *self.0.lock().expect("it is locked once") = counts.collect();
        Random.solve(snapshot, budget)
    }
}

#[test]
fn messages_are_divided_by_their_common_factor_unless_they_are_compared_with_other_numbers() {
    for (objectives, expected) in [
        ("overload,communication", [1, 2]),
        ("busiest,communication", [10, 20]),
        ("communication,congestion", [10, 20]),
    ] {
        let rules = format!("a to b 10; b to a 20; objectives {objectives}");
        let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", &rules);
        let counts = Counts(std::sync::Mutex::default());
        plan(&snapshot, &counts, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        assert_eq!(*counts.0.lock().unwrap(), expected, "{objectives}");
    }
}

struct Fails;

impl Strategy for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }
    fn summary(&self) -> &'static str {
        "fails"
    }
    fn solve(&self, _: &Snapshot, _: &Budget) -> Result<Answer, SolveError> {
        Err(SolveError::Mismatch { reported: "[1]".into(), exact: "[2]".into() })
    }
}

impl Judge for Fails {
    fn derive(&self, _: &Snapshot) -> Result<Derived, JudgeError> {
        Err(JudgeError::Policy("line 3 is unsafe".into()))
    }
    fn judge(&self, _: &Snapshot, _: &Assignment) -> Result<Judgement, JudgeError> {
        unreachable!("derive failed before")
    }
}

#[test]
fn errors_name_the_failing_component() {
    let snapshot = world("u:cpu:9", "a:cpu=1", "");
    let error = plan(&snapshot, &Fails, &NoPolicy, &Budget::effort(None, 1)).unwrap_err();
    assert_eq!(error.to_string(), "fails found no answer");
    assert_eq!(<&str>::from(&error), "Solve");
    assert!(matches!(error, PlanError::Solve { source: SolveError::Mismatch { .. }, .. }));
    assert_eq!(rejection(&snapshot, "a=u", &Fails), "line 3 is unsafe");
}

#[test]
fn a_program_without_a_judge_is_rejected() {
    let mut file = world("u:cpu:9", "a:cpu=1", "").file().clone();
    file.policy = Some(Policy { name: "zones".into(), program: Some(":- run_on(_,_).".into()) });
    let snapshot = Snapshot::new(file).unwrap();
    assert_eq!(snapshot.objectives().to_string(), "overload, communication+migration, annoyance, policy");
    let refused = plan(&snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap_err().to_string();
    assert_eq!(refused, "the policy cannot be evaluated: `zones` has a program, and nothing here runs it");
}

/// The snapshot after a plan was carried out.
fn carried_out(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut file = snapshot.file().clone();
    for (actor, place) in file.actors.iter_mut().zip(&plan.assignment) {
        actor.current = place.map(|unit| snapshot.unit_id(unit).to_owned());
    }
    Snapshot::new(file).unwrap()
}

proptest! {
    /// Planning again after the plan was carried out changes nothing. Grandfathered limits are excluded: greedy ignores
    /// them, a short search repairs its answer, and a second one may find a better one.
    #[test]
    fn a_carried_out_plan_is_a_fixed_point(snapshot in any_world()) {
        prop_assume!(snapshot.problem().suspended_limits.is_empty());
        let first = by(&Greedy, &snapshot);
        let then = carried_out(&snapshot, &first);
        let second = by(&Greedy, &then);
        prop_assert_eq!(second.assignment, first.assignment);
        prop_assert_eq!(second.moves, vec![]);
    }

    #[test]
    fn a_plan_is_feasible_and_never_worse_than_the_incumbent(snapshot in any_world()) {
        let incumbent = snapshot.incumbent();
        for strategy in strategies() {
            let plan = by(strategy, &snapshot);
            prop_assert_eq!(snapshot.violations(&plan.assignment), vec![]);
            prop_assert_eq!(plan.cost.policy, snapshot.penalty(&plan.assignment));
            if snapshot.violations(&incumbent).is_empty() {
                let mut now = snapshot.cost(&incumbent);
                now.policy = snapshot.penalty(&incumbent);
                prop_assert!(plan.cost.vector(&snapshot) <= now.vector(&snapshot), "{}", strategy.name());
            }
            let reasons = |left: &Unplaced| explain::obstacles(&snapshot, left.actor, &plan.assignment).len();
            let reported: usize = plan.unplaced.iter().map(|left| reasons(left).min(1)).sum();
            prop_assert_eq!(reported, usize::try_from(plan.cost.unplaced).unwrap(), "each unplaced actor has a reason");
        }
    }

    #[test]
    fn no_single_actor_moves_without_gain(snapshot in any_world()) {
        for strategy in strategies() {
            let plan = by(strategy, &snapshot);
            for step in &plan.moves {
                let mut stayed = plan.assignment.clone();
                stayed[step.actor] = Some(step.from);
                let mut cost = snapshot.cost(&stayed);
                cost.policy = snapshot.penalty(&stayed);
                let gained = plan.cost.vector(&snapshot) < cost.vector(&snapshot);
                prop_assert!(gained || !snapshot.violations(&stayed).is_empty(), "{}", strategy.name());
            }
        }
    }
}

/// Allows at most two actors on the first unit, and counts its judgements.
#[derive(Default)]
struct AtMostTwo(AtomicUsize);

impl AtMostTwo {
    /// Number of judgements.
    fn verdicts(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Judge for AtMostTwo {
    fn derive(&self, _: &Snapshot) -> Result<Derived, JudgeError> {
        Ok(Derived { constraints: vec![], rules: Some(at_most_two()) })
    }
    fn judge(&self, _: &Snapshot, _: &Assignment) -> Result<Judgement, JudgeError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Judgement::default())
    }
}
