//! Rolling updates.

use super::scenario::check;

#[test]
fn rollouts_respect_max_unavailable_and_replace_unready_pods_first() {
    let world =
        "actors=3 nodes=n0 units=n0/cpus-0 decided=0:n0/cpus-0,1:n0/cpus-0,2:n0/cpus-0 instances=0,1,2";
    let all = "pods=0:n0/cpus-0,1:n0/cpus-0,2:n0/cpus-0";
    let two = "pods=1:n0/cpus-0,2:n0/cpus-0";
    let without =
        "actors=3 nodes=n0 units=n0/cpus-0 unplaced=0 decided=1:n0/cpus-0,2:n0/cpus-0 instances=0,1,2";
    check(&[
        // Nothing is outdated, or nothing may be unavailable.
        (&format!("{world} update=1 {all} ready=0,1,2"), ""),
        (&format!("{world} update=0 {all} ready=0,1,2 old=0,1,2"), ""),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2"), "stop pod-0"),
        (&format!("{world} update=2 {all} ready=0,1,2 old=0,1,2"), "stop pod-0; stop pod-1"),
        // The first one is starting with the newest template: no other is replaced.
        (
            &format!(
                "{world} update=1 pods=0:n0/cpus-0:terminating,1:n0/cpus-0,2:n0/cpus-0 ready=1,2 old=0,1,2"
            ),
            "",
        ),
        (&format!("{world} update=1 {two} ready=1,2 old=1,2"), "start newest cam-0 on n0/cpus-0"),
        (&format!("{world} update=1 {all} ready=1,2 old=1,2"), ""),
        (&format!("{world} update=1 {all} ready=0,1,2 old=1,2"), "stop pod-1"),
        // The newest template never becomes ready: lost actors restart with the last one that did.
        (&format!("{world} update=1 pods=0:n0/cpus-0,1:n0/cpus-0 ready=1 old=1"), "start cam-2 on n0/cpus-0"),
        // Fixed again: the pod that is not ready is replaced first, although one is unavailable already.
        (&format!("{world} update=1 {all} ready=1,2 old=0,1,2"), "stop pod-0"),
        // No outdated pod is ready: still one at a time.
        (&format!("{world} update=1 {all} old=0,1,2"), "stop pod-0"),
        (&format!("{world} update=1 {two} old=1,2"), "start newest cam-0 on n0/cpus-0"),
        // A pod that cannot restart in place is not stopped.
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 infeasible=0"), "stop pod-1"),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 infeasible=0,1,2"), ""),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 last=0"), "stop pod-1"),
        (&format!("{world} update=1 {all} ready=1,2 old=0,1,2 last=0"), "stop pod-0"),
        (&format!("{world} update=2 {all} ready=0,1,2 old=0,1,2 closed=900 now=100"), "next at 900"),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 closed=90 now=100"), "stop pod-0"),
        // An unplaced actor is unavailable: no ready pod is stopped besides, but a failing one is replaced.
        (&format!("{without} update=1 {two} ready=1,2 old=1,2"), ""),
        (&format!("{without} update=2 {two} ready=1,2 old=1,2"), "stop pod-1"),
        // It delays its own group only.
        (&format!("{without} groups=0:1 update=1 {two} ready=1,2 old=1,2"), "stop pod-1"),
        (&format!("{without} groups=0:1,1:1 update=1 {two} ready=1,2 old=1,2"), "stop pod-2"),
        (&format!("{without} update=1 {two} ready=2 old=1,2"), "stop pod-1"),
        (&format!("{without} update=1 {two} ready=2 old=2"), ""),
        (
            &format!(
                "{without} update=1 pods=0:n0/cpus-0:terminating,1:n0/cpus-0,2:n0/cpus-0 ready=1,2 old=1,2"
            ),
            "",
        ),
    ]);
}
