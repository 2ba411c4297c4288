//! The actors of a manifest, and what its templates must not say.

use std::fmt;

use crds::{ActorApplication, ActorGroup, DevicePool};
use k8s_openapi::api::core::v1::PodSpec;

use crate::ApplicationKey;
use crate::demand::pods::requests;
use crate::units::device_resource::{Gives, gives};

/// The name of one actor: its application, its group, and which one of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActorName {
    /// The application.
    pub application: ApplicationKey,
    /// The group.
    pub group: String,
    /// Which one of the group.
    pub member: GroupMember,
}

/// Which actor of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupMember {
    /// From 0 up to the group's replicas.
    Index(i32),
    /// The one that the application's runtime asked for, by the name of its Instance.
    Requested(String),
}

impl ActorName {
    /// The name within the application: `group-index`, or `inst-` and the name of the Instance that was asked for.
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

/// Every actor of an application's manifest, in the order of its groups.
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
    application.spec.actors.iter().flat_map(of_group).collect()
}

/// Why a template cannot be used: what the schema cannot see. `None` when it can.
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
        Err(e) => return Some(format!("asks for a resource in a way that cannot be read: {e}; correct it")),
    };
    let own = |name: &&String| pools.iter().any(|pool| gives(pool, name) != Gives::Nothing);
    let resource = asked.keys().find(own)?;
    Some(format!(
        "asks for {resource} itself; remove it, Cairn adds the resource of the pool that it chooses"
    ))
}
