//! What an application has beside its actors is made, and put right.

use std::sync::{Arc, PoisonError};

use control::{Moment, Wait};
use crds::ActorApplication;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use world::{ActorName, ApplicationKey, controller};

use crate::context::{Context, Tried};
use crate::error::Error;
use crate::identity;
use crate::neighbours::{Beside, Neighbours, Of, is_of};
use crate::report::{Outcome, PEERS, event};
use crate::writes::{Created, NotAdmitted};

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
        if data.iter().all(has) {
            return Ok(());
        }
        let tried = (key.clone(), format!("data of {}", described(there.as_ref())));
        let (until, why) = match ctx.held_back(&tried) {
            Some(held) => held,
            None => match ctx.writer.patch_data(&there, &data).await? {
                Ok(()) => return Ok(()),
                Err(refused) => (refuse(tried, &refused, application, ctx).await, refused.says),
            },
        };
        lacks(outcome, until, Wait::BackOff(why));
        Ok(())
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

/// Why what is there under a name that is needed is left alone.
const TAKEN: &str = "its name is taken";

fn described<K: Beside>(object: &K) -> String {
    format!("{} {}", K::kind(&()), object.name_any())
}

impl<K: Beside> Of<K> {
    /// The application's own object of this name. Where there is none it is made, or, where somebody else has the name or it is
    /// not taken, that is said, and tried again after growing waits.
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
        let (until, why) = match ctx.held_back(&tried) {
            Some(held) => held,
            None => match ctx.writer.create(&wanted).await? {
                Ok(Created::New) => {
                    self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                    return Ok(None);
                }
                Ok(Created::Existed) => (ctx.hold_back(tried, TAKEN, None), TAKEN.to_owned()),
                Err(refused) => (refuse(tried, &refused, application, ctx).await, refused.says),
            },
        };
        lacks(outcome, until, if why == TAKEN { Wait::Name(what) } else { Wait::BackOff(why) });
        Ok(None)
    }
}

/// Says that something beside the actors is not taken; until when it is not tried again.
async fn refuse(
    tried: Tried,
    refused: &NotAdmitted,
    application: &ActorApplication,
    ctx: &Context,
) -> Moment {
    let until = ctx.hold_back(tried, &refused.says, None);
    ctx.tell(application, &event(EventType::Warning, "Refused", "Create", refused.says.clone())).await;
    until
}

/// What lacks beside the actors holds up none of them: it is told, and tried again.
fn lacks(outcome: &mut Outcome, until: Moment, wait: Wait) {
    outcome.next = Some(outcome.next.map_or(until, |next| next.min(until)));
    let wait = match (outcome.waiting.remove(PEERS), wait) {
        (Some(Wait::BackOff(before)), Wait::BackOff(why)) => Wait::BackOff(format!("{before}; {why}")),
        // What is somebody else's has to be known: it is not mounted.
        (Some(taken @ Wait::Name(_)), Wait::BackOff(_)) => taken,
        (_, wait) => wait,
    };
    outcome.waiting.insert(PEERS.to_owned(), wait);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_refused_is_told_together_and_whose_name_is_taken_stays_known() {
        let (refused, taken) =
            (|why: &str| Wait::BackOff(why.to_owned()), |what: &str| Wait::Name(what.to_owned()));
        for (waits, expected) in [
            (vec![refused("quota")], refused("quota")),
            (vec![refused("quota"), refused("policy")], refused("quota; policy")),
            (vec![taken("Service web"), refused("policy")], taken("Service web")),
            (vec![refused("quota"), taken("ConfigMap web-peers")], taken("ConfigMap web-peers")),
            (vec![taken("Service web"), taken("ConfigMap web-peers")], taken("ConfigMap web-peers")),
        ] {
            let mut outcome = Outcome::default();
            for (at, wait) in (1..).zip(waits.clone()) {
                lacks(&mut outcome, Duration::from_secs(10 * at), wait);
            }
            assert_eq!(outcome.waiting.get(PEERS), Some(&expected), "{waits:?}");
            assert_eq!(outcome.next, Some(Duration::from_secs(10)), "the first that is tried again");
        }
    }
}
