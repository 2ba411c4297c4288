//! Instances and pods of actors are made; what the API server says against one is no failure of the others.

use control::{About, Scope};
use crds::{ActorApplication, DevicePool, Instance};
use kube::ResourceExt;
use world::{ActorName, ApplicationKey, Unit};

use crate::context::{Context, moment};
use crate::error::Error;
use crate::eviction::NotNow;
use crate::pods;

/// Makes the Instance of an actor, unless that was refused a moment ago; says who has none yet because it is refused.
///
/// # Errors
/// When the API server cannot be asked, or the lease is lost.
pub async fn create(
    application: &ActorApplication,
    key: &ApplicationKey,
    name: &ActorName,
    ctx: &Context,
) -> Result<Option<NotNow>, Error> {
    let actor = name.short();
    // A quota that is full is so for all of them.
    let [all, one] = ["Instances".to_owned(), format!("Instance of {actor}")].map(|what| (key.clone(), what));
    if let Some((until, why)) = ctx.held_back(&all).or_else(|| ctx.held_back(&one)) {
        return Ok(Some(NotNow::Create { actor, until, why, just_now: false }));
    }
    let Err(refused) = ctx.writer.create(&pods::instance(application, name)).await? else { return Ok(None) };
    let (tried, why) = (if refused.by_namespace { all } else { one }, refused.says);
    // Several that are refused at the same time are one failure.
    let held = ctx.held_back(&tried).map(|(until, _)| until);
    let until = held.unwrap_or_else(|| ctx.hold_back(tried, &why, None));
    Ok(Some(NotNow::Create { actor, until, why, just_now: true }))
}

/// Makes the pod of an actor; says who may not be started where admission refuses it.
///
/// # Errors
/// When the API server cannot be asked, or the lease is lost.
pub async fn start(
    application: &ActorApplication,
    name: &ActorName,
    instance: &Instance,
    (unit, pool): (&Unit, Option<&DevicePool>),
    (is_root, has_peers): (bool, bool),
    ctx: &Context,
) -> Result<Option<NotNow>, Error> {
    let Some(pod) = pods::pod(application, name, instance, unit, pool, is_root, has_peers) else {
        return Ok(None);
    };
    let Err(refused) = ctx.writer.create(&pod).await? else {
        ctx.made.made(&instance.uid().unwrap_or_default(), moment());
        return Ok(None);
    };
    // Everybody of the namespace, or whoever is made of the same template.
    let about = if refused.by_namespace {
        About { scope: Scope::Namespace, ..About::default() }
    } else {
        About { scope: Scope::Template, group: name.group.clone(), kind: unit.kind.clone() }
    };
    Ok(Some(NotNow::Start(name.short(), about, refused.says)))
}
