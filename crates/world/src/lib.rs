//! From Kubernetes objects to a [`Snapshot`](placement::Snapshot): the only place where wire types meet the model.
//!
//! Pure: no client, no clock. The operator hands over its caches, the command line files; both get the same bytes.
//! [`Objects`] is what is known, [`snapshot`] turns it into one [`World`], [`Policy`] holds an administrator's
//! parameters; [`wanted`], [`decision`] and [`seen`] make the nouns of `control`. Whose an object is, only the chain of
//! controllers' uids says ([`Ownership`]).

mod application;
mod assemble;
mod constraints;
mod nouns;
mod numbers;
mod objects;
mod ownership;
mod pods;
mod policy;
mod selectors;
mod units;

pub use application::{ActorName, actors_of, template_problem};
pub use assemble::{Note, World, WorldError, pools, snapshot, units};
pub use nouns::{decision, object_name, own, refusals, seen, unit_of, wanted};
pub use numbers::{Exact, NumberError, duration, quantity, rate, rational};
pub use objects::{ApplicationKey, Objects, ReadError};
pub use ownership::{Ownership, Whose, controller, is_decision_for};
pub use pods::{is_over, requests};
pub use policy::{PROGRAM, Policy, PolicyError};
pub use units::{PoolReport, Problem, Unit};
