//! Moves that are made for a gain: one after the other, and back if they fail.

use super::scenario::check;

const WAITS: &str =
    "waits: the move waits until other actors of the application have moved (rebalance.moves.atOnce)";
const IN_CLUSTER: &str =
    "waits: the move waits until actors of other applications have moved (rebalance.moves.cluster)";

#[test]
fn elective_moves_begin_one_after_the_other() {
    let world = "actors=2 nodes=n0,n1 units=n0/gpus-0:0,n0/gpus-1:0,n1/gpus-0:1,n1/gpus-1:1 instances=0,1 \
                 decided=0:n1/gpus-0,1:n1/gpus-1 elective=0,1";
    let run = "pods=0:n0/gpus-0:running,1:n0/gpus-1:running ready=0,1";
    check(&[
        (&format!("{world} {run}"), &format!("evict pod-0; cam-1 {WAITS}")),
        (&format!("{world} {run} limits=2"), "evict pod-0; evict pod-1"),
        (&format!("{world} {run} limits=2:1"), &format!("evict pod-0; cam-1 {IN_CLUSTER}; next at 2")),
        (&format!("{world} {run} limits=1:0"), &format!("cam-0 {IN_CLUSTER}; cam-1 {IN_CLUSTER}; next at 2")),
        // The first is being stopped, is stopped, or starts.
        (
            &format!("{world} pods=0:n0/gpus-0:terminating,1:n0/gpus-1:running ready=1"),
            &format!("cam-1 {WAITS}"),
        ),
        (
            &format!("{world} pods=1:n0/gpus-1:running ready=1"),
            &format!("start cam-0 on n1/gpus-0; cam-1 {WAITS}"),
        ),
        (&format!("{world} pods=0:n1/gpus-0:running,1:n0/gpus-1:running ready=1"), &format!("cam-1 {WAITS}")),
        // The first move is complete.
        (&format!("{world} pods=0:n1/gpus-0:running,1:n0/gpus-1:running ready=0,1"), "evict pod-1"),
        // Necessary moves do not wait, and elective ones do not wait for them.
        (&format!("{world} {run}").replace("elective=0,", "elective="), "evict pod-0; evict pod-1"),
        // During a rollout nothing begins.
        (
            &format!("{world} {run} old=1 update=1")
                .replace("decided=0:n1/gpus-0,1:n1", "decided=0:n1/gpus-0,1:n0"),
            "stop pod-1; cam-0 waits: the move waits until the rollout is finished",
        ),
        // An outdated pod is no rollout if it is never replaced, or moves itself.
        (
            &format!("{world} {run} old=1").replace("decided=0:n1/gpus-0,1:n1", "decided=0:n1/gpus-0,1:n0"),
            "evict pod-0",
        ),
        (&format!("{world} {run} old=0,1 update=1"), &format!("evict pod-0; cam-1 {WAITS}")),
    ]);
}

#[test]
fn chains_begin_at_their_end_and_cycles_anywhere() {
    let chain = "actors=2 nodes=n0 units=n0/gpus-0:0,n0/gpus-1:0,n0/gpus-2:1 instances=0,1 decided=0:n0/gpus-1,1:n0/gpus-2 \
                 elective=0,1";
    let swap = "actors=2 nodes=n0 decided=0:n0/gpus-1,1:n0/gpus-0 instances=0,1 elective=0,1";
    let used = "cam-0 waits: n0/gpus-1 is still in use";
    let run = "pods=0:n0/gpus-0:running,1:n0/gpus-1:running ready=0,1";
    check(&[
        (&format!("{chain} {run}"), &format!("evict pod-1; cam-0 {WAITS}")),
        (&format!("{swap} units=n0/gpus-0:0,n0/gpus-1:0 {run}"), &format!("evict pod-0; cam-1 {WAITS}")),
        // The stopped actor needs the place of the other.
        (
            &format!("{swap} units=n0/gpus-0:1,n0/gpus-1:0 pods=1:n0/gpus-1:running ready=1"),
            &format!("evict pod-1; {used}"),
        ),
    ]);
    // Until the stopped pod is gone, no other actor with resources there is stopped.
    let cores = "actors=3 nodes=n0,n1:0 units=n0/cpus-0,n1/cpus-0 instances=0,1,2 decided=0:n1/cpus-0,1:n0/cpus-0,2:n0/cpus-0 \
                 elective=0,1,2";
    let used = "cam-0 waits: cpuMilli of n1 is still in use";
    check(&[
        (
            &format!("{cores} pods=1:n1/cpus-0:running,2:n1/cpus-0:running ready=1,2"),
            &format!("evict pod-1; {used}; cam-2 {WAITS}"),
        ),
        (
            &format!("{cores} pods=1:n1/cpus-0:terminating,2:n1/cpus-0:running ready=2"),
            &format!("{used}; cam-2 {WAITS}"),
        ),
    ]);
}

#[test]
fn failed_moves_are_withdrawn() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:0 instances=0 decided=0:n1/gpus-0";
    let starting = format!("{world} elective=0:100 pods=0:n1/gpus-0:running");
    let refused = "refused cam-0 on n1: not ready within 120 s after the move";
    let kept = format!("{world} elective=0 pods=0:n0/gpus-0:running ready=0 units=n1/gpus-0:1 kept=0:100");
    check(&[
        (&format!("{starting} now=219"), "next at 220"),
        (&format!("{starting} now=220"), &format!("stop pod-0; {refused}")),
        (&format!("{starting} now=220 ready=0"), ""),
        (&format!("{kept} now=219"), "evict pod-0"),
        (&format!("{kept} now=220"), "refused cam-0 on n1: the pod could not be evicted for 120 s: a budget"),
    ]);
}
