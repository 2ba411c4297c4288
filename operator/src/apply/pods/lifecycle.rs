//! Creates and deletes Instances and pods. A refusal by admission concerns one actor and does not fail the others.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::{Moment, ObjectId, RefusalKey, RefusalScope};
use crds::{ActorApplication, DevicePool, Instance};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::NamespaceResourceScope;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use world::{ActorName, ApplicationKey, Unit};

use crate::api::writes::{Created, each};
use crate::apply::owned::ownership::owner;
use crate::apply::pods::eviction::Deferred;
use crate::apply::pods::manifest;
use crate::error::{Error, Failures};
use crate::queue::throttle::Expectations;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::report::event;

/// Adds the application as owner of the Instances that its runtime requested, which makes them its actors and deletes them with
/// it. Returns until when refused ones are backed off, and why.
///
/// # Errors
/// When the lease is lost; other errors are kept.
pub async fn adopt(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    failures: &mut Failures,
) -> Result<Vec<(Moment, String)>, Error> {
    let Some(owner) = owner(application) else { return Ok(Vec::new()) };
    let waiting: Vec<Arc<Instance>> = {
        let index = ctx.caches.index();
        let stays = |it: &&Arc<Instance>| it.metadata.deletion_timestamp.is_none();
        index.unowned_requests(key).filter(stays).cloned().collect()
    };
    let work = waiting.iter().map(|instance| adopt_one(application, key, instance, &owner, ctx));
    let mut refused = Vec::new();
    for adopted in each(work).await {
        refused.extend(failures.keep(adopted)?.flatten());
    }
    Ok(refused)
}

async fn adopt_one(
    application: &ActorApplication,
    key: &ApplicationKey,
    instance: &Instance,
    owner: &[OwnerReference],
    ctx: &Context,
) -> Result<Option<(Moment, String)>, Error> {
    let backoff_key = (key.clone(), format!("adoption of {}", instance.uid().unwrap_or_default()));
    if let Some(held) = ctx.backoff(&backoff_key) {
        return Ok(Some(held));
    }
    let labels = manifest::labels_of_host(&world::actors_of_instance(instance));
    let Err(why) = ctx.writer.adopt(instance, owner, &labels).await? else { return Ok(None) };
    let why = format!("Instance {} cannot be adopted: {why}", instance.name_any());
    let until = ctx.back_off(backoff_key, &why, None);
    ctx.emit_event(application, &event(EventType::Warning, "Refused", "Adopt", why.clone())).await;
    Ok(Some((until, why)))
}

/// Creates the Instance of an actor, unless that is backed off. Sets `is_created` if it is new, even before the watch delivers
/// it; returns a refusal.
///
/// # Errors
/// When the API server fails, or the lease is lost.
pub async fn create_instance(
    application: &ActorApplication,
    key: &ApplicationKey,
    name: &ActorName,
    is_created: &AtomicBool,
    ctx: &Context,
) -> Result<Option<Deferred>, Error> {
    let actor = name.short();
    let expected = Expectations::instance(&application.uid().unwrap_or_default(), &actor);
    if ctx.expectations.is_expected(&expected, moment()) {
        is_created.store(true, Ordering::Release);
        return Ok(None);
    }
    // An exhausted quota concerns all actors.
    let [all, one] = ["Instances".to_owned(), format!("Instance of {actor}")].map(|what| (key.clone(), what));
    if let Some((until, why)) = ctx.backoff(&all).or_else(|| ctx.backoff(&one)) {
        return Ok(Some(Deferred::Create { actor, until, why, just_now: false }));
    }
    let refused = match ctx.writer.create(&manifest::instance(application, name)).await? {
        Ok(created) => {
            if created == Created::New {
                ctx.expectations.expect(&expected, moment());
                is_created.store(true, Ordering::Release);
            }
            return Ok(None);
        }
        Err(refused) => refused,
    };
    let (backoff_key, why) = (if refused.by_namespace { all } else { one }, refused.message);
    // Concurrent refusals count as one failure.
    let held = ctx.backoff(&backoff_key).map(|(until, _)| until);
    let until = held.unwrap_or_else(|| ctx.back_off(backoff_key, &why, None));
    Ok(Some(Deferred::Create { actor, until, why, just_now: true }))
}

/// Creates the pod of an actor; returns a refusal by admission.
///
/// # Errors
/// When the API server fails, or the lease is lost.
pub async fn create_pod(
    application: &ActorApplication,
    name: &ActorName,
    instance: &Instance,
    (unit, pool): (&Unit, Option<&DevicePool>),
    (is_root, has_peers): (bool, bool),
    ctx: &Context,
) -> Result<Option<Deferred>, Error> {
    let Some(pod) = manifest::pod(application, name, instance, unit, pool, is_root, has_peers) else {
        return Ok(None);
    };
    let Err(refused) = ctx.writer.create(&pod).await? else {
        ctx.expectations.expect(&instance.uid().unwrap_or_default(), moment());
        return Ok(None);
    };
    // Concerns the whole namespace, or all pods of the same template.
    let about = if refused.by_namespace {
        RefusalKey { scope: RefusalScope::Namespace, ..RefusalKey::default() }
    } else {
        RefusalKey { scope: RefusalScope::Template, group: name.group.clone(), kind: unit.kind.clone() }
    };
    Ok(Some(Deferred::Start(name.short(), about, refused.message)))
}

/// Deletes exactly this object, unless that is backed off; returns a refusal.
///
/// # Errors
/// When the API server fails, or the lease is lost.
pub async fn delete<K>(
    ctx: &Context,
    key: &ApplicationKey,
    actor: String,
    object: &ObjectId,
    at_once: bool,
) -> Result<Option<Deferred>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let backoff_key = (key.clone(), format!("removal of {} {}", K::kind(&()), object.uid));
    if let Some((until, why)) = ctx.backoff(&backoff_key) {
        return Ok(Some(Deferred::Remove { actor, until, why, just_now: false }));
    }
    let done = ctx.writer.delete::<K>(&key.namespace, object, at_once).await?;
    let Err(why) = done else { return Ok(None) };
    tracing::info!(actor, why, "deletion refused; backing off");
    let why = format!("{} {} cannot be deleted: {why}", K::kind(&()), object.name);
    let until = ctx.back_off(backoff_key, &why, None);
    Ok(Some(Deferred::Remove { actor, until, why, just_now: true }))
}
