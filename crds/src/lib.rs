//! The custom resources of Cairn, group `cairn.dev`, version `v1alpha1`: types, schemas, validation rules.
//!
//! Users write [`ActorApplication`], administrators write [`DevicePool`]. Cairn writes [`NodeTopology`]
//! (the devices of a node), [`Placement`] (the placement decision) and [`Instance`] (one running actor).
//!
//! Validation is schema and CEL rules only; there is no webhook. Each rule has a rejected and an accepted
//! example in `tests/rules/`. A test generates the manifests under `manifests/`, see `tests/manifests.rs`.

mod application;
mod common;
mod hicr;
mod history;
mod instance;
pub mod labels;
mod load;
mod moves;
mod placement;
mod pool;
mod template;
mod topology;

pub use application::{
    ActorApplication, ActorApplicationSpec, ActorApplicationStatus, ActorCounts, ActorGroup,
    ApplicationPhase, Channel, ChannelPattern, Implementation, Pin, Revisions, SpreadLevel, StartPolicy,
    UpdateStrategy,
};
pub use common::{Condition, GROUP, Quantity, Time, VERSION};
pub use history::{MoveDecision, MoveOutcome, OutcomeVerdict};
pub use instance::{
    AllocatedDevices, Instance, InstanceOrigin, InstancePhase, InstanceSpec, InstanceStatus, InstanceTemplate,
};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
pub use load::{CounterCoverage, MeasuredServiceTime, RebalanceMode};
pub use moves::{DecidedGain, Move, MoveProgress, MoveStep};
pub use placement::{
    Assignment, ExcusedActor, Placement, PlacementPhase, PlacementSpec, PlacementStatus, Refusal,
    RefusalScope, StoppedBy, UnplacedActor,
};
pub use pool::{
    DeviceMatch, DevicePool, DevicePoolSpec, DevicePoolStatus, DraDevices, InstanceLimit, PodDefaults,
    PoolResource, Sharing, UnitKind, UnitPower,
};
pub use topology::{
    Allocation, ComputeResource, CoreKind, Device, Health, Link, MemorySpace, NodeTopology, NodeTopologySpec,
    NodeTopologyStatus,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

/// The five CRDs, in the order of the documentation.
pub fn all() -> Vec<CustomResourceDefinition> {
    let all =
        [ActorApplication::crd(), DevicePool::crd(), NodeTopology::crd(), Placement::crd(), Instance::crd()];
    all.map(as_stored).into()
}

/// The definition as the API server stores it. A field that it drops would show as a diff at every `kubectl apply`.
fn as_stored(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(definition).expect("a definition is plain data");
    drop_not_nullable(&mut value);
    serde_json::from_value(value).expect("only defaults were removed")
}

/// Drops `nullable: false`, the default, everywhere.
fn drop_not_nullable(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "nullable" || *value != Value::Bool(false));
            fields.values_mut().for_each(drop_not_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_not_nullable),
        _ => {}
    }
}
