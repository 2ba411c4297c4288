//! Running actors, to which samples are joined.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A running actor.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningActor {
    /// Short name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its pod, whose controller is the actor's Instance.
    pub pod: String,
    /// Kind of its unit.
    pub kind: String,
    /// Speed of its unit, relative to the unit of the manifest's service times.
    pub speed: f64,
    /// Microseconds that the manifest states for one message on this kind.
    pub service_microseconds: f64,
}

/// The running actors of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RosterApplication {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Running actors. A pod of several actors, or of any actor of the application (hosting Shared), occurs with each.
    pub actors: Vec<RunningActor>,
}

/// The pods of all running actors.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    pub(crate) applications: Vec<RosterApplication>,
    /// By namespace and name of the pod.
    pods: BTreeMap<String, BTreeMap<String, PodEntry>>,
    /// By application: names of its actors.
    names: Vec<BTreeMap<Arc<str>, usize>>,
}

/// Whose a pod is.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    /// Position of the application.
    pub application: usize,
    /// Positions of its actors.
    pub actors: Vec<usize>,
}

impl Roster {
    /// A roster of these applications.
    pub fn new(applications: Vec<RosterApplication>) -> Self {
        let mut roster = Self::default();
        for (application, of) in applications.iter().enumerate() {
            let mut names = BTreeMap::new();
            for (at, actor) in of.actors.iter().enumerate() {
                let pods = roster.pods.entry(of.namespace.clone()).or_default();
                let entry = pods
                    .entry(actor.pod.clone())
                    .or_insert_with(|| PodEntry { application, actors: Vec::new() });
                if entry.application == application {
                    entry.actors.push(at);
                    names.insert(Arc::from(actor.name.as_str()), at);
                }
            }
            roster.names.push(names);
        }
        Self { applications, ..roster }
    }

    /// Whose this pod is.
    pub(crate) fn pod(&self, namespace: &str, pod: &str) -> Option<&PodEntry> {
        self.pods.get(namespace)?.get(pod)
    }

    /// Position of an actor of an application.
    pub(crate) fn actor(&self, application: usize, name: &str) -> Option<usize> {
        self.names[application].get(name).copied()
    }
}
