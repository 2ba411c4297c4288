//! Observes an application before it is planned.

use std::collections::BTreeSet;
use std::ops::Deref;

use control::{Decision, PlanInputs};
use crds::ActorApplication;
use jiff::Timestamp;

use crate::constraints::admission::admits::AdmittedSpecs;
use crate::constraints::nodes::refusals::ActiveRefusals;
use crate::demand::application::ActorName;
use crate::demand::requested::desired_actors;
use crate::snapshot::model::observed_objects;
use crate::units::unit::Unit;
use crate::{ApplicationKey, AssembleError, AssembledSnapshot, Index, Policy, assemble};

/// Result of observing an application.
#[derive(Debug)]
pub struct Observation {
    /// Its snapshot.
    pub assembled: AssembledSnapshot,
    /// Inputs that tell whether it has to be planned.
    pub inputs: PlanInputs,
    /// Actors whose decided place is no longer feasible.
    pub infeasible: BTreeSet<String>,
}

/// Observes an application with this decision; releases the index as soon as it has been read.
///
/// # Errors
/// As [`assemble`].
pub fn observe(
    index: impl Deref<Target = Index>,
    application: &ActorApplication,
    policy: &Policy,
    decision: Option<&Decision>,
    now: Timestamp,
) -> Result<Observation, AssembleError> {
    let world = assemble(&index, &ApplicationKey::of(application), policy, now)?;
    let infeasible = infeasible(&index, application, &world, decision);
    drop(index);
    // Infeasible decisions are not in the snapshot, so they have to change the digest.
    let mut digest = world.digest();
    for actor in &infeasible {
        digest.extend([" ", actor]);
    }
    let mut pressure = control::pressure(&world.snapshot, &world.snapshot.incumbent());
    if world.is_measured() {
        // Measured overload is a matter of plans for load, which windows judge.
        pressure.overload.clear();
    }
    let facts = PlanInputs {
        demand: world.demand(),
        digest,
        pressure,
        openings: control::openings(&world.snapshot),
        ..PlanInputs::default()
    };
    Ok(Observation { assembled: world, inputs: facts, infeasible })
}

/// Actors whose decided place is no longer feasible, regardless of the decision's author.
pub fn infeasible(
    index: &Index,
    application: &ActorApplication,
    world: &AssembledSnapshot,
    decision: Option<&Decision>,
) -> BTreeSet<String> {
    let found =
        |decision| control::infeasible(&world.snapshot, decision, &observed_objects(index, application));
    decision.map(found).unwrap_or_default()
}

/// The same for a manifest that cannot be planned: checks whether the unit is offered and, for a new actor, whether its
/// node accepts the pod.
///
/// `application` has the templates of the pods.
pub fn infeasible_without_plan(
    index: &Index,
    application: &ActorApplication,
    decision: &Decision,
    now: Timestamp,
) -> BTreeSet<String> {
    let offer = index.offer(&Policy::builtin("units"));
    let (refused, observed) =
        (ActiveRefusals::of(index, application, now), observed_objects(index, application));
    let specs = AdmittedSpecs::of(index, application);
    let may_come = |name: &ActorName, unit: &Unit| {
        unit.cordoned.is_none() && !refused.has(name, unit) && !specs.rejects(&name.group, unit)
    };
    let found = desired_actors(index, application).names.into_iter().filter_map(|name| {
        let actor = name.short();
        let place = decision.places.get(&actor)?;
        let pod = observed.instances.get(&actor).and_then(|instance| instance.pod.as_ref());
        let is_there = pod.is_some_and(|pod| pod.unit.as_ref() == Some(place));
        let may_be = offer.units.get(place).is_some_and(|unit| is_there || may_come(&name, unit));
        (!may_be).then_some(actor)
    });
    found.collect()
}
