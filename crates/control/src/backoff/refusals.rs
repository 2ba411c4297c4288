//! Refusals by the scheduler, admission or a kubelet: facts for the next plan, with an expiry and a cause.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Moment, Refusal, RefusalKey, RefusalScope};

/// Maximum length of a reason, in characters.
pub const MAX_REASON_CHARS: usize = 1000;
/// Maximum number of reported refusals.
const MAX_REFUSALS: usize = 64;
/// Duration of the first refusal; it doubles with each further one.
const INITIAL_DURATION: Duration = Duration::from_secs(10);
/// Time without a refusal after which the duration resets.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// A pod that was refused where it should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPod {
    /// The actor.
    pub actor: String,
    /// The unit.
    pub unit: String,
    /// The node.
    pub node: String,
    /// Message of the component that refused.
    pub reason: String,
}

/// Refusals of one application.
///
/// A refusal joins an active one with the same key. A later one lasts twice as long, until ten minutes pass without
/// one. While a group is refused on one node after another, refusals of the earlier nodes are extended: every node is
/// tried once before any is tried again. A refusal with a cause is kept after its expiry while the cause is unchanged.
#[derive(Clone, Debug, Default)]
pub struct RefusalTracker {
    by_key: BTreeMap<RefusalKey, TrackedRefusal>,
}

#[derive(Clone, Debug)]
struct TrackedRefusal {
    actor: String,
    reason: String,
    count: u32,
    /// Consecutive refusals, not counting those that joined.
    streak: u32,
    until: Moment,
    cause: Option<String>,
}

impl TrackedRefusal {
    fn duration(&self, longest: Duration) -> Duration {
        INITIAL_DURATION.saturating_mul(1 << self.streak.saturating_sub(1).min(10)).min(longest)
    }
}

impl RefusalTracker {
    /// Restores recorded refusals after a restart, unless newer ones are known. They expire after at most `longest`, also if the
    /// clock was set back since.
    pub fn restore(&mut self, refusals: Vec<Refusal>, longest: Duration, now: Moment) {
        for Refusal { key: about, actor, reason, count, until, cause } in refusals {
            let until = until.min(now + longest);
            let known = TrackedRefusal { actor, reason, count, streak: 1, until, cause };
            self.by_key.entry(about).or_insert(known);
        }
    }

    /// Records a refusal at `now` and returns its expiry, after at most `longest`.
    pub fn record(
        &mut self,
        about: &RefusalKey,
        (actor, reason, cause): (String, &str, Option<String>),
        longest: Duration,
        now: Moment,
    ) -> Moment {
        self.by_key.retain(|_, known| now < known.until + RESET_AFTER);
        let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();
        let fresh = TrackedRefusal {
            actor: String::new(),
            reason: String::new(),
            count: 0,
            streak: 0,
            until: Moment::ZERO,
            cause: None,
        };
        let known = self.by_key.entry(about.clone()).or_insert(fresh);
        if known.until <= now {
            (known.count, known.streak) = (0, known.streak.saturating_add(1));
            known.until = now + known.duration(longest);
        }
        (known.actor, known.reason, known.cause) = (actor, reason, cause);
        known.count = known.count.saturating_add(1);
        let until = known.until;
        if matches!(about.scope, RefusalScope::Node(_)) {
            let same = |other: &RefusalKey| {
                let is_like_it = (&other.group, &other.kind) == (&about.group, &about.kind);
                other != about && is_like_it && matches!(other.scope, RefusalScope::Node(_))
            };
            for (_, known) in self.by_key.iter_mut().filter(|(other, _)| same(other)) {
                known.until = known.until.max(now + known.duration(longest));
            }
        }
        until
    }

    /// Refusals before their expiry, or whose cause `is_unchanged`, sorted; if there are too many, those that last longest.
    pub fn active(&self, now: Moment, is_unchanged: impl Fn(&Refusal) -> bool) -> Vec<Refusal> {
        let refusal = |(about, known): (&RefusalKey, &TrackedRefusal)| Refusal {
            key: about.clone(),
            actor: known.actor.clone(),
            reason: known.reason.clone(),
            count: known.count,
            until: known.until,
            cause: known.cause.clone(),
        };
        let is_active = |it: &Refusal| it.until > now || it.cause.is_some() && is_unchanged(it);
        let mut active: Vec<Refusal> = self.by_key.iter().map(refusal).filter(is_active).collect();
        active.sort_by_key(|refusal| std::cmp::Reverse(refusal.until));
        active.truncate(MAX_REFUSALS);
        active.sort();
        active
    }
}
