//! Remedies: each proposed set of changes makes room, and no smaller one of the same kind does.

use explain::{Change, Rebuild, remedies};
use placement::file::{Constraint, SnapshotFile};
use placement::ix::ActorIx;
use placement::{Assignment, NoPolicy, Snapshot};
use proptest::prelude::*;

use crate::why::{EFFORT, asked, can_all_be_placed, most_placed};
use testkit::line::{assignment, file};

/// Whether all of `unplaced` and all placed actors can have a place at once after the changes, by trying every assignment.
fn makes_room(
    snapshot: &Snapshot,
    assignment: &Assignment,
    unplaced: &[ActorIx],
    changes: &[Change],
) -> bool {
    let mut file: SnapshotFile = snapshot.file().clone();
    for change in changes {
        change.apply(snapshot, &mut file);
    }
    let actors: Vec<ActorIx> = ActorIx::first(snapshot.actors())
        .filter(|a| unplaced.contains(a) || assignment[*a].is_some())
        .collect();
    can_all_be_placed(&file, &actors, &[])
}

/// The remedies, each verified: with it there is room, and with less of it there is none.
fn proposed(snapshot: &Snapshot, assignment: &Assignment, unplaced: &[ActorIx]) -> Vec<String> {
    assert!(!makes_room(snapshot, assignment, unplaced, &[]), "{snapshot:?}: there is room");
    let origin = Rebuild { bare: snapshot, judge: &NoPolicy };
    let proposed = remedies(snapshot, origin, unplaced, assignment, EFFORT);
    for remedy in &proposed {
        let text = remedy.describe(snapshot);
        assert!(remedy.is_smallest, "{snapshot:?}: {text}");
        assert!(
            makes_room(snapshot, assignment, unplaced, &remedy.changes),
            "{snapshot:?}: {text} is not enough"
        );
        for position in 0..remedy.changes.len() {
            let mut less = remedy.changes.clone();
            match less[position].more() {
                Some(more) if more > 1 => less[position] = less[position].with(more - 1),
                _ => drop(less.remove(position)),
            }
            assert!(
                !makes_room(snapshot, assignment, unplaced, &less),
                "{snapshot:?}: {text} is more than needed"
            );
        }
    }
    proposed.iter().map(|remedy| remedy.describe(snapshot)).collect()
}

/// Reasons as the operator gives them, one for each constraint, in order.
fn because(mut file: SnapshotFile, reasons: &[&str]) -> Snapshot {
    for (constraint, why) in file.constraints.iter_mut().zip(reasons) {
        match constraint {
            Constraint::Only { reason, .. }
            | Constraint::Never { reason, .. }
            | Constraint::Quota { reason, .. }
            | Constraint::PowerCap { reason, .. } => *reason = Some((*why).to_owned()),
            _ => {}
        }
    }
    Snapshot::new(file).unwrap()
}

/// Why `x` is unplaced: units, actors, rules, the reasons of the rules, the placement of the others, and the expected remedies.
type Case<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a str, &'a str);

const CASES: [Case; 22] = [
    // no slot is free
    (
        "g:gpu:9:slots=1 h:gpu:9:slots=1",
        "a:gpu=1 b:gpu=1 x:gpu=1",
        "",
        &[],
        "a=g b=h",
        "1 more slot on g; or one more node like n",
    ),
    // memory of the units
    (
        "g:gpu:9:mem=4,pool=p h:gpu:9:mem=9,pool=p",
        "a:gpu=1:mem=7 x:gpu=1:mem=5",
        "",
        &[],
        "a=h",
        "1 more mem on g; or one more node like n",
    ),
    // memory of the units, where the others would have to move
    (
        "g:gpu:9:mem=6,pool=p h:gpu:9:mem=8,pool=p",
        "a:gpu=1:mem=4 b:gpu=1:mem=3 x:gpu=1:mem=8",
        "",
        &[],
        "a=g b=h",
        "1 more mem on g; or one more node like n",
    ),
    // cores of the nodes
    (
        "u:cpu:9:node=n v:cpu:9:node=m",
        "a:cpu=1:node.cores=3 x:cpu=1:node.cores=4",
        "node n cores=4; node m cores=2",
        &[],
        "a=u",
        "1 more cores on m",
    ),
    // a kind without units
    ("c:cpu:9", "x:fpga=1", "", &[], "", "an implementation of x for cpu; or a unit of kind fpga"),
    // no implementation at all
    (
        "c:cpu:9 g:gpu:9",
        "x:",
        "",
        &[],
        "",
        "an implementation of x for cpu; or an implementation of x for gpu",
    ),
    // every node is cordoned
    (
        "u:cpu:9:node=n1 v:cpu:9:node=n2",
        "x:cpu=1",
        "never x nodes n1; never x nodes n2",
        &["n1 is cordoned", "n2 is cordoned"],
        "",
        "exempt x from: n1 is cordoned; or one more node like n1",
    ),
    // a selector that no node has
    (
        "u:cpu:9:node=n v:cpu:9:node=m",
        "x:cpu=1",
        "only x nodes m; never x nodes m",
        &["the template asks for disk=ssd", "taint dedicated=db on m"],
        "",
        "exempt x from: taint dedicated=db on m; or exempt x from: the template asks for disk=ssd",
    ),
    // a pinned actor's unit is taken
    (
        "g:gpu:9:slots=1 h:gpu:9",
        "a:gpu=1:at=g,fixed x:gpu=1",
        "pin x g",
        &[],
        "",
        "1 more slot on g; or without: pinned to g",
    ),
    // a quota on the number of actors
    (
        "c:cpu:9",
        "a:cpu=1 b:cpu=1 x:cpu=1",
        "quota a,b,x 2",
        &["quota of namespace ns: pods"],
        "a=c b=c",
        "raise the limit by 1: quota of namespace ns: pods",
    ),
    // a quota of a resource
    (
        "c:cpu:9:node=n",
        "a:cpu=1:node.cores=3 x:cpu=1:node.cores=4",
        "node n cores=9; quota a,x 5 of=cores",
        &["quota of namespace ns: requests.cpu"],
        "a=c",
        "raise the limit by 2: quota of namespace ns: requests.cpu",
    ),
    // a pool's quota per namespace
    (
        "g:gpu:9:pool=gpus,slots=4 c:cpu:9:pool=cpus",
        "a:gpu=1 x:gpu=1",
        "quota a,x 1 pool=gpus",
        &["pool gpus gives ns at most 1"],
        "a=g",
        "raise the limit by 1: pool gpus gives ns at most 1; or an implementation of x for cpu",
    ),
    // two quotas
    (
        "g:gpu:9:pool=gpus,slots=4",
        "a:gpu=1 x:gpu=1",
        "quota a,x 1 pool=gpus; quota a,x 1",
        &["pool gpus gives ns at most 1", "quota of namespace ns: pods"],
        "a=g",
        "raise the limit by 1: pool gpus gives ns at most 1, and raise the limit by 1: quota of namespace ns: pods",
    ),
    // each on a node of its own
    (
        "u:cpu:9:node=n v:cpu:9:node=m",
        "a:cpu=1 b:cpu=1 x:cpu=1",
        "apart node a b x",
        &[],
        "a=u b=v",
        "exempt a from: each on a node of its own; or exempt b from: each on a node of its own; or exempt x from: each on a node of its own; or one more node like m",
    ),
    // together without room for both
    (
        "g:gpu:9:node=n,slots=1 h:gpu:9:node=m,slots=1",
        "a:gpu=1 x:gpu=1",
        "together node a x",
        &[],
        "a=g",
        "1 more slot on g; or exempt a from: all on one node; or exempt x from: all on one node",
    ),
    // a cap on power
    (
        "u:cpu:10:node=n,power=100,idle=20 v:cpu:10:node=m,power=100,idle=20",
        "a:cpu=5 x:cpu=5",
        "powerCap all 100",
        &[],
        "a=u",
        "raise the limit by 20: at most 100 W in all",
    ),
    // a device that is exclusive to another
    (
        "g:gpu:9:node=n,slots=1",
        "other:gpu=1:at=g,fixed x:gpu=1",
        "",
        &[],
        "",
        "1 more slot on g; or one more node like n",
    ),
    // a pool that is closed to the namespace
    (
        "g:gpu:9:pool=gpus",
        "x:gpu=1",
        "never x units g",
        &["pool gpus does not select namespace ns"],
        "",
        "exempt x from: pool gpus does not select namespace ns; or one more node like n",
    ),
    // a reservation
    (
        "g:gpu:9:mem=8",
        "x:gpu=1:mem=7",
        "reserve g mem 3",
        &[],
        "",
        "2 more mem on g; or reserve 2 less mem on g; or one more node like n",
    ),
    // a slot and memory at once
    (
        "g:gpu:9:mem=8,slots=1",
        "a:gpu=1:mem=6 x:gpu=1:mem=4",
        "only a,x units g",
        &["kept to g"],
        "a=g",
        "1 more slot on g, and 2 more mem on g",
    ),
    // a claim selects the device
    ("n/p-gpu-0:gpu:9:slots=1,pool=p", "a:gpu=1 x:gpu=1", "", &[], "a=n/p-gpu-0", "one more node like n"),
    // the kubelet chooses it
    (
        "n/p-0:gpu:9:slots=1,pool=p",
        "a:gpu=1 x:gpu=1",
        "",
        &[],
        "a=n/p-0",
        "1 more slot on n/p-0; or one more node like n",
    ),
];

#[test]
fn infeasible_snapshots_have_smallest_remedies() {
    let mut wrong = Vec::new();
    for (units, actors, rules, reasons, places, expected) in CASES {
        let snapshot = because(file(units, actors, rules), reasons);
        let assignment = assignment(&snapshot, places);
        assert_eq!(snapshot.violations(&assignment), []);
        let proposed = proposed(&snapshot, &assignment, &[snapshot.actor("x").unwrap()]).join("; or ");
        if proposed != expected {
            wrong.push(format!("{units} | {actors} | {rules}\n  {proposed}\n"));
        }
    }
    assert!(wrong.is_empty(), "other proposals:\n{}", wrong.concat());
}

/// Cases for several actors: all whose names begin with `x` need a place at once.
const TOGETHER: [Case; 9] = [
    // slots for three
    (
        "g:gpu:9:slots=1 h:gpu:9:slots=1",
        "a:gpu=1 x0:gpu=1 x1:gpu=1 x2:gpu=1",
        "",
        &[],
        "a=g",
        "2 more slots on g; or one more node like n",
    ),
    // each alone has room
    ("g:gpu:9:slots=1", "x0:gpu=1 x1:gpu=1", "", &[], "", "1 more slot on g; or one more node like n"),
    // a quota that is too small for all
    (
        "c:cpu:9",
        "a:cpu=1 x0:cpu=1 x1:cpu=1 x2:cpu=1",
        "quota a,x0,x1,x2 2",
        &["quota of namespace ns: pods"],
        "a=c",
        "raise the limit by 2: quota of namespace ns: pods",
    ),
    // a quota, and units
    (
        "g:gpu:9:slots=1",
        "x0:gpu=1 x1:gpu=1",
        "quota x0,x1 1",
        &["quota of namespace ns: pods"],
        "",
        "raise the limit by 1: quota of namespace ns: pods, and 1 more slot on g",
    ),
    // each on a node of its own
    (
        "u:cpu:9:node=n v:cpu:9:node=m",
        "x0:cpu=1 x1:cpu=1 x2:cpu=1 x3:cpu=1",
        "apart node x0 x1 x2 x3",
        &[],
        "",
        "without: each on a node of its own; or 2 more nodes like m",
    ),
    // a kind without units
    ("c:cpu:9", "x0:fpga=1 x1:fpga=1", "", &[], "", "a unit of kind fpga"),
    // an empty snapshot
    ("", "x0:cpu=1 x1:cpu=1", "", &[], "", "a unit of kind cpu"),
    // one is forbidden, another lacks memory
    (
        "u:cpu:9:node=n,mem=4 v:cpu:9:node=m,mem=1",
        "x0:cpu=1 x1:cpu=1:mem=6",
        "never x0 nodes n,m",
        &["pool cpus does not select namespace ns"],
        "",
        "exempt x0 from: pool cpus does not select namespace ns, and 2 more mem on u",
    ),
    // cores of nodes for both
    (
        "u:cpu:9:node=n v:cpu:9:node=m",
        "x0:cpu=1:node.cores=3 x1:cpu=1:node.cores=3",
        "node n cores=4; node m cores=2",
        &[],
        "",
        "1 more cores on m",
    ),
];

#[test]
fn remedies_for_several_actors_are_sufficient_for_all() {
    let mut wrong = Vec::new();
    for (units, actors, rules, reasons, places, expected) in TOGETHER {
        let snapshot = because(file(units, actors, rules), reasons);
        let assignment = assignment(&snapshot, places);
        assert_eq!(snapshot.violations(&assignment), []);
        let unplaced: Vec<ActorIx> = ActorIx::first(snapshot.actors())
            .filter(|actor| snapshot.actor_id(*actor).starts_with('x'))
            .collect();
        let proposed = proposed(&snapshot, &assignment, &unplaced).join("; or ");
        if proposed != expected {
            wrong.push(format!("{units} | {actors} | {rules}\n  {proposed}\n"));
        }
    }
    assert!(wrong.is_empty(), "other proposals:\n{}", wrong.concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// In random snapshots without room, too: for single actors, and for all of them at once.
    #[test]
    fn remedies_are_sufficient_and_smallest(seed: u64) {
        let snapshot = asked(seed);
        let best = most_placed(&snapshot);
        let out: Vec<ActorIx> =
            ActorIx::first(snapshot.actors()).filter(|&actor| best.get(actor).is_some_and(Option::is_none)).collect();
        for actor in &out {
            proposed(&snapshot, &best, &[*actor]);
        }
        if out.len() > 1 {
            proposed(&snapshot, &best, &out);
        }
    }
}
