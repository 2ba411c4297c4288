//! Everything that reaches the API server.
//!
//! [`writes::Writer`] is the only place that writes objects; it checks the lease of [`leader`] before every call. [`events`] records events
//! through it, and [`undeclared`] strips fields that an older CRD does not declare.

pub mod events;
pub mod leader;
pub mod undeclared;
pub mod writes;
