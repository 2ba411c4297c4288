//! The searches of all applications, and what each was begun with.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use control::{Due, SecondLook};
use placement::Plan;
use world::{ApplicationKey, Note, Policy, World};

use crate::error::Error;

/// The state of the world that an application was last planned for.
#[derive(Clone, Debug, Default)]
pub struct Considered {
    pub generation: Option<i64>,
    pub facts: control::Considered,
    /// Actors whose decided place may not be taken.
    pub infeasible: BTreeSet<String>,
    pub notes: Vec<Note>,
    pub proposed: Option<String>,
}

impl Considered {
    /// What is known of an application that is looked at when its turn to search has come.
    pub fn unseen(self, generation: Option<i64>, (chances, turn): (u64, bool)) -> Self {
        let facts = control::Considered {
            generation: generation.unwrap_or(0),
            chances,
            turn,
            second_look: self.facts.second_look,
            ..control::Considered::default()
        };
        Self { generation, facts, ..self }
    }
}

/// What a search found.
pub struct Found {
    pub why: Due,
    pub policy: Policy,
    pub look: Considered,
    pub again: Option<SecondLook>,
    pub round: u32,
    /// The plan, and the world that it was made for.
    pub plan: Result<(Arc<World>, Plan), Error>,
}

impl Found {
    /// The same once more, where a plan was found.
    pub fn kept(&self) -> Option<Self> {
        let plan = Ok(self.plan.as_ref().ok()?.clone());
        let (policy, look) = (self.policy.clone(), self.look.clone());
        Some(Self { why: self.why, policy, look, again: self.again, round: self.round, plan })
    }
}

/// A search for one application.
#[derive(Default)]
pub enum Search {
    /// There is none.
    #[default]
    None,
    /// It is under way, for a manifest of this generation; raised, the flag ends it.
    Running { generation: Option<i64>, stop: Arc<AtomicBool> },
    /// It is through.
    Done(Box<Found>),
}

/// The searches of all applications, each beside everything else that its application needs.
#[derive(Default)]
pub struct Searches {
    of: Mutex<HashMap<ApplicationKey, Search>>,
    /// How many wait for their turn or search.
    pub under_way: AtomicUsize,
}

impl Searches {
    /// Takes what a search found; one that is under way goes on, unless the manifest is another one by now.
    pub fn take(&self, key: &ApplicationKey, generation: Option<i64>) -> Search {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        match of.remove(key) {
            Some(Search::Running { generation: begun, stop }) => {
                stop.fetch_or(begun != generation, Ordering::AcqRel);
                of.insert(key.clone(), Search::Running { generation: begun, stop: stop.clone() });
                Search::Running { generation: begun, stop }
            }
            found => found.unwrap_or_default(),
        }
    }

    /// Whether one is under way, or through and not looked at.
    pub fn has(&self, key: &ApplicationKey) -> bool {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(of.get(key), Some(Search::Running { .. } | Search::Done(_)))
    }

    pub fn put(&self, key: &ApplicationKey, search: Search) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), search);
    }
}

/// One of those who wait for a search or are searched for.
pub struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    /// One more.
    pub fn in_line(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::AcqRel);
        Self(all)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
