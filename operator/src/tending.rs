//! What an application has beside its actors is made, and put right.

use std::sync::{Arc, PoisonError};

use control::Wait;
use crds::ActorApplication;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use world::{ActorName, ApplicationKey, controller};

use crate::context::Context;
use crate::error::Error;
use crate::identity;
use crate::neighbours::{Beside, Neighbours, Of, is_of};
use crate::report::Outcome;
use crate::writes::Created;

impl Neighbours {
    /// Keeps a state of the templates.
    ///
    /// # Errors
    /// When something could not be written, or the lease is lost; it is tried again.
    pub async fn keep_revision(
        &self,
        wanted: ControllerRevision,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        self.revisions.there(wanted, application, key, ctx, outcome).await.map(drop)
    }

    /// Makes what is missing and puts right what changed; another's object under a name that is needed is left alone.
    ///
    /// # Errors
    /// When something could not be written, or the lease is lost; it is tried again.
    pub async fn keep(
        &self,
        (application, actors): (&ActorApplication, &[ActorName]),
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        self.services.there(identity::service(application), application, key, ctx, outcome).await?;
        let peers = identity::peers(application, actors);
        let data = peers.data.clone().unwrap_or_default();
        let Some(there) = self.peers.there(peers, application, key, ctx, outcome).await? else {
            return Ok(());
        };
        let has = |(name, text): (&String, &String)| {
            there.data.as_ref().and_then(|data| data.get(name)) == Some(text)
        };
        if data.iter().all(has) { Ok(()) } else { ctx.writer.patch_data(&there, &data).await }
    }
}

impl Neighbours {
    /// Whether the peers file of the application's name is its own, or will be: not where somebody else has the name.
    pub fn may_be_mounted(&self, application: &ActorApplication, outcome: &Outcome) -> bool {
        let wanted = identity::peers(application, &[]);
        let found = self.peers.there.get(&ObjectRef::from_obj(&wanted));
        let is_anothers = found.is_some_and(|found| {
            controller(found.as_ref(), "ActorApplication")
                .is_some_and(|owner| owner.name != application.name_any())
        });
        let what = described(&wanted);
        !is_anothers && !matches!(outcome.waiting.get(PEERS), Some(Wait::Name(taken)) if *taken == what)
    }
}

/// Under which what lacks beside the actors is told among those who wait; no actor is called so.
const PEERS: &str = "peers";

fn described<K: Beside>(object: &K) -> String {
    format!("{} {}", K::kind(&()), object.name_any())
}

impl<K: Beside> Of<K> {
    /// The application's own object of this name. Where there is none it is made, or, where somebody else has the name,
    /// that is said, and tried again after growing waits.
    pub async fn there(
        &self,
        wanted: K,
        application: &ActorApplication,
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<Option<Arc<K>>, Error> {
        if let Some(found) = self.there.get(&ObjectRef::from_obj(&wanted))
            && controller(found.as_ref(), "ActorApplication")
                .is_some_and(|owner| owner.name == application.name_any())
        {
            // One that is left of an application of this name before goes, and rings.
            return Ok(is_of(found.as_ref(), application).then_some(found));
        }
        let name = (key.namespace.clone(), wanted.name_any());
        if self.made.lock().unwrap_or_else(PoisonError::into_inner).contains(&name) {
            return Ok(None);
        }
        let what = described(&wanted);
        let tried = (key.clone(), what.clone());
        let until = match ctx.held_back(&tried) {
            Some((until, _)) => until,
            None if ctx.writer.create(&wanted).await? == Created::New => {
                self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                return Ok(None);
            }
            None => ctx.hold_back(tried, "its name is taken", false),
        };
        outcome.next = Some(outcome.next.map_or(until, |next| next.min(until)));
        outcome.waiting.insert(PEERS.to_owned(), Wait::Name(what));
        Ok(None)
    }
}
