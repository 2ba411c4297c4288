//! How far the newest templates are, and which one the next pod is made from.

use control::{Id, Moment};
use crds::{ActorApplication, Placement};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use world::{ActorName, ApplicationKey, Own, Unit, is_ready, object_name, unit_of};

use crate::apply::instance_pods::delete;
use crate::apply::pods;
use crate::apply::revisions::{Hashes, Revisions, newest};
use crate::error::Error;
use crate::runtime::context::Context;
use crate::status::readiness::not_ready_reason;
use crate::status::report::{Outcome, Progress, event};

/// How far an application's templates are.
pub struct Rollout {
    revisions: Revisions,
    hashes: Hashes,
    /// The name of the newest state.
    newest: String,
    /// The last state whose pods were all ready.
    current: Option<String>,
}

impl Rollout {
    /// How far it is, from what is kept and from what was said last.
    pub fn of(application: &ActorApplication, ctx: &Context) -> Self {
        // What was said last, which may be newer than the manifest at hand.
        let known = ctx.caches.application(&ApplicationKey::of(application));
        let known = known.filter(|known| known.uid() == application.uid());
        let status = known.as_deref().unwrap_or(application).status.as_ref();
        let said = status.and_then(|status| status.revision.clone()).unwrap_or_default();
        let revisions = ctx.owned_resources.revisions(application);
        Self {
            hashes: Hashes::of(application, &revisions),
            revisions,
            newest: newest(application).name_any(),
            current: said.current,
        }
    }

    /// Whether the newest state may be given to pods.
    pub fn is_accepted(&self) -> bool {
        self.revisions.knows(&self.newest)
    }

    /// The manifest that an actor starts from which has to wait for its turn.
    pub fn last_good(&self, application: &ActorApplication) -> ActorApplication {
        // Where none has served in whole yet, the last one that the API server has taken.
        let kept = self.revisions.0.last().map(|revision| revision.name_any());
        self.revisions.with_templates_of(self.current.as_deref().or(kept.as_deref()), application)
    }

    /// Whether the pod of an actor is of an older template.
    pub fn is_outdated(&self, actor: &ActorName, pod: &Pod, kind: &str) -> bool {
        self.hashes.is_outdated(pod, &actor.group, kind)
    }

    /// Keeps the newest state, once the API server would take its pods, and forgets old ones.
    ///
    /// Of the first state too each template is tried, so that what is wrong with one is said before a pod of it is wanted; others
    /// start meanwhile, on kinds whose templates are taken.
    ///
    /// # Errors
    /// When something could not be written, or the lease is lost; it is tried again.
    pub async fn sync_revisions(
        &self,
        (application, actors): (&ActorApplication, &[ActorName]),
        key: &ApplicationKey,
        ctx: &Context,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        if self.is_accepted() {
            let in_use: Vec<&str> =
                std::iter::once(&self.newest).chain(&self.current).map(String::as_str).collect();
            for old in self.revisions.surplus(&in_use) {
                let uid = old.uid().unwrap_or_default();
                let id = Id { name: old.name_any(), uid, version: None };
                // One that may not go is one too many, and nobody waits for that.
                delete::<ControllerRevision>(ctx, key, id.name.clone(), &id, false).await?;
            }
            return Ok(());
        }
        // A look of a moment ago tried and kept it: when this one began, the watch had not brought it.
        if ctx.owned_resources.has_revision(&newest(application), application) {
            return Ok(());
        }
        let backoff_key = (key.clone(), format!("templates {}", self.newest));
        if let Some((until, why)) = ctx.backoff(&backoff_key) {
            refused(outcome, until, why);
            return Ok(());
        }
        if let Some(why) = self.problem(application, actors, ctx).await? {
            let until = ctx.back_off(backoff_key, &why, None);
            ctx.emit_event(application, &event(EventType::Warning, "TemplateInvalid", "Update", why.clone()))
                .await;
            refused(outcome, until, why);
            return Ok(());
        }
        ctx.owned_resources.ensure_revision(newest(application), application, key, ctx, outcome).await
    }

    /// What the API server says against pods of the templates that are new, in words.
    async fn problem(
        &self,
        application: &ActorApplication,
        actors: &[ActorName],
        ctx: &Context,
    ) -> Result<Option<String>, Error> {
        for (group, kind) in self.revisions.unknown(application) {
            let Some(actor) = actors.iter().find(|actor| actor.group == group) else { continue };
            let Some(pod) = pods::trial(application, actor, &kind) else { continue };
            if let Err(why) = ctx.writer.dry_run_pod(&pod).await? {
                return Ok(Some(format!("the template of {group} for {kind}: {why}")));
            }
        }
        Ok(None)
    }

    /// How far it is now.
    pub fn progress(
        &self,
        actors: &[ActorName],
        own: &Own,
        decision: Option<&Placement>,
        units: &dyn Fn(&str) -> Option<Unit>,
    ) -> Progress {
        let places = decision.map_or(0, |decision| decision.spec.assignments.len());
        let (mut ready, mut updated, mut good, mut not_ready) = (0, 0, 0, None);
        for actor in actors {
            let Some((_, Some(pod))) = own.get(&object_name(actor)) else { continue };
            let kind = unit_of(pod).and_then(units).map(|unit| unit.kind).unwrap_or_default();
            let is_new = pod.metadata.deletion_timestamp.is_none() && !self.is_outdated(actor, pod, &kind);
            ready += usize::from(is_ready(pod));
            updated += usize::from(is_new);
            good += usize::from(is_new && is_ready(pod));
            not_ready = not_ready.or_else(|| Some((actor.short(), not_ready_reason(pod)?)));
        }
        let update = self.is_accepted().then(|| self.newest.clone());
        let all_good = places > 0 && good == places;
        let current = if all_good { update.clone() } else { None }.or_else(|| self.current.clone());
        Progress { ready, updated, not_ready, revisions: crds::Revisions { current, update } }
    }
}

fn refused(outcome: &mut Outcome, until: Moment, why: String) {
    outcome.requeue_at = Some(outcome.requeue_at.map_or(until, |at| at.min(until)));
    outcome.template_problem = Some(why);
}
