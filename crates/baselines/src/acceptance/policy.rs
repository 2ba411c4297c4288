//! Cost of placement rules in a policy: grounding time, and communication.

use std::collections::BTreeSet;
use std::time::Instant;

use placement::Snapshot;
use placement::file::{Constraint, Places, Policy, Scope, SnapshotFile};
use portfolio::{ClingoJudge, Limits};
use serde_json::Value;

use super::{Acceptance, Problem, Row, Scratch, milliseconds};
use crate::bench::{Instance, apart, ratio};

/// Number of groups, and actors per group.
const GROUPS: (usize, usize) = (10, 8);
/// Number of pairs that may not share a zone.
const PAIRS: usize = 20;
/// Wall clock of a search, in seconds.
const BUDGET: f64 = 5.0;
/// Wall clock of the longer search that determines the zones.
const LONGER: f64 = 30.0;
/// Maximum number of runs.
const MOST: usize = 9;

/// Defines an actor's zone.
const ZONE: &str = "zone(A,Z) :- run_on(A,U), cu_zone(U,Z).\n";
/// At most three actors of a group per zone.
const THREE: &str = "zone(A,Z) :- run_on(A,U), cu_zone(U,Z).\n\
    :- group(_,G), cu_zone(_,Z), #count { A : zone(A,Z), group(A,G) } > 3.\n";
/// A pair never shares a zone; requires `ZONE`.
const NEVER: &str = ":- pair(A,B), zone(A,Z), zone(B,Z).\n";

/// C-1000x200 under rules, compared with the same restrictions as constraints: pairs separated by zone, and groups, which
/// constraints cannot express, fixed to the zones of a plan from a longer search. The result is the ratio of the
/// communication of the median plans, if both place all actors without overload.
pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    let bare = Instance::read(&acceptance.instance("C-1000x200-s1")?)?.snapshot.file().clone();
    let cast = ConstrainedActors::new(&bare);
    let groups = cast.under(&bare, THREE.to_owned());
    let pairs = cast.under(&bare, format!("{}\n{ZONE}{NEVER}", cast.facts()));
    let both = cast.under(&bare, format!("{}\n{THREE}{NEVER}", cast.facts()));
    let (three, never) = ("at most 3 of a group in a zone (10 groups of 8)", "20 pairs never in one zone");
    let search = |file: &SnapshotFile| Searched::new(acceptance, file);
    let zones = search(&cast.in_zones_of(acceptance, &groups, &bare)?)?;
    report(row(acceptance, three, &groups, (&zones, "the zones of a longer search as constraints"))?);
    report(row(acceptance, three, &groups, (&search(&bare)?, "no rules"))?);
    let apart = cast.apart_by_zone(&bare);
    report(row(acceptance, never, &pairs, (&search(&apart)?, "the pairs as constraints"))?);
    let zones = search(&cast.in_zones_of(acceptance, &both, &apart)?)?;
    report(row(
        acceptance,
        "both",
        &both,
        (&zones, "the pairs, and the zones of a longer search, as constraints"),
    )?);
    Ok(())
}

fn row(
    acceptance: &Acceptance,
    rules: &str,
    file: &SnapshotFile,
    (constraints, what): (&Searched, &str),
) -> Result<Row, Problem> {
    let started = Instant::now();
    let (_, size) = ClingoJudge::new(Limits::default(), 2_000).examine(&Snapshot::new(file.clone())?)?;
    let took = milliseconds(started.elapsed());
    let searched = Searched::new(acceptance, file)?;
    let (ours, theirs, (rules_left, cases)) =
        (&searched.median, &constraints.median, (size.rules, size.constraints));
    Ok(Row {
        margin: margin(ours, theirs),
        what: "policy: communication under placement rules ÷ that of the baseline",
        subject: format!("C-1000x200-s1, {rules}, {} s", acceptance.scaled(BUDGET)),
        measured: format!(
            "{ours:?} against {theirs:?} with {what}; grounded in {took:.0} ms ({rules_left} rules, {cases} cases)"
        ),
        runs: searched.runs,
    })
}

/// The actors that the rules constrain.
struct ConstrainedActors {
    /// By group: actor positions.
    groups: Vec<Vec<usize>>,
    /// Pairs of actor names.
    pairs: Vec<[String; 2]>,
}

impl ConstrainedActors {
    /// Draws them from the actors without constraints.
    fn new(file: &SnapshotFile) -> Self {
        let free = unconstrained(file);
        let (grouped, rest) = free.split_at(GROUPS.0 * GROUPS.1);
        let name = |at: usize| file.actors[at].id.clone();
        Self {
            groups: grouped.chunks(GROUPS.1).map(<[usize]>::to_vec).collect(),
            pairs: rest.chunks(2).take(PAIRS).map(|pair| [name(pair[0]), name(pair[1])]).collect(),
        }
    }

    /// The pairs as policy facts.
    fn facts(&self) -> String {
        let facts = self.pairs.iter().map(|[a, b]| format!("pair({},{}).", term(a), term(b)));
        facts.collect::<Vec<_>>().join(" ")
    }

    /// The snapshot with the groups and a policy program.
    fn under(&self, bare: &SnapshotFile, program: String) -> SnapshotFile {
        let mut file = bare.clone();
        for (number, group) in self.groups.iter().enumerate() {
            for &at in group {
                file.actors[at].group = Some(format!("g{number}"));
            }
        }
        file.policy = Some(Policy { name: "zones".to_owned(), program: Some(program) });
        file
    }

    fn apart_by_zone(&self, bare: &SnapshotFile) -> SnapshotFile {
        let mut file = bare.clone();
        let apart =
            |pair: &[String; 2]| Constraint::Apart { on: Scope::Zone, actors: pair.to_vec(), reason: None };
        file.constraints.extend(self.pairs.iter().map(apart));
        file
    }

    /// `file` with the group actors fixed to the zones of a plan under `rules`.
    fn in_zones_of(
        &self,
        acceptance: &Acceptance,
        rules: &SnapshotFile,
        file: &SnapshotFile,
    ) -> Result<SnapshotFile, Problem> {
        let scratch = Scratch::new("zones", &Snapshot::new(rules.clone())?)?;
        let plan = acceptance.plan(&scratch.0, &["--budget", &format!("{}s", acceptance.scaled(LONGER))])?;
        let plan: Value = serde_json::from_slice(&plan)?;
        let mut kept = file.clone();
        for actor in self.groups.iter().flatten().map(|at| &file.actors[*at].id) {
            let unit = plan["assignments"][actor].as_str();
            let zone = file.units.iter().find(|other| Some(other.id.as_str()) == unit);
            let zone =
                zone.and_then(|unit| unit.zone.clone()).ok_or_else(|| format!("{actor} is in no zone"))?;
            let (actors, places) = (vec![actor.clone()], Places::Zones(vec![zone]));
            kept.constraints.push(Constraint::Only { actors, places, reason: None });
        }
        Ok(kept)
    }
}

/// Actors without constraints, by position.
fn unconstrained(file: &SnapshotFile) -> Vec<usize> {
    let named: BTreeSet<&String> = file.constraints.iter().flat_map(Constraint::actors).collect();
    (0..file.actors.len()).filter(|&at| !named.contains(&file.actors[at].id)).collect()
}

/// An actor as a policy term.
fn term(id: &str) -> String {
    let parts: Vec<String> = id.split('/').map(|part| format!("{part:?}")).collect();
    format!("a({})", parts.join(","))
}

/// Several searches on one snapshot.
struct Searched {
    /// Unplaced, overload, communication, annoyance: the median of the cost vectors.
    median: Vec<i64>,
    runs: usize,
}

impl Searched {
    fn new(acceptance: &Acceptance, file: &SnapshotFile) -> Result<Self, Problem> {
        let scratch = Scratch::new("rules", &Snapshot::new(file.clone())?)?;
        let runs = acceptance.runs.min(MOST);
        let mut values = Vec::new();
        for seed in 1..=runs as u64 {
            let record = apart(&scratch.0, "asp", (acceptance.scaled(BUDGET), false), seed, "")?;
            if let Some(problem) = record.problem {
                return Err(format!("{}: {problem}", record.instance).into());
            }
            values.push(record.vector);
        }
        values.sort_unstable();
        Ok(Self { median: values.get((runs.max(1) - 1) / 2).cloned().unwrap_or_default(), runs })
    }
}

/// The ratio of communication, if both place all actors without overload.
fn margin(rules: &[i64], constraints: &[i64]) -> String {
    match (rules, constraints) {
        ([0, 0, rules, ..], [0, 0, constraints, ..]) => format!("{:.4}", ratio(*rules, *constraints)),
        _ => "–".to_owned(),
    }
}
