//! Starts, moves and name conflicts.

use super::scenario::{World, check, shown};

#[test]
fn actors_are_created_started_and_then_left_alone() {
    check(&[
        ("actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0", "make cam-0"),
        ("actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0", "start cam-0 on n0/gpus-0"),
        ("actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:running", ""),
        ("actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:starting", ""),
        // An unbound pod counts at the unit it was created for.
        (
            "actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:starting:-",
            "",
        ),
        // An unplaced actor has an Instance, too, which reports it.
        ("actors=1 nodes=n0 unplaced=0", "make cam-0"),
        ("actors=1 nodes=n0 unplaced=0 instances=0", ""),
    ]);
}

#[test]
fn moves_evict_wait_and_start() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 decided=0:n1/gpus-0 instances=0";
    check(&[
        (&format!("{world} pods=0:n0/gpus-0:running"), "evict pod-0"),
        (&format!("{world} pods=0:n0/gpus-0:starting"), "evict pod-0"),
        (&format!("{world} pods=0:n0/gpus-0:terminating"), ""),
        (world, "start cam-0 on n1/gpus-0"),
        // Created for an unknown unit: misplaced.
        (&format!("{world} pods=0:-:running"), "evict pod-0"),
    ]);
}

#[test]
fn unwanted_instances_are_deleted() {
    let world = "actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0";
    check(&[
        (&format!("{world},1 pods=0:n0/gpus-0:running"), "remove app-cam-1"),
        (&format!("{world},1:terminating pods=0:n0/gpus-0:running"), ""),
        // A requested Instance is deleted by the runtime; only its pod is stopped.
        (&format!("{world},1:asked pods=0:n0/gpus-0:running"), ""),
        (&format!("{world},1:asked pods=0:n0/gpus-0:running,1:n0/gpus-1:running"), "stop pod-1"),
        (&format!("{world},1:asked pods=0:n0/gpus-0:running,1:n0/gpus-1:terminating"), ""),
        (&format!("{world} pods=0:n0/gpus-0:running surplus=handmade"), "remove handmade"),
        (&format!("{world} pods=0:n0/gpus-0:running surplus=handmade:terminating"), ""),
        // A terminating Instance is waited for, as its pod is deleted with it.
        ("actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0:terminating", ""),
    ]);
}

#[test]
fn foreign_objects_are_untouched_and_block_only_their_actor() {
    let world = "actors=2 nodes=n0 units=n0/gpus-0:1,n0/gpus-1:1 decided=0:n0/gpus-0,1:n0/gpus-1";
    let by = "cam-0 waits: the name is taken by Pod app-cam-0; remove or rename one of the two";
    let leaving = "cam-0 waits: Pod app-cam-0 is still being deleted";
    check(&[
        (&format!("{world} taken=0:by"), &format!("make cam-1; {by}")),
        (&format!("{world} instances=1 taken=0:by"), &format!("start cam-1 on n0/gpus-1; {by}")),
        (&format!("{world} instances=0,1 taken=0:by"), &format!("start cam-1 on n0/gpus-1; {by}")),
        (&format!("{world} instances=0,1 taken=0:leaving"), &format!("start cam-1 on n0/gpus-1; {leaving}")),
        (&format!("{world} instances=1 pods=1:n0/gpus-1:running taken=0:leaving"), leaving),
        // Its own pod has the name: no conflict.
        (&format!("{world} instances=0,1 pods=0:n0/gpus-0:running,1:n0/gpus-1:running"), ""),
    ]);
}

#[test]
fn successors_start_only_once_their_unit_is_free() {
    let swap = "actors=2 nodes=n0 decided=0:n0/gpus-1,1:n0/gpus-0 instances=0,1";
    let used = |what: &str| format!("cam-0 waits: {what} is still in use");
    check(&[
        (
            &format!("{swap} units=n0/gpus-0:0,n0/gpus-1:0 pods=0:n0/gpus-0:running,1:n0/gpus-1:running"),
            "evict pod-0; evict pod-1",
        ),
        (&format!("{swap} units=n0/gpus-0:1,n0/gpus-1:0 pods=1:n0/gpus-1:terminating"), &used("n0/gpus-1")),
        (
            &format!("{swap} units=n0/gpus-0:1,n0/gpus-1:1"),
            "start cam-0 on n0/gpus-1; start cam-1 on n0/gpus-0",
        ),
    ]);
}

#[test]
fn starts_reserve_slots_resources_and_pool_limits() {
    let two = "actors=2 decided=0:n0/gpus-0,1:n0/gpus-1 instances=0,1 units=n0/gpus-0:1,n0/gpus-1:1";
    let (first, second) = ("start cam-0 on n0/gpus-0", "start cam-1 on n0/gpus-1");
    let full = "pool gpus has reached its spec.instances.max";
    let shared = "actors=3 nodes=n0 decided=0:n0/cpus-0,1:n0/cpus-0,2:n0/cpus-0 instances=0,1,2";
    check(&[
        (&format!("{two} nodes=n0"), &format!("{first}; {second}")),
        (&format!("{two} nodes=n0 pools=gpus:2"), &format!("{first}; {second}")),
        (&format!("{two} nodes=n0 pools=gpus:1"), &format!("{first}; cam-1 waits: {full}")),
        (&format!("{two} nodes=n0 pools=gpus:0"), &format!("cam-0 waits: {full}; cam-1 waits: {full}")),
        (&format!("{two} nodes=n0 pools=others:0"), &format!("{first}; {second}")),
        (&format!("{two} nodes=n0:1"), &format!("{first}; cam-1 waits: cpuMilli of n0 is still in use")),
        (
            &format!("{two} nodes=n0:9:1"),
            &format!("{first}; cam-1 waits: nvidia.com/gpu of n0 is still in use"),
        ),
        (
            &format!("{shared} units=n0/cpus-0:2"),
            "start cam-0 on n0/cpus-0; start cam-1 on n0/cpus-0; cam-2 waits: n0/cpus-0 is still in use",
        ),
        (
            &format!("{shared} units=n0/cpus-0"),
            "start cam-0 on n0/cpus-0; start cam-1 on n0/cpus-0; start cam-2 on n0/cpus-0",
        ),
    ]);
}

#[test]
fn blocked_actors_do_not_block_the_next() {
    let world = "actors=3 nodes=n0:9,n1:0 units=n0/cpus-0,n1/cpus-0 instances=0,1,2";
    check(&[
        (
            &format!("{world} decided=0:n1/cpus-0,1:n0/cpus-0,2:n0/cpus-0"),
            "start cam-1 on n0/cpus-0; start cam-2 on n0/cpus-0; cam-0 waits: cpuMilli of n1 is still in use",
        ),
        (
            &format!("{world} unplaced=0 decided=1:n0/cpus-0,2:n0/cpus-0"),
            "start cam-1 on n0/cpus-0; start cam-2 on n0/cpus-0",
        ),
    ]);
}

#[test]
fn infeasible_placements_are_not_started() {
    let gone = "cam-0 waits: n7/gpus-0 is no longer offered; re-planning";
    let bad = "cam-0 waits: n0/gpus-0 is no longer feasible; re-planning";
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 instances=0";
    check(&[
        (&format!("{world} decided=0:n7/gpus-0"), gone),
        (
            &format!("{world} decided=0:n7/gpus-0 infeasible=0"),
            "cam-0 waits: n7/gpus-0 is no longer feasible; re-planning",
        ),
        (&format!("{world} decided=0:n0/gpus-0 infeasible=0"), bad),
        // A running actor stays until it has a feasible target.
        (&format!("{world} decided=0:n0/gpus-0 infeasible=0 pods=0:n1/gpus-0:running"), ""),
        (&format!("{world} decided=0:n0/gpus-0 pods=0:n1/gpus-0:running"), "evict pod-0"),
        // An ended pod is stopped, whatever its actor's place.
        (
            &format!("{world} decided=0:n0/gpus-0 infeasible=0 pods=0:n1/gpus-0:ended"),
            "stop pod-0; cam-0 ended",
        ),
        // Undecided: neither started nor stopped.
        (world, ""),
        (&format!("{world} pods=0:n1/gpus-0:running"), ""),
        // A kind that the actor has no implementation for.
        (
            "actors=1 nodes=n0 units=n0/fpgas-0:1 decided=0:n0/fpgas-0 instances=0",
            "start cam-0 on n0/fpgas-0",
        ),
    ]);
    let mut other = World::of("actors=1 nodes=n0 units=n0/fpgas-0:1 decided=0:n0/fpgas-0 instances=0");
    other.seen.free.units.get_mut("n0/fpgas-0").unwrap().kind = "fpga".to_owned();
    assert_eq!(shown(&other.todo()), "cam-0 waits: n0/fpgas-0 is no longer feasible; re-planning");
}
