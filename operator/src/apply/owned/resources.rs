//! Creates and repairs the resources that an application owns besides its actors.

use std::sync::{Arc, PoisonError};

use control::{BlockedOn, Moment};
use crds::ActorApplication;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use world::{ActorName, ApplicationKey, controller_ref};

use crate::api::writes::{Created, NotAdmitted};
use crate::apply::pods::identity;
use crate::error::{Error, Failures};
use crate::runtime::context::{BackoffKey, Context};
use crate::status::report::{Outcome, PEERS, event};
use crate::watch::owned_cache::{OwnedKind, OwnedObject, OwnedResources, is_controlled_by};
use crate::watch::watches::name_of;

impl OwnedResources {
    /// Creates a revision of the templates.
    ///
    /// # Errors
    /// When a write fails, or the lease is lost; it is retried.
    pub async fn ensure_revision(
        &self,
        wanted: ControllerRevision,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        self.revisions.ensure_one(wanted, application, key, ctx, outcome).await.map(drop)
    }

    /// Whether a revision exists, even if the watch has not delivered it yet.
    pub fn has_revision(&self, state: &ControllerRevision, application: &ActorApplication) -> bool {
        // Checked first: an object is removed from `pending` only after the store has it.
        self.revisions.is_pending(state) || self.revisions(application).knows(&state.name_any())
    }

    /// Creates missing resources and repairs changed ones; foreign objects of the same name are left alone. Returns whether
    /// starts should wait for the next reconcile. While the manifest is not applied, the peers file is kept if it names all
    /// `actors`, and its channels with it.
    ///
    /// # Errors
    /// When the lease is lost; other errors are kept and retried.
    pub async fn ensure(
        &self,
        (application, actors, is_applied): (&ActorApplication, &[ActorName], bool),
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
        failures: &mut Failures,
    ) -> Result<bool, Error> {
        failures.keep(self.ensure_service(application, key, ctx, outcome).await)?;
        let peers = self.ensure_peers((application, actors, is_applied), key, ctx, outcome).await;
        let has_failed = peers.is_err();
        failures.keep(peers)?;
        // A pod that starts without the file never gets it, so a first failure delays starts; a lasting one does not.
        let backoff_key = (key.clone(), format!("wait for {}", identity::peers_name(&key.name)));
        let waits = has_failed && !self.owns_peers_file(application) && ctx.backoff(&backoff_key).is_none();
        if waits {
            ctx.back_off(backoff_key, "it was waited for", None);
        }
        Ok(waits)
    }

    async fn ensure_service(
        &self,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let service = identity::service(application);
        let wanted = service.spec.clone().unwrap_or_default();
        let Some(there) = self.services.ensure_one(service, application, key, ctx, outcome).await? else {
            return Ok(());
        };
        if !identity::is_changed(there.spec.as_ref(), &wanted) {
            return Ok(());
        }
        let backoff_key = (key.clone(), format!("spec of {}", described(there.as_ref())));
        let (until, why) = match ctx.backoff(&backoff_key) {
            Some(held) => held,
            None => match ctx.writer.patch_service(&there, &wanted).await? {
                Ok(()) => return Ok(()),
                Err(refused) => {
                    (report_refusal(backoff_key, &refused, application, ctx).await, refused.message)
                }
            },
        };
        add_problem(outcome, until, BlockedOn::Backoff(why));
        Ok(())
    }

    async fn ensure_peers(
        &self,
        (application, actors, is_applied): (&ActorApplication, &[ActorName], bool),
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let peers = identity::peers(application, actors);
        let data = peers.data.clone().unwrap_or_default();
        let Some(there) = self.peers.ensure_one(peers, application, key, ctx, outcome).await? else {
            return Ok(());
        };
        let has = |(name, text): (&String, &String)| {
            there.data.as_ref().and_then(|data| data.get(name)) == Some(text)
        };
        if data.iter().all(has) || !is_applied && identity::names_all(&there, actors) {
            return Ok(());
        }
        let backoff_key = (key.clone(), format!("data of {}", described(there.as_ref())));
        let (until, why) = match ctx.backoff(&backoff_key) {
            Some(held) => held,
            None => match ctx.writer.patch_data(&there, &data).await? {
                Ok(()) => return Ok(()),
                Err(refused) => {
                    (report_refusal(backoff_key, &refused, application, ctx).await, refused.message)
                }
            },
        };
        add_problem(outcome, until, BlockedOn::Backoff(why));
        Ok(())
    }
}

impl OwnedResources {
    /// Whether the application owns its peers file. An unlabelled or missing ConfigMap is not observed and may be foreign.
    pub fn owns_peers_file(&self, application: &ActorApplication) -> bool {
        self.peers.is_own(&identity::peers(application, &[]), application)
    }
}

/// Whether an application of this name is the controller, including a deleted predecessor.
fn names_as_owner(object: &impl ResourceExt, application: &ActorApplication) -> bool {
    controller_ref(object, "ActorApplication").is_some_and(|owner| owner.name == application.name_any())
}

/// Whether an object belongs to the application, or will: a predecessor's object is deleted and replaced. An object just
/// created needs no lookup.
fn is_own(found: Option<&impl ResourceExt>, is_pending: bool, application: &ActorApplication) -> bool {
    found.map_or(is_pending, |found| names_as_owner(found, application))
}

/// Backoff reason of a foreign object under a required name.
const TAKEN: &str = "the name is taken";

fn described<K: OwnedObject>(object: &K) -> String {
    format!("{} {}", K::kind(&()), object.name_any())
}

impl<K: OwnedObject> OwnedKind<K> {
    /// Whether this operator created it and the watch has not delivered it yet.
    fn is_pending(&self, wanted: &K) -> bool {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).contains(&name_of(wanted))
    }

    /// Whether the object of this name belongs to the application.
    fn is_own(&self, wanted: &K, application: &ActorApplication) -> bool {
        // Checked first: an object is removed from `pending` only after the store has it.
        let is_pending = self.is_pending(wanted);
        is_own(self.store.get(&ObjectRef::from_obj(wanted)).as_deref(), is_pending, application)
    }

    /// The application's object of this name. A missing one is created; if the name is taken or admission refuses it, that is
    /// reported and retried with backoff.
    pub async fn ensure_one(
        &self,
        wanted: K,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<Option<Arc<K>>, Error> {
        if let Some(found) = self.store.get(&ObjectRef::from_obj(&wanted))
            && names_as_owner(found.as_ref(), application)
        {
            // A predecessor's object is deleted soon, which enqueues the application.
            return Ok(is_controlled_by(found.as_ref(), application).then_some(found));
        }
        if self.is_pending(&wanted) {
            return Ok(None);
        }
        let what = described(&wanted);
        let backoff_key = (key.clone(), what.clone());
        let (until, why) = match ctx.backoff(&backoff_key) {
            Some(held) => held,
            None => match ctx.writer.create(&wanted).await? {
                Ok(Created::New) => {
                    self.expect(&wanted);
                    return Ok(None);
                }
                Ok(Created::Existed) => match self.restore_label(&wanted, application, ctx).await? {
                    Some(Ok(())) => return Ok(None),
                    Some(Err(refused)) => {
                        (report_refusal(backoff_key, &refused, application, ctx).await, refused.message)
                    }
                    None => (ctx.back_off(backoff_key, TAKEN, None), TAKEN.to_owned()),
                },
                Err(refused) => {
                    (report_refusal(backoff_key, &refused, application, ctx).await, refused.message)
                }
            },
        };
        add_problem(
            outcome,
            until,
            if why == TAKEN { BlockedOn::NameConflict(what) } else { BlockedOn::Backoff(why) },
        );
        Ok(None)
    }
}

impl<K: OwnedObject> OwnedKind<K> {
    /// The watch will deliver this object.
    fn expect(&self, wanted: &K) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(name_of(wanted));
    }

    /// Labels an object of the application again whose label was removed: without it the watch does not deliver the object. `None`
    /// if the object of this name is not the application's.
    async fn restore_label(
        &self,
        wanted: &K,
        application: &ActorApplication,
        ctx: &Context,
    ) -> Result<Option<Result<(), NotAdmitted>>, Error> {
        let found = ctx.writer.find(wanted).await?;
        let Some(there) = found.filter(|there| is_controlled_by(there, application)) else { return Ok(None) };
        let written = ctx.writer.patch_labels(&there, wanted.labels()).await?;
        if written.is_ok() {
            self.expect(wanted);
        }
        Ok(Some(written))
    }
}

/// Reports a refused resource; returns until when it is backed off.
async fn report_refusal(
    backoff_key: BackoffKey,
    refused: &NotAdmitted,
    application: &ActorApplication,
    ctx: &Context,
) -> Moment {
    let until = ctx.back_off(backoff_key, &refused.message, None);
    ctx.emit_event(application, &event(EventType::Warning, "Refused", "Create", refused.message.clone()))
        .await;
    until
}

/// Records a missing resource, which does not block the actors.
fn add_problem(outcome: &mut Outcome, until: Moment, wait: BlockedOn) {
    outcome.requeue_at = Some(outcome.requeue_at.map_or(until, |at| at.min(until)));
    let wait = match (outcome.waiting.remove(PEERS), wait) {
        (Some(BlockedOn::Backoff(before)), BlockedOn::Backoff(why)) => {
            BlockedOn::Backoff(format!("{before}; {why}"))
        }
        // A foreign object must stay known, as it must not be mounted.
        (Some(taken @ BlockedOn::NameConflict(_)), BlockedOn::Backoff(_)) => taken,
        (_, wait) => wait,
    };
    outcome.waiting.insert(PEERS.to_owned(), wait);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn application() -> ActorApplication {
        let spec = serde_json::from_value(json!({"actors": []})).unwrap();
        let mut application = ActorApplication::new("web", spec);
        application.metadata.uid = Some("2".to_owned());
        application
    }

    #[test]
    fn only_an_owned_peers_file_is_mounted() {
        let owned = |name: &str, uid: &str| {
            json!([{"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "name": name, "uid": uid,
                "controller": true}])
        };
        for (owners, is_pending, expected) in [
            (None, false, false),
            (None, true, true),
            (Some(json!([])), false, false),
            (Some(json!([])), true, false),
            (Some(owned("web", "2")), false, true),
            // of a predecessor: it is deleted and replaced
            (Some(owned("web", "1")), false, true),
            (Some(owned("other", "3")), false, false),
        ] {
            let found = owners.clone().map(|owners| -> ConfigMap {
                let metadata = json!({"name": "web-peers", "ownerReferences": owners});
                serde_json::from_value(json!({"metadata": metadata})).unwrap()
            });
            assert_eq!(
                is_own(found.as_ref(), is_pending, &application()),
                expected,
                "{owners:?}, made: {is_pending}"
            );
        }
    }

    #[test]
    fn refusals_are_merged_and_a_name_conflict_takes_precedence() {
        let (refused, taken) = (
            |why: &str| BlockedOn::Backoff(why.to_owned()),
            |what: &str| BlockedOn::NameConflict(what.to_owned()),
        );
        for (waits, expected) in [
            (vec![refused("quota")], refused("quota")),
            (vec![refused("quota"), refused("policy")], refused("quota; policy")),
            (vec![taken("Service web"), refused("policy")], taken("Service web")),
            (vec![refused("quota"), taken("ConfigMap web-peers")], taken("ConfigMap web-peers")),
            (vec![taken("Service web"), taken("ConfigMap web-peers")], taken("ConfigMap web-peers")),
        ] {
            let mut outcome = Outcome::default();
            for (at, wait) in (1..).zip(waits.clone()) {
                add_problem(&mut outcome, Duration::from_secs(10 * at), wait);
            }
            assert_eq!(outcome.waiting.get(PEERS), Some(&expected), "{waits:?}");
            assert_eq!(outcome.requeue_at, Some(Duration::from_secs(10)), "the first that is tried again");
        }
    }
}
