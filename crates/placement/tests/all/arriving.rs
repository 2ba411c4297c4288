//! Actors that arrive at their current unit: nothing there is excused for them, and leaving it has its price.

use placement::file::{Constraint, Domain};
use placement::{Criterion, Snapshot};
use testkit::line::{assignment, file, world};

#[test]
fn only_what_runs_is_exempt_and_excused() {
    let two = "a:cpu=1:at=u,mem=1 b:cpu=1:at=u,mem=1";
    let units = "u:cpu:9:node=n,mem=2 v:cpu:9:node=m,mem=2";
    for (units, rules) in [
        (units, "never b nodes n except"),
        (units, "quota a,b 1"),
        (units, "apart node a b"),
        (units, "reserve u mem 1"),
        ("u:cpu:9:slots=1,mem=2 v:cpu:9:mem=2", ""),
        ("u:cpu:9:power=90,mem=2 v:cpu:9:mem=2", "powerCap node 10"),
    ] {
        for (arrives, is_feasible) in [("", true), (",arriving", false), (",fixed,arriving", true)] {
            let snapshot = world(units, &format!("{two}{arrives}"), rules);
            let found = snapshot.violations(&snapshot.incumbent());
            assert_eq!(found.is_empty(), is_feasible, "{rules}{arrives}: {found:?}");
        }
    }
}

#[test]
fn peers_bind_an_actor_that_arrives_at_its_current_unit() {
    let domain = |node: &str| Domain { nodes: vec![node.to_owned()], others: 0 };
    for (arrives, is_feasible) in [("", true), (",arriving", false)] {
        let mut file =
            file("u:cpu:9:node=n v:cpu:9:node=m", &format!("a:cpu=1:at=u b:cpu=1:at=u{arrives}"), "");
        let both = vec!["a".to_owned(), "b".to_owned()];
        file.constraints.push(Constraint::Peers {
            actors: both.clone(),
            peers: both,
            domains: vec![domain("n"), domain("m")],
            actor_kinds: None,
            peer_kinds: None,
            max: Some(0),
            skew: None,
            join: None,
            reason: None,
        });
        let snapshot = Snapshot::new(file).unwrap();
        assert_eq!(snapshot.violations(&snapshot.incumbent()).is_empty(), is_feasible, "{arrives}");
    }
}

#[test]
fn leaving_costs_an_arriving_actor_its_move() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1:at=u,move=7,arriving", "");
    let cost = |places: &str| snapshot.cost(&assignment(&snapshot, places)).of(Criterion::Migration);
    assert_eq!((cost("a=u"), cost("a=v")), (0, 7));
    assert_eq!(snapshot.running(snapshot.actor("a").unwrap()), None);
}
