//! Builds the planner's [`Snapshot`](placement::Snapshot) from Kubernetes objects; no other crate knows both.
//!
//! Pure: no client, no clock. The operator passes its caches and the command line passes files; equal objects give
//! equal bytes.
//!
//! [`Objects`] holds objects as read, [`Index`] makes them searchable and [`assemble`] builds an [`AssembledSnapshot`]
//! from it under a [`Policy`]. [`desired_state`], [`decision`] and [`observed_state`] build the inputs of `control`.
//! [`Ownership`] follows the chain of controller uids only.

mod annoyance;
mod constraints;
mod demand;
mod digest;
mod exchange_cost;
mod index;
mod link_costs;
mod moves;
mod numbers;
mod policy;
mod rebalance;
mod snapshot;
mod suggestions;
mod units;

pub use constraints::nodes::refusals::refusal_cause;
pub use constraints::pods::pod_affinity::selects_pods;
pub use demand::actors::{ApplicationActors, RejectedRequest, actors_of_instance};
pub use demand::application::{ActorName, GroupMember, manifest_actors, manifest_size, template_problem};
pub use demand::measured::{group_profiles, last_change, measured_service_times, members, running_actors};
pub use demand::mobility::groups_that_stay;
pub use demand::pods::{is_terminal, pod_requests, unit_of};
pub use demand::requested::desired_actors;
pub use index::Index;
pub use index::devices::events::{DraSummary, PublishedDevice, claimed_unit};
pub use index::load::unit_use::UnitUse;
pub use index::namespaces::POD_ANNOTATIONS;
pub use index::objects::{ApplicationKey, Objects, ReadError};
pub use index::owner::{controller_ref, is_decision_for};
pub use index::ownership::Ownership;
pub use index::room::NodeRoom;
pub use index::scheduling::{SchedulingKey, SchedulingKind, SchedulingObjects};
pub use moves::{DecidedMove, elective_moves, moves_in_progress};
pub use numbers::{Exact, NumberError, duration, floor, quantity, rate, rational, to_quantity};
pub use policy::{PARAMETERS, PROGRAM, Policy, PolicyError};
pub use rebalance::Rebalance;
pub use snapshot::assemble::{
    AssembleError, AssembledSnapshot, SnapshotWarning, assemble, assemble_measured,
};
pub use snapshot::load::{LoadFacts, LoadMove, LoadOutcome, LoadRecord, LoadRule, LoadTermsFile};
pub use snapshot::measured::MeasuredDemand;
pub use snapshot::model::{
    OwnedObjects, decision, desired_state, is_ready, move_state, object_name, observed_state, owned_objects,
    refusals, stopped_for_gain,
};
pub use snapshot::observe::{Observation, infeasible, infeasible_without_plan, observe};
pub use snapshot::offered::{pools, units, units_at, units_on};
pub use suggestions::suggestions;
pub use units::dra::slices::{DeviceAvailability, DeviceKey, allocated_devices};
pub use units::report::{POOL_NOTES, POOL_PROBLEMS, PoolProblem, PoolReport};
pub use units::unit::{CordonReason, DeviceClaim, Unit, Units};
