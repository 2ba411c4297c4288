//! The pods of actors and their Instances: what they contain, their creation, eviction and deletion, and their device claims.

pub(super) mod device_claims;
pub(super) mod eviction;
pub mod identity;
pub(super) mod lifecycle;
pub(super) mod manifest;
