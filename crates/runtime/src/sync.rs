//! Synchronization primitives, which the loom tests replace by models of the same names.

pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// Orders a store before a later load of another variable; both are sequentially consistent, so nothing is needed
/// here. Loom lacks such accesses and uses a fence.
pub(crate) fn sequenced() {}
