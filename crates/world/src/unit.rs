//! What a computing unit is.

/// Why who is on a unit stays, and nobody comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum HeldOnly {
    /// More are held than there is room for.
    #[strum(to_string = "more is held there than is offered: who is there stays, and nobody comes")]
    Crowded,
    /// What is known of the devices there may be over.
    #[strum(to_string = "the agent of its node is silent: who is there stays, and nobody comes")]
    Silent,
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
    pub held_only: Option<HeldOnly>,
}
