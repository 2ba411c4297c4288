//! The observed state of one application.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use crds::{ActorApplication, Condition, Instance, Placement, PlacementSpec, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Everything of one application at one moment.
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

    /// Where each actor was decided to be.
    pub fn places(&self) -> BTreeMap<&str, &str> {
        let assignments = self.decision.iter().flat_map(|decision| &decision.spec.assignments);
        assignments.map(|place| (&*place.actor, &*place.unit)).collect()
    }

    /// The nodes that were decided on.
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.decision
            .iter()
            .flat_map(|decision| &decision.spec.assignments)
            .map(|place| &*place.node)
            .collect()
    }

    /// The objective's value at each level, the most important first.
    pub fn vector(&self) -> Vec<i64> {
        let spec = self.spec();
        let value = |criterion: &str| spec.objective.get(criterion).copied().unwrap_or_default();
        spec.levels.iter().map(|level| level.split('+').map(value).sum()).collect()
    }

    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.application.status.iter().flat_map(|status| &status.conditions).find(|c| c.type_ == type_)
    }

    /// The message of a condition that has this status, or what is there instead.
    pub fn message(&self, type_: &str, status: &str) -> Result<&str> {
        match self.condition(type_) {
            Some(condition) if condition.status == status => Ok(&condition.message),
            other => bail!("{type_} is {other:?}"),
        }
    }

    /// How many actors the manifest wants.
    pub fn wanted(&self) -> usize {
        self.application.spec.actors.iter().map(|group| usize::try_from(group.replicas).unwrap()).sum()
    }

    /// Whether the newest manifest is decided on, nobody is said to have a place and none, each placed actor runs exactly
    /// where that was decided, nothing else is there, and the status says so.
    pub fn check_reconciled(&self) -> Result<()> {
        let generation = self.application.metadata.generation;
        let status = self.application.status.clone().unwrap_or_default();
        ensure!(status.observed_generation == generation, "the status is of an older manifest");
        let Some(decision) = &self.decision else { bail!("nothing is decided; {:?}", status.conditions) };
        ensure!(
            Some(decision.spec.application_generation) == generation,
            "the decision is for an older manifest"
        );
        let places = self.places();
        let has_both = decision.spec.unplaced.iter().find(|left| places.contains_key(&*left.actor));
        ensure!(has_both.is_none(), "decided {places:?}, and without a place is {has_both:?}");
        let mut run = BTreeMap::new();
        for pod in &self.pods {
            ensure!(pod.metadata.deletion_timestamp.is_none(), "pod {} is going", pod.name_any());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Running"), "pod {} is {phase:?}", pod.name_any());
            let unit = pod.annotations().get(labels::UNIT).map_or("", |unit| unit);
            ensure!(
                run.insert(&*pod.labels()[labels::ACTOR], unit).is_none(),
                "{} lives twice",
                pod.name_any()
            );
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            ensure!(node == unit.split('/').next(), "pod {} of {unit} is on {node:?}", pod.name_any());
        }
        ensure!(run == places, "decided {places:?}, run {run:?}");
        ensure!(self.instances.len() == self.wanted(), "{} Instances", self.instances.len());
        let counts = status.actors.unwrap_or_default();
        let counted =
            [counts.wanted, counts.placed, counts.running].map(|count| usize::try_from(count).unwrap());
        ensure!(counted == [self.wanted(), places.len(), places.len()], "the status counts {counted:?}");
        Ok(())
    }

    /// Whether every actor has a place.
    pub fn all_placed(&self) -> Result<()> {
        let placed = self.places().len();
        ensure!(
            placed == self.wanted(),
            "{placed} of {} have a place; {:?}",
            self.wanted(),
            self.condition("Placed")
        );
        Ok(())
    }
}
