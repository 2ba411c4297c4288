//! What must hold of any bytes whatever: no panic, and what is accepted is sound.

use placement::{Budget, NoPolicy, Plan, PlanError, Snapshot};
use search::{Greedy, Local};

/// Worlds above this are read and not planned: finding faults needs many worlds, not large ones.
const LARGEST: usize = 40;
const EFFORT: u64 = 2_000;
/// Thousands of steps of the walk.
const WALK: u64 = 2;

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

/// Reads, plans and explains; the plan is feasible, and priced by what `cost()` says.
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
    is_sound(&snapshot, &walked.expect("so has the walk"));
    let everybody: Vec<_> = plan.assignment.positions().collect();
    let explained = explain::explain(&snapshot, &plan.assignment, &everybody);
    assert_eq!(explained.placed.len(), plan.assignment.iter().flatten().count());
    let reasons = explain::reasons(&snapshot, &plan.assignment, EFFORT);
    assert_eq!(reasons.len(), plan.unplaced.len());
    assert!(reasons.iter().all(|unplaced| !unplaced.reasons.is_empty()), "{reasons:?}");
}

fn is_sound(snapshot: &Snapshot, plan: &Plan) {
    assert_eq!(snapshot.violations(&plan.assignment), []);
    assert_eq!(plan.cost.unplaced, snapshot.cost(&plan.assignment).unplaced);
}
