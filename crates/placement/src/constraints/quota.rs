//! `quota`: the maximum number of some actors, or quantity of a resource that they require, overall or in some pools.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConstraintKind, ViolationTracker};
use crate::checker::checked::{Checked, Rule, Used, Violation};
use crate::checker::index::number;
use crate::criteria::{Encoding, Facts, Step};
use crate::error::{SnapshotError, fits};
use crate::file::format::{Actor, Constraint, SnapshotFile, Unit};
use crate::file::names::Names;
use crate::ix::{ActorIx, IxVec, KindIx, UnitIx};
use crate::problem::room::Rooms;
use crate::rules::circuit::{CurrentPlacement, UNLIMITED, Writer};
use crate::rules::suspended_limits::{SuspendedLimit, SuspendedLimits, listed};
use crate::{Assignment, Snapshot};

/// The name of a suspended quota.
const QUOTA: &str = "quota";

/// A maximum over all named and placed actors. Use by fixed actors alone is always permitted.
pub(super) struct Quota;

/// How often a placement on a unit counts: not at all if the unit differs in pool, pools or NUMA domain, once without `units`.
fn weight(given: &Constraint, unit: &Unit) -> i64 {
    let Constraint::Quota { pool, pools, numa, units, .. } = given else { return 0 };
    let is_in = |pools: &Vec<String>| unit.pool.as_ref().is_some_and(|pool| pools.contains(pool));
    let matches = (pool.is_none() || *pool == unit.pool)
        && pools.as_ref().is_none_or(is_in)
        && (numa.is_none() || *numa == unit.numa);
    let of_unit = || units.as_ref().map_or(1, |units| number(units.get(&unit.id).copied().unwrap_or(0)));
    if matches { of_unit() } else { 0 }
}

/// The amount of one actor on one unit, by the file.
fn amount(given: &Constraint, actor: &Actor, unit: &Unit) -> i64 {
    weight(given, unit).saturating_mul(once(given, actor, unit))
}

/// The amount of one actor on a unit that counts once: 1 without a resource, otherwise the requirements on unit and node; on an
/// unsupported kind, the requirements on all kinds.
fn once(given: &Constraint, actor: &Actor, unit: &Unit) -> i64 {
    let Constraint::Quota { resource, .. } = given else { return 0 };
    let Some(resource) = resource else { return 1 };
    let way = actor.runs_on.get(&unit.kind);
    let required =
        way.map(|way| [&way.requires, &way.node_requires]).into_iter().flatten().chain([&actor.requires]);
    required.filter_map(|of| of.get(resource)).map(|quantity| number(*quantity)).sum()
}

/// The amounts of a quota, and its maximum.
#[derive(Debug)]
struct QuotaLedger {
    /// By actor and kind, on a unit that counts once; never negative, and 0 for actors that are not named.
    amounts: IxVec<ActorIx, Vec<i64>>,
    /// By unit: how often a placement there counts.
    weights: IxVec<UnitIx, i64>,
    /// The maximum, or the use of fixed actors if that is more.
    limit: i64,
    /// The use of fixed actors.
    fixed: i64,
}

impl QuotaLedger {
    fn new(snapshot: &Snapshot, position: usize, given: &Constraint) -> Self {
        let (file, problem) = (snapshot.file(), snapshot.problem());
        let Constraint::Quota { actors, max, .. } = given else { unreachable!("it is a quota") };
        let mut amounts: IxVec<ActorIx, Vec<i64>> = IxVec::of(Vec::new(), snapshot.actors());
        // One counting unit of each kind represents all.
        let mut speakers: IxVec<KindIx, Option<UnitIx>> = IxVec::of(None, problem.kinds.len());
        let weights: IxVec<UnitIx, i64> = file.units.iter().map(|unit| weight(given, unit)).collect();
        for (unit, &kind) in problem.unit_kind.enumerate() {
            if weights[unit] > 0 {
                speakers[kind] = Some(unit);
            }
        }
        for id in actors {
            let actor = problem.actor_by_id[id];
            let said = |unit: &Option<UnitIx>| {
                unit.map_or(0, |unit| once(given, &file.actors[actor.at()], &file.units[unit.at()]))
            };
            amounts[actor] = speakers.iter().map(said).collect();
        }
        let mut ledger = Self { amounts, weights, limit: number(*max), fixed: 0 };
        let fixed = problem.fixed.enumerate().filter(|(_, fixed)| **fixed);
        let places = fixed.filter_map(|(actor, _)| Some((actor, problem.current[actor]?)));
        ledger.fixed = places.map(|(actor, unit)| ledger.amount(snapshot, actor, unit)).sum();
        ledger.limit = ledger.limit.max(ledger.fixed);
        if problem.suspended_limits.has(QUOTA, &listed(position), "") {
            ledger.limit = UNLIMITED;
        }
        ledger
    }

    fn amount(&self, snapshot: &Snapshot, actor: ActorIx, unit: UnitIx) -> i64 {
        let once = self.amounts[actor].get(snapshot.problem().unit_kind[unit].at()).copied().unwrap_or(0);
        once.saturating_mul(self.weights[unit])
    }

    /// The largest amounts of its actors.
    fn most(&self) -> impl Iterator<Item = (ActorIx, i64)> {
        let weight = self.weights.iter().copied().max().unwrap_or(0);
        let most =
            move |amounts: &Vec<i64>| amounts.iter().copied().max().unwrap_or(0).saturating_mul(weight);
        self.amounts.enumerate().map(move |(actor, amounts)| (actor, most(amounts)))
    }

    /// Whether the movable actors together could exceed it.
    fn binds(&self, world: &Encoding) -> bool {
        let free = self.most().filter(|(actor, _)| !world.problem().fixed[*actor]);
        free.map(|(_, most)| most).fold(self.fixed, i64::saturating_add) > self.limit
    }
}

/// The quotas of a file, each with its position.
fn all(snapshot: &Snapshot) -> impl Iterator<Item = (usize, QuotaLedger)> {
    let given = snapshot.file().constraints.iter().enumerate();
    let quotas = given.filter(|(_, given)| matches!(given, Constraint::Quota { .. }));
    quotas.map(|(position, given)| (position, QuotaLedger::new(snapshot, position, given)))
}

/// The maximum number of literals of a suspended quota: for each actor the counting units of its kinds, and its own.
fn literals(now: &CurrentPlacement, given: &Constraint, actors: &[String]) -> usize {
    let problem = now.problem;
    let mut counting: IxVec<KindIx, usize> = IxVec::of(0, problem.kinds.len());
    for (kind, unit) in problem.unit_kind.iter().zip(&now.file.units) {
        counting[*kind] += usize::from(weight(given, unit) > 0);
    }
    let of = |id: &String| {
        let actor = problem.actor_by_id[id];
        let kinds = problem.implementations[actor].iter().zip(&counting);
        let elsewhere: usize = kinds.filter(|(way, _)| way.is_some()).map(|(_, units)| units).sum();
        1 + if problem.fixed[actor] { 0 } else { elsewhere }
    };
    once_each(actors).map(of).fold(0, usize::saturating_add)
}

/// Duplicate names count once.
fn once_each(actors: &[String]) -> impl Iterator<Item = &String> {
    actors.iter().collect::<BTreeSet<&String>>().into_iter()
}

impl ConstraintKind for Quota {
    fn refuse_contradiction<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        _: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        let Constraint::Quota { units, .. } = given else { return Ok(()) };
        let mut amounts = units.iter().flatten();
        amounts.try_for_each(|(id, amount)| fits(&|| format!("constraints[{position}].units.{id}"), *amount))
    }

    fn numeric_field(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let Constraint::Quota { max, .. } = given else { return None };
        Some(("max", *max))
    }

    fn largest(&self, file: &SnapshotFile) -> Option<(&'static str, &'static str, u128)> {
        let weight = |given: &Constraint| match given {
            Constraint::Quota { units, .. } => {
                units.iter().flatten().map(|(_, amount)| *amount).max().or(Some(1))
            }
            _ => None,
        };
        file.constraints.iter().filter_map(weight).max().map(|weight| {
            let most = |actor: &Actor| {
                let ways = actor.runs_on.values();
                let own = ways.flat_map(|way| way.requires.values().chain(way.node_requires.values()));
                let all =
                    own.chain(actor.requires.values()).map(|quantity| u128::from(*quantity)).sum::<u128>();
                all.max(1).saturating_mul(u128::from(weight.max(1)))
            };
            ("actors", "what quotas count", file.actors.iter().map(most).sum())
        })
    }

    fn divide(&self, given: &mut Constraint, factor: &dyn Fn(&str) -> u64) {
        if let Constraint::Quota { resource: Some(resource), max, .. } = given {
            *max /= factor(resource);
        }
    }

    fn find_violated(&self, now: &CurrentPlacement, found: &mut SuspendedLimits) {
        for (position, given) in now.file.constraints.iter().enumerate() {
            let Constraint::Quota { actors, max, .. } = given else { continue };
            let uses = once_each(actors).filter_map(|id| {
                let actor = now.problem.actor_by_id[id];
                let unit = now.problem.running[actor]?;
                Some((actor, amount(given, &now.file.actors[actor.at()], &now.file.units[unit.at()])))
            });
            if now.is_broken(uses, number(*max)) && now.affords(literals(now, given, actors)) {
                found.insert(QUOTA, &listed(position), "");
            }
        }
    }

    fn ground(&self, writer: &mut Writer) {
        for (position, given) in writer.file.constraints.iter().enumerate() {
            let Constraint::Quota { actors, max, .. } = given else { continue };
            if !writer.suspended.has(QUOTA, &listed(position), "") {
                continue;
            }
            let counting = writer.file.units.iter().filter(|unit| weight(given, unit) > 0).count();
            writer.everywhere_if(actors.len().saturating_mul(counting), |writer| {
                let mut uses = Vec::new();
                for actor in once_each(actors).map(|id| writer.problem.actor_by_id[id]) {
                    let said = &writer.file.actors[actor.at()];
                    let places = writer.places(actor).into_iter();
                    let counted =
                        places.map(|unit| (actor, unit, amount(given, said, &writer.file.units[unit.at()])));
                    uses.extend(counted.filter(|(.., amount)| *amount > 0));
                }
                let says = super::says(writer.file, position);
                writer.at_most(&uses, number(*max), SuspendedLimit::Constraint(position), says);
            });
        }
    }

    fn violation_trackers(&self, snapshot: &Snapshot) -> Vec<(usize, Box<dyn ViolationTracker>)> {
        let followed = |(position, ledger)| {
            (position, Box::new(Running { ledger: Arc::new(ledger), used: 0 }) as Box<dyn ViolationTracker>)
        };
        all(snapshot).map(followed).collect()
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let Constraint::Quota { actors, pool, pools, numa, units, resource, max, .. } = given else {
            return format!("constraints[{position}]");
        };
        let of = resource.as_ref().map(|resource| format!("{resource} for ")).unwrap_or_default();
        let places = [
            pool.as_ref().map(|pool| format!(" in pool {pool}")),
            pools.as_ref().map(|pools| format!(" in pools {}", pools.join(", "))),
            numa.as_ref().map(|numa| format!(" in {numa} of any node")),
            units.as_ref().map(|units| format!(" on {} units, weighted", units.len())),
        ];
        let places: String = places.into_iter().flatten().collect();
        format!("at most {max} {}{} actors{places}", if of.is_empty() { "of " } else { &of }, actors.len())
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        for (position, given) in checked.file.constraints.iter().enumerate() {
            let Constraint::Quota { resource, max, .. } = given else { continue };
            let used = |places: &Assignment| {
                let mut used = Used::default();
                for &actor in &checked.index.counted[&position] {
                    let Some(unit) = places[actor] else { continue };
                    let amount = amount(given, checked.actor(actor), checked.unit(unit));
                    if amount > 0 {
                        used.add(checked, actor, amount);
                    }
                }
                used
            };
            let (all, limit) = (used(checked.assignment), number(*max));
            let known = checked.is_suspended(QUOTA, &listed(position), "");
            let is_excused = || {
                checked.is_grounded((QUOTA, &listed(position), "")) && all.is_excused_by(&used(checked.now))
            };
            if all.passes(limit) && !known && !is_excused() {
                let what = resource.as_ref().map(|resource| format!(" of {resource}")).unwrap_or_default();
                let demands = super::says(checked.file, position);
                let says = format!("{}{what} used, {limit} allowed: {demands}", all.sum);
                let rule = checked.kind((QUOTA, &listed(position), ""), Rule::Constraint);
                found.push(Violation { rule, says });
            }
        }
    }

    fn symmetry_counts(
        &self,
        snapshot: &Snapshot,
        _: &Rooms,
        report: &mut dyn FnMut(UnitIx, Vec<Option<i64>>),
    ) {
        for (_, ledger) in all(snapshot) {
            for (unit, weight) in ledger.weights.enumerate() {
                report(unit, vec![Some(*weight)]);
            }
        }
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let problem = world.problem();
        for (number, (_, ledger)) in (0i64..).zip(all(world.snapshot).filter(|(_, one)| one.binds(world))) {
            facts.say("quota_left", [number.into(), (ledger.limit - ledger.fixed).into()]);
            for actor in ledger.amounts.positions().filter(|actor| !problem.fixed[*actor]) {
                for &unit in world.homes(actor) {
                    let amount = ledger.amount(world.snapshot, actor, unit);
                    if amount > 0 {
                        facts.say("quota_use", [number.into(), actor.into(), unit.into(), amount.into()]);
                    }
                }
            }
        }
    }

    fn most_sum(&self, world: &Encoding) -> Option<(&'static str, &'static str, i64)> {
        let most = all(world.snapshot)
            .filter(|(_, ledger)| ledger.binds(world))
            .map(|(_, ledger)| ledger.most().map(|(_, most)| most).fold(ledger.limit, i64::saturating_add));
        most.max().map(|most| ("actors", "what quotas count", most))
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/quota.lp")
    }
}

/// The use of one quota.
#[derive(Clone)]
struct Running {
    ledger: Arc<QuotaLedger>,
    used: i64,
}

impl ViolationTracker for Running {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        self.used += step.sign() * self.ledger.amount(snapshot, step.actor, step.unit);
    }

    fn value(&self) -> i64 {
        (self.used - self.ledger.limit).max(0)
    }

    fn refuses(&self, snapshot: &Snapshot, step: &Step) -> bool {
        let amount = self.ledger.amount(snapshot, step.actor, step.unit);
        amount > 0 && self.used + amount > self.ledger.limit
    }

    fn concerns(&self, _: &Snapshot, actor: ActorIx) -> bool {
        !self.ledger.amounts[actor].is_empty()
    }

    fn boxed(&self) -> Box<dyn ViolationTracker> {
        Box::new(self.clone())
    }
}
