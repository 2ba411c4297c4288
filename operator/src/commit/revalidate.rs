//! What becomes of a plan in the newest world, in which it is committed: while others wait to commit nothing is searched or
//! mended, no program is written out and nobody is asked to judge.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::Verdict;
use crds::ActorApplication;
use placement::{Budget, Derived, Judge, Plan, PlanError, Snapshot};
use portfolio::Use;
use tokio::sync::Semaphore;
use world::{ApplicationKey, Policy, World};

use crate::commit::attempts::{Next, Shown, Tries};
use crate::commit::locks::Held;
use crate::error::Error;
use crate::plan::observe::{judge, judged, limits, newest, newest_at_once};
use crate::plan::searches::Manifest;
use crate::runtime::context::Context;

/// The strategy that places again what collided.
const QUICK: &str = "greedy";
/// So long a plan that collided waits for others to be mended, judged and committed before it. Each takes some tenths of a second; who
/// does not wait may be overtaken once more, and that is all.
const PATIENCE: Duration = Duration::from_secs(2);

/// A plan, and the world that it was made for.
pub struct Standing<'a> {
    pub planned: &'a Arc<World>,
    pub plan: Plan,
    /// Whether so much of it is kept as holds.
    pub settle: bool,
    /// Whether it was judged, so that what is made of it is judged before it is committed.
    pub is_judged: bool,
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

/// What has become of a plan that may be committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Becomes {
    Whole,
    Mended,
    Part,
}

impl Becomes {
    fn verdict(self, plan: Plan) -> Verdict {
        let of = match self {
            Self::Whole => Verdict::Stands,
            Self::Mended => Verdict::Mended,
            Self::Part => Verdict::Partly,
        };
        of(Box::new(plan))
    }
}

/// A world with what the policy derives of it.
struct Known {
    world: Arc<World>,
    snapshot: Arc<Snapshot>,
    derived: Derived,
}

impl Known {
    fn has_law_of(&self, other: &Self) -> bool {
        is_same_law((&self.derived, &self.snapshot), (&other.derived, &other.snapshot))
    }
}

/// Whether a policy says the same of two worlds, and of the same actors and units.
fn is_same_law((derived, snapshot): (&Derived, &Snapshot), (before, of): (&Derived, &Snapshot)) -> bool {
    let (here, there) = (snapshot.file(), of.file());
    let are_same_units =
        || here.units.iter().map(|unit| &unit.id).eq(there.units.iter().map(|unit| &unit.id));
    let are_same_actors =
        || here.actors.iter().map(|actor| &actor.id).eq(there.actors.iter().map(|actor| &actor.id));
    // Rules that depend on where actors are go by positions.
    derived == before && (derived.rules.is_none() || are_same_units() && are_same_actors())
}

/// A plan in the world that it was last made, mended or judged for.
struct At {
    known: Known,
    plan: Plan,
    becomes: Becomes,
    /// Whether clingo has judged it there.
    is_judged: bool,
}

/// What becomes of the plan in a newer world.
struct Looked {
    known: Known,
    verdict: Verdict,
    shown: Shown,
}

impl<'a> Standing<'a> {
    /// The newest world and what becomes of the plan in it, with the lock under which that may be committed; nothing
    /// where the world changes too fast.
    ///
    /// Under the lock the plan is checked, and nothing else; but where others commit faster than a policy's program can be written
    /// out, that too. What collided is placed again without it, and so is what was changed to fit another world judged; from then
    /// on that is the plan which is looked at, so that what others do meanwhile costs it a judgement only where it collides again. One
    /// that stands while the policy comes to say another thing is judged once more for that.
    ///
    /// # Errors
    /// When the manifest is another one by now, the world cannot be read, or who judges does not agree.
    pub async fn in_the_newest_world(&self) -> Result<Option<(Held<'a>, Arc<World>, Verdict)>, Error> {
        let known = self.known_first().await?;
        let mut at = At { known, plan: self.plan.clone(), becomes: Becomes::Whole, is_judged: true };
        let (mut tries, mut turn) = (Tries::new(self.is_judged), None);
        loop {
            let is_too_fast = tries.is_too_fast();
            let ahead = if is_too_fast { None } else { self.look_ahead(&at).await? };
            let lock = self.ctx.turns.commit.lock().await;
            let Some(Looked { known, verdict, shown }) = self.under_lock(&at, ahead, is_too_fast).await?
            else {
                tries.missed();
                continue;
            };
            let next = tries.next(shown);
            if next == Next::Commit {
                return Ok(Some(((lock, turn), known.world, verdict)));
            }
            drop(lock);
            let (plan, becomes) = match (next, verdict) {
                (Next::Wait, _) => {
                    turn = tokio::time::timeout(PATIENCE, self.ctx.turns.mend.lock()).await.ok();
                    continue;
                }
                (Next::Mend, _) => {
                    let Some(plan) = self.mended(&at, &known.snapshot).await? else {
                        // It is kept in part, or made again.
                        tries.cannot_mend();
                        continue;
                    };
                    (plan, Becomes::Mended)
                }
                (Next::Judge, Verdict::Stands(plan)) => (*plan, Becomes::Whole),
                (Next::Judge, Verdict::Mended(plan)) => (*plan, Becomes::Mended),
                (Next::Judge, Verdict::Partly(plan)) => (*plan, Becomes::Part),
                (Next::GiveUp | Next::Commit, _) | (Next::Judge, Verdict::Overtaken) => return Ok(None),
            };
            let plan = if self.is_judged { self.judged(&known, plan).await? } else { plan };
            at = At { known, plan, becomes, is_judged: self.is_judged };
        }
    }

    /// The world that was planned, with what was derived of it then.
    async fn known_first(&self) -> Result<Known, Error> {
        let (world, plan) = (self.planned.clone(), self.plan.clone());
        let task = tokio::task::spawn_blocking(move || {
            let snapshot = match plan.world(&world.snapshot) {
                Cow::Borrowed(_) => world.snapshot.clone(),
                Cow::Owned(snapshot) => Arc::new(snapshot),
            };
            Known { world, snapshot, derived: plan.derived }
        });
        task.await.map_err(|e| Error::Search(e.to_string()))
    }

    /// The plan with what clingo makes of it in this world.
    async fn judged(&self, known: &Known, plan: Plan) -> Result<Plan, Error> {
        // Whoever stands in the line of those who are mended stands in no other.
        let by = (judge(self.policy), &Semaphore::new(1));
        judged(self.key, (&known.world, &known.snapshot), plan, by, self.ctx).await
    }

    /// The plan with what collided placed again in this world; nothing where only a search can do that. It takes no longer than others
    /// wait for it.
    async fn mended(&self, at: &At, newest: &Arc<Snapshot>) -> Result<Option<Plan>, Error> {
        let quick = portfolio::strategy(QUICK, Use::Production).ok();
        let Some(quick) = quick.map(|entry| entry.make(limits(self.policy))) else { return Ok(None) };
        let (before, plan, newest) = (at.known.world.clone(), at.plan.clone(), newest.clone());
        let task = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let left = || PATIENCE.saturating_sub(begun.elapsed());
            let stop = || left().is_zero();
            let budget = Budget { effort: None, seed: plan.seed, stop: &stop, left: Some(&left) };
            let mut mended = control::mend(&before.snapshot, &plan, &newest, quick.as_ref(), &budget)?;
            mended.moves = explain::moves(&newest, &mended.assignment);
            Some(*mended)
        });
        task.await.map_err(|e| Error::Search(e.to_string()))
    }

    fn is_ruled(&self) -> bool {
        self.policy.rules().is_some()
    }

    /// What the policy's program derives of the world as it is now, before anybody has to wait for it.
    async fn look_ahead(&self, at: &At) -> Result<Option<Ahead>, Error> {
        if !self.is_ruled() {
            return Ok(None);
        }
        let world = newest(self.ctx, self.key, self.policy).await?;
        let digest = world.digest();
        if digest == at.known.world.digest() {
            return Ok(None);
        }
        Ok(Some(Ahead { digest, derived: self.derived(world).await? }))
    }

    /// What the policy's program derives of a world.
    async fn derived(&self, world: Arc<World>) -> Result<Derived, Error> {
        let of_policy = judge(self.policy);
        let derived = tokio::task::spawn_blocking(move || of_policy.derive(&world.snapshot)).await;
        Ok(derived.map_err(|e| Error::Search(e.to_string()))?.map_err(PlanError::from)?)
    }

    /// What becomes of the plan; nothing where the world is another one than was looked at ahead, unless it is written out
    /// `here` what the program derives of it.
    async fn under_lock(&self, at: &At, ahead: Option<Ahead>, here: bool) -> Result<Option<Looked>, Error> {
        let known = self.ctx.caches.applications.get(&crate::watch::caches::object_ref(self.key));
        if known.is_none_or(|known| Manifest::of(&known) != Manifest::of(self.application)) {
            return Err(Error::Overtaken);
        }
        // Whoever commits waits for nobody who looks.
        let world = newest_at_once(self.ctx, self.key, self.policy).await?;
        let digest = world.digest();
        let is_ruled = self.is_ruled();
        let At { known: before, plan, becomes, is_judged } = at;
        if digest == before.world.digest() {
            let known = Known { world, snapshot: before.snapshot.clone(), derived: before.derived.clone() };
            let verdict = becomes.verdict(plan.clone());
            let shown = if *is_judged { Shown::Judged } else { Shown::Unjudged };
            return Ok(Some(Looked { known, verdict, shown }));
        }
        let derived = match (is_ruled, ahead) {
            (false, _) => Derived::default(),
            (true, Some(ahead)) if ahead.digest == digest => ahead.derived,
            (true, _) if here => self.derived(world.clone()).await?,
            (true, _) => return Ok(None),
        };
        let (planned, newest) = (before.world.clone(), world.clone());
        let (of_before, settle) = (plan.clone(), self.settle || *becomes != Becomes::Whole);
        let task = tokio::task::spawn_blocking(move || -> Result<_, PlanError> {
            // What the policy derives may be another thing in the newest world.
            let snapshot = newest.snapshot.with_derived(derived.clone())?;
            let mut verdict = control::still_stands(&planned.snapshot, &of_before, &snapshot, settle);
            if let Verdict::Stands(plan) | Verdict::Mended(plan) | Verdict::Partly(plan) = &mut verdict {
                plan.moves = explain::moves(&snapshot, &plan.assignment);
            }
            Ok((verdict, Known { world: newest, snapshot: Arc::new(snapshot), derived }))
        });
        let (verdict, known) = task.await.map_err(|e| Error::Search(e.to_string()))??;
        let shown = match &verdict {
            Verdict::Overtaken => Shown::Lost,
            Verdict::Partly(_) => Shown::InPart,
            Verdict::Stands(_) if *is_judged && known.has_law_of(before) => Shown::Judged,
            Verdict::Stands(_) if *is_judged => Shown::UnderAnotherLaw,
            Verdict::Stands(_) | Verdict::Mended(_) => Shown::Unjudged,
        };
        let verdict = match verdict {
            Verdict::Stands(mut stands) => {
                if *is_judged {
                    // Who stands where it was judged to was judged there.
                    stands.judged = plan.judged;
                }
                becomes.verdict(*stands)
            }
            other => other,
        };
        Ok(Some(Looked { known, verdict, shown }))
    }
}

#[cfg(test)]
mod tests {
    use portfolio::{ClingoJudge, Limits};

    use super::*;

    #[test]
    fn a_law_is_another_where_it_says_another_thing_or_of_others() {
        let world = |unit: &str, capacity: u32, program: &str| {
            let text = format!(
                r#"{{"version":1,"units":[{{"id":"{unit}","kind":"cpu","node":"n","capacity":{capacity}}}],"exchangeCost":{{"otherKind":1}},
                "actors":[{{"id":"shop/app/a-0","runsOn":{{"cpu":1}}}}],"policy":{{"name":"p","program":"{program}"}}}}"#
            );
            let snapshot = Snapshot::read(&text).unwrap();
            let derived = ClingoJudge::new(Limits::default(), 2_000).derive(&snapshot).unwrap();
            (derived, snapshot)
        };
        let rule = ":~ run_on(A,_). [1,A]";
        let (derived, snapshot) = world("u", 9, rule);
        let is_same =
            |(others, other): &(Derived, Snapshot)| is_same_law((others, other), (&derived, &snapshot));
        assert!(is_same(&world("u", 8, rule)), "a capacity that no rule reads");
        assert!(!is_same(&world("u", 9, ":~ run_on(A,_). [2,A]")));
        assert!(!is_same(&world("v", 9, rule)), "the first unit is another one");
        let (nothing, of_this) = world("u", 9, "");
        let (still_nothing, of_that) = world("v", 9, "");
        assert!(is_same_law((&nothing, &of_this), (&still_nothing, &of_that)), "there is no law");
    }
}
