//! What admission adds to and refuses of pods, and the quotas of namespaces and pools.

pub(crate) mod admits;
pub(crate) mod claim_quotas;
pub(crate) mod obstacles;
pub(crate) mod pool_access;
pub(crate) mod priorities;
pub(crate) mod quotas;
pub(crate) mod resource_limits;
