//! What becomes of a plan in the newest world, in which it is committed: nothing is searched and no program is written out
//! while others wait to commit.

use std::sync::Arc;

use control::Verdict;
use crds::ActorApplication;
use placement::{Derived, Judge, Plan, PlanError};
use portfolio::Use;
use tokio::sync::MutexGuard;
use world::{ApplicationKey, Policy, World};

use crate::context::Context;
use crate::error::Error;
use crate::look::{judge, limits, observe};

/// The strategy that places again what collided.
const QUICK: &str = "greedy";
/// So often it is worked out anew what a program derives of a world that changed meanwhile.
const LOOKS: u32 = 5;

/// A plan, and the world that it was made for.
pub struct Standing<'a> {
    pub planned: &'a Arc<World>,
    pub plan: Plan,
    /// Whether so much of it is kept as holds.
    pub settle: bool,
    pub key: &'a ApplicationKey,
    pub policy: &'a Policy,
    pub application: &'a ActorApplication,
    pub ctx: &'a Context,
}

/// What the policy derives of the world of this digest.
struct Ahead {
    digest: String,
    derived: Derived,
}

impl<'a> Standing<'a> {
    /// The newest world and what becomes of the plan in it, with the lock under which that may be committed; nothing
    /// where the world changed faster than the policy's program could be written out.
    ///
    /// # Errors
    /// When the manifest is another one by now, or the world cannot be read.
    pub async fn in_the_newest_world(
        &self,
    ) -> Result<Option<(MutexGuard<'a, ()>, Arc<World>, Verdict)>, Error> {
        for _ in 0..LOOKS {
            let ahead = self.look_ahead().await?;
            let lock = self.ctx.commit.lock().await;
            if let Some((world, verdict)) = self.under_lock(ahead).await? {
                return Ok(Some((lock, world, verdict)));
            }
        }
        Ok(None)
    }

    async fn world(&self) -> Result<Arc<World>, Error> {
        let (world, _) = observe(self.ctx, self.application, self.key, self.policy, None).await?;
        Ok(world)
    }

    /// What the policy's program derives of the world as it is now, before anybody has to wait for it.
    async fn look_ahead(&self) -> Result<Option<Ahead>, Error> {
        if self.policy.rules().is_none() {
            return Ok(None);
        }
        let world = self.world().await?;
        let digest = world.digest();
        if digest == self.planned.digest() {
            return Ok(None);
        }
        let of_policy = judge(self.policy);
        let derived = tokio::task::spawn_blocking(move || of_policy.derive(&world.snapshot)).await;
        let derived = derived.map_err(|e| Error::Search(e.to_string()))?.map_err(PlanError::from)?;
        Ok(Some(Ahead { digest, derived }))
    }

    /// What becomes of the plan; nothing where the world is another one than was looked at ahead.
    async fn under_lock(&self, ahead: Option<Ahead>) -> Result<Option<(Arc<World>, Verdict)>, Error> {
        let newest = self.ctx.caches.applications.get(&crate::caches::object_ref(self.key));
        if newest.is_none_or(|newest| newest.metadata.generation != self.application.metadata.generation) {
            return Err(Error::Overtaken);
        }
        let world = self.world().await?;
        let digest = world.digest();
        if digest == self.planned.digest() {
            return Ok(Some((world, Verdict::Stands(Box::new(self.plan.clone())))));
        }
        let derived = match (self.policy.rules().is_some(), ahead) {
            (false, _) => Derived::default(),
            (true, Some(ahead)) if ahead.digest == digest => ahead.derived,
            (true, _) => return Ok(None),
        };
        // Where a program has a say, the plan is made again.
        let is_ruled = self.policy.rules().is_some();
        let quick = if is_ruled { None } else { portfolio::strategy(QUICK, Use::Production).ok() };
        let quick = quick.map(|entry| entry.make(limits(self.policy)));
        let (before, newest) = (self.planned.clone(), world.clone());
        let (plan, settle) = (self.plan.clone(), self.settle);
        let task = tokio::task::spawn_blocking(move || -> Result<_, PlanError> {
            // What the policy derives may be another thing in the newest world.
            let snapshot = newest.snapshot.with_derived(derived)?;
            let mut verdict = control::still_stands(&before.snapshot, &plan, &snapshot, settle);
            if let (Verdict::Overtaken | Verdict::Partly(_), Some(quick)) = (&verdict, &quick)
                && let Some(mended) = control::mend(&before.snapshot, &plan, &snapshot, quick.as_ref())
            {
                verdict = Verdict::Mended(mended);
            }
            if let Verdict::Stands(plan) | Verdict::Mended(plan) | Verdict::Partly(plan) = &mut verdict {
                plan.moves = explain::moves(&snapshot, &plan.assignment);
            }
            Ok(verdict)
        });
        let verdict = task.await.map_err(|e| Error::Search(e.to_string()))??;
        Ok(Some((world, verdict)))
    }
}
