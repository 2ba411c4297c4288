//! One search for moves that measured load would justify.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::{ElectiveMoves, GateRule, GateVerdict, PlanReason, least_with_pauses, necessary_part};
use counters::{WindowChoice, Windows};
use crds::ActorApplication;
use jiff::Timestamp;
use placement::file::{Constraint, Places};
use placement::{Plan, Snapshot};
use world::{ApplicationKey, AssembledSnapshot, Policy, assemble_measured};

use crate::commit::elective::percent;
use crate::error::Error;
use crate::plan::decide::search;
use crate::plan::load_report::{LoadVerdict, ProposedMove};
use crate::plan::observe::run_blocking;
use crate::plan::outcome::MoverService;
use crate::queue::solver_slots::Rank;
use crate::runtime::context::Context;

/// Pause of an actor that moves, before any is measured.
const PAUSE_SECONDS: f64 = 10.0;

/// What a search is made from.
pub struct LoadSearch<'a> {
    pub key: &'a ApplicationKey,
    pub application: &'a ActorApplication,
    pub policy: &'a Policy,
    pub windows: Windows,
    pub rule: GateRule,
}

/// Moves that the gate lets pass.
pub struct PayingMoves {
    /// The snapshot that they were found in,
    pub world: Arc<AssembledSnapshot>,
    /// with what the policy derives of it.
    pub derived: Snapshot,
    /// The plan before weak moves were taken back.
    pub plan: Plan,
    /// The moves that are left.
    pub moves: ElectiveMoves,
}

impl PayingMoves {
    /// Service times of the movers before they move.
    pub fn services(&self, windows: &Windows) -> MoverService {
        let of = |actor: &placement::ix::ActorIx| {
            let name = self.derived.short_name(*actor).to_owned();
            let service =
                windows.service_microseconds(&name, WindowChoice::Newest(control::CHANGE_WINDOWS))?;
            Some((name, service))
        };
        self.moves.gains.keys().filter_map(of).collect()
    }
}

/// The windows that a rule's facts are the mean of.
pub fn choice(rule: GateRule) -> WindowChoice {
    match rule {
        GateRule::Change => WindowChoice::Newest(control::CHANGE_WINDOWS),
        GateRule::Steady => WindowChoice::All,
    }
}

impl LoadSearch<'_> {
    /// Searches, takes back what carries little of the gain, and judges the rest; `None` if a search for another reason took over.
    ///
    /// # Errors
    /// When no snapshot can be taken, or the search fails.
    pub async fn verdict(
        &self,
        ctx: &Arc<Context>,
    ) -> Result<Option<(LoadVerdict, Option<PayingMoves>)>, Error> {
        let _slot = ctx.solver_slots.acquire(Rank::of(self.application).background(true)).await;
        let world = self.snapshot(ctx, choice(self.rule)).await?;
        let (stop, yielded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let others = Arc::new(ctx.searches.time_share(PlanReason::Load));
        let found =
            search((self.key, &world), self.policy, (0, &others), PlanReason::Load, (stop, &yielded), ctx);
        let plan = found.await?;
        if yielded.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (least, most) = (self.policy.rebalance.min_gain(), self.policy.rebalance.max_moves);
        let (planned, snapshot) = (plan.clone(), world.snapshot.clone());
        let derived =
            run_blocking(&ctx.snapshot_permits, move || Ok(planned.world(&snapshot).into_owned())).await?;
        let (goes, planned) = (plan.assignment.clone(), derived.clone());
        let moves = run_blocking(&ctx.snapshot_permits, move || {
            let stays = necessary_part(&planned, &goes);
            Ok(ElectiveMoves::of(&planned, stays, &goes, least, most))
        });
        let Some(moves) = moves.await? else { return Ok(Some((LoadVerdict::NoGain, None))) };
        let least = self.least_gain(&world, &moves);
        let mut gains = Vec::new();
        for at in (0..self.windows.usable_windows()).rev() {
            let window = self.snapshot(ctx, WindowChoice::One(at)).await?;
            gains.push(moves.gain(&window.snapshot));
        }
        let verdict = match self.rule.judge(&gains, least) {
            GateVerdict::Pays { rule, gain } => LoadVerdict::WouldMove {
                rule,
                gain_percent: percent(gain),
                moves: proposed(&derived, &moves),
            },
            other => return Ok(Some((LoadVerdict::Stays(other), None))),
        };
        Ok(Some((verdict, Some(PayingMoves { world, derived, plan, moves }))))
    }

    /// The snapshot with the numbers of these windows, in which actors that never move for a gain are fixed.
    ///
    /// # Errors
    /// When the manifest is invalid or too large.
    pub async fn snapshot(
        &self,
        ctx: &Context,
        choice: WindowChoice,
    ) -> Result<Arc<AssembledSnapshot>, Error> {
        let (caches, key, policy) = (ctx.caches.clone(), self.key.clone(), self.policy.clone());
        let (application, windows) = (self.application.clone(), self.windows.clone());
        run_blocking(&ctx.snapshot_permits, move || {
            let index = caches.index();
            let profiles = world::group_profiles(&index, &application, &policy);
            let profiles = profiles.map_err(world::AssembleError::Invalid)?;
            let measured = windows.measure(&profiles, choice);
            let mut world = assemble_measured(&index, &key, &policy, Timestamp::now(), Some(&measured))?;
            drop(index);
            let stays_put = world::groups_that_stay(&application);
            if !stays_put.is_empty() {
                world.snapshot = Arc::new(with_fixed(&world.snapshot, &stays_put)?);
            }
            Ok(Arc::new(world))
        })
        .await
    }

    /// The policy's least gain, and what the pauses of the movers cost.
    fn least_gain(&self, world: &AssembledSnapshot, moves: &ElectiveMoves) -> f64 {
        let snapshot = &world.snapshot;
        let work = |actor| {
            moves.stays[actor].and_then(|unit| snapshot.implementation(actor, unit)).map_or(0, |it| it.work)
        };
        let all: i64 = placement::ix::ActorIx::first(snapshot.actors())
            .filter(|actor| !snapshot.is_fixed(*actor))
            .map(work)
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "work is at most 2^53")]
        let pauses = moves.gains.keys().map(|actor| (PAUSE_SECONDS, work(*actor) as f64 / all.max(1) as f64));
        let windows = u32::try_from(self.policy.rebalance.horizon_windows).unwrap_or(u32::MAX);
        let window = Duration::from_micros(world::floor(self.policy.window));
        least_with_pauses(self.policy.rebalance.min_gain(), pauses, window.as_secs_f64() * f64::from(windows))
    }
}

/// The snapshot with the actors of these groups on their units.
fn with_fixed(snapshot: &Snapshot, groups: &BTreeSet<String>) -> Result<Snapshot, Error> {
    let mut file = snapshot.file().clone();
    for actor in file.actors.iter().filter(|actor| !actor.fixed) {
        let is_put = actor.group.as_ref().is_some_and(|group| groups.contains(group));
        if let Some(unit) = actor.current.clone().filter(|_| is_put) {
            file.constraints.push(Constraint::Only {
                actors: vec![actor.id.clone()],
                places: Places::Units(vec![unit]),
                reason: Some("never moves for a gain".to_owned()),
            });
        }
    }
    Ok(Snapshot::new(file).map_err(world::AssembleError::Snapshot)?)
}

fn proposed(snapshot: &Snapshot, moves: &ElectiveMoves) -> Vec<ProposedMove> {
    let unit = |unit: Option<placement::ix::UnitIx>| {
        unit.map_or_else(String::new, |unit| snapshot.unit_id(unit).to_owned())
    };
    let proposed = moves.gains.iter().map(|(actor, gain)| ProposedMove {
        actor: snapshot.short_name(*actor).to_owned(),
        from: unit(moves.stays[*actor]),
        to: unit(moves.goes[*actor]),
        gain_percent: percent(*gain),
    });
    proposed.collect()
}
