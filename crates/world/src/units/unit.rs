//! What a computing unit is.

use std::ops::Index;
use std::sync::Arc;

/// Why who is on a unit stays, and nobody comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum CordonReason {
    /// More are held than there is room for.
    #[strum(to_string = "more is held there than is offered: who is there stays, and nobody comes")]
    Overcommitted,
    /// What is known of the devices there may be over.
    #[strum(to_string = "the agent of its node is silent: who is there stays, and nobody comes")]
    StaleAgent,
    /// It is offered no more, since a moment ago.
    #[strum(to_string = "it is offered no more: who is there stays for a while, and nobody comes")]
    Withdrawn,
}

/// One computing unit, and how a pod asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// `node/pool-index`.
    pub id: String,
    /// The kind of device.
    pub kind: String,
    /// The node that it is part of.
    pub node: String,
    /// The node's zone.
    pub zone: Option<String>,
    /// The NUMA domain, where it is known and can be had.
    pub numa: Option<String>,
    /// The pool that offers it.
    pub pool: String,
    /// Work in microseconds per window.
    pub capacity: u64,
    /// The most work that one actor can get done there, which takes one message at a time.
    pub capacity_per_actor: u64,
    /// Its memory in MiB, where it is known: where it is one of several devices, that of the smallest.
    pub memory_mib: Option<u64>,
    /// At most so many actors.
    pub slots: Option<u64>,
    /// The resource of which a pod asks one.
    pub resource: Option<String>,
    /// Who is there stays, and nobody comes: why.
    pub cordoned: Option<CordonReason>,
}

/// The pool that a unit is of, by its id.
pub(crate) fn pool_of(id: &str) -> Option<&str> {
    let (pool, _) = id.rsplit_once('/')?.1.rsplit_once('-')?;
    Some(pool)
}

/// Units by id, ascending. Cheap to clone: a world shares those of the world before that did not change.
#[derive(Clone, Debug, Default)]
pub struct Units(Arc<Vec<Arc<Unit>>>);

impl Units {
    /// The unit of this id.
    pub fn get(&self, id: &str) -> Option<&Unit> {
        let found = self.0.binary_search_by(|unit| (*unit.id).cmp(id));
        found.ok().map(|at| &*self.0[at])
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Arc<Unit>> for Units {
    fn from_iter<T: IntoIterator<Item = Arc<Unit>>>(units: T) -> Self {
        let mut units: Vec<Arc<Unit>> = units.into_iter().collect();
        units.sort_by(|a, b| a.id.cmp(&b.id));
        Self(Arc::new(units))
    }
}

impl Index<&str> for Units {
    type Output = Unit;

    /// The unit of this id, of which it is known that it is there.
    fn index(&self, id: &str) -> &Unit {
        self.get(id).expect("who asks has the id from the same world")
    }
}
