//! One reconcile of one application: observe, validate, plan, apply, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::{End, Moment, Refusal, Step, Wait, look_again};
use crds::{ActorApplication, Instance, InstanceStatus, NodeTopology, Placement};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use world::{ActorName, Actors, ApplicationKey, Index, Note, Own, Policy, Unit, Which};

use crate::api::writes::{all, each};
use crate::apply::eviction::{NotNow, evict};
use crate::apply::instance_pods::{adopt, create, remove, start};
use crate::apply::observed::{Sight, is_newest, to_do};
use crate::apply::recheck_places;
use crate::apply::refusals::{as_told, by_nodes, remember, wait_for};
use crate::apply::rollout::Rollout;
use crate::error::{Error, Failures};
use crate::plan::planning::ask_if_due;
use crate::queue::triggers::Waits;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::instances::{About, instance_status, passes, root_of};
use crate::status::phase::{self, placement_status};
use crate::status::report::{self, Outcome, application_status, event};
use crate::watch::devices;

/// Looks after an application once, if there is one of that name; after how long again, where nobody rings before.
///
/// What fails is told, and tried again.
pub async fn look(who: ObjectRef<ActorApplication>, ctx: Arc<Context>) -> Option<Duration> {
    let application = ctx.caches.applications.get(&who)?;
    match reconcile(&application, &ctx).await {
        Ok(again) => again,
        Err(error) => {
            let key = ApplicationKey::of(application.as_ref());
            tracing::warn!(application = %key, error = error.chain(), "reconcile failed");
            Some(ctx.heal_retries.after(&key, &error, moment()))
        }
    }
}

/// Brings one application a step closer to what was decided. What is decided anew is in a queue of its own: nobody who heals
/// waits for who plans.
///
/// # Errors
/// When something could not be written, or the lease is lost; it is tried again.
#[tracing::instrument(skip_all, fields(application = %ApplicationKey::of(application)))]
async fn reconcile(application: &ActorApplication, ctx: &Arc<Context>) -> Result<Option<Duration>, Error> {
    let working = ctx.writer.pulse.begin();
    let result = Box::pin(step(application, ctx)).await;
    drop(working);
    if result.is_ok() {
        ctx.heal_retries.went_well(&ApplicationKey::of(application));
    }
    ctx.metrics.reconciles.with_label_values(&[result.as_ref().map_or_else(Error::reason, |_| "ok")]).inc();
    result
}

async fn step(application: &ActorApplication, ctx: &Arc<Context>) -> Result<Option<Duration>, Error> {
    ctx.writer.leadership.check()?;
    if application.metadata.deletion_timestamp.is_some() {
        // Everything of it is owned by it: the garbage collector takes it away.
        return Ok(None);
    }
    let key = ApplicationKey::of(application);
    ctx.meet(&key, application);
    ask_if_due(&key, ctx);
    let mut failures = Failures::default();
    let not_adopted = adopt(application, &key, ctx, &mut failures).await?;
    let (said, again) = ctx.plans.last(&key);
    let is_planned = said.is_some();
    let mut outcome = Outcome { next: again, ..said.unwrap_or_default() };
    for (until, message) in not_adopted {
        outcome.next = Some(outcome.next.map_or(until, |next| next.min(until)));
        outcome.notes.push(Note { condition: "Refused", message });
    }
    // Another's decision of its name is told by who plans.
    outcome.decision = ctx.caches.decision(&key).ok().flatten().map(|decision| decision.as_ref().clone());
    let is_pending = ctx.plans.is_pending(&key) || ctx.searches.has(&key);
    if outcome.decision.is_none() && is_pending {
        // There is nothing to carry out or to tell before it is planned, and then it rings.
        return failures.or(Some(wait(&outcome, control::LOOK_AGAIN)));
    }
    if !is_pending && outcome.failure.is_none() {
        outcome.infeasible = ctx.infeasible(&key, application.metadata.generation);
    }
    let is_known = outcome.infeasible.is_some();
    let mut refusals = ctx.refused(&key, outcome.decision.as_ref());
    let mut is_made = false;
    if let Some(mut decision) = outcome.decision.clone() {
        let done = carry_out(application, &mut decision, ctx, &mut outcome, &mut refusals, &mut failures);
        is_made = Box::pin(done).await?;
        outcome.decision = Some(decision);
    }
    if is_made {
        return failures.or(Some(wait(&outcome, BROUGHT_WITHIN)));
    }
    let waits = waits(&ctx.caches.index(), application, &outcome);
    if ctx.caches.waits(&key, waits) && ctx.has_room_come(&key) {
        // It came before it was known who could use it.
        ctx.ask_for_a_plan(&key);
    }
    // While it is planned, or cannot be, its places are looked at each time.
    let again = if is_known { recheck_places::again(&key, &outcome, ctx) } else { None };
    outcome.next = again.into_iter().chain(outcome.next).min();
    let is_old = outcome.decision.as_ref().is_some_and(|decision| !is_newest(decision, application));
    if is_pending && (is_old || !is_planned) {
        // What runs is looked after; what is told is told of the newest manifest, once it was looked at.
        return failures.or(Some(wait(&outcome, control::LOOK_AGAIN)));
    }
    let later = ctx.pace.not_before(&key, moment()).filter(|_| outcome.failure.is_none());
    if later.is_some() {
        outcome.next = later.into_iter().chain(outcome.next).min();
    } else {
        let told = report(application, &key, ctx, &outcome, &refusals).await?;
        outcome.next = told.again.into_iter().chain(outcome.next).min();
        ctx.plans.told(&key);
        ctx.pace.told(&key, moment(), told.written);
    }
    let second_look = ctx.second_look(&key);
    let longest = look_again(moment(), &refusals, second_look, outcome.failure.is_some());
    failures.or(Some(wait(&outcome, longest)))
}

/// Looks again when there may be more to do, and after `longest` in any case.
fn wait(outcome: &Outcome, longest: Duration) -> Duration {
    let sooner = outcome.next.map(|at| at.saturating_sub(moment()).max(NEXT_SOONEST));
    sooner.map_or(longest, |sooner| sooner.min(longest))
}

/// What an application waits for; of actors without a place what they ask for, once for all of a group.
fn waits(index: &Index, application: &ActorApplication, outcome: &Outcome) -> Waits {
    let pools = outcome.waiting.values().filter_map(|wait| match wait {
        Wait::Pool(pool) => Some(pool.clone()),
        _ => None,
    });
    let mut waits = Waits { any: !outcome.waiting.is_empty(), pools: pools.collect(), unplaced: Vec::new() };
    let unplaced = outcome.decision.iter().flat_map(|decision| &decision.spec.unplaced);
    let without: BTreeSet<&str> = unplaced.map(|unplaced| unplaced.actor.as_str()).collect();
    if !without.is_empty() {
        let wanted = world::wanted(index, application, "");
        let of_waiting = wanted.actors.iter().filter(|actor| without.contains(actor.name.as_str()));
        let groups: BTreeSet<usize> = of_waiting.map(|actor| actor.group).collect();
        waits.unplaced = groups.into_iter().flat_map(|group| wanted.asks[group].clone()).collect();
    }
    waits
}

/// What was made is looked after again after this time, should no watch bring it.
const BROUGHT_WITHIN: Duration = Duration::from_secs(1);

/// What is to be done at some moment is done no sooner after a look.
const NEXT_SOONEST: Duration = Duration::from_millis(200);

/// Does what is to be done now; refusals are written before the pods that met them go. A step that fails, or what fails beside
/// the actors, keeps no other step from being done. Says whether Instances were made: then nobody was started or stopped, and that
/// follows in the next look.
async fn carry_out(
    application: &ActorApplication,
    decision: &mut Placement,
    ctx: &Context,
    outcome: &mut Outcome,
    refusals: &mut Vec<Refusal>,
    failures: &mut Failures,
) -> Result<bool, Error> {
    let key = ApplicationKey::of(application);
    let actors = world::actors(&ctx.caches.index(), application).names;
    let rollout = Rollout::of(application, ctx);
    let (Sight { units, instances, pools, seen }, mut todo) =
        to_do(application, decision, ctx, &rollout, outcome, refusals).await?;
    ask_for_nodes(&mut todo.steps, &seen, ctx, failures).await?;
    ctx.made.are_there(&application.uid().unwrap_or_default(), seen.instances.keys());
    let awaited = ctx.made.leave_out(&mut todo.steps, &seen, moment());
    outcome.next = awaited.into_iter().chain(outcome.next).min();
    let version = (decision.uid(), decision.metadata.generation);
    if todo.steps.iter().any(|step| matches!(step, Step::Create { .. } | Step::Start { .. })) {
        ctx.starts.start(&key, moment());
    }
    let names: BTreeMap<String, &ActorName> = actors.iter().map(|actor| (actor.short(), actor)).collect();
    let is_create = |step: &mut Step| matches!(step, Step::Create { .. });
    let missing = todo.steps.extract_if(.., is_create).collect();
    let creating = create_all(application, &names, (&key, &version), missing, ctx);
    let keeping = async {
        if !application.spec.paused && is_newest(decision, application) {
            let of_it = (application, actors.as_slice());
            if ctx.neighbours.keep(of_it, &key, ctx, outcome, failures).await? {
                todo.steps.retain(|step| !matches!(step, Step::Start { .. }));
            }
            // What starts now was chosen by what was kept before: nobody waits for the newest state.
            failures.keep(rollout.keep(of_it, &key, ctx, outcome).await)
        } else {
            ctx.neighbours.recall(application, &key, ctx, outcome);
            Ok(None)
        }
    };
    let ((created, is_made), kept) = futures::join!(creating, keeping);
    kept?;
    let mut not_now: Vec<NotNow> = Vec::new();
    for done in created {
        not_now.extend(failures.keep(done)?.flatten());
    }
    if is_made {
        // Who was made starts before anybody is stopped, or told of: in the next look, which follows when the watch brings it.
        settle(application, not_now, decision, ctx, outcome, refusals, (&seen, &units, &actors)).await?;
        return Ok(true);
    }
    let last_good = std::cell::LazyCell::new(|| rollout.last_good(application));
    for actor in todo.ended {
        // However often it is seen until it is taken away.
        let pod = seen.instances.get(&actor).and_then(|instance| instance.pod.as_ref());
        let Some(uid) = pod.map(|pod| pod.id.uid.as_str()) else { continue };
        ctx.hold_back((key.clone(), actor), "its pod ended", Some(uid));
    }
    if !todo.refused.is_empty() {
        let (refused, said) = by_nodes(todo.refused, &units, &actors, &[]);
        remember(&key, decision, ctx, refusals, refused).await?;
        ctx.tell(application, &event(EventType::Warning, "Refused", "Place", said)).await;
    }
    let root = root_of(&actors, &instances);
    let has_peers = ctx.neighbours.may_be_mounted(application);
    tracing::debug!(steps = todo.steps.len(), waiting = outcome.waiting.len(), "carrying out");
    let work = todo.steps.into_iter().map(|step| {
        let (names, instances, units, pools) = (&names, &instances, &units, &pools);
        let (root, last_good, key, version) = (&root, &last_good, &key, &version);
        async move {
            // What is decided anew meanwhile is for the next look.
            if !ctx.is_in_force(key, version) {
                return Ok(None);
            }
            match step {
                // Made above, before all others.
                Step::Create { .. } => Ok(None),
                Step::Remove { instance } => {
                    remove::<Instance>(ctx, key, instance.name.clone(), &instance, false).await
                }
                Step::Stop { actor, pod, end: End::Evict } => evict(ctx, key, actor, &pod).await,
                Step::Stop { actor, pod, end } => {
                    remove::<Pod>(ctx, key, actor, &pod, end == End::AtOnce).await
                }
                Step::Start { actor, instance, unit, newest } => {
                    let application = if newest { application } else { last_good };
                    let (Some(name), Some(unit)) = (names.get(&actor), units.get(&unit)) else {
                        return Ok(None);
                    };
                    let Some((instance, _)) = instances.get(&instance.name) else { return Ok(None) };
                    let has = (*root == Some(instance.name_any()), has_peers);
                    let pool = pools.get(&unit.pool).map(AsRef::as_ref);
                    start(application, name, instance, (unit, pool), has, ctx).await
                }
            }
        }
    });
    for done in each(work).await {
        not_now.extend(failures.keep(done)?.flatten());
    }
    settle(application, not_now, decision, ctx, outcome, refusals, (&seen, &units, &actors)).await?;
    Ok(false)
}

/// Makes the Instances of actors that have none; who has none yet because it is refused, and whether one was made.
async fn create_all(
    application: &ActorApplication,
    names: &BTreeMap<String, &ActorName>,
    (key, version): (&ApplicationKey, &(Option<String>, Option<i64>)),
    steps: Vec<Step>,
    ctx: &Context,
) -> (Vec<Result<Option<NotNow>, Error>>, bool) {
    let is_made = AtomicBool::new(false);
    let work = steps.into_iter().filter_map(|step| match step {
        // What was asked for and is gone meanwhile is not made again; who came meanwhile is for the next look.
        Step::Create { actor } => names.get(&actor).filter(|name| matches!(name.which, Which::Index(_))),
        _ => None,
    });
    let work = work.map(async |name| {
        // What is decided anew meanwhile is for the next look.
        if ctx.is_in_force(key, version) {
            create(application, key, name, &is_made, ctx).await
        } else {
            Ok(None)
        }
    });
    (each(work).await, is_made.load(Ordering::Acquire))
}

/// Leaves out of what is to be done what ends at once who ran on a node that no watch has brought, where the API server knows it: then
/// the watch of nodes is late. Each node is asked for once; where that fails nobody of it is ended.
async fn ask_for_nodes(
    steps: &mut Vec<Step>,
    seen: &control::Seen,
    ctx: &Context,
    failures: &mut Failures,
) -> Result<(), Error> {
    let pods = seen.instances.values().chain(&seen.surplus).filter_map(|instance| instance.pod.as_ref());
    let of = |pod: &control::Pod| Some((pod.id.uid.clone(), pod.node.clone()?));
    let unknown: BTreeMap<String, String> =
        pods.filter_map(of).filter(|(_, node)| !seen.left.nodes.contains_key(node)).collect();
    let node_of = |step: &Step| match step {
        Step::Stop { pod, end: End::AtOnce, .. } => unknown.get(&pod.uid),
        _ => None,
    };
    let asked: BTreeSet<String> = steps.iter().filter_map(node_of).cloned().collect();
    for node in asked {
        if failures.keep(ctx.writer.knows_node(&node).await)? != Some(false) {
            tracing::info!(
                node,
                "nobody of it is ended: it is there and known to no watch yet, or cannot be asked for"
            );
            steps.retain(|step| node_of(step) != Some(&node));
        }
    }
    Ok(())
}

/// Tells what could not be done now, and remembers what that says of places.
async fn settle(
    application: &ActorApplication,
    not_now: Vec<NotNow>,
    decision: &mut Placement,
    ctx: &Context,
    outcome: &mut Outcome,
    refusals: &mut Vec<Refusal>,
    (seen, units, actors): (&control::Seen, &BTreeMap<String, Unit>, &[ActorName]),
) -> Result<(), Error> {
    let key = ApplicationKey::of(application);
    if !application.spec.paused {
        let (refused, said) = by_nodes(stuck(&not_now, decision, seen, outcome), units, actors, refusals);
        if !said.is_empty() {
            remember(&key, decision, ctx, refusals, refused).await?;
            ctx.tell(application, &event(EventType::Warning, "Refused", "Place", said)).await;
        }
    }
    let (said, not_admitted) = wait_for(not_now.into_iter(), &key, ctx, outcome);
    if !not_admitted.is_empty() {
        remember(&key, decision, ctx, refusals, not_admitted).await?;
    }
    if !said.is_empty() {
        ctx.tell(application, &event(EventType::Warning, "Refused", "Start", said.join("; "))).await;
    }
    Ok(())
}

/// Who lies for a place whose holder may not be evicted.
fn stuck(
    not_now: &[NotNow],
    decision: &Placement,
    seen: &control::Seen,
    outcome: &Outcome,
) -> Vec<control::Refused> {
    let kept = not_now.iter().filter_map(|it| match it {
        NotNow::Evict(actor, _, why) => Some((actor.clone(), why.clone())),
        NotNow::Create { .. } | NotNow::Start(..) | NotNow::Remove { .. } => None,
    });
    control::stuck(&world::decision(decision), seen, &outcome.waiting, &kept.collect())
}

/// What was told of an application.
struct Told {
    /// Whether its status or that of its decision was written.
    written: bool,
    /// When there is more to tell: of somebody who is on its way, or how many run.
    again: Option<Moment>,
}

/// Writes what has changed of the statuses: what people wait for at once, and how many actors run so far now and then.
async fn report(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &Outcome,
    refusals: &[Refusal],
) -> Result<Told, Error> {
    let (own, actors) = {
        let index = ctx.caches.index();
        (world::own(&index, application), world::actors(&index, application))
    };
    let others_start = ctx.starts.are_of_others(key, moment());
    let on_its_way = report_instances(&actors, ctx, &own, (outcome, others_start)).await?;
    let mut told = Told { written: false, again: on_its_way.map(|next| moment() + next) };
    let not_counted_before = ctx.pace.not_counted_before(key, moment());
    let mut is_due = |only_counts: bool| {
        let later = not_counted_before.filter(|_| only_counts);
        told.again = later.into_iter().chain(told.again).min();
        told.written |= later.is_none();
        later.is_none()
    };
    let plain = Policy::builtin("units");
    let now = Timestamp::now();
    let rollout = Rollout::of(application, ctx);
    let progress = {
        let index = ctx.caches.index();
        let unit = |id: &str| world::units_at(&index, id.rsplit_once('/')?.0, &plain).remove(id);
        rollout.progress(&actors.names, &own, outcome.decision.as_ref(), &unit)
    };
    let outcome = &Outcome { progress, ..outcome.clone() };
    let instances = own.iter().map(|(name, (instance, _))| (name.clone(), instance.as_ref())).collect();
    let status = application_status(application, &actors.names, outcome, &instances, now);
    if let Some(decision) = &outcome.decision {
        let placement = placement_status(decision, (&instances, &outcome.waiting), as_told(refusals), now);
        let before = decision.status.clone().unwrap_or_default();
        if before != placement && is_due(phase::only_counts(&before, &placement)) {
            ctx.caches.wrote(ctx.writer.apply_status(decision, &placement).await?);
        }
    }
    // The newest state, so that what was just written is not written again from an older one.
    let newest = ctx.caches.applications.get(&crate::watch::caches::object_ref(key));
    if let Some(newest) = newest.filter(|newest| newest.uid() == application.uid()) {
        let before = newest.status.clone().unwrap_or_default();
        if before != status && is_due(report::only_counts(&before, &status)) {
            ctx.writer.apply_status(newest.as_ref(), &status).await?;
        }
    }
    Ok(told)
}

/// Writes what has changed of Instances' statuses; after what time to look at those of which is told later.
async fn report_instances(
    actors: &Actors,
    ctx: &Context,
    own: &Own,
    (outcome, others_start): (&Outcome, bool),
) -> Result<Option<Duration>, Error> {
    let topologies: BTreeMap<String, Arc<NodeTopology>> = {
        let index = ctx.caches.index();
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let nodes: BTreeSet<String> = own.values().filter_map(|(_, pod)| node(pod.as_deref()?)).collect();
        let found = nodes.into_iter().filter_map(|node| Some((node.clone(), index.topology(&node)?.clone())));
        found.collect()
    };
    let topologies = topologies.iter().map(|(name, topology)| (name.clone(), topology.as_ref())).collect();
    let root = root_of(&actors.names, own);
    let spec = outcome.decision.as_ref().map(|decision| &decision.spec);
    let places: BTreeMap<&str, &str> = spec
        .iter()
        .flat_map(|spec| &spec.assignments)
        .map(|it| (it.actor.as_str(), it.unit.as_str()))
        .collect();
    let reasons: BTreeMap<&str, &[String]> = spec
        .iter()
        .flat_map(|spec| &spec.unplaced)
        .map(|it| (it.actor.as_str(), it.reasons.as_slice()))
        .collect();
    let now = Timestamp::now();
    let mut on_its_way = None;
    let changed = own.iter().filter_map(|(name, (instance, pod))| {
        let pod = pod.as_deref();
        let devices = pod.map(|pod| devices::held_by(pod, &topologies)).unwrap_or_default();
        let hosted: Vec<String> = world::actors_in(instance).iter().map(ActorName::short).collect();
        let about = About {
            place: hosted.iter().find_map(|actor| places.get(actor.as_str()).copied()),
            reasons: hosted.iter().find_map(|actor| reasons.get(actor.as_str()).copied()),
            wait: hosted.iter().find_map(|actor| outcome.waiting.get(actor)),
            unfit: actors.refused.get(name),
            others_start,
            now,
        };
        let status = instance_status(instance, pod, devices, root.as_ref() == Some(name), &about);
        let passes = passes(instance, pod, &about, &status);
        on_its_way = on_its_way.into_iter().chain(passes).min();
        (passes.is_none() && instance.status.as_ref() != Some(&status)).then_some((instance.as_ref(), status))
    });
    let changed: Vec<(&Instance, InstanceStatus)> = changed.collect();
    let work = changed.into_iter().map(|(instance, status)| async move {
        match ctx.writer.apply_status(instance, &status).await {
            // It went while its status was written, and may be another one by now.
            Err(Error::Apply { source: kube::Error::Api(answer), .. }) if answer.code == 404 => Ok(()),
            // What is newer rings when it is seen.
            Err(Error::Overtaken) => Ok(()),
            other => other.map(|_| ()),
        }
    });
    all(work).await?;
    Ok(on_its_way)
}
