//! From Kubernetes objects to a [`Snapshot`](placement::Snapshot): the only place where wire types meet the model.
//!
//! Pure: no client, no clock. The operator hands over its caches, the command line files; both get the same bytes.
//! [`Objects`] is what was read, [`Index`] keeps it by what is asked of it, [`snapshot`] turns it into one [`World`],
//! [`Policy`] holds an administrator's parameters; [`wanted`], [`decision`] and [`seen`] make the nouns of `control`.
//! Whose an object is, only the chain of controllers' uids says ([`Whose`]).

mod actors;
mod allowed;
mod application;
mod asked;
mod assemble;
mod comers;
mod constraints;
mod decided;
mod demand;
mod devices;
mod entries;
mod flows;
mod gaps;
mod grace;
mod handed_out;
mod index;
mod kept;
mod loads;
mod look;
mod namespaces;
mod nouns;
mod numbers;
mod objects;
mod offer;
mod offered;
mod offers;
mod others;
mod owner;
mod ownership;
mod pods;
mod policy;
mod quotas;
mod refused;
mod report;
mod requests;
mod room;
mod selectors;
mod silence;
mod slots;
mod unit;
mod units;

pub use actors::{ApplicationActors, RejectedRequest, actors_of_instance};
pub use application::{ActorName, GroupMember, manifest_actors, template_problem};
pub use asked::desired_actors;
pub use assemble::{
    AssembleError, AssembledSnapshot, SnapshotWarning, assemble, pools, units, units_at, units_on,
};
pub use index::Index;
pub use look::{Observation, infeasible, infeasible_without_plan, observe};
pub use nouns::{
    OwnedObjects, decision, desired_state, is_ready, object_name, observed_state, owned_objects, refusals,
};
pub use numbers::{Exact, NumberError, duration, quantity, rate, rational};
pub use objects::{ApplicationKey, Objects, ReadError};
pub use offered::suggestions;
pub use owner::{controller_ref, is_decision_for};
pub use ownership::Ownership;
pub use pods::{is_terminal, requests, unit_of};
pub use policy::{PROGRAM, Policy, PolicyError};
pub use report::{POOL_PROBLEMS, PoolProblem, PoolReport};
pub use room::NodeRoom;
pub use unit::{CordonReason, Unit, Units};
