//! Why an actor is unplaced: the reported set is sufficient, and every member is necessary.

use std::collections::BTreeSet;

use explain::{Core, Limit, LimitGroup, UnplacedCause};
use placement::file::{Actor, Constraint, Node, SnapshotFile, Unit};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Budget, LARGEST, ReasonScope, Snapshot, Strategy as _};
use proptest::prelude::*;
use search::Greedy;

use crate::rules::Case;
use testkit::ExceededLimits;
use testkit::line::{assignment, file, world};
use testkit::naive::{Placed, feasible_beside};

/// More effort than any question of these tests takes.
pub const EFFORT: u64 = 50_000_000;

/// The same file without a limit, by the definitions of docs/concepts/explanations.md.
fn drop_limit(snapshot: &Snapshot, file: &mut SnapshotFile, limit: Limit) {
    match limit {
        Limit::Kinds { actor } => {
            for unit in &snapshot.file().units {
                file.actors[actor.at()].runs_on.entry(unit.kind.clone()).or_default();
            }
        }
        Limit::Constraint { position } => match &mut file.constraints[position] {
            Constraint::Apart { actors, .. }
            | Constraint::Together { actors, .. }
            | Constraint::Only { actors, .. }
            | Constraint::Never { actors, .. } => actors.clear(),
            Constraint::Reserve { quantity, .. } => *quantity = 0,
            Constraint::PowerCap { max, .. } | Constraint::Quota { max, .. } => *max = LARGEST,
            other => {
                let Constraint::Pin { actor, unit, .. } = other else { panic!("{other:?} is no limit") };
                let (actor, unit) = (actor.clone(), unit.clone());
                *other = Constraint::Prefer { actor, unit, weight: 0 };
            }
        },
        Limit::Case { .. } => {}
        Limit::Slots { unit } => file.units[unit.at()].slots = None,
        Limit::OfUnit { unit, resource } => {
            let name = &snapshot.resources()[resource];
            file.units[unit.at()].provides.insert(name.clone(), LARGEST);
            for constraint in &mut file.constraints {
                match constraint {
                    Constraint::Reserve { unit: of, resource, quantity }
                        if *of == file.units[unit.at()].id && resource == name =>
                    {
                        *quantity = 0;
                    }
                    _ => {}
                }
            }
        }
        Limit::OfNode { node, resource } => {
            let (id, name) = (&snapshot.nodes()[node], &snapshot.resources()[resource]);
            if !file.nodes.iter().any(|node| node.id == *id) {
                file.nodes.push(Node { id: id.clone(), ..Node::default() });
            }
            let node = file.nodes.iter_mut().find(|node| node.id == *id).unwrap();
            node.provides.insert(name.clone(), LARGEST);
        }
    }
}

/// All limits of a snapshot.
fn all_limits(snapshot: &Snapshot, actor: ActorIx) -> BTreeSet<Limit> {
    let constraints = 0..snapshot.file().constraints.len();
    let is_limit =
        |position: &usize| !matches!(snapshot.file().constraints[*position], Constraint::Prefer { .. });
    let resources = snapshot.resources().positions();
    let (units, nodes) = (UnitIx::first(snapshot.units()), snapshot.nodes().positions());
    std::iter::once(Limit::Kinds { actor })
        .chain(constraints.filter(is_limit).map(|position| Limit::Constraint { position }))
        .chain(units.clone().map(|unit| Limit::Slots { unit }))
        .chain(
            resources
                .clone()
                .flat_map(|resource| units.clone().map(move |unit| Limit::OfUnit { unit, resource })),
        )
        .chain(resources.flat_map(|resource| nodes.clone().map(move |node| Limit::OfNode { node, resource })))
        .collect()
}

/// The file with these limits alone.
fn only(snapshot: &Snapshot, actor: ActorIx, kept: &BTreeSet<Limit>) -> SnapshotFile {
    let mut file = snapshot.file().clone();
    for limit in all_limits(snapshot, actor).difference(kept) {
        drop_limit(snapshot, &mut file, *limit);
    }
    file
}

/// Whether all of `actors` can be placed at once without a violation, by trying every assignment.
pub fn can_all_be_placed(file: &SnapshotFile, actors: &[ActorIx], cases: &[&Case]) -> bool {
    fn place<'a>(
        file: &'a SnapshotFile,
        passed: Option<&ExceededLimits>,
        actors: &[ActorIx],
        cases: &[&Case],
        at: &mut Placed<'a>,
    ) -> bool {
        let Some((&actor, rest)) = actors.split_first() else {
            let place = |actor: &Actor| Some(at.get(actor.id.as_str())?.id.as_str());
            let places: Vec<Option<&str>> = file.actors.iter().map(place).collect();
            return !cases.iter().any(|case| case.is_broken(file, &places));
        };
        let actor = &file.actors[actor.at()];
        let at_home = |unit: &&Unit| !actor.fixed || actor.current.as_ref() == Some(&unit.id);
        file.units.iter().filter(at_home).any(|unit| {
            at.insert(&actor.id, unit);
            let found = feasible_so_far(file, passed, at) && place(file, passed, rest, cases, at);
            at.remove(actor.id.as_str());
            found
        })
    }
    let (mut fixed, free): (Vec<ActorIx>, Vec<ActorIx>) =
        actors.iter().partition(|&&a| file.actors[a.at()].fixed);
    fixed.extend(free);
    place(file, ExceededLimits::now(file).as_ref(), &fixed, cases, &mut Placed::new())
}

/// `feasible` needs every fixed actor placed: before that the answer is unknown.
fn feasible_so_far(file: &SnapshotFile, passed: Option<&ExceededLimits>, at: &Placed) -> bool {
    file.actors.iter().any(|actor| actor.fixed && !at.contains_key(actor.id.as_str()))
        || feasible_beside(file, passed, at)
}

/// A feasible assignment with the most actors placed; empty if there is none.
pub fn most_placed(snapshot: &Snapshot) -> Assignment {
    fn place(snapshot: &Snapshot, actor: ActorIx, now: &mut Assignment, best: &mut (usize, Assignment)) {
        let placed = now.iter().flatten().count();
        if actor.at() == now.len() {
            if snapshot.violations(now).is_empty() && (best.1.is_empty() || placed > best.0) {
                *best = (placed, now.clone());
            }
            return;
        }
        let left = now.len() - actor.at();
        let next = ActorIx::new(actor.at() + 1);
        if !best.1.is_empty() && now.raw()[..actor.at()].iter().flatten().count() + left <= best.0 {
            return;
        }
        if snapshot.is_fixed(actor) {
            return place(snapshot, next, now, best);
        }
        for &unit in snapshot.candidates(actor) {
            now[actor] = Some(unit);
            if snapshot.clone().with_rules(None).violations(now).is_empty() {
                place(snapshot, next, now, best);
            }
        }
        now[actor] = None;
        place(snapshot, next, now, best);
    }
    let home = |actor: ActorIx| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
    let mut now: Assignment = ActorIx::first(snapshot.actors()).map(home).collect();
    let mut best = (0, Assignment::new());
    place(snapshot, ActorIx::new(0), &mut now, &mut best);
    best.1
}

fn limits(elements: &[LimitGroup]) -> BTreeSet<Limit> {
    elements.iter().flat_map(|element| element.limits.iter().copied()).collect()
}

/// Verifies a core by trying every assignment: with it alone there is no place, without any one of its groups there is.
pub fn check_core(snapshot: &Snapshot, cases: &[Case], core: &Core, assignment: &Assignment) {
    let actors: Vec<ActorIx> =
        ActorIx::first(snapshot.actors()).filter(|&a| a == core.actor || assignment[a].is_some()).collect();
    let has_place = |elements: &[LimitGroup]| {
        let kept = limits(elements);
        let file = only(snapshot, core.actor, &kept);
        let cases =
            cases.iter().enumerate().filter(|(demand, _)| kept.contains(&Limit::Case { demand: *demand }));
        let cases: Vec<&Case> = cases.map(|(_, case)| case).collect();
        match core.holds {
            ReasonScope::Always => can_all_be_placed(&file, &actors, &cases),
            ReasonScope::WhereOthersAre => {
                let relaxed = Snapshot::new(file).unwrap();
                UnitIx::first(snapshot.units()).any(|unit| {
                    let mut with = assignment.clone();
                    with[core.actor] = Some(unit);
                    let place = |unit: &Option<UnitIx>| unit.map(|unit| snapshot.unit_id(unit));
                    let places: Vec<Option<&str>> = with.iter().map(place).collect();
                    relaxed.violations(&with).is_empty()
                        && !cases.iter().any(|case| case.is_broken(snapshot.file(), &places))
                })
            }
        }
    };
    assert!(!has_place(&core.elements), "{snapshot:?}\n{core:?} leaves room");
    assert!(core.irreducible, "{snapshot:?}\n{core:?} is not proven irreducible");
    for element in 0..core.elements.len() {
        let mut without = core.elements.clone();
        without.remove(element);
        assert!(has_place(&without), "{snapshot:?}\n{core:?} holds without {element}");
    }
}

fn describe(snapshot: &Snapshot, places: &str, actor: &str) -> String {
    tell_under(snapshot, &[], places, actor)
}

/// The explanation for an unplaced actor in a snapshot with rules.
pub fn tell_under(snapshot: &Snapshot, cases: &[Case], places: &str, actor: &str) -> String {
    let assignment = assignment(snapshot, places);
    assert_eq!(snapshot.violations(&assignment), []);
    match explain::explain_unplaced(snapshot, snapshot.actor(actor).unwrap(), &assignment, EFFORT) {
        UnplacedCause::Room(moves) => {
            let texts =
                moves.iter().map(|(a, u)| format!("{} on {}", snapshot.actor_id(*a), snapshot.unit_id(*u)));
            format!("room: {}", texts.collect::<Vec<_>>().join(", "))
        }
        UnplacedCause::Blocked(core) => {
            check_core(snapshot, cases, &core, &assignment);
            format!("{}: {}", core.holds, core.lines(snapshot, &assignment).join("; "))
        }
    }
}

/// A tight snapshot for questions about dropped limits.
pub fn asked(seed: u64) -> Snapshot {
    Snapshot::new(tight_file(seed)).unwrap().with_rules_everywhere(None)
}

/// Little room: most of these snapshots leave some actor unplaced.
pub fn tight_file(seed: u64) -> SnapshotFile {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let (units, actors) = (rng.usize(2..5), rng.usize(2..7));
    let kinds = ["cpu", "cpu", "gpu"];
    let unit = |rng: &mut fastrand::Rng, i: usize| {
        let (kind, node) = (kinds[rng.usize(..3)], rng.usize(..3));
        let slots = ["", ",slots=1", ",slots=2"][rng.usize(..3)];
        let numa = ["", ",numa=0", ",power=90,idle=5"][rng.usize(..3)];
        format!("u{i}:{kind}:9:node=n{node},zone=z{},mem={}{slots}{numa}", node / 2, rng.u64(1..7))
    };
    let units_text: Vec<String> = (0..units).map(|i| unit(rng, i)).collect();
    let actor = |rng: &mut fastrand::Rng, i: usize| {
        let home = rng.usize(..units);
        let kind = units_text[home].split(':').nth(1).unwrap();
        let runs_on = if rng.u8(..4) == 0 { "cpu=1,gpu=1".to_owned() } else { format!("{kind}=1") };
        let place = match rng.u8(..8) {
            0 => format!(",at=u{home},fixed"),
            1 => format!(",at=u{home}"),
            _ => String::new(),
        };
        format!("a{i}:{runs_on}:mem={},node.cores={}{place}", rng.u64(..4), rng.u64(..3))
    };
    let actors_text: Vec<String> = (0..actors).map(|i| actor(rng, i)).collect();
    let mut rules: Vec<String> = (0..3).map(|i| format!("node n{i} cores={}", rng.u64(1..6))).collect();
    for _ in 0..rng.usize(..4) {
        let [one, two, three] = [0; 3].map(|_| format!("a{}", rng.usize(..actors)));
        let (unit, other) = (rng.usize(..units), rng.usize(..units));
        let scope = ["unit", "numa", "node", "zone"][rng.usize(..4)];
        rules.push(match rng.u8(..10) {
            0 | 1 => format!("apart {scope} {one} {two} {three}"),
            2 | 3 => format!("together {scope} {one} {two}"),
            4 => format!("only {one},{two} units u{unit},u{other}"),
            5 => format!("never {one},{two} units u{unit} {}", ["", "exceptCurrent"][rng.usize(..2)]),
            6 => format!("never {three} nodes n{}", rng.usize(..3)),
            7 => format!("powerCap {} {}", ["node", "zone", "all"][rng.usize(..3)], rng.u64(5..60)),
            8 => format!(
                "quota {one},{two},{three} {}{}",
                rng.u64(..4),
                ["", " of=mem", " of=cores"][rng.usize(..3)]
            ),
            _ => format!("reserve u{unit} mem {}", rng.u64(..4)),
        });
    }
    // A rule may name a node without units.
    let known = |rule: &String| {
        !rule.contains("nodes")
            || units_text.iter().any(|unit| unit.contains(rule.rsplit(' ').next().unwrap()))
    };
    rules.retain(known);
    file(&units_text.join(" "), &actors_text.join(" "), &rules.join(";"))
}

#[test]
fn cores_are_described_in_the_terms_of_the_file() {
    let gpus = "g:gpu:9:slots=1 h:gpu:9:slots=1 c:cpu:9";
    let snapshot = world(gpus, "a:gpu=1 b:gpu=1 x:gpu=1", "");
    insta::assert_snapshot!(describe(&snapshot, "a=g b=h", "x"), @"always: runs on gpu only; 2 units of kind gpu: 2 of 2 slots taken");
    let snapshot = world(gpus, "a:gpu=1,cpu=1 x:gpu=1 b:gpu=1:at=h,fixed", "");
    insta::assert_snapshot!(describe(&snapshot, "a=g", "x"), @"room: a on c, x on g");
    let snapshot = world(gpus, "a:gpu=1,cpu=1 x:gpu=1 b:gpu=1:at=h,fixed", "only a units g");
    insta::assert_snapshot!(describe(&snapshot, "a=g", "x"), @"always: runs on gpu only; 2 units of kind gpu: 2 of 2 slots taken; a: kept to other places by constraints[0]");
    let units = "g:gpu:9:mem=4,slots=1 h:gpu:9:mem=9,slots=1";
    let snapshot = world(units, "a:gpu=1:mem=2 x:gpu=1:mem=8", "pin a h");
    insta::assert_snapshot!(describe(&snapshot, "a=h", "x"), @"always: 2 units of kind gpu: 11 of 13 mem left, at most 7 on one, 8 needed; a: pinned to h");
    let snapshot = world(units, "a:gpu=1:mem=2 x:gpu=1:mem=8", "");
    insta::assert_snapshot!(describe(&snapshot, "a=h", "x"), @"room: a on g, x on h");
    let snapshot = world(units, "x:gpu=1:mem=8", "reserve h mem 2; never x units g");
    insta::assert_snapshot!(describe(&snapshot, "", "x"), @"always: 2 units of kind gpu: 11 of 11 mem left, at most 7 on one, 8 needed; 2 mem of h kept free");
    let snapshot = world("u:cpu:9:node=n v:cpu:9:node=m", "a:cpu=1 b:cpu=1 x:cpu=1", "apart node a b x");
    insta::assert_snapshot!(describe(&snapshot, "a=u b=v", "x"), @"always: each on a node of its own (with a and b)");
    let snapshot = world(
        "u:cpu:9:node=n v:cpu:9:node=n w:cpu:9:node=m",
        "a:cpu=1:node.cores=2 b:cpu=1:node.cores=2 x:cpu=1:node.cores=3",
        "node n cores=6; node m cores=1; together node a b x",
    );
    insta::assert_snapshot!(describe(&snapshot, "a=u b=v", "x"), @"always: m and n: 3 of 7 cores left, at most 2 on one, 3 needed");
    let snapshot = world("u:cpu:9 g:gpu:9", "x:fpga=1 y:", "");
    insta::assert_snapshot!(describe(&snapshot, "", "x"), @"always: runs on fpga only, and there is no unit of that kind");
    insta::assert_snapshot!(describe(&snapshot, "", "y"), @"always: no implementation");
    let snapshot = world("", "x:fpga=1", "");
    insta::assert_snapshot!(describe(&snapshot, "", "x"), @"always: runs on fpga, and there is no unit of any kind");
    // The current placement violates it already.
    let snapshot = world("u:cpu:9:slots=1", "f:cpu=1:at=u,fixed a:cpu=1:at=u x:cpu=1", "");
    insta::assert_snapshot!(describe(&snapshot, "a=u", "x"), @"always: u: 2 of 1 slots taken");
    let actors = "a:cpu=1:at=u,mem=2 b:cpu=1:at=u,mem=2 x:cpu=1:mem=1";
    let snapshot = world("u:cpu:9:mem=3", actors, "reserve u mem 1");
    insta::assert_snapshot!(describe(&snapshot, "a=u b=u", "x"), @"always: u: 0 of 2 mem left, 1 needed");
    let bins = "b0:cpu:9:mem=5 b1:cpu:9:mem=5 b2:cpu:9:mem=5 b3:cpu:9:mem=5";
    let snapshot =
        world(bins, "a0:cpu=1:mem=3 a1:cpu=1:mem=3 a2:cpu=1:mem=3 a3:cpu=1:mem=3 x:cpu=1:mem=3", "");
    insta::assert_snapshot!(describe(&snapshot, "a0=b0 a1=b1 a2=b2 a3=b3", "x"), @"always: 4 units of kind cpu: 8 of 20 mem left, at most 2 on one, 3 needed");
}

/// `nodes` nodes with two GPUs of 16 and a CPU each; every GPU is taken by an actor of 9 or
/// more, and one more such actor needs a place.
fn full_cluster(nodes: usize) -> (Snapshot, Assignment, ActorIx) {
    let mut units = Vec::new();
    let mut actors = Vec::new();
    let mut places = Vec::new();
    let mut rules = Vec::new();
    for node in 0..nodes {
        let zone = node % 3;
        units.push(format!("n{node}/cpu:cpu:90:node=n{node},zone=z{zone},pool=cpus"));
        rules.push(format!("node n{node} cores=32"));
        for gpu in 0..2 {
            units.push(format!("n{node}/gpu{gpu}:gpu:90:node=n{node},zone=z{zone},pool=gpus,mem=16,slots=2"));
            actors.push(format!(
                "m{node}-{gpu}:gpu=5:mem={},node.cores={}",
                9 + (node + gpu) % 6,
                1 + node % 4
            ));
            places.push(format!("m{node}-{gpu}=n{node}/gpu{gpu}"));
        }
    }
    actors.push("x:gpu=5,cpu=50:mem=9,node.cores=1".to_owned());
    rules.push("never x nodes n4 exceptCurrent".to_owned());
    let snapshot = world(&units.join(" "), &actors.join(" "), &rules.join(";"));
    let assignment = assignment(&snapshot, &places.join(" "));
    let actor = snapshot.actor("x").unwrap();
    (snapshot, assignment, actor)
}

#[test]
fn explanations_of_500_nodes_are_as_short_as_of_5() {
    let texts = [5, 500].map(|nodes| {
        let (snapshot, assignment, actor) = full_cluster(nodes);
        assert_eq!(snapshot.violations(&assignment), []);
        let UnplacedCause::Blocked(core) = explain::explain_unplaced(&snapshot, actor, &assignment, EFFORT)
        else {
            panic!("there is no room")
        };
        assert_eq!((core.holds, core.irreducible), (ReasonScope::Always, true));
        core.lines(&snapshot, &assignment)
    });
    let gpus = "10 units of pool gpus: 45 of 160 mem left, at most 7 on one, 9 needed";
    assert_eq!(texts[0], ["5 units of pool cpus: no mem, 9 needed", gpus]);
    let gpus = "1000 units of pool gpus: 4506 of 16000 mem left, at most 7 on one, 9 needed";
    assert_eq!(texts[1], ["500 units of pool cpus: no mem, 9 needed", gpus]);
}

#[test]
fn cores_are_sufficient_and_irreducible() {
    let mut instances = 0;
    for seed in 0..4_000 {
        let snapshot = asked(seed);
        let best = most_placed(&snapshot);
        let unplaced: Vec<ActorIx> =
            ActorIx::first(snapshot.actors()).filter(|actor| best[*actor].is_none()).collect();
        instances += usize::from(!unplaced.is_empty());
        for actor in unplaced {
            let UnplacedCause::Blocked(core) = explain::explain_unplaced(&snapshot, actor, &best, EFFORT)
            else {
                panic!("{snapshot:?}: one more than the most can be placed");
            };
            assert_eq!(core.holds, ReasonScope::Always, "{snapshot:?}");
            check_core(&snapshot, &[], &core, &best);
        }
    }
    assert!(instances >= 1_000, "{instances} leave an actor unplaced");
}

#[test]
fn similar_actors_share_one_diagnosis_under_their_own_names() {
    let snapshot = world(
        "g:gpu:9:slots=1 c:cpu:9",
        "a:gpu=1 x:gpu=1 y:gpu=1 z:cpu=1,gpu=1",
        "only x,y units g; apart unit x y",
    );
    let texts = explain::reasons(&snapshot, &assignment(&snapshot, "a=g"), EFFORT);
    let lines: Vec<String> = texts
        .iter()
        .map(|left| format!("{} {:?} {}", snapshot.actor_id(left.actor), left.holds, left.reasons.join("; ")))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    x Some(Always) runs on gpu only; g: 1 of 1 slots taken
    y Some(Always) runs on gpu only; g: 1 of 1 slots taken
    z None there is room: z on c
    ");
}

proptest! {
    #[test]
    fn reported_room_exists(seed in any::<u64>()) {
        let snapshot = asked(seed);
        let found = Greedy.solve(&snapshot, &Budget::effort(None, 0)).unwrap().assignment;
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| found[*actor].is_none()) {
            for effort in [0, 20, 200, 2_000, EFFORT] {
                match explain::explain_unplaced(&snapshot, actor, &found, effort) {
                    UnplacedCause::Room(moves) => {
                        let mut with = found.clone();
                        for (actor, unit) in moves {
                            with[actor] = Some(unit);
                        }
                        prop_assert_eq!(snapshot.violations(&with), vec![]);
                        prop_assert!(with[actor].is_some());
                        prop_assert!(with.positions().all(|a| found[a].is_none() || with[a].is_some()));
                    }
                    UnplacedCause::Blocked(core) if core.irreducible => check_core(&snapshot, &[], &core, &found),
                    UnplacedCause::Blocked(_) => {}
                }
            }
        }
    }
}
