//! What scheduler, admission or kubelet refused: facts for the next plan, which end.

use crate::nouns::{Moment, Refusal};

/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 1000;

/// How many refusals are kept.
const MOST: usize = 1000;

/// What was not taken just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The actor.
    pub actor: String,
    /// The node.
    pub node: String,
    /// What was said.
    pub reason: String,
}

/// Refusals that still count at `now`.
pub fn active(refusals: Vec<Refusal>, now: Moment) -> Vec<Refusal> {
    refusals.into_iter().filter(|refusal| refusal.until > now).collect()
}

/// What is kept when more is refused: one refusal per actor and node, the newest, until `until`; sorted.
pub fn remember(mut refusals: Vec<Refusal>, refused: Vec<Refused>, until: Moment) -> Vec<Refusal> {
    for Refused { actor, node, reason } in refused {
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        refusals.retain(|old| !(old.actor == actor && old.node == node));
        refusals.push(Refusal { actor, node, reason, until });
    }
    if refusals.len() > MOST {
        // Those that count longest.
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.until));
        refusals.truncate(MOST);
    }
    refusals.sort();
    refusals
}
