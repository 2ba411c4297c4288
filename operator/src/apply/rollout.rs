//! The rollout of new templates: its progress, and which template the next pod uses.

use control::{Moment, ObjectId};
use crds::{ActorApplication, Placement};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use world::{ActorName, ApplicationKey, OwnedObjects, Unit, is_ready, object_name, unit_of};

use crate::apply::owned::revisions::{Hashes, Revisions, newest};
use crate::apply::pods::lifecycle::delete;
use crate::apply::pods::manifest;
use crate::error::Error;
use crate::runtime::context::Context;
use crate::status::readiness::not_ready_reason;
use crate::status::report::{Outcome, Progress, event};

/// State of a rollout.
pub struct Rollout {
    revisions: Revisions,
    hashes: Hashes,
    /// Name of the newest revision.
    newest: String,
    /// The last revision whose pods were all ready.
    current: Option<String>,
}

impl Rollout {
    /// Reads it from revisions and status.
    pub fn of(application: &ActorApplication, ctx: &Context) -> Self {
        // The cached status may be newer than the manifest.
        let known = ctx.caches.application(&ApplicationKey::of(application));
        let known = known.filter(|known| known.uid() == application.uid());
        let status = known.as_deref().unwrap_or(application).status.as_ref();
        let reported = status.and_then(|status| status.revision.clone()).unwrap_or_default();
        let revisions = ctx.owned_resources.revisions(application);
        Self {
            hashes: Hashes::of(application, &revisions),
            revisions,
            newest: newest(application).name_any(),
            current: reported.current,
        }
    }

    /// Whether the newest revision was accepted by the API server.
    pub fn is_accepted(&self) -> bool {
        self.revisions.knows(&self.newest)
    }

    /// The manifest with the last good templates, for actors that restart before their update.
    pub fn last_good(&self, application: &ActorApplication) -> ActorApplication {
        // If none was ready as a whole yet, the last accepted revision.
        let kept = self.revisions.0.last().map(|revision| revision.name_any());
        self.revisions.with_templates_of(self.current.as_deref().or(kept.as_deref()), application)
    }

    /// Whether the pod of an actor has an older template.
    pub fn is_outdated(&self, actor: &ActorName, pod: &Pod, kind: &str) -> bool {
        self.hashes.is_outdated(pod, &actor.group, kind)
    }

    /// Creates the newest revision once a dry run accepts its pods, and deletes surplus ones.
    ///
    /// The first revision is tried, too, so that an invalid template is reported before a pod needs it; actors with accepted
    /// templates start meanwhile.
    ///
    /// # Errors
    /// When a write fails, or the lease is lost; it is retried.
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
                let id = ObjectId { name: old.name_any(), uid, resource_version: None };
                // A revision that cannot be deleted is merely surplus.
                delete::<ControllerRevision>(ctx, key, id.name.clone(), &id, false).await?;
            }
            return Ok(());
        }
        // A recent reconcile created it, and the watch has not delivered it yet.
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

    /// The API server's objections to pods of new templates.
    async fn problem(
        &self,
        application: &ActorApplication,
        actors: &[ActorName],
        ctx: &Context,
    ) -> Result<Option<String>, Error> {
        for (group, kind) in self.revisions.unknown(application) {
            let Some(actor) = actors.iter().find(|actor| actor.group == group) else { continue };
            let Some(pod) = manifest::trial(application, actor, &kind) else { continue };
            if let Err(why) = ctx.writer.dry_run_pod(&pod).await? {
                return Ok(Some(format!("the template of {group} for {kind}: {why}")));
            }
        }
        Ok(None)
    }

    /// The progress of the rollout.
    pub fn progress(
        &self,
        actors: &[ActorName],
        own: &OwnedObjects,
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
