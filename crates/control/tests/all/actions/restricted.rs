//! Restricted reconciliation: pending decisions, paused applications, closed namespaces.

use control::{finish_in_flight, repair_only};

use super::scenario::{World, actor, check, shown};

#[test]
fn repair_only_restarts_decided_actors_and_nothing_else() {
    let world = "actors=2 nodes=n0,n1 units=n0/cpus-0,n1/cpus-0 decided=0:n0/cpus-0 instances=0";
    // A deleted Instance of a decided actor returns; one of an actor without a decision is not created.
    let lost = World::of("actors=2 nodes=n0 units=n0/cpus-0 decided=0:n0/cpus-0");
    let mut todo = lost.todo();
    repair_only(&mut todo, &lost.decision);
    assert_eq!(shown(&todo), "make cam-0");
    for (rest, expected, is_carried_out) in [
        ("", "start cam-0 on n0/cpus-0", false),
        ("pods=0:n0/cpus-0", "", true),
        ("pods=0:n0/cpus-0 old=0", "", false),
        ("pods=0:n0/cpus-0:ended", "stop pod-0; cam-0 ended", false),
        ("pods=0:n2/cpus-0:running:n2", "stop pod-0 at once", false),
        // A misplaced pod stays for now, and unwanted ones stay until there is a decision.
        ("pods=0:n1/cpus-0", "", false),
        ("instances=7 pods=0:n0/cpus-0,7:n0/cpus-0", "", true),
        ("infeasible=0", "cam-0 waits: n0/cpus-0 is no longer feasible; re-planning", false),
    ] {
        let world = World::of(&format!("{world} {rest}"));
        let mut todo = world.todo();
        repair_only(&mut todo, &world.decision);
        assert_eq!(shown(&todo), expected, "{rest}");
        assert_eq!(control::is_fully_applied(&world.decision, &world.seen), is_carried_out, "{rest}");
    }
}

#[test]
fn finish_in_flight_completes_moves_and_begins_none() {
    let world = "actors=3 nodes=n0,n1 units=n0/gpus-0:0,n0/gpus-1:0,n1/gpus-0:1 instances=0,1,2";
    let waits = "cam-0 waits: n0/gpus-1 is still in use";
    let lost = World::of("actors=2 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0");
    let mut todo = lost.todo();
    finish_in_flight(&mut todo, &lost.decision, &lost.seen);
    assert_eq!(shown(&todo), "make cam-0");
    for (rest, expected) in [
        ("decided=0:n1/gpus-0", "start cam-0 on n1/gpus-0".to_owned()),
        // During a rollout, actors start with the newest template.
        ("decided=0:n1/gpus-0 update=1", "start newest cam-0 on n1/gpus-0".to_owned()),
        // Nothing is replaced, moved or deleted.
        ("decided=0:n1/gpus-0 pods=0:n1/gpus-0 update=1 ready=0 old=0", String::new()),
        ("decided=0:n1/gpus-0 pods=0:n0/gpus-0", String::new()),
        ("decided=0:n1/gpus-0 pods=0:n0/gpus-0:ended instances=7", String::new()),
        // Ended pods restart.
        ("decided=0:n1/gpus-0 pods=0:n1/gpus-0:ended", "stop pod-0; cam-0 ended".to_owned()),
        // Refused pods stay, unless their actor moves for a gain, and goes back.
        ("decided=0:n1/gpus-0 pods=0:n1/gpus-0:ended refused=0:full", String::new()),
        (
            "decided=0:n1/gpus-0 elective=0 pods=0:n1/gpus-0:ended refused=0:full",
            "stop pod-0; refused cam-0 on n1: full".to_owned(),
        ),
        (
            "decided=0:n1/gpus-0 elective=0:100 pods=0:n1/gpus-0 now=220",
            "stop pod-0; refused cam-0 on n1: not ready within 120 s after the move".to_owned(),
        ),
        ("decided=0:n1/gpus-0 elective=0:100 pods=0:n1/gpus-0 now=219", "next at 220".to_owned()),
        // A stopped actor's unit is held by an actor that has to move: that one moves, and no other.
        (
            "decided=0:n0/gpus-1,1:n0/gpus-0,2:n1/gpus-0 pods=1:n0/gpus-1,2:n0/gpus-0",
            format!("evict pod-1; {waits}"),
        ),
        // Pods at their decided unit stay.
        ("decided=0:n0/gpus-1,1:n0/gpus-1 pods=1:n0/gpus-1", waits.to_owned()),
        ("decided=0:n0/gpus-1,1:n0/gpus-0 pods=1:n0/gpus-1:terminating", waits.to_owned()),
    ] {
        let world = World::of(&format!("{world} {rest}"));
        let mut todo = world.todo();
        finish_in_flight(&mut todo, &world.decision, &world.seen);
        assert_eq!(shown(&todo), expected, "{rest}");
    }
}

#[test]
fn moves_blocked_by_an_unevictable_pod_are_refused() {
    let world = "actors=3 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:0 instances=0,1,2";
    let exchange = "decided=0:n1/gpus-0,1:n0/gpus-0";
    for (rest, kept, expected) in [
        (
            "pods=1:n1/gpus-0",
            "1",
            "cam-0 on n1: n1/gpus-0 is still in use by cam-1, which may not be evicted: a budget",
        ),
        // Nothing is kept, or something else is.
        ("pods=1:n1/gpus-0", "", ""),
        ("pods=1:n1/gpus-0,2:n0/gpus-0", "2", ""),
        // Both still run: nothing is stuck.
        ("pods=0:n0/gpus-0,1:n1/gpus-0", "1", ""),
    ] {
        let world = World::of(&format!("{world} {exchange} {rest}"));
        let held = kept.split_whitespace().map(|index| (actor(index), "a budget".to_owned())).collect();
        let stuck = control::stuck_moves(&world.decision, &world.seen, &world.todo().blocked, &held);
        let summary: Vec<_> =
            stuck.iter().map(|it| format!("{} on {}: {}", it.actor, it.node, it.reason)).collect();
        assert_eq!(summary.join("; "), expected, "{rest}, {kept}");
    }
}

#[test]
fn nothing_starts_or_moves_while_the_namespace_admits_no_pods() {
    let world =
        "actors=1 nodes=n0 nodes=n1 units=n0/cpus-0 units=n1/cpus-0 instances=0 now=100 decided=0:n1/cpus-0";
    let waits = "cam-0 waits: the quota is full; retrying with backoff; next at 110";
    check(&[
        (&format!("{world} closed=110"), waits),
        (&format!("{world} closed=100"), "start cam-0 on n1/cpus-0"),
        (&format!("{world} closed=110 pods=0:n0/cpus-0"), waits),
        (&format!("{world} closed=100 pods=0:n0/cpus-0"), "evict pod-0"),
        // pods at their unit are unaffected, and ended ones are deleted
        (&format!("{world} closed=110 pods=0:n1/cpus-0"), ""),
        (&format!("{world} closed=110 pods=0:n1/cpus-0:ended"), "stop pod-0; cam-0 ended"),
    ]);
}
