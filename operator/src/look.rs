//! One application's world as it is now, and what its policy says of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use control::Decision;
use crds::{ActorApplication, Placement};
use jiff::Timestamp;
use portfolio::{ClingoJudge, Limits};
use world::{ApplicationKey, Index, Policy, World};

use crate::context::Context;
use crate::error::Error;

/// The kinds that an application's actors can run on.
pub fn kinds(application: &ActorApplication) -> BTreeSet<&str> {
    let implementations = application.spec.actors.iter().flat_map(|group| &group.implementations);
    implementations.map(|implementation| implementation.kind.as_str()).collect()
}

/// The actors whose decided place may not be taken now, whoever wrote the decision.
pub fn infeasible(
    index: &Index,
    application: &ActorApplication,
    world: &World,
    decision: Option<&Decision>,
) -> BTreeSet<String> {
    let Some(decision) = decision else { return BTreeSet::new() };
    control::infeasible(&world.snapshot, decision, &world::seen(index, application, &world.units))
}

/// What is to be known of a world before it is planned.
pub struct Look {
    pub facts: control::Considered,
    pub infeasible: BTreeSet<String>,
}

/// The world of an application as it is now, off the executor.
pub async fn observe(
    ctx: &Context,
    application: &ActorApplication,
    key: &ApplicationKey,
    policy: &Policy,
    decision: Option<&Placement>,
) -> Result<(Arc<World>, Look), Error> {
    let (caches, application, key) = (ctx.caches.clone(), application.clone(), key.clone());
    let (policy, decision, span) = (policy.clone(), decision.map(world::decision), tracing::Span::current());
    let look = move || {
        let index = caches.index();
        let world = world::snapshot(&index, &key, &policy, Timestamp::now())?;
        let infeasible = infeasible(&index, &application, &world, decision.as_ref());
        drop(index);
        // Where what is decided cannot be, the world is as it is observed: it looks as if nothing had changed.
        let mut digest = world.digest();
        for actor in &infeasible {
            digest.extend([" ", actor]);
        }
        let facts = control::Considered {
            demand: world.demand(),
            digest,
            strain: control::strain(&world.snapshot, &world.snapshot.incumbent()),
            openings: control::openings(&world.snapshot),
            ..control::Considered::default()
        };
        Ok((Arc::new(world), Look { facts, infeasible }))
    };
    let task = tokio::task::spawn_blocking(move || span.in_scope(look));
    task.await.map_err(|e| Error::Search(e.to_string()))?
}

/// CPU seconds that a solver may burn beyond its wall clock.
const CPU_GRACE: u64 = 5;

/// Who judges by the policy's program.
pub fn judge(policy: &Policy) -> ClingoJudge {
    ClingoJudge::new(limits(policy), policy.wall_milliseconds)
}

/// What a solver may use.
pub fn limits(policy: &Policy) -> Limits {
    Limits { memory_mib: policy.memory_mib, cpu_seconds: policy.wall_milliseconds.div_ceil(1000) + CPU_GRACE }
}
