//! Already violated limits of large snapshots: as rules they take a bounded amount of memory.

use placement::Snapshot;
use placement::file::{Node, SnapshotFile};
use testkit::line;

const ACTORS: usize = 1_100;
const UNITS: usize = 1_000;

/// Literals available to all limits together.
const MOST_LITERALS: usize = 1 << 20;

/// A node whose units host one or two actors each.
fn world(change: impl Fn(&mut SnapshotFile)) -> Snapshot {
    let units: Vec<String> = (0..UNITS).map(|at| format!("u{at}:cpu:99:node=n,memory=9")).collect();
    let actors: Vec<String> =
        (0..ACTORS).map(|at| format!("a{at}:cpu=1:at=u{},memory=1,node.licence=1", at % UNITS)).collect();
    let mut file = line::file(&units.join(" "), &actors.join(" "), "");
    file.nodes = vec![Node {
        id: "n".to_owned(),
        provides: [("licence".to_owned(), 9_999)].into(),
        ..Node::default()
    }];
    change(&mut file);
    Snapshot::new(file).unwrap()
}

/// The grounded limits, their literals, and the violations of the current placement.
fn grounded(snapshot: &Snapshot) -> (usize, usize, usize) {
    let literals =
        snapshot.rules().map_or(0, |rules| rules.ground().iter().map(|rule| rule.body.len()).sum());
    let current = snapshot.incumbent();
    let excused = snapshot.rules().map_or(0, |rules| rules.cases().len());
    (excused, literals, snapshot.violations(&current).len())
}

/// Limits are grounded one after the other. One that does not fit binds: the checker does not grandfather its violation.
#[test]
fn suspended_limits_share_a_budget_of_literals() {
    let slots = world(|file| file.units.iter_mut().for_each(|unit| unit.slots = Some(0)));
    let memory = world(|file| {
        for unit in &mut file.units {
            unit.provides.insert("memory".to_owned(), 0);
        }
    });
    for snapshot in [slots, memory] {
        let (_, literals, violations) = grounded(&snapshot);
        // A limit takes a literal per actor and a few more.
        let fit = MOST_LITERALS / (ACTORS + 2);
        let rest = UNITS - fit;
        assert!((rest - 5..=rest + 5).contains(&violations), "{violations} of {rest} bind");
        assert!(literals > MOST_LITERALS / 2 && literals < 8 * MOST_LITERALS, "{literals} literals");
    }
    let licence = world(|file| {
        for node in &mut file.nodes {
            node.provides.insert("licence".to_owned(), 9);
        }
    });
    assert_eq!(grounded(&licence), (0, 0, 1), "one limit is too large by itself");
    let quota = world(|file| {
        let all: Vec<String> = file.actors.iter().map(|actor| actor.id.clone()).collect();
        let quota = serde_json::json!({"type": "quota", "actors": all, "max": 9});
        file.constraints.push(serde_json::from_value(quota).unwrap());
    });
    assert_eq!(grounded(&quota), (0, 0, 1));
}

/// Limits of a few units fit the budget and are grandfathered.
#[test]
fn small_suspended_limits_are_grandfathered() {
    let few = world(|file| file.units.iter_mut().take(9).for_each(|unit| unit.slots = Some(0)));
    let (cases, _, violations) = grounded(&few);
    assert_eq!(violations, 0);
    assert!(cases >= 9, "{cases}");
}
