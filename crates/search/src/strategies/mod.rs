//! The strategies that this crate offers, and the repair of answers that break a policy's rules.

pub(crate) mod greedy;
pub(crate) mod local;
pub(crate) mod random;
pub(crate) mod repair;
pub(crate) mod round_robin;
