//! What scheduler, admission or kubelet refused: facts for the next plan, which end.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Moment, Refusal, RefusalKey, RefusalScope};

/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 1000;
/// How many refusals are told.
const MOST: usize = 64;
/// So long the first one counts; each that follows counts twice as long.
const FIRST: Duration = Duration::from_secs(10);
/// Who goes so long without a refusal after one has ended begins anew.
const FORGIVEN: Duration = Duration::from_mins(10);

/// A pod that was not taken where it was to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPod {
    /// The actor.
    pub actor: String,
    /// The unit that it was to be on.
    pub unit: String,
    /// The node.
    pub node: String,
    /// What was said.
    pub reason: String,
}

/// The refusals of one application, and how often in a row each came.
///
/// One that comes while another about the same counts joins it. One that comes later counts twice as long as the one
/// before, from ten seconds on, until ten minutes passed without. Of a group that goes from node to node, what the nodes
/// before said counts again with each that refuses: each is asked once before one is asked again.
#[derive(Clone, Debug, Default)]
pub struct RefusalTracker {
    known: BTreeMap<RefusalKey, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    actor: String,
    reason: String,
    count: u32,
    /// How often in a row, not counting those that joined.
    times: u32,
    until: Moment,
}

impl Known {
    fn lasts(&self, longest: Duration) -> Duration {
        FIRST.saturating_mul(1 << self.times.saturating_sub(1).min(10)).min(longest)
    }
}

impl RefusalTracker {
    /// What was told before, where nothing newer is known of it: so one that starts anew goes on.
    pub fn restore(&mut self, told: Vec<Refusal>) {
        for Refusal { key: about, actor, reason, count, until } in told {
            self.known.entry(about).or_insert(Known { actor, reason, count, times: 1, until });
        }
    }

    /// It was refused at `now`: until when that counts, at most for the longest time.
    pub fn record(
        &mut self,
        about: &RefusalKey,
        actor: String,
        reason: &str,
        longest: Duration,
        now: Moment,
    ) -> Moment {
        self.known.retain(|_, known| now < known.until + FORGIVEN);
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        let fresh =
            Known { actor: String::new(), reason: String::new(), count: 0, times: 0, until: Moment::ZERO };
        let known = self.known.entry(about.clone()).or_insert(fresh);
        if known.until <= now {
            (known.count, known.times) = (0, known.times.saturating_add(1));
            known.until = now + known.lasts(longest);
        }
        (known.actor, known.reason, known.count) = (actor, reason, known.count.saturating_add(1));
        let until = known.until;
        if matches!(about.scope, RefusalScope::Node(_)) {
            let same = |other: &RefusalKey| {
                let is_like_it = (&other.group, &other.kind) == (&about.group, &about.kind);
                other != about && is_like_it && matches!(other.scope, RefusalScope::Node(_))
            };
            for (_, known) in self.known.iter_mut().filter(|(other, _)| same(other)) {
                known.until = known.until.max(now + known.lasts(longest));
            }
        }
        until
    }

    /// What counts at `now`, sorted: of too many those that count longest.
    pub fn active(&self, now: Moment) -> Vec<Refusal> {
        let told = |(about, known): (&RefusalKey, &Known)| Refusal {
            key: about.clone(),
            actor: known.actor.clone(),
            reason: known.reason.clone(),
            count: known.count,
            until: known.until,
        };
        let mut active: Vec<Refusal> =
            self.known.iter().filter(|(_, known)| known.until > now).map(told).collect();
        active.sort_by_key(|refusal| std::cmp::Reverse(refusal.until));
        active.truncate(MOST);
        active.sort();
        active
    }
}
