//! Alternatives and binding limits: as exact as `cost()`.

use explain::{LimitCost, Outcome};
use placement::file::SharedLink;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Budget, Cost, GroundConstraint, GroundRule, Rules, Snapshot, Strategy as _};
use proptest::prelude::*;
use search::Greedy;

use testkit::line::{any_world, assignment, world};

#[test]
fn alternatives_and_binding_limits_are_described_briefly() {
    let snapshot = world(
        "u:cpu:9:pool=p v:cpu:9:pool=p,slots=1 w:cpu:9:node=m,pool=p x:cpu:9:node=m,pool=p g:gpu:9:pool=q,mem=4",
        "a:cpu=4 b:cpu=4 c:cpu=4,gpu=1:mem=3 d:cpu=1",
        "a to b 10; b to c 3; never d nodes m; c annoys d 2; d to c 7",
    );
    let places = assignment(&snapshot, "a=u b=v c=g d=u");
    let explained = explain::explain(&snapshot, &places, &[0, 1, 2, 3].map(ActorIx::new));
    let mut lines = Vec::new();
    for whereabouts in &explained.placed {
        lines.push(format!(
            "{} on {}",
            snapshot.actor_id(whereabouts.actor),
            snapshot.unit_id(whereabouts.unit)
        ));
        for other in &whereabouts.alternatives {
            let units: Vec<&str> = other.units.iter().map(|&unit| snapshot.unit_id(unit)).collect();
            lines.push(format!("  {} ({}): {:?}", units.join(" "), other.pool, other.outcome));
        }
    }
    lines.push(format!("full: {:?}", explained.binding.full));
    lines.extend(explained.binding.reliefs.iter().map(|relief| format!("{relief:?}")));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    a on u
      w x (pool p): Costs([0, 600, 0])
      g (pool q): Forbidden("runs on cpu only")
      v (pool p): Forbidden("v: 1 of 1 slots taken")
    b on v
      u (pool p): Costs([0, -10, 0])
      w x (pool p): Costs([0, 780, 0])
      g (pool q): Forbidden("runs on cpu only")
    c on g
      v (pool p): Forbidden("v: 1 of 1 slots taken")
      u w x (pool p): Forbidden("3 units of pool p: no mem, 3 needed")
    d on u
      g (pool q): Forbidden("runs on cpu only")
      w x (pool p): Forbidden("kept away by constraints[0]")
      v (pool p): Forbidden("v: 1 of 1 slots taken")
    full: ["v: 1 of 1 slots taken", "g: 1 of 4 mem left"]
    LimitCost { says: "u: no mem, 3 needed", actors: 1, best: (ActorIx(2), UnitIx(0)), change: [0, -47, -2] }
    LimitCost { says: "v: 1 of 1 slots taken", actors: 1, best: (ActorIx(0), UnitIx(1)), change: [0, -10, 0] }
    "#);
}

#[test]
fn congested_links_are_named_in_each_direction() {
    let rules = |level: &str| format!("a to b 7; b to a 6; objectives {level}");
    let congested = |level: &str, capacity| {
        let mut file = testkit::line::file("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", &rules(level));
        let units = vec!["u".to_owned()];
        file.shared_links =
            vec![SharedLink { id: "n/port".to_owned(), units, capacity, ..SharedLink::default() }];
        let snapshot = Snapshot::new(file).unwrap();
        explain::explain(&snapshot, &assignment(&snapshot, "a=u b=v"), &[]).binding.congested
    };
    assert_eq!(
        congested("congestion", 5),
        [
            "n/port: 7 messages from its units in a window, 2 above its capacity",
            "n/port: 6 messages to its units in a window, 1 above its capacity",
        ]
    );
    assert_eq!(congested("congestion", 6).len(), 1);
    assert_eq!(congested("congestion", 7).len(), 0);
    assert_eq!(congested("communication", 5).len(), 0, "no level names it");
}

/// Three actors; a policy requires `a` and `b` on different units, and forbids `c` on the second one.
fn ruled(units: &str) -> Snapshot {
    far(world(units, "a:cpu=1 b:cpu=1 c:cpu=1", "a to b 5; objectives overload,communication,policy"))
}

/// The same policy over any three actors.
fn far(snapshot: Snapshot) -> Snapshot {
    let (actors, units) = (snapshot.actors(), snapshot.units());
    let on = |actor: usize, unit: usize| i32::try_from(1 + actor * units + unit).unwrap();
    let input = |a, u| (ActorIx::new(a), UnitIx::new(u), on(a, u).unsigned_abs());
    let inputs: Vec<(ActorIx, UnitIx, u32)> =
        (0..actors).flat_map(|actor| (0..units).map(move |unit| input(actor, unit))).collect();
    let both = |unit: usize| GroundRule {
        head: on(actors, unit).unsigned_abs(),
        lower: 2,
        body: vec![(on(0, unit), 1), (on(1, unit), 1)],
        any: false,
    };
    let demand = |unit: usize| GroundConstraint {
        atom: both(unit).head,
        rule: "policy far line 3".to_owned(),
        says: "policy far line 3: a and b".to_owned(),
        limit: None,
    };
    let penalties = if units > 1 { vec![(on(2, 1).unsigned_abs(), 4)] } else { Vec::new() };
    let demands = (0..units).map(demand).collect();
    let rules = Rules::new(actors, (0..units).map(both).collect(), &inputs, demands, penalties).unwrap();
    snapshot.with_rules(Some(rules))
}

#[test]
fn policy_rules_are_obstacles_too() {
    let snapshot = ruled("u:cpu:9 v:cpu:9");
    let explained =
        explain::explain(&snapshot, &assignment(&snapshot, "a=u b=v c=u"), &[0, 2].map(ActorIx::new));
    let outcomes: Vec<&Outcome> =
        explained.placed.iter().map(|there| &there.alternatives[0].outcome).collect();
    let says = "policy far line 3: a and b".to_owned();
    assert_eq!(outcomes, [&Outcome::Forbidden(says.clone()), &Outcome::Costs(vec![0, 0, 4])]);
    let relief = LimitCost {
        says: says.clone(),
        actors: 2,
        best: (ActorIx::new(0), UnitIx::new(1)),
        change: vec![0, -5, 0],
    };
    assert_eq!(explained.binding.reliefs, [relief]);
}

#[test]
fn violated_rules_and_limits_are_reasons_to_move() {
    let policy = "a:cpu=1:at=u b:cpu=1:at=v c:cpu=1:at=v";
    let objectives = "objectives overload,communication,policy";
    let over_full = "a:cpu=1:at=u b:cpu=1:at=u c:cpu=1";
    let full = "cannot stay on u: u: at most 1 actors, by its slots";
    let cases = [
        (
            far(world("u:cpu:9 v:cpu:9", policy, objectives)),
            "a=u b=v c=u",
            vec!["staying would raise policy by 4"],
        ),
        (
            far(world("u:cpu:9 v:cpu:9", policy, objectives)),
            "a=v b=u c=v",
            vec![
                "cannot stay on u: policy far line 3: a and b",
                "cannot stay on v: policy far line 3: a and b",
            ],
        ),
        // Both violations were grandfathered, and neither is any more.
        (
            world("u:cpu:9:slots=1 v:cpu:9", over_full, ""),
            "a=u b=v c=v",
            vec!["staying would keep violating u: at most 1 actors, by its slots"],
        ),
        // No actor may join while both stay.
        (world("u:cpu:9:slots=1 v:cpu:9", over_full, ""), "a=v b=v c=u", vec![full, full]),
    ];
    for (snapshot, places, reasons) in cases {
        let places = assignment(&snapshot, places);
        assert_eq!(snapshot.violations(&places), []);
        let found: Vec<String> =
            explain::moves(&snapshot, &places).into_iter().map(|step| step.reason).collect();
        assert_eq!(found, reasons);
    }
}

/// The cost of the whole assignment, including missed preferences.
fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let cost = Cost { policy: snapshot.penalty(assignment), ..snapshot.cost(assignment) };
    cost.vector(snapshot)
}

proptest! {
    #[test]
    fn prices_of_alternatives_equal_the_change_of_the_vector(snapshot in any_world()) {
        let places = Greedy.solve(&snapshot, &Budget::effort(Some(3), 0)).unwrap().assignment;
        let everybody: Vec<ActorIx> = ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
        let explained = explain::explain(&snapshot, &places, &everybody);
        prop_assert_eq!(explained.placed.len(), everybody.iter().filter(|&&a| places[a].is_some()).count());
        let before = vector(&snapshot, &places);
        let moved = |actor: ActorIx, unit: UnitIx| {
            let mut with = places.clone();
            with[actor] = Some(unit);
            with
        };
        for whereabouts in &explained.placed {
            let count: usize = whereabouts.alternatives.iter().map(|other| other.units.len()).sum();
            prop_assert_eq!(count, snapshot.units() - 1);
            for other in &whereabouts.alternatives {
                for &unit in &other.units {
                    let with = moved(whereabouts.actor, unit);
                    let is_feasible = snapshot.violations(&with).is_empty();
                    match &other.outcome {
                        Outcome::Costs(change) => {
                            let after = vector(&snapshot, &with);
                            let exact: Vec<i64> = after.iter().zip(&before).skip(1).map(|(a, b)| a - b).collect();
                            prop_assert_eq!(change, &exact);
                            prop_assert!(is_feasible);
                        }
                        Outcome::Forbidden(_) => prop_assert!(!is_feasible),
                    }
                }
            }
        }
        for relief in &explained.binding.reliefs {
            let with = moved(relief.best.0, relief.best.1);
            prop_assert!(!snapshot.violations(&with).is_empty());
            prop_assert!(vector(&snapshot, &with) < before);
        }
    }
}
