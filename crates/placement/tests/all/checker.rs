//! Each constraint, barely satisfied and barely violated.

use placement::Snapshot;
use proptest::prelude::*;

use crate::costs::{anywhere, by_name};
use testkit::line::{self, any_world, assignment, world};
use testkit::naive;

/// The checker's violations of an assignment, one per line.
fn says(snapshot: &Snapshot, places: &str) -> String {
    let found = snapshot.violations(&assignment(snapshot, places));
    found.iter().map(|v| format!("{}: {}", v.rule, v.says)).collect::<Vec<_>>().join("\n")
}

#[test]
fn assignments_of_another_snapshot_are_malformed() {
    let snapshot = world("u:cpu:9", "a:cpu=1", "");
    let says = |places: Vec<Option<usize>>| snapshot.violations(&line::places(places))[0].to_string();
    assert_eq!(says(vec![]), "0 places for 1 actors");
    assert_eq!(says(vec![Some(1)]), "there is no unit at position 1");
}

#[test]
fn an_actor_runs_only_on_kinds_that_it_has_an_implementation_for() {
    let snapshot = world("u:cpu:9 g:gpu:9", "a:cpu=1", "");
    assert_eq!(says(&snapshot, "a=u"), "");
    assert_eq!(says(&snapshot, ""), "");
    assert_eq!(says(&snapshot, "a=g"), "kind: a cannot run on g: no implementation for gpu");
}

#[test]
fn a_fixed_actor_stays() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1:at=u,fixed", "");
    assert_eq!(says(&snapshot, ""), "");
    assert_eq!(says(&snapshot, "a=v"), "fixed: a belongs to another application and stays on u");
    assert_eq!(
        snapshot.violations(&line::places([None]))[0].to_string(),
        "a belongs to another application and stays on u"
    );
}

#[test]
fn slots_bound_how_many_actors_a_unit_hosts() {
    let snapshot = world("u:cpu:9:slots=2", "a:cpu=0 b:cpu=0 c:cpu=0", "");
    assert_eq!(says(&snapshot, "a=u b=u"), "");
    assert_eq!(says(&snapshot, "a=u b=u c=u"), "slots: u hosts 3 actors and has 2 slots");
    assert_eq!(
        says(&world("u:cpu:9:slots=0", "a:cpu=0", ""), "a=u"),
        "slots: u hosts 1 actors and has 0 slots"
    );
}

#[test]
fn unit_resources_without_reserved_ones_are_a_hard_limit() {
    let actors = "a:cpu=1:mem=3 b:cpu=1:mem=2 c:cpu=1:disk=0 d:cpu=1:disk=1";
    let snapshot = world("u:cpu:9:mem=5", actors, "");
    assert_eq!(says(&snapshot, "a=u b=u c=u"), "");
    assert_eq!(
        says(&snapshot, "d=u"),
        "resource: u: 1 of disk wanted, 0 left",
        "what is not listed is not there"
    );
    let reserved = world("u:cpu:9:mem=5", actors, "reserve u mem 1");
    assert_eq!(says(&reserved, "a=u"), "");
    assert_eq!(says(&reserved, "a=u b=u"), "resource: u: 5 of mem wanted, 4 left");
}

#[test]
fn units_of_a_node_share_its_resources() {
    let units = "u:cpu:9:node=n v:cpu:9:node=n w:cpu:9:node=m";
    let actors = "a:cpu=1:node.cores=2 b:cpu=1:node.cores=2";
    let snapshot = world(units, actors, "node n cores=3; node m cores=2");
    assert_eq!(says(&snapshot, "a=u b=w"), "");
    assert_eq!(says(&snapshot, "a=u b=v"), "resource: n: 4 of cores wanted, 3 left");
    let unknown = world(units, actors, "");
    assert_eq!(says(&unknown, "a=w"), "resource: m: 2 of cores wanted, 0 left");
}

#[test]
fn apart_and_together_at_every_scope() {
    let units = "a0:cpu:9:node=n,zone=z,numa=0 a1:cpu:9:node=n,zone=z,numa=0 b0:cpu:9:node=n,zone=z,numa=1 \
                 c0:cpu:9:node=m,zone=z,numa=0 d0:cpu:9:node=o,zone=y";
    let rows = ["x=a0 y=a0", "x=a0 y=a1", "x=a0 y=b0", "x=a0 y=c0", "x=a0 y=d0"];
    let line = |rule: &str, scope: &str| {
        let snapshot = world(units, "x:cpu=1 y:cpu=1", &format!("{rule} {scope} x y"));
        let kept =
            rows.map(|row| format!("{:>6}", if says(&snapshot, row).is_empty() { "kept" } else { "-" }));
        format!("{rule:8} {scope:4} {}", kept.join(" "))
    };
    let of = |rule| ["unit", "numa", "node", "zone"].map(|scope| line(rule, scope)).join("\n");
    let table = format!("{}\n{}", of("apart"), of("together"));
    insta::assert_snapshot!(table, @r"
    apart    unit      -   kept   kept   kept   kept
    apart    numa      -      -   kept   kept   kept
    apart    node      -      -      -   kept   kept
    apart    zone      -      -      -      -   kept
    together unit   kept      -      -      -      -
    together numa   kept   kept      -      -      -
    together node   kept   kept   kept      -      -
    together zone   kept   kept   kept   kept      -
    ");
}

#[test]
fn relations_bind_only_placed_actors_and_name_them() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1 c:cpu=1", "apart unit a b c; together node a c");
    assert_eq!(says(&snapshot, "a=u b=v"), "");
    assert_eq!(says(&snapshot, "a=u b=v c=v"), "constraint: b, c: each on a unit of its own");
    let numa = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", "together numa a b");
    assert_eq!(says(&numa, "a=u b=v"), "constraint: a, b: all on one NUMA domain");
    assert_eq!(says(&numa, "a=u b=u"), "", "an unknown domain is still one and the same for one unit");
}

#[test]
fn an_unknown_zone_or_domain_differs_from_every_other() {
    let units = "u:cpu:9:node=n v:cpu:9:node=m";
    let actors = "a:cpu=1 b:cpu=1";
    assert_eq!(says(&world(units, actors, "apart zone a b"), "a=u b=v"), "");
    assert_eq!(
        says(&world(units, actors, "together zone a b"), "a=u b=v"),
        "constraint: a, b: all on one zone"
    );
}

#[test]
fn pin_only_and_never_restrict_units() {
    let units = "u:cpu:9:node=n,zone=z v:cpu:9:node=m,zone=y w:cpu:9:node=o";
    let kept = |rule: &str| {
        let snapshot = world(units, "a:cpu=1:at=v", rule);
        ["u", "v", "w"]
            .map(|unit| if says(&snapshot, &format!("a={unit}")).is_empty() { unit } else { "-" })
            .join(" ")
    };
    assert_eq!(kept("pin a v"), "- v -");
    assert_eq!(kept("only a units u,v"), "u v -");
    assert_eq!(kept("only a nodes m"), "- v -");
    assert_eq!(kept("only a zones z,y"), "u v -");
    assert_eq!(kept("never a units v"), "u - w");
    assert_eq!(kept("never a nodes n,m"), "- - w");
    assert_eq!(kept("never a zones z,y"), "- - w");
    assert_eq!(kept("never a zones z,y exceptCurrent"), "- v w", "what runs there may stay");
    assert_eq!(kept("only a units u,v; never a units u"), "- v -");
}

#[test]
fn violations_quote_the_reason_of_their_constraint() {
    let mut file = testkit::line::file("u:cpu:9:node=n", "a:cpu=1", "never a nodes n; pin a u");
    if let placement::file::Constraint::Never { reason, .. } = &mut file.constraints[0] {
        *reason = Some("n is cordoned".to_owned());
    }
    let snapshot = Snapshot::new(file).unwrap();
    assert_eq!(says(&snapshot, "a=u"), "constraint: a not on u: n is cordoned");
    let silent = world("u:cpu:9 v:cpu:9", "a:cpu=1", "pin a u; only a units u; never a units v");
    insta::assert_snapshot!(says(&silent, "a=v"), @r"
    constraint: a not on v: pinned to u
    constraint: a not on v: kept to other places by constraints[1]
    constraint: a not on v: kept away by constraints[2]
    ");
}

#[test]
fn fixed_actors_alone_violate_nothing() {
    let units = "u:cpu:9:slots=1,mem=1 v:cpu:9";
    let fixed = "a:cpu=1:at=u,fixed,mem=1,node.cores=1 b:cpu=1:at=u,fixed,mem=1,node.cores=1";
    let rules = "apart unit a b; together unit a b; never a,b units u; pin a v; reserve u mem 9";
    assert_eq!(says(&world(units, fixed, rules), ""), "");
}

#[test]
fn units_overfilled_by_fixed_actors_admit_nothing_more() {
    let units = "u:cpu:9:slots=3,mem=1 v:cpu:9";
    let fixed = "a:cpu=1:at=u,fixed,mem=1 b:cpu=1:at=u,fixed,mem=1";
    let snapshot =
        world(units, &format!("{fixed} c:cpu=1 d:cpu=1:mem=1"), "apart unit a c; together unit b d");
    assert_eq!(says(&snapshot, "c=v"), "");
    assert_eq!(says(&snapshot, "c=u"), "constraint: a, c: each on a unit of its own");
    assert_eq!(says(&snapshot, "d=u"), "resource: u: 3 of mem wanted, 1 left");
    insta::assert_snapshot!(says(&snapshot, "d=v"), @r"
    resource: v: 1 of mem wanted, 0 left
    constraint: b, d: all on one unit
    ");
    let harmless = world(units, &format!("{fixed} c:cpu=1:mem=0"), "");
    assert_eq!(says(&harmless, "c=u"), "", "c takes none of what is overfull");
}

#[test]
fn power_caps_bind_every_domain_of_their_scope() {
    let units =
        "u:cpu:10:zone=z,idle=5,power=100 v:cpu:10:zone=z,power=100 w:cpu:10:node=m,power=50 x:cpu:10:node=m";
    let actors = "a:cpu=3 b:cpu=3 c:cpu=3";
    let node = world(units, actors, "powerCap node 60");
    assert_eq!(says(&node, "a=u c=w"), "");
    assert_eq!(says(&node, "a=u b=v c=w"), "power: n: 65 W drawn, 60 W allowed: at most 60 W on each node");
    let zone = world(units, actors, "powerCap zone 64");
    assert_eq!(says(&zone, "a=u b=v c=w"), "power: z: 65 W drawn, 64 W allowed: at most 64 W on each zone");
    assert_eq!(says(&zone, "a=u b=w c=w"), "", "a zone that is not known is the unit's own");
    let all = world(units, actors, "powerCap all 79");
    assert_eq!(says(&all, "a=u b=v c=w"), "power: all units: 80 W drawn, 79 W allowed: at most 79 W in all");
}

#[test]
fn a_quota_over_several_pools_counts_actors_in_any_of_them() {
    let units = "u:cpu:10:pool=p,numa=d0 v:cpu:10:pool=q,numa=d1 w:cpu:10:pool=r,numa=d0 x:cpu:10";
    let actors = "a:cpu=1 b:cpu=1 c:cpu=1";
    let table = [
        ("quota a,b,c 1 pools=p,q", "a=u b=w c=x", ""),
        (
            "quota a,b,c 1 pools=p,q",
            "a=u b=v",
            "constraint: 2 used, 1 allowed: at most 1 of 3 actors in pools p, q",
        ),
        ("quota a,b,c 1 numa=d0", "a=u b=v c=x", ""),
        (
            "quota a,b,c 1 numa=d0",
            "a=u b=w",
            "constraint: 2 used, 1 allowed: at most 1 of 3 actors in d0 of any node",
        ),
        ("quota a,b,c 1 pools=q,r numa=d0", "a=u b=v c=w", ""),
        ("quota a,b,c 1 pool=p pools=q,r", "a=u b=v c=w", ""),
    ];
    for (rule, places, expected) in table {
        let snapshot = world(units, actors, rule);
        assert_eq!(says(&snapshot, places), expected, "{rule}: {places}");
        assert_eq!(placement::Snapshot::read(&snapshot.write()).unwrap().write(), snapshot.write());
    }
}

#[test]
fn a_quota_binds_only_its_listed_actors() {
    let units = "u:cpu:10:pool=p,mem=9 v:cpu:10:mem=9 g:gpu:10:pool=p,mem=9";
    let actors = "a:cpu=1,gpu=1:mem=2 b:cpu=1:mem=2 c:cpu=1:mem=2 x:cpu=1:at=u,fixed,mem=3";
    let table = [
        ("quota a,b 1", "a=u c=v", ""),
        ("quota a,b 1", "a=u b=v c=v", "constraint: 2 used, 1 allowed: at most 1 of 2 actors"),
        ("quota a,b 0", "c=v", ""),
        ("quota a,b 1 pool=p", "a=g b=v", ""),
        ("quota a,b 1 pool=p", "a=g b=u", "constraint: 2 used, 1 allowed: at most 1 of 2 actors in pool p"),
        ("quota a,b 1 pool=q", "a=g b=u", ""),
        ("quota a,b,c 4 of=mem", "a=u c=v", ""),
        (
            "quota a,b,c 4 of=mem",
            "a=u b=v c=v",
            "constraint: 6 of mem used, 4 allowed: at most 4 mem for 3 actors",
        ),
        ("quota a,b,c 4 of=disk", "a=u b=v c=v", ""),
        // Fixed actors count towards the quota, but do not violate it on their own.
        ("quota x,a 4 of=mem", "a=v", "constraint: 5 of mem used, 4 allowed: at most 4 mem for 2 actors"),
        ("quota x,a 2 of=mem", "b=v", ""),
        ("quota x,a 2 of=mem pool=p", "a=v", ""),
    ];
    for (rule, places, expected) in table {
        assert_eq!(says(&world(units, actors, rule), places), expected, "{rule}: {places}");
    }
}

#[test]
fn fixed_actors_alone_violate_no_power_cap() {
    let actors = "a:cpu=9:at=u,fixed b:cpu=1 c:cpu=0";
    let snapshot = world("u:cpu:10:idle=5,power=100 v:cpu:10", actors, "powerCap node 60");
    assert_eq!(says(&snapshot, "b=v"), "");
    assert_eq!(says(&snapshot, "c=u"), "", "who draws nothing more may come");
    assert_eq!(says(&snapshot, "b=u"), "power: n: 105 W drawn, 95 W allowed: at most 60 W on each node");
}

proptest! {
    #[test]
    fn the_checker_agrees_with_the_naive_implementation(snapshot in any_world(), seed: u64) {
        let assignment = anywhere(&snapshot, seed);
        let found = snapshot.violations(&assignment);
        let feasible = naive::feasible(snapshot.file(), &by_name(&snapshot, &assignment));
        prop_assert_eq!(found.is_empty(), feasible, "{:?}", found);
    }
}
