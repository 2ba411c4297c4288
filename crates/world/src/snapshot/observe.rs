//! A look at an application: its world as it is now, and what is to be known of it before it is planned.

use std::collections::BTreeSet;
use std::ops::Deref;

use control::{Decision, PlanInputs};
use crds::ActorApplication;
use jiff::Timestamp;

use crate::constraints::admits::rejects_group;
use crate::constraints::refusals::Refusals;
use crate::demand::application::ActorName;
use crate::demand::requested::desired_actors;
use crate::snapshot::model::observed_objects;
use crate::units::unit::Unit;
use crate::{ApplicationKey, AssembleError, AssembledSnapshot, Index, Policy, assemble};

/// What a look at an application found.
#[derive(Debug)]
pub struct Observation {
    /// What it would be planned from.
    pub assembled: AssembledSnapshot,
    /// By what it is known whether it has to be planned.
    pub inputs: PlanInputs,
    /// The actors whose decided place may not be taken now.
    pub infeasible: BTreeSet<String>,
}

/// Looks at an application of which this was decided; the index is let go as soon as it has been read.
///
/// # Errors
/// As [`snapshot`].
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
    // Where what is decided cannot be, the world is as it is observed: it looks as if nothing had changed.
    let mut digest = world.digest();
    for actor in &infeasible {
        digest.extend([" ", actor]);
    }
    let facts = PlanInputs {
        demand: world.demand(),
        digest,
        pressure: control::pressure(&world.snapshot, &world.snapshot.incumbent()),
        openings: control::openings(&world.snapshot),
        ..PlanInputs::default()
    };
    Ok(Observation { assembled: world, inputs: facts, infeasible })
}

/// The actors whose decided place may not be taken now, whoever wrote the decision.
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

/// The same where the manifest cannot be planned, by what needs no plan: whether the unit is offered, and to who comes, whether its node
/// takes the pod, and whether it refused one like it a moment ago.
///
/// `application` has the templates that pods are made from.
pub fn infeasible_without_plan(
    index: &Index,
    application: &ActorApplication,
    decision: &Decision,
    now: Timestamp,
) -> BTreeSet<String> {
    let offer = index.offer(&Policy::builtin("units"));
    let (refused, seen) = (Refusals::of(index, application, now), observed_objects(index, application));
    let may_come = |name: &ActorName, unit: &Unit| {
        unit.cordoned.is_none()
            && !refused.has(name, unit)
            && !rejects_group(index, application, &name.group, unit)
    };
    let found = desired_actors(index, application).names.into_iter().filter_map(|name| {
        let actor = name.short();
        let place = decision.places.get(&actor)?;
        let pod = seen.instances.get(&actor).and_then(|instance| instance.pod.as_ref());
        let is_there = pod.is_some_and(|pod| pod.unit.as_ref() == Some(place));
        let may_be = offer.units.get(place).is_some_and(|unit| is_there || may_come(&name, unit));
        (!may_be).then_some(actor)
    });
    found.collect()
}
