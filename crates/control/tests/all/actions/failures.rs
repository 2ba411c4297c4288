//! Ended, refused and lost pods.

use super::scenario::check;

#[test]
fn ended_refused_and_lost_pods_are_stopped() {
    let world = "actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0";
    check(&[
        (&format!("{world} pods=0:n0/gpus-0:ended"), "stop pod-0; cam-0 ended"),
        ("actors=1 nodes=n0 unplaced=0 instances=0 pods=0:n0/gpus-0:running", "evict pod-0"),
        (
            &format!("{world} pods=0:n0/gpus-0:starting:- refused=0:no-room"),
            "stop pod-0; refused cam-0 on n0: no-room",
        ),
        (
            &format!("{world} pods=0:n0/gpus-0:ended refused=0:OutOfcpu"),
            "stop pod-0; refused cam-0 on n0: OutOfcpu",
        ),
        // A terminating pod is not refused.
        (&format!("{world} pods=0:n0/gpus-0:terminating refused=0:no-room"), ""),
        (
            "actors=1 nodes=n1 units=n1/gpus-0:1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:running",
            "stop pod-0 at once",
        ),
        (
            "actors=1 nodes=n1 units=n1/gpus-0:1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:terminating",
            "stop pod-0 at once",
        ),
        (
            "actors=1 nodes=n1 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:ended refused=0:lost",
            "stop pod-0 at once",
        ),
    ]);
}

/// The scheduler may preempt pods or wait for a volume: a rejection counts after half a minute.
#[test]
fn unschedulable_pods_get_a_grace_period() {
    let world =
        "actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:starting:-";
    check(&[
        (&format!("{world} refused=0:no-room:100 now=101"), "next at 130"),
        (&format!("{world} refused=0:no-room:100 now=129"), "next at 130"),
        (&format!("{world} refused=0:no-room:100 now=130"), "stop pod-0; refused cam-0 on n0: no-room"),
        // It is moved meanwhile.
        (
            &format!(
                "{} unplaced=0 refused=0:no-room:100 now=101",
                world.replace("decided=0:n0/gpus-0 ", "")
            ),
            "evict pod-0; next at 130",
        ),
    ]);
}

#[test]
fn actors_in_backoff_do_not_block_others() {
    let world =
        "actors=2 nodes=n0 units=n0/gpus-0:1,n0/gpus-1:1 decided=0:n0/gpus-0,1:n0/gpus-1 instances=0,1";
    let waits = "start cam-1 on n0/gpus-1; cam-0 waits: it ended; retrying with backoff";
    check(&[
        (&format!("{world} back=0:110 now=100"), &format!("{waits}; next at 110")),
        (&format!("{world} back=0:110 now=110"), "start cam-0 on n0/gpus-0; start cam-1 on n0/gpus-1"),
        // An existing pod is handled whatever its backoff.
        (
            "actors=1 nodes=n0 unplaced=0 instances=0 pods=0:n0/gpus-0:running back=0:110 now=100",
            "evict pod-0",
        ),
    ]);
}

/// During a mass outage nothing moves; ended pods and pods of deleted nodes are handled as usual.
#[test]
fn nothing_moves_during_a_mass_outage() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 decided=0:n1/gpus-0 instances=0 silent=yes now=100";
    let stays =
        "cam-0 waits: the move is suspended until at most 30 % of the nodes are unreachable; next at 105";
    check(&[
        (&format!("{world} pods=0:n0/gpus-0:running"), stays),
        (&format!("{world} pods=0:n0/gpus-0:terminating"), ""),
        (&format!("{world} pods=0:n1/gpus-0:running"), ""),
        (&format!("{world} pods=0:n1/gpus-0:ended"), "stop pod-0; cam-0 ended"),
        (
            &format!("{world} pods=0:n2/gpus-0:running")
                .replace("decided=0:n1/gpus-0", "decided=0:n2/gpus-0"),
            "stop pod-0 at once",
        ),
        (world, "start cam-0 on n1/gpus-0"),
    ]);
}

/// An actor on an unreachable node may still run: nothing starts elsewhere.
#[test]
fn actors_on_unreachable_nodes_do_not_start_elsewhere() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 instances=0 now=100";
    let (there, elsewhere) = (format!("{world} decided=0:n0/gpus-0"), format!("{world} decided=0:n1/gpus-0"));
    let waits = "cam-0 waits: node n0 is unreachable; the actor restarts elsewhere after its pod or the node is deleted, \
                 or the node has the taint node.kubernetes.io/out-of-service";
    let forced = "cam-0 waits: node n0 is unreachable; the actor restarts elsewhere after spec.failover.after; next at 150";
    let (runs, going) = ("pods=0:n0/gpus-0:running", "pods=0:n0/gpus-0:terminating");
    check(&[
        (&format!("{there} {runs} lost=n0:90"), waits),
        (&format!("{elsewhere} {going} lost=n0:90"), waits),
        (&format!("{elsewhere} {runs} lost=n0:90"), &format!("evict pod-0; {waits}")),
        // An unreachable node matters only if the pod is bound to it.
        (&format!("{there} {runs} lost=n1:90"), ""),
        (&format!("{there} pods=0:n0/gpus-0:starting:- lost=n0:90"), ""),
        // An administrator confirms that the node is out of service.
        (&format!("{there} {runs} lost=n0:out"), "stop pod-0 at once"),
        (&format!("{elsewhere} {going} lost=n0:out"), "stop pod-0 at once"),
        (&format!("{elsewhere} lost=n0:90"), "start cam-0 on n1/gpus-0"),
        // The application accepts duplicates.
        (&format!("{there} {runs} lost=n0:90 force=60"), forced),
        (&format!("{there} {going} lost=n0:90 force=60"), forced),
        (&format!("{there} {runs} lost=n0:40 force=60"), "stop pod-0 at once"),
        (&format!("{elsewhere} {going} lost=n0:40 force=60"), "stop pod-0 at once"),
        // Nothing is forced during a mass outage, or if the start of the outage is unknown.
        (&format!("{there} {runs} lost=n0 force=60"), waits),
        (&format!("{there} {runs} lost=n0:40 force=60 silent=yes"), waits),
    ]);
}
