//! Rolling updates.

use crate::scenario::check;

#[test]
fn rollouts_respect_max_unavailable_and_replace_unready_pods_first() {
    let world =
        "actors=3 nodes=n0 units=n0/cpus-0 decided=0:n0/cpus-0,1:n0/cpus-0,2:n0/cpus-0 instances=0,1,2";
    let all = "pods=0:n0/cpus-0,1:n0/cpus-0,2:n0/cpus-0";
    let two = "pods=1:n0/cpus-0,2:n0/cpus-0";
    let without =
        "actors=3 nodes=n0 units=n0/cpus-0 unplaced=0 decided=1:n0/cpus-0,2:n0/cpus-0 instances=0,1,2";
    check(&[
        // Nothing is old, or nothing may be down.
        (&format!("{world} update=1 {all} ready=0,1,2"), ""),
        (&format!("{world} update=0 {all} ready=0,1,2 old=0,1,2"), ""),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2"), "stop pod-0"),
        (&format!("{world} update=2 {all} ready=0,1,2 old=0,1,2"), "stop pod-0; stop pod-1"),
        // The first is on its way, starts with the newest template, and is not ready yet: nobody else.
        (&format!("{world} update=1 pods=0:n0/cpus-0:going,1:n0/cpus-0,2:n0/cpus-0 ready=1,2 old=0,1,2"), ""),
        (&format!("{world} update=1 {two} ready=1,2 old=1,2"), "start newest cam-0 on n0/cpus-0"),
        (&format!("{world} update=1 {all} ready=1,2 old=1,2"), ""),
        (&format!("{world} update=1 {all} ready=0,1,2 old=1,2"), "stop pod-1"),
        // The newest never becomes ready: who is lost meanwhile comes again with the last one that served.
        (&format!("{world} update=1 pods=0:n0/cpus-0,1:n0/cpus-0 ready=1 old=1"), "start cam-2 on n0/cpus-0"),
        // It is put right: the one that does not serve goes first, though one is down already.
        (&format!("{world} update=1 {all} ready=1,2 old=0,1,2"), "stop pod-0"),
        // None of the old ones serves: one after the other all the same.
        (&format!("{world} update=1 {all} old=0,1,2"), "stop pod-0"),
        (&format!("{world} update=1 {two} old=1,2"), "start newest cam-0 on n0/cpus-0"),
        // Who could not start again there is not stopped.
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 infeasible=0"), "stop pod-1"),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 infeasible=0,1,2"), ""),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 last=0"), "stop pod-1"),
        (&format!("{world} update=1 {all} ready=1,2 old=0,1,2 last=0"), "stop pod-0"),
        (&format!("{world} update=2 {all} ready=0,1,2 old=0,1,2 closed=900 now=100"), "next at 900"),
        (&format!("{world} update=1 {all} ready=0,1,2 old=0,1,2 closed=90 now=100"), "stop pod-0"),
        // One that has no place is down: nobody who serves is stopped beside it, and a pod that hangs does not wait for it.
        (&format!("{without} update=1 {two} ready=1,2 old=1,2"), ""),
        (&format!("{without} update=2 {two} ready=1,2 old=1,2"), "stop pod-1"),
        (&format!("{without} update=1 {two} ready=2 old=1,2"), "stop pod-1"),
        (&format!("{without} update=1 {two} ready=2 old=2"), ""),
        (&format!("{without} update=1 pods=0:n0/cpus-0:going,1:n0/cpus-0,2:n0/cpus-0 ready=1,2 old=1,2"), ""),
    ]);
}
