//! One line of world, one line of steps.
#![expect(clippy::unwrap_used, reason = "a test's own words")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use control::{
    Action, Actions, Backoff, Decision, DesiredActor, DesiredState, FreeCapacity, FreeUnit, Instance,
    NameConflict, NodeOutage, ObjectId, ObservedState, Pod, PodPhase, RefusedPod, StopMode, finish_in_flight,
    next_actions, repair_only,
};
use proptest::prelude::*;

/// A world in words:
/// `actors=N` `nodes=NODE:cpus:gpus` `units=NODE/POOL-K:slots` `pools=POOL:left` `decided=I:UNIT` `unplaced=I`
/// `closed=UNTIL` `instances=I[:going|asked]` `surplus=NAME` `pods=I:UNIT:STATE[:NODE]` `refused=I:WORDS[:SINCE]` `taken=I:by|leaving` `infeasible=I`
/// `now=SECONDS` `back=I:UNTIL` `ready=I` `old=I` `update=MAX_UNAVAILABLE` `silent=yes`
/// `lost=NODE[:SINCE|:out]` `force=SECONDS`.
///
/// Actors ask for one core. Pools that begin with `gpu` hand out a resource, and are of kind gpu, the others of kind cpu.
#[derive(Clone, Debug, Default)]
struct World {
    wanted: DesiredState,
    decision: Decision,
    seen: ObservedState,
    infeasible: BTreeSet<String>,
}

fn actor(index: &str) -> String {
    format!("cam-{index}")
}

fn id(name: String) -> ObjectId {
    ObjectId { uid: format!("{name}-uid"), name, resource_version: None }
}

impl World {
    fn of(text: &str) -> Self {
        let mut world = Self::default();
        let asks = BTreeMap::from([("cpuMilli".to_owned(), 1000), ("pods".to_owned(), 1)]);
        world.wanted.requests = vec![["cpu", "gpu"].map(|kind| (kind.to_owned(), asks.clone())).into()];
        for (what, items) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
            for item in items.split(',') {
                world.add(what, item);
            }
        }
        world
    }

    fn add(&mut self, what: &str, item: &str) {
        let fields: Vec<&str> = item.split(':').collect();
        let (first, second) = (fields[0].to_owned(), fields.get(1).copied());
        let number = |text: Option<&str>| text.unwrap().parse::<u64>().unwrap();
        let (seen, name) = (&mut self.seen, actor(fields[0]));
        match what {
            "actors" => {
                let named = |index: u64| DesiredActor { name: actor(&index.to_string()), group: 0 };
                self.wanted.actors = (0..number(Some(&first))).map(named).collect();
            }
            "nodes" => {
                let cores = second.map_or(9, |cores| cores.parse().unwrap());
                let gpus = fields.get(2).map_or(9, |gpus| gpus.parse().unwrap());
                let left = [("cpuMilli", cores * 1000), ("pods", 99), ("nvidia.com/gpu", gpus)];
                seen.free.nodes.insert(first, left.map(|(name, amount)| (name.to_owned(), amount)).into());
            }
            "units" => {
                let (node, slot) = first.split_once('/').unwrap();
                let pool = slot.rsplit_once('-').unwrap().0.to_owned();
                let of_gpus = pool.starts_with("gpu");
                let unit = FreeUnit {
                    kind: if of_gpus { "gpu" } else { "cpu" }.to_owned(),
                    node: node.to_owned(),
                    pool,
                    slots: second.map(|slots| slots.parse().unwrap()),
                    resource: of_gpus.then(|| "nvidia.com/gpu".to_owned()),
                };
                seen.free.units.insert(first.clone(), unit);
            }
            "pools" => drop(seen.free.pools.insert(first, number(second))),
            "decided" => drop(self.decision.places.insert(name, second.unwrap().to_owned())),
            "unplaced" => drop(self.decision.unplaced.insert(name)),
            "infeasible" => drop(self.infeasible.insert(name)),
            "instances" => {
                let instance = seen.instances.entry(name.clone()).or_default();
                instance.id = id(format!("app-{name}"));
                instance.terminating = second == Some("going");
                instance.requested = second == Some("asked");
            }
            "surplus" => {
                let (id, going) = (id(first), second == Some("going"));
                seen.surplus.push(Instance { id, terminating: going, ..Instance::default() });
            }
            "pods" => {
                let unit = second.filter(|unit| *unit != "-").map(str::to_owned);
                let node = unit.as_deref().map(|unit| unit.split('/').next().unwrap().to_owned());
                let node = fields.get(3).map_or(node, |node| Some((*node).to_owned()).filter(|n| n != "-"));
                let state = fields.get(2).map_or(PodPhase::Running, |state| state.parse().unwrap());
                let pod = Pod { id: id(format!("pod-{first}")), unit, node, phase: state, ..Pod::default() };
                seen.instances.get_mut(&name).unwrap().pod = Some(pod);
            }
            "refused" => {
                let pod = seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap();
                pod.refusal = second.map(str::to_owned);
                pod.refused_since = fields.get(2).map(|since| Duration::from_secs(since.parse().unwrap()));
            }
            "ready" => seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap().ready = true,
            "last" => seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap().restart_blocked = true,
            "old" => seen.instances.get_mut(&name).unwrap().pod.as_mut().unwrap().outdated = true,
            "update" => self.wanted.max_unavailable = number(Some(&first)),
            "lost" => {
                let since = second.and_then(|since| since.parse().ok()).map(Duration::from_secs);
                seen.unreachable.insert(first, NodeOutage { since, confirmed: second == Some("out") });
            }
            "force" => self.wanted.failover_after = Some(Duration::from_secs(number(Some(&first)))),
            "silent" => seen.mass_outage = first == "yes",
            "closed" => {
                let (until, why) =
                    (Duration::from_secs(number(Some(&first))), "the quota is full".to_owned());
                seen.namespace_backoff = Some(Backoff { until, reason: why });
            }
            "now" => seen.now = Duration::from_secs(number(Some(&first))),
            "back" => {
                let (until, why) = (Duration::from_secs(number(second)), "it ended".to_owned());
                seen.backoff.insert(name, Backoff { until, reason: why });
            }
            "taken" => {
                let what = format!("Pod app-{name}");
                let taken = if second == Some("by") {
                    NameConflict::Foreign(what)
                } else {
                    NameConflict::Orphaned(what)
                };
                seen.name_conflicts.insert(name, taken);
            }
            other => panic!("{other}"),
        }
    }

    fn todo(&self) -> Actions {
        next_actions(&self.wanted, &self.decision, &self.seen, &self.infeasible)
    }
}

fn shown(todo: &Actions) -> String {
    let step = |step: &Action| match step {
        Action::CreateInstance { actor } => format!("make {actor}"),
        Action::DeleteInstance { instance } => format!("remove {}", instance.name),
        Action::StartPod { actor, unit, newest_template: true, .. } => {
            format!("start newest {actor} on {unit}")
        }
        Action::StartPod { actor, unit, .. } => format!("start {actor} on {unit}"),
        Action::StopPod { pod, mode: StopMode::Evict, .. } => format!("evict {}", pod.name),
        Action::StopPod { pod, mode: StopMode::Delete, .. } => format!("stop {}", pod.name),
        Action::StopPod { pod, mode: StopMode::Force, .. } => format!("stop {} at once", pod.name),
    };
    let mut lines: Vec<String> = todo.actions.iter().map(step).collect();
    let refused =
        |RefusedPod { actor, node, reason, .. }: &RefusedPod| format!("refused {actor} on {node}: {reason}");
    lines.extend(todo.refused_pods.iter().map(refused));
    lines.extend(todo.blocked.iter().map(|(actor, why)| format!("{actor} waits: {why}")));
    lines.extend(todo.ended.iter().map(|actor| format!("{actor} ended")));
    lines.extend(todo.requeue_at.map(|next| format!("next at {}", next.as_secs())));
    lines.join("; ")
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(shown(&World::of(text).todo()), *expected, "{text}");
    }
}

#[test]
fn an_actor_is_made_started_and_left_alone() {
    check(&[
        ("actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0", "make cam-0"),
        ("actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0", "start cam-0 on n0/gpus-0"),
        ("actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:runs", ""),
        ("actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:starting", ""),
        // Not bound yet: it is where it was made for.
        (
            "actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:starting:-",
            "",
        ),
        // Without a place it has an Instance all the same, which says so.
        ("actors=1 nodes=n0 unplaced=0", "make cam-0"),
        ("actors=1 nodes=n0 unplaced=0 instances=0", ""),
    ]);
}

#[test]
fn until_there_is_a_newer_decision_what_was_decided_is_healed_and_nothing_else_is_done() {
    let world = "actors=2 nodes=n0,n1 units=n0/cpus-0,n1/cpus-0 decided=0:n0/cpus-0 instances=0";
    for (rest, expected, is_carried_out) in [
        ("", "start cam-0 on n0/cpus-0", false),
        ("pods=0:n0/cpus-0", "", true),
        ("pods=0:n0/cpus-0 old=0", "", false),
        ("pods=0:n0/cpus-0:over", "stop pod-0; cam-0 ended", false),
        ("pods=0:n2/cpus-0:runs:n2", "stop pod-0 at once", false),
        // Who was to move stays for now, and whom nobody wants any more goes when there is a decision.
        ("pods=0:n1/cpus-0", "", false),
        ("instances=7 pods=0:n0/cpus-0,7:n0/cpus-0", "", true),
        ("infeasible=0", "cam-0 waits: n0/cpus-0 is no longer feasible; another place is being searched", false),
    ] {
        let world = World::of(&format!("{world} {rest}"));
        let mut todo = world.todo();
        repair_only(&mut todo);
        assert_eq!(shown(&todo), expected, "{rest}");
        assert_eq!(control::is_fully_applied(&world.decision, &world.seen), is_carried_out, "{rest}");
    }
}

#[test]
fn what_was_begun_is_finished_and_nothing_else_begins() {
    let world = "actors=3 nodes=n0,n1 units=n0/gpus-0:0,n0/gpus-1:0,n1/gpus-0:1 instances=0,1,2";
    let waits = "cam-0 waits: n0/gpus-1 is still in use";
    for (rest, expected) in [
        ("decided=0:n1/gpus-0", "start cam-0 on n1/gpus-0".to_owned()),
        // From the newest template where that was taken before.
        ("decided=0:n1/gpus-0 update=1", "start newest cam-0 on n1/gpus-0".to_owned()),
        // Nobody is replaced, moved or taken away.
        ("decided=0:n1/gpus-0 pods=0:n1/gpus-0 update=1 ready=0 old=0", String::new()),
        ("decided=0:n1/gpus-0 pods=0:n0/gpus-0", String::new()),
        ("decided=0:n1/gpus-0 pods=0:n0/gpus-0:over instances=7", String::new()),
        // What ended by itself comes again.
        ("decided=0:n1/gpus-0 pods=0:n1/gpus-0:over", "stop pod-0; cam-0 ended".to_owned()),
        // Who was stopped is to be where another one is, who is to leave: that one leaves, and nobody else does.
        (
            "decided=0:n0/gpus-1,1:n0/gpus-0,2:n1/gpus-0 pods=1:n0/gpus-1,2:n0/gpus-0",
            format!("evict pod-1; {waits}"),
        ),
        // Who is there stays where that is decided.
        ("decided=0:n0/gpus-1,1:n0/gpus-1 pods=1:n0/gpus-1", waits.to_owned()),
        ("decided=0:n0/gpus-1,1:n0/gpus-0 pods=1:n0/gpus-1:going", waits.to_owned()),
    ] {
        let world = World::of(&format!("{world} {rest}"));
        let mut todo = world.todo();
        finish_in_flight(&mut todo, &world.seen);
        assert_eq!(shown(&todo), expected, "{rest}");
    }
}

#[test]
fn who_waits_for_a_place_whose_holder_may_not_be_evicted_is_refused_there() {
    let world = "actors=3 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:0 instances=0,1,2";
    let exchange = "decided=0:n1/gpus-0,1:n0/gpus-0";
    for (rest, kept, expected) in [
        (
            "pods=1:n1/gpus-0",
            "1",
            "cam-0 on n1: n1/gpus-0 is still in use by cam-1, which may not be evicted: a budget",
        ),
        // Nobody is held, or somebody else is.
        ("pods=1:n1/gpus-0", "", ""),
        ("pods=1:n1/gpus-0,2:n0/gpus-0", "2", ""),
        // Both run still: nobody lies.
        ("pods=0:n0/gpus-0,1:n1/gpus-0", "1", ""),
    ] {
        let world = World::of(&format!("{world} {exchange} {rest}"));
        let held = kept.split_whitespace().map(|index| (actor(index), "a budget".to_owned())).collect();
        let stuck = control::stuck_moves(&world.decision, &world.seen, &world.todo().blocked, &held);
        let told: Vec<_> =
            stuck.iter().map(|it| format!("{} on {}: {}", it.actor, it.node, it.reason)).collect();
        assert_eq!(told.join("; "), expected, "{rest}, {kept}");
    }
}

#[test]
fn an_update_takes_a_few_at_a_time_and_those_that_do_not_run_first() {
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

#[test]
fn a_move_stops_waits_and_starts() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 decided=0:n1/gpus-0 instances=0";
    check(&[
        (&format!("{world} pods=0:n0/gpus-0:runs"), "evict pod-0"),
        (&format!("{world} pods=0:n0/gpus-0:starting"), "evict pod-0"),
        (&format!("{world} pods=0:n0/gpus-0:going"), ""),
        (world, "start cam-0 on n1/gpus-0"),
        // Made for no unit that is known: it is not where it should be.
        (&format!("{world} pods=0:-:runs"), "evict pod-0"),
    ]);
}

#[test]
fn what_ended_was_refused_or_lost_its_node_is_stopped() {
    let world = "actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0";
    check(&[
        (&format!("{world} pods=0:n0/gpus-0:over"), "stop pod-0; cam-0 ended"),
        ("actors=1 nodes=n0 unplaced=0 instances=0 pods=0:n0/gpus-0:runs", "evict pod-0"),
        (
            &format!("{world} pods=0:n0/gpus-0:starting:- refused=0:no-room"),
            "stop pod-0; refused cam-0 on n0: no-room",
        ),
        (
            &format!("{world} pods=0:n0/gpus-0:over refused=0:OutOfcpu"),
            "stop pod-0; refused cam-0 on n0: OutOfcpu",
        ),
        // Who is leaving for another reason says nothing more about its node.
        (&format!("{world} pods=0:n0/gpus-0:going refused=0:no-room"), ""),
        (
            "actors=1 nodes=n1 units=n1/gpus-0:1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:runs",
            "stop pod-0 at once",
        ),
        (
            "actors=1 nodes=n1 units=n1/gpus-0:1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:going",
            "stop pod-0 at once",
        ),
        (
            "actors=1 nodes=n1 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:over refused=0:lost",
            "stop pod-0 at once",
        ),
    ]);
}

/// Preemption may make room, and a volume may come: until the scheduler has said no for half a minute, its word is none.
#[test]
fn the_scheduler_has_time_to_make_room() {
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
fn who_failed_waits_and_holds_up_nobody() {
    let world =
        "actors=2 nodes=n0 units=n0/gpus-0:1,n0/gpus-1:1 decided=0:n0/gpus-0,1:n0/gpus-1 instances=0,1";
    let waits =
        "start cam-1 on n0/gpus-1; cam-0 waits: it ended; it is retried with backoff";
    check(&[
        (&format!("{world} back=0:110 now=100"), &format!("{waits}; next at 110")),
        (&format!("{world} back=0:110 now=110"), "start cam-0 on n0/gpus-0; start cam-1 on n0/gpus-1"),
        // A pod that is there is looked after whatever was before.
        ("actors=1 nodes=n0 unplaced=0 instances=0 pods=0:n0/gpus-0:runs back=0:110 now=100", "evict pod-0"),
    ]);
}

/// While many nodes do not answer nobody is moved; who ended, or whose node is gone, is looked after as ever.
#[test]
fn while_many_nodes_are_silent_nobody_moves() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 decided=0:n1/gpus-0 instances=0 silent=yes now=100";
    let stays = "cam-0 waits: its move is suspended until at most 30 % of the nodes are unreachable; next at 105";
    check(&[
        (&format!("{world} pods=0:n0/gpus-0:runs"), stays),
        (&format!("{world} pods=0:n0/gpus-0:going"), ""),
        (&format!("{world} pods=0:n1/gpus-0:runs"), ""),
        (&format!("{world} pods=0:n1/gpus-0:over"), "stop pod-0; cam-0 ended"),
        (
            &format!("{world} pods=0:n2/gpus-0:runs").replace("decided=0:n1/gpus-0", "decided=0:n2/gpus-0"),
            "stop pod-0 at once",
        ),
        (world, "start cam-0 on n1/gpus-0"),
    ]);
}

/// Nobody can tell whether an actor lives on a node that does not answer: nothing starts elsewhere, whatever is decided.
#[test]
fn who_is_on_a_node_that_does_not_answer_is_waited_for() {
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 instances=0 now=100";
    let (there, elsewhere) = (format!("{world} decided=0:n0/gpus-0"), format!("{world} decided=0:n1/gpus-0"));
    let waits = "cam-0 waits: n0 is unreachable; it starts elsewhere once its pod or the node is deleted, or the node has the taint \
                 node.kubernetes.io/out-of-service";
    let forced =
        "cam-0 waits: n0 is unreachable; it starts elsewhere after spec.failover.after; next at 150";
    let (runs, going) = ("pods=0:n0/gpus-0:runs", "pods=0:n0/gpus-0:going");
    check(&[
        (&format!("{there} {runs} lost=n0:90"), waits),
        (&format!("{elsewhere} {going} lost=n0:90"), waits),
        (&format!("{elsewhere} {runs} lost=n0:90"), &format!("evict pod-0; {waits}")),
        // Another node's silence is none of its business; nor is its own, before it is bound.
        (&format!("{there} {runs} lost=n1:90"), ""),
        (&format!("{there} pods=0:n0/gpus-0:starting:- lost=n0:90"), ""),
        // Somebody says that it is out of service: whatever ran there has ended.
        (&format!("{there} {runs} lost=n0:out"), "stop pod-0 at once"),
        (&format!("{elsewhere} {going} lost=n0:out"), "stop pod-0 at once"),
        (&format!("{elsewhere} lost=n0:90"), "start cam-0 on n1/gpus-0"),
        // The application takes it on itself that two may live.
        (&format!("{there} {runs} lost=n0:90 force=60"), forced),
        (&format!("{there} {going} lost=n0:90 force=60"), forced),
        (&format!("{there} {runs} lost=n0:40 force=60"), "stop pod-0 at once"),
        (&format!("{elsewhere} {going} lost=n0:40 force=60"), "stop pod-0 at once"),
        // Since when is not known, or many are silent: nothing is forced.
        (&format!("{there} {runs} lost=n0 force=60"), waits),
        (&format!("{there} {runs} lost=n0:40 force=60 silent=yes"), waits),
    ]);
}

#[test]
fn instances_that_nobody_wants_go() {
    let world = "actors=1 nodes=n0 units=n0/gpus-0:0 decided=0:n0/gpus-0 instances=0";
    check(&[
        (&format!("{world},1 pods=0:n0/gpus-0:runs"), "remove app-cam-1"),
        (&format!("{world},1:going pods=0:n0/gpus-0:runs"), ""),
        // What the application asked for is its own to delete: only what runs for it goes.
        (&format!("{world},1:asked pods=0:n0/gpus-0:runs"), ""),
        (&format!("{world},1:asked pods=0:n0/gpus-0:runs,1:n0/gpus-1:runs"), "stop pod-1"),
        (&format!("{world},1:asked pods=0:n0/gpus-0:runs,1:n0/gpus-1:going"), ""),
        (&format!("{world} pods=0:n0/gpus-0:runs surplus=handmade"), "remove handmade"),
        (&format!("{world} pods=0:n0/gpus-0:runs surplus=handmade:going"), ""),
        // One that goes is waited for: its pod goes with it, and a new one would too.
        ("actors=1 nodes=n0 units=n0/gpus-0:1 decided=0:n0/gpus-0 instances=0:going", ""),
    ]);
}

#[test]
fn what_another_has_made_is_never_touched_and_only_that_actor_waits() {
    let world = "actors=2 nodes=n0 units=n0/gpus-0:1,n0/gpus-1:1 decided=0:n0/gpus-0,1:n0/gpus-1";
    let by = "cam-0 waits: its name is taken by Pod app-cam-0; remove or rename one of the two";
    let leaving = "cam-0 waits: Pod app-cam-0 is still being deleted";
    check(&[
        (&format!("{world} taken=0:by"), &format!("make cam-1; {by}")),
        (&format!("{world} instances=1 taken=0:by"), &format!("start cam-1 on n0/gpus-1; {by}")),
        (&format!("{world} instances=0,1 taken=0:by"), &format!("start cam-1 on n0/gpus-1; {by}")),
        (&format!("{world} instances=0,1 taken=0:leaving"), &format!("start cam-1 on n0/gpus-1; {leaving}")),
        (&format!("{world} instances=1 pods=1:n0/gpus-1:runs taken=0:leaving"), leaving),
        // Our own pod is where the name is: nothing is taken.
        (&format!("{world} instances=0,1 pods=0:n0/gpus-0:runs,1:n0/gpus-1:runs"), ""),
    ]);
}

#[test]
fn a_successor_starts_only_when_its_place_is_free() {
    let swap = "actors=2 nodes=n0 decided=0:n0/gpus-1,1:n0/gpus-0 instances=0,1";
    let used = |what: &str| format!("cam-0 waits: {what} is still in use");
    check(&[
        (
            &format!("{swap} units=n0/gpus-0:0,n0/gpus-1:0 pods=0:n0/gpus-0:runs,1:n0/gpus-1:runs"),
            "evict pod-0; evict pod-1",
        ),
        (&format!("{swap} units=n0/gpus-0:1,n0/gpus-1:0 pods=1:n0/gpus-1:going"), &used("n0/gpus-1")),
        (
            &format!("{swap} units=n0/gpus-0:1,n0/gpus-1:1"),
            "start cam-0 on n0/gpus-1; start cam-1 on n0/gpus-0",
        ),
    ]);
}

#[test]
fn starts_take_slots_resources_and_the_bounds_of_pools() {
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
fn one_that_waits_does_not_hold_up_the_next() {
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
fn what_is_not_feasible_now_is_not_begun() {
    let gone = "cam-0 waits: n7/gpus-0 is no longer offered; another place is being searched";
    let bad = "cam-0 waits: n0/gpus-0 is no longer feasible; another place is being searched";
    let world = "actors=1 nodes=n0,n1 units=n0/gpus-0:1,n1/gpus-0:1 instances=0";
    check(&[
        (&format!("{world} decided=0:n7/gpus-0"), gone),
        (
            &format!("{world} decided=0:n7/gpus-0 infeasible=0"),
            "cam-0 waits: n7/gpus-0 is no longer feasible; another place is being searched",
        ),
        (&format!("{world} decided=0:n0/gpus-0 infeasible=0"), bad),
        // Who runs elsewhere stays until there is a place that it can really move to.
        (&format!("{world} decided=0:n0/gpus-0 infeasible=0 pods=0:n1/gpus-0:runs"), ""),
        (&format!("{world} decided=0:n0/gpus-0 pods=0:n1/gpus-0:runs"), "evict pod-0"),
        // What ended ends, wherever it was to be.
        (
            &format!("{world} decided=0:n0/gpus-0 infeasible=0 pods=0:n1/gpus-0:over"),
            "stop pod-0; cam-0 ended",
        ),
        // Nothing is decided of it: it neither starts nor stops.
        (world, ""),
        (&format!("{world} pods=0:n1/gpus-0:runs"), ""),
        // A kind that the actor has no implementation for.
        (
            "actors=1 nodes=n0 units=n0/fpgas-0:1 decided=0:n0/fpgas-0 instances=0",
            "start cam-0 on n0/fpgas-0",
        ),
    ]);
    let mut other = World::of("actors=1 nodes=n0 units=n0/fpgas-0:1 decided=0:n0/fpgas-0 instances=0");
    other.seen.free.units.get_mut("n0/fpgas-0").unwrap().kind = "fpga".to_owned();
    assert_eq!(
        shown(&other.todo()),
        "cam-0 waits: n0/fpgas-0 is no longer feasible; another place is being searched"
    );
}

prop_compose! {
    /// Any decision over two nodes, four units, at most six actors in any state.
    fn any_world()(
        places in prop::collection::vec(prop::option::of(0..4_usize), 6),
        pods in prop::collection::vec(prop::option::of((0..4_usize, 0..4_usize)), 6),
        left in (0..4_u64, 0..4_u64, 0..3_u64),
        bad in prop::collection::btree_set(0..6_usize, 0..3),
        taken in prop::collection::btree_set(0..6_usize, 0..3),
    ) -> World {
        let units = ["n0/gpus-0", "n0/gpus-1", "n1/gpus-0", "n1/cpus-0"];
        let states = ["runs", "starting", "over", "going"];
        let mut text = format!("actors=6 nodes=n0:{}:{},n1 pools=gpus:{}", left.0, left.1, left.2);
        text += " units=n0/gpus-0:1,n0/gpus-1:1,n1/gpus-0:0,n1/cpus-0";
        for index in 0..6 {
            text += &places[index].map_or(format!(" unplaced={index}"), |unit| format!(" decided={index}:{}", units[unit]));
            if taken.contains(&index) {
                write!(text, " taken={index}:by").unwrap();
            } else {
                write!(text, " instances={index}").unwrap();
                if let Some((unit, state)) = pods[index] {
                    write!(text, " pods={index}:{}:{}", units[unit], states[state]).unwrap();
                }
            }
        }
        for index in &bad {
            write!(text, " infeasible={index}").unwrap();
        }
        World::of(&text)
    }
}

proptest! {
    /// No actor gets two steps, none starts beside a pod of its own or another's name, nothing takes more than is left.
    #[test]
    fn steps_are_safe(world in any_world()) {
        let todo = world.todo();
        let mut left: FreeCapacity = world.seen.free.clone();
        let mut seen = BTreeSet::new();
        for step in &todo.actions {
            if let Action::StartPod { actor, unit, .. } = step {
                prop_assert!(seen.insert(actor.clone()));
                prop_assert!(world.seen.instances[actor].pod.is_none());
                prop_assert!(!world.seen.name_conflicts.contains_key(actor) && !world.infeasible.contains(actor));
                prop_assert_eq!(&world.decision.places[actor], unit);
                let unit = left.units.get_mut(unit).unwrap();
                if let Some(slots) = &mut unit.slots {
                    prop_assert!(*slots > 0);
                    *slots -= 1;
                }
                let node = left.nodes.get_mut(&unit.node).unwrap();
                let asked = [("cpuMilli", 1000), ("nvidia.com/gpu", u64::from(unit.resource.is_some()))];
                for (resource, amount) in asked {
                    prop_assert!(node[resource] >= amount);
                    *node.get_mut(resource).unwrap() -= amount;
                }
            }
            if let Action::StopPod { pod, .. } = step {
                prop_assert!(world.seen.instances.values().any(|i| i.pod.as_ref().is_some_and(|p| p.id == *pod)));
            }
        }
    }

    /// Once every actor runs where it was decided to be, there is nothing left to do.
    #[test]
    fn a_decision_that_is_carried_out_has_no_steps(mut world in any_world()) {
        world.seen.name_conflicts.clear();
        for actor in &world.wanted.actors {
            let instance = world.seen.instances.entry(actor.name.clone()).or_default();
            let unit = world.decision.places.get(&actor.name).cloned();
            let node = unit.as_deref().map(|unit| unit.split('/').next().unwrap().to_owned());
            instance.pod = unit.is_some().then(|| Pod { unit, node, phase: PodPhase::Running, ..Pod::default() });
        }
        prop_assert_eq!(world.todo(), Actions::default());
    }
}

#[test]
fn while_the_namespace_takes_no_pods_nothing_starts_or_moves() {
    let world =
        "actors=1 nodes=n0 nodes=n1 units=n0/cpus-0 units=n1/cpus-0 instances=0 now=100 decided=0:n1/cpus-0";
    let waits =
        "cam-0 waits: the quota is full; it is retried with backoff; next at 110";
    check(&[
        (&format!("{world} closed=110"), waits),
        (&format!("{world} closed=100"), "start cam-0 on n1/cpus-0"),
        (&format!("{world} closed=110 pods=0:n0/cpus-0"), waits),
        (&format!("{world} closed=100 pods=0:n0/cpus-0"), "evict pod-0"),
        // what runs where it is to run is nobody's business, and what ended is taken away
        (&format!("{world} closed=110 pods=0:n1/cpus-0"), ""),
        (&format!("{world} closed=110 pods=0:n1/cpus-0:over"), "stop pod-0; cam-0 ended"),
    ]);
}
