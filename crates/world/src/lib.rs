//! From Kubernetes objects to a [`Snapshot`](placement::Snapshot): the only place where wire types meet the model.
//!
//! Pure: no client, no clock. The operator hands over its caches, the command line files; both get the same bytes.
//! [`Objects`] is what is known, [`snapshot`] turns it into one [`World`], [`Policy`] holds an administrator's
//! parameters.

mod application;
mod assemble;
mod constraints;
mod numbers;
mod objects;
mod pods;
mod policy;
mod selectors;
mod units;

pub use application::{ActorName, actors_of, template_problem};
pub use assemble::{Note, World, WorldError, pools, snapshot, units};
pub use numbers::{Exact, NumberError, duration, quantity, rate, rational};
pub use objects::{ApplicationKey, Objects, ReadError};
pub use pods::{is_ours, is_over, requests};
pub use policy::{PROGRAM, Policy, PolicyError};
pub use units::{PoolReport, Problem, Unit};
