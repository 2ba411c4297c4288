//! What waits and rests are made of. Their test under loom has models of the same names.

pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

/// Between a change and a look at something else, both sequentially consistent, which needs nothing here. Loom has no
/// such accesses, and puts a fence there.
pub(crate) fn sequenced() {}
