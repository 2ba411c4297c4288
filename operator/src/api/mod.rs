//! Everything that reaches the API server.
//!
//! [`writes::Writer`] is the only place that writes objects; it checks the lease of [`leader`] before every call. [`reads`] are its reads
//! past the cache, [`events`] records events through it, and [`undeclared`] strips fields that an older CRD does not declare.

pub mod events;
pub mod leader;
pub mod reads;
pub mod undeclared;
pub mod writes;
