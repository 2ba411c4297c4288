//! The observed state of one application.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use crds::{ActorApplication, Condition, Instance, Placement, PlacementSpec, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// All objects of one application at one moment.
#[derive(Debug)]
pub struct AppState {
    pub application: ActorApplication,
    pub decision: Option<Placement>,
    pub instances: Vec<Instance>,
    pub pods: Vec<Pod>,
}

impl AppState {
    pub fn spec(&self) -> &PlacementSpec {
        &self.decision.as_ref().unwrap().spec
    }

    /// The assigned unit of each actor.
    pub fn places(&self) -> BTreeMap<&str, &str> {
        let assignments = self.decision.iter().flat_map(|decision| &decision.spec.assignments);
        assignments.map(|place| (&*place.actor, &*place.unit)).collect()
    }

    /// The assigned nodes.
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.decision
            .iter()
            .flat_map(|decision| &decision.spec.assignments)
            .map(|place| &*place.node)
            .collect()
    }

    /// The objective value of each level, the most important first.
    pub fn vector(&self) -> Vec<i64> {
        let spec = self.spec();
        let value = |criterion: &str| spec.objective.get(criterion).copied().unwrap_or_default();
        spec.levels.iter().map(|level| level.split('+').map(value).sum()).collect()
    }

    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.application.status.iter().flat_map(|status| &status.conditions).find(|c| c.type_ == type_)
    }

    /// The message of a condition with this status.
    pub fn message(&self, type_: &str, status: &str) -> Result<&str> {
        match self.condition(type_) {
            Some(condition) if condition.status == status => Ok(&condition.message),
            other => bail!("{type_} is {other:?}"),
        }
    }

    /// The number of actors in the manifest.
    pub fn wanted(&self) -> usize {
        self.application.spec.actors.iter().map(|group| usize::try_from(group.replicas).unwrap()).sum()
    }

    /// Checks that the current generation is planned and applied: every placed actor runs on its assigned unit, no other pods or
    /// Instances exist, no actor is both placed and unplaced, and the status agrees.
    pub fn check_reconciled(&self) -> Result<()> {
        let generation = self.application.metadata.generation;
        let status = self.application.status.clone().unwrap_or_default();
        ensure!(status.observed_generation == generation, "the status is of an older generation");
        let Some(decision) = &self.decision else { bail!("no Placement; {:?}", status.conditions) };
        ensure!(
            Some(decision.spec.application_generation) == generation,
            "the Placement is of an older generation"
        );
        let places = self.places();
        let has_both = decision.spec.unplaced.iter().find(|left| places.contains_key(&*left.actor));
        ensure!(has_both.is_none(), "placed {places:?}, and unplaced {has_both:?}");
        let mut run = BTreeMap::new();
        for pod in &self.pods {
            ensure!(pod.metadata.deletion_timestamp.is_none(), "pod {} is terminating", pod.name_any());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Running"), "pod {} is {phase:?}", pod.name_any());
            let unit = pod.annotations().get(labels::UNIT).map_or("", |unit| unit);
            ensure!(
                run.insert(&*pod.labels()[labels::ACTOR], unit).is_none(),
                "{} runs twice",
                pod.name_any()
            );
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            ensure!(node == unit.split('/').next(), "pod {} of {unit} is on {node:?}", pod.name_any());
        }
        ensure!(run == places, "placed {places:?}, running {run:?}");
        ensure!(self.instances.len() == self.wanted(), "{} Instances", self.instances.len());
        let counts = status.actors.unwrap_or_default();
        let counted =
            [counts.wanted, counts.placed, counts.running].map(|count| usize::try_from(count).unwrap());
        ensure!(counted == [self.wanted(), places.len(), places.len()], "the status counts {counted:?}");
        Ok(())
    }

    /// Checks that every actor is placed.
    pub fn all_placed(&self) -> Result<()> {
        let placed = self.places().len();
        ensure!(
            placed == self.wanted(),
            "{placed} of {} placed; {:?}",
            self.wanted(),
            self.condition("Placed")
        );
        Ok(())
    }
}
