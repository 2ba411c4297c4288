//! Explanations of unplaced actors: irreducible, and found in seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use exact::Exhaustive;
use explain::{Core, Limit, REASONS_EFFORT, UnplacedCause};
use fastrand::Rng;
use placement::file::{Actor, Constraint, Node, Places, RunsOn, Scope, SnapshotFile, Unit, VERSION};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Budget, LARGEST, NoPolicy, Snapshot, Strategy as _, plan};
use portfolio::{Asp, Limits};
use search::Greedy;

use super::{Acceptance, Problem, Row, milliseconds, percentile};

/// Number of over-full snapshots to explain.
const WORLDS: usize = 100;
/// Nodes of the large cluster.
const NODES: usize = 500;

pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let wanted = WORLDS.min(acceptance.runs.saturating_mul(2));
    let (mut seed, mut worlds, mut sets, mut right) = (0, 0, 0, 0);
    let mut times = Vec::new();
    while worlds < wanted {
        seed += 1;
        let snapshot = Snapshot::new(tight(&mut Rng::with_seed(seed)))?;
        let asp = Asp::new(Limits::default());
        let plan = plan(&snapshot, &asp, &NoPolicy, &Budget::effort(None, 1))?;
        if !plan.optimal || plan.unplaced.is_empty() {
            continue;
        }
        worlds += 1;
        for left in &plan.unplaced {
            let started = Instant::now();
            let why = explain::explain_unplaced(&snapshot, left.actor, &plan.assignment, REASONS_EFFORT);
            times.push(milliseconds(started.elapsed()));
            sets += 1;
            right += usize::from(match why {
                UnplacedCause::Blocked(core) => is_irreducible(&snapshot, &core, &plan.assignment)?,
                UnplacedCause::Room(_) => false,
            });
        }
    }
    report(Row {
        margin: format!("{right} of {sets}"),
        what: "infeasibility: sufficient and irreducible conflict sets, by exhaustive enumeration",
        subject: format!("{worlds} instances whose proven optimum leaves an actor unplaced"),
        measured: format!("at most {:.1} ms each", percentile(&mut times, 100)),
        runs: sets,
    });
    large(report)
}

fn large(report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let snapshot = Snapshot::new(full_cluster(NODES))?;
    let assignment = Greedy.solve(&snapshot, &Budget::effort(None, 1))?.assignment;
    let unplaced: Vec<ActorIx> =
        ActorIx::first(snapshot.actors()).filter(|&actor| assignment[actor].is_none()).collect();
    let started = Instant::now();
    let reasons = explain::reasons(&snapshot, &assignment, REASONS_EFFORT);
    let took = started.elapsed();
    let lines = reasons.iter().flat_map(|left| left.reasons.iter().map(String::as_str)).collect::<Vec<_>>();
    report(Row {
        margin: format!("{:.2} s", took.as_secs_f64()),
        what: "infeasibility: time to the conflict set on a large cluster",
        subject: format!("{NODES} nodes, {} actors, {} of them unplaced", snapshot.actors(), unplaced.len()),
        measured: lines.join("; "),
        runs: 1,
    });
    Ok(())
}

/// Whether these elements are an irreducible conflict: with all of them the actor and the placed ones do not fit together,
/// without any one of them they do. Checked by enumerating all assignments.
fn is_irreducible(snapshot: &Snapshot, core: &Core, assignment: &Assignment) -> Result<bool, Problem> {
    let limits = |without: Option<usize>| -> BTreeSet<Limit> {
        let kept = core.elements.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        kept.flat_map(|(_, element)| element.limits.iter().copied()).collect()
    };
    if have_places(snapshot, core.actor, assignment, &limits(None))? {
        return Ok(false);
    }
    for without in 0..core.elements.len() {
        if !have_places(snapshot, core.actor, assignment, &limits(Some(without)))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn have_places(
    snapshot: &Snapshot,
    actor: ActorIx,
    assignment: &Assignment,
    kept: &BTreeSet<Limit>,
) -> Result<bool, Problem> {
    let mut file = with_limits(snapshot, actor, kept);
    let takes_part: BTreeSet<String> = ActorIx::first(snapshot.actors())
        .filter(|other| *other == actor || assignment[*other].is_some())
        .map(|other| snapshot.actor_id(other).to_owned())
        .collect();
    file.actors.retain(|actor| takes_part.contains(&actor.id));
    for constraint in &mut file.constraints {
        if let Some(actors) = actors_of(constraint) {
            actors.retain(|id| takes_part.contains(id));
        }
    }
    let best = Exhaustive.solve(&Snapshot::new(file)?, &Budget::effort(None, 1))?;
    Ok(best.assignment.iter().all(Option::is_some))
}

/// The snapshot with these limits only, by the definitions of docs/concepts/explanations.md; this file uses no others.
fn with_limits(snapshot: &Snapshot, actor: ActorIx, kept: &BTreeSet<Limit>) -> SnapshotFile {
    let mut file = snapshot.file().clone();
    if !kept.contains(&Limit::Kinds { actor }) {
        for unit in &snapshot.file().units {
            file.actors[actor.at()].runs_on.entry(unit.kind.clone()).or_default();
        }
    }
    for (position, constraint) in file.constraints.iter_mut().enumerate() {
        if let (false, Some(actors)) = (kept.contains(&Limit::Constraint { position }), actors_of(constraint))
        {
            actors.clear();
        }
    }
    for (unit, given) in UnitIx::first(snapshot.units()).zip(&mut file.units) {
        if !kept.contains(&Limit::Slots { unit }) {
            given.slots = None;
        }
        for (resource, name) in snapshot.resources().enumerate() {
            if !kept.contains(&Limit::OfUnit { unit, resource }) {
                given.provides.insert(name.clone(), LARGEST);
            }
        }
    }
    for (node, id) in snapshot.nodes().enumerate() {
        for (resource, name) in snapshot.resources().enumerate() {
            if let (false, Some(given)) = (
                kept.contains(&Limit::OfNode { node, resource }),
                file.nodes.iter_mut().find(|given| given.id == *id),
            ) {
                given.provides.insert(name.clone(), LARGEST);
            }
        }
    }
    file
}

fn actors_of(constraint: &mut Constraint) -> Option<&mut Vec<String>> {
    match constraint {
        Constraint::Apart { actors, .. }
        | Constraint::Together { actors, .. }
        | Constraint::Only { actors, .. }
        | Constraint::Never { actors, .. } => Some(actors),
        _ => None,
    }
}

/// A small over-full snapshot.
fn tight(rng: &mut Rng) -> SnapshotFile {
    let (units, actors) = (rng.usize(2..5), rng.usize(4..7));
    let mut file = SnapshotFile { version: VERSION, ..SnapshotFile::default() };
    file.exchange_cost.other_kind = Some(1);
    file.nodes = (0..3)
        .map(|node| Node {
            id: format!("n{node}"),
            provides: BTreeMap::from([("cores".to_owned(), rng.u64(1..6))]),
            ..Node::default()
        })
        .collect();
    for i in 0..units {
        file.units.push(Unit {
            id: format!("u{i}"),
            kind: if rng.u8(..3) == 0 { "gpu" } else { "cpu" }.to_owned(),
            node: format!("n{}", rng.u8(..3)),
            capacity: 9,
            slots: Some(rng.u64(1..4)),
            provides: BTreeMap::from([("memory".to_owned(), rng.u64(1..7))]),
            ..Unit::default()
        });
    }
    for i in 0..actors {
        let node_requires = BTreeMap::from([("cores".to_owned(), rng.u64(..3))]);
        let needs = RunsOn { work: 1, node_requires, ..RunsOn::default() };
        let kind = file.units[rng.usize(..units)].kind.clone();
        file.actors.push(Actor {
            id: format!("a{i}"),
            runs_on: BTreeMap::from([(kind, needs)]),
            requires: BTreeMap::from([("memory".to_owned(), rng.u64(..4))]),
            ..Actor::default()
        });
    }
    for _ in 0..rng.usize(..4) {
        let mut ids: Vec<String> = (0..actors).map(|i| format!("a{i}")).collect();
        rng.shuffle(&mut ids);
        ids.truncate(rng.usize(2..4));
        let places = Places::Units(vec![file.units[rng.usize(..units)].id.clone()]);
        let on = if rng.bool() { Scope::Unit } else { Scope::Node };
        file.constraints.push(match rng.u8(..4) {
            0 => Constraint::Apart { on, actors: ids, reason: None },
            1 => Constraint::Together { on, actors: ids, reason: None },
            2 => Constraint::Only { actors: ids, places, reason: None },
            _ => Constraint::Never { actors: ids, places, except_current: false, reason: None },
        });
    }
    file
}

/// Machines with a CPU and two GPUs each, and one actor more than the GPUs can hold.
fn full_cluster(nodes: usize) -> SnapshotFile {
    let mut file = SnapshotFile { version: VERSION, ..SnapshotFile::default() };
    file.exchange_cost.other_kind = Some(1);
    let memory = |much: u64| BTreeMap::from([("memory".to_owned(), much)]);
    let actor = |id: String, much: u64| Actor {
        id,
        runs_on: BTreeMap::from([("gpu".to_owned(), RunsOn { work: 5, ..RunsOn::default() })]),
        requires: memory(much),
        ..Actor::default()
    };
    for node in 0..nodes {
        for device in ["cpu", "gpu0", "gpu1"] {
            let is_cpu = device == "cpu";
            file.units.push(Unit {
                id: format!("n{node}/{device}"),
                kind: if is_cpu { "cpu" } else { "gpu" }.to_owned(),
                node: format!("n{node}"),
                pool: Some(if is_cpu { "cpus" } else { "gpus" }.to_owned()),
                capacity: 90,
                slots: (!is_cpu).then_some(2),
                provides: if is_cpu { BTreeMap::new() } else { memory(16) },
                ..Unit::default()
            });
            if !is_cpu {
                file.actors.push(actor(format!("m{node}-{device}"), 9 + (node as u64) % 6));
            }
        }
    }
    file.actors.push(actor("one-more".to_owned(), 9));
    file
}
