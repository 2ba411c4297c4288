//! Actors and templates of a manifest.

use std::fmt;

use crds::{ActorApplication, ActorGroup, DevicePool};
use k8s_openapi::api::core::v1::PodSpec;

use crate::ApplicationKey;
use crate::demand::pods::requests;
use crate::units::plugin::device_resource::{Provides, provides};

/// Maximum number of actors of an application.
pub(crate) const MAX_ACTORS: usize = 5000;

/// Name of an actor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActorName {
    /// The application.
    pub application: ApplicationKey,
    /// The group.
    pub group: String,
    /// The member of the group.
    pub member: GroupMember,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupMember {
    /// From 0 up to the group's replicas.
    Index(i32),
    /// Requested by the runtime; the name of its Instance.
    Requested(String),
}

impl ActorName {
    /// Name within the application: `group-index`, or `inst-` and the name of the requested Instance.
    pub fn short(&self) -> String {
        match &self.member {
            GroupMember::Index(index) => format!("{}-{index}", self.group),
            GroupMember::Requested(instance) => format!("inst-{instance}"),
        }
    }
}

impl fmt::Display for ActorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.application, self.short())
    }
}

/// Number of actors of a group.
pub(crate) fn replicas(group: &ActorGroup) -> usize {
    usize::try_from(group.replicas).unwrap_or(0)
}

/// Number of actors of a manifest.
pub fn manifest_size(application: &ActorApplication) -> usize {
    application.spec.actors.iter().map(replicas).fold(0, usize::saturating_add)
}

/// All actors of a manifest, in the order of its groups; of a manifest with too many, one more than are supported.
pub fn manifest_actors(application: &ActorApplication) -> Vec<ActorName> {
    let key = ApplicationKey::of(application);
    let of_group = |group: &ActorGroup| {
        let (application, name) = (key.clone(), group.name.clone());
        (0..group.replicas).map(move |index| ActorName {
            application: application.clone(),
            group: name.clone(),
            member: GroupMember::Index(index),
        })
    };
    application.spec.actors.iter().flat_map(of_group).take(MAX_ACTORS + 1).collect()
}

/// Why a template is invalid, as far as the schema does not check it.
pub fn template_problem(spec: &PodSpec, pools: &[&DevicePool]) -> Option<String> {
    if spec.node_name.is_some()
        || spec.scheduler_name.as_ref().is_some_and(|name| name != "default-scheduler")
    {
        return Some("sets nodeName or schedulerName; remove it, Cairn places the actor".to_owned());
    }
    if spec.containers.len() != 1 && !spec.containers.iter().any(|container| container.name == "actor") {
        return Some(
            "has several containers and none is named actor; name the one that gets the device".to_owned(),
        );
    }
    let asked = match requests(spec) {
        Ok(asked) => asked,
        Err(e) => return Some(format!("has an invalid resource request: {e}; correct it")),
    };
    let own = |name: &&String| pools.iter().any(|pool| provides(pool, name) != Provides::None);
    let resource = asked.keys().find(own)?;
    Some(format!("requests {resource} itself; remove it, Cairn adds the resource of the chosen pool"))
}
