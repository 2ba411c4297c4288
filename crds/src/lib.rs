//! The custom resources of Cairn, group `cairn.dev`, version `v1alpha1`: types, schemas, validation rules.
//!
//! Five kinds. Two are written by people: [`ActorApplication`] (what a user asks for) and [`DevicePool`]
//! (what an administrator allows). Three are written by Cairn: [`NodeTopology`] (what a node has),
//! [`Placement`] (the decision) and [`Instance`] (one running actor).
//!
//! The schema and its CEL rules refuse what they can, in the API server and with a sentence that says
//! what to do; there is no webhook. Each rule has a refused and an accepted example in `tests/rules/`.
//! The manifests under `manifests/` are generated from these types by a test, see `tests/manifests.rs`.

mod application;
mod common;
mod instance;
pub mod labels;
mod placement;
mod pool;
mod template;
mod topology;

pub use application::{
    ActorApplication, ActorApplicationSpec, ActorApplicationStatus, ActorCounts, ActorGroup,
    ApplicationPhase, Channel, Implementation, Pattern, Pin, SpreadLevel,
};
pub use common::{Condition, GROUP, Quantity, Time, VERSION};
pub use instance::{Instance, InstancePhase, InstanceSpec, InstanceStatus, InstanceTemplate};
pub use placement::{
    Assignment, Move, Placement, PlacementPhase, PlacementSpec, PlacementStatus, Refusal, StoppedBy, Unplaced,
};
pub use pool::{
    DeviceMatch, DevicePool, DevicePoolSpec, DevicePoolStatus, InstanceLimit, PodDefaults, PoolResource,
    Sharing, UnitKind,
};
pub use topology::{
    ComputeResource, Device, Health, Link, MemorySpace, NodeTopology, NodeTopologySpec, NodeTopologyStatus,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The five definitions, in the order in which a reader meets them.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![ActorApplication::crd(), DevicePool::crd(), NodeTopology::crd(), Placement::crd(), Instance::crd()]
}
