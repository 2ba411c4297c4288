//! What must hold of any ConfigMap that is read as a policy: no panic, within limits of stack and memory, and a fault says where it
//! is.

use k8s_openapi::api::core::v1::ConfigMap;
use placement::Snapshot;
use policy::{GroundBudget, Program};

/// Resources of grounding: a few megabytes.
const BUDGET: GroundBudget = GroundBudget { steps: 200_000, kept: 50_000 };

/// Two applications on three units of two nodes; the program is that of the policy.
const WORLD: &str = r#"{"version":1,
    "units":[{"id":"n/cpu-0","kind":"cpu","node":"n","zone":"z","capacity":9},{"id":"n/gpu-0","kind":"gpu","node":"n","capacity":9,"slots":1},
        {"id":"m/cpu-0","kind":"cpu","node":"m","zone":"y","capacity":9,"provides":{"memory":8}}],
    "nodes":[{"id":"n","labels":{"rack":"r"}},{"id":"m"}],
    "actors":[{"id":"shop/app/a-0","group":"a","labels":{"tier":"live"},"runsOn":{"cpu":3,"gpu":1},"current":"m/cpu-0","moveCost":5},
        {"id":"shop/app/a-1","group":"a","runsOn":{"cpu":3}},
        {"id":"bank/ledger/b-0","group":"b","runsOn":{"cpu":2},"current":"n/cpu-0","fixed":true}],
    "messages":[{"from":"shop/app/a-0","to":"shop/app/a-1","count":7}],"exchangeCost":{"otherKind":1},"policy":{"name":"p"}}"#;

/// Reads a text as a ConfigMap, each key after `## `, and grounds its program over a small world.
pub fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some("p".to_owned());
    let keys = text.split("## ").filter_map(|section| section.split_once('\n'));
    config_map.data = Some(keys.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    match world::Policy::read(&config_map) {
        Ok(read) => {
            assert!(read.wall_milliseconds > 0 && read.memory_mib > 0, "{read:?}");
            if let Some(program) = read.program {
                grounded(&program);
            }
        }
        Err(error) => assert!(!error.place.is_empty() && !error.problem.is_empty(), "{error:?}"),
    }
}

fn grounded(program: &str) {
    if let Err(faults) = Program::parse(program) {
        assert!(faults.iter().all(|fault| fault.line() > 0 && !fault.problem().is_empty()), "{faults:?}");
        assert!(!faults.is_empty());
        return;
    }
    let mut file = Snapshot::read(WORLD).expect("a sound world").file().clone();
    let named = file.policy.as_mut().expect("it names a policy");
    named.program = Some(program.to_owned());
    let snapshot = Snapshot::new(file).expect("a program does not make it unsound");
    let policy = policy::Policy::of(&snapshot).expect("it was parsed").expect("it has a program");
    match policy.derive(BUDGET) {
        Ok((derived, size)) => {
            assert!(size.steps <= BUDGET.steps && size.kept <= BUDGET.kept, "{size:?}");
            // What does not fit the snapshot is an error of the plan.
            drop(snapshot.with_derived(derived));
        }
        Err(problem) => assert!(problem.to_string().starts_with("policy p"), "{problem}"),
    }
}
