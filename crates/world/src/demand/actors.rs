//! The actors of an application: those of its manifest, and those that its runtime requests.
//!
//! HiCR 3.1.1 and 4.1: a root Instance creates missing Instances from a template with requirements.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Instance, InstanceOrigin, Placement};
use kube::ResourceExt;

use crate::demand::admission::PodAdmission;
use crate::demand::application::{ActorName, GroupMember, MAX_ACTORS, manifest_actors};
use crate::index::names::namespace_of;
use crate::index::objects::ApplicationKey;

/// All actors of an application.
#[derive(Clone, Debug, Default)]
pub struct ApplicationActors {
    /// Actors of the manifest in the order of its groups, then requested ones, the oldest first.
    pub names: Vec<ActorName>,
    /// Requirements of requested actors, by short name.
    pub(crate) needs: BTreeMap<String, Needs>,
    /// What admission adds to their pods.
    pub(crate) admission: PodAdmission,
    /// Rejected requests, by the Instance's name.
    pub rejected: BTreeMap<String, RejectedRequest>,
}

/// Requirements of an actor beyond its group's.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    /// The only device kind that it may run on.
    pub kind: Option<String>,
    /// Minimum memory of the unit in MiB.
    pub memory_mib: Option<u64>,
}

/// Why a requested Instance cannot become an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRequest {
    /// Condition reason.
    pub reason: &'static str,
    /// Condition message, with the solution.
    pub message: String,
}

impl ApplicationActors {
    /// All actors of an application and the rejected requests, given its requested Instances and its decision.
    pub(crate) fn of<'a>(
        application: &ActorApplication,
        asked: impl Iterator<Item = &'a Instance>,
        decision: Option<&Placement>,
    ) -> Self {
        let mut actors = Self { names: names_of_manifest(application, decision), ..Self::default() };
        let mut asked: Vec<&Instance> = asked.collect();
        if asked.is_empty() {
            return actors;
        }
        asked.sort_by_key(|it| (it.metadata.creation_timestamp.as_ref().map(|time| time.0), it.name_any()));
        let taken: BTreeSet<String> = actors.names.iter().map(ActorName::short).collect();
        for instance in asked {
            // A terminating Instance is no actor any more; its unit is free once its pod is gone.
            if instance.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if let Some(unfit) = rejection(application, instance, &taken, actors.names.len()) {
                actors.rejected.insert(instance.name_any(), unfit);
                continue;
            }
            let template = &instance.spec.template;
            let memory_mib = template.memory_mib.and_then(|memory| u64::try_from(memory).ok());
            let needs =
                Needs { kind: template.kind.clone(), memory_mib: memory_mib.filter(|memory| *memory > 0) };
            for name in actors_of_instance(instance) {
                if needs != Needs::default() {
                    actors.needs.insert(name.short(), needs.clone());
                }
                actors.names.push(name);
            }
        }
        actors
    }

    /// Positions in [`ApplicationActors::names`] by group.
    pub(crate) fn by_group(&self, application: &ActorApplication) -> Vec<Vec<usize>> {
        let groups = &application.spec.actors;
        let position: BTreeMap<&str, usize> =
            groups.iter().enumerate().map(|(position, group)| (group.name.as_str(), position)).collect();
        let mut members = vec![Vec::new(); groups.len()];
        for (at, name) in self.names.iter().enumerate() {
            if let Some(group) = position.get(name.group.as_str()) {
                members[*group].push(at);
            }
        }
        members
    }

    /// Snapshot ids of a group's actors.
    pub(crate) fn ids(&self, group: &str) -> Vec<String> {
        self.names.iter().filter(|name| name.group == group).map(ToString::to_string).collect()
    }

    /// Whether the actor's own requirements allow this device kind.
    pub(crate) fn may_run_on(&self, name: &ActorName, kind: &str) -> bool {
        let wanted = self.needs.get(&name.short()).and_then(|needs| needs.kind.as_deref());
        wanted.is_none_or(|wanted| wanted == kind)
    }
}

/// The actors of a manifest. Of one with too many, which is not planned, also all that were decided: they keep running.
fn names_of_manifest(application: &ActorApplication, decision: Option<&Placement>) -> Vec<ActorName> {
    let names = manifest_actors(application);
    if names.len() <= MAX_ACTORS {
        return names;
    }
    let groups: BTreeMap<&str, (usize, i32)> = application
        .spec
        .actors
        .iter()
        .enumerate()
        .map(|(position, group)| (group.name.as_str(), (position, group.replicas)))
        .collect();
    let key = ApplicationKey::of(application);
    let decided = decision.into_iter().flat_map(|decision| &decision.spec.assignments);
    let decided = decided.filter_map(|assignment| {
        let (group, index) = assignment.actor.rsplit_once('-')?;
        let (_, replicas) = groups.get(group)?;
        let index = index.parse::<i32>().ok().filter(|index| (0..*replicas).contains(index))?;
        let (application, group) = (key.clone(), group.to_owned());
        Some(ActorName { application, group, member: GroupMember::Index(index) })
    });
    let position = |name: &ActorName| groups.get(name.group.as_str()).map(|(position, _)| *position);
    let all: BTreeMap<(Option<usize>, GroupMember), ActorName> =
        names.into_iter().chain(decided).map(|name| ((position(&name), name.member.clone()), name)).collect();
    all.into_values().collect()
}

/// The actor of an Instance.
pub fn actors_of_instance(instance: &Instance) -> Vec<ActorName> {
    let spec = &instance.spec;
    let Some(group) = &spec.actor_group else { return Vec::new() };
    let which = match spec.origin {
        InstanceOrigin::Runtime => Some(GroupMember::Requested(instance.name_any())),
        InstanceOrigin::Spec => {
            let index = spec.actor.as_ref().and_then(|actor| actor.rsplit_once('-')?.1.parse().ok());
            index.map(GroupMember::Index)
        }
    };
    let application =
        ApplicationKey { namespace: namespace_of(instance), name: spec.application_name.clone() };
    which.map(|which| ActorName { application, group: group.clone(), member: which }).into_iter().collect()
}

/// Why a requested Instance cannot become an actor of the application.
fn rejection(
    application: &ActorApplication,
    instance: &Instance,
    taken: &BTreeSet<String>,
    actors: usize,
) -> Option<RejectedRequest> {
    let unfit = |reason, message| Some(RejectedRequest { reason, message });
    let template = &instance.spec.template;
    if template.count > 1 {
        let message = format!(
            "{} devices are requested, but an Instance has one computing unit; request several Instances",
            template.count
        );
        return unfit("Unsupported", message);
    }
    let groups = &application.spec.actors;
    let wanted = instance.spec.actor_group.as_deref().unwrap_or_default();
    let Some(group) = groups.iter().find(|group| group.name == wanted) else {
        let known = groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>().join(", ");
        return unfit("UnknownGroup", format!("the application has no group {wanted}; it has {known}"));
    };
    let kinds: Vec<&str> = group.implementations.iter().map(|it| it.kind.as_str()).collect();
    if let Some(kind) = template.kind.as_deref().filter(|kind| !kinds.contains(kind)) {
        let known = kinds.join(", ");
        return unfit("NoImplementation", format!("{wanted} cannot run on {kind}; it can on {known}"));
    }
    if let Some(name) =
        actors_of_instance(instance).iter().map(ActorName::short).find(|name| taken.contains(name))
    {
        return unfit(
            "NameTaken",
            format!("the manifest already has an actor {name}; give the Instance another name"),
        );
    }
    if actors >= MAX_ACTORS {
        let message = format!("the application already has the maximum of {actors} actors");
        return unfit("TooLarge", message);
    }
    None
}
