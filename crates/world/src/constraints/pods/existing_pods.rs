//! Pods beside those of the application's actors: existing ones, and decided ones of other applications.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{ActorApplication, Instance, Placement, labels};
use k8s_openapi::api::core::v1::{Affinity, PodSpec};
use kube::ResourceExt;

use crate::constraints::devices::device_requests::may_need_devices;
use crate::constraints::pods::host_ports::host_ports;
use crate::constraints::pods::pod_affinity::anti_affinity;
use crate::constraints::pods::pod_templates::{ExistingPod, Labels, PodTemplate, Stage, pod_labels, ports};
use crate::demand::actors::{ApplicationActors, actors_of_instance};
use crate::demand::pods::{is_terminal, scheduled_node, unit_of};
use crate::demand::requested::desired_actors;
use crate::demand::size::exceeds_limits;
use crate::index::names::namespace_of;
use crate::index::ownership::Ownership;
use crate::units::unit::pool_of;
use crate::{ActorName, ApplicationKey, Index};

/// Whether a template's rules depend on the pods that are there.
fn depends_on_pods(template: &PodTemplate) -> bool {
    let spec = &template.spec;
    let has_ports = || ports(spec).any(|port| spec.host_network == Some(true) || port.host_port.is_some());
    let of_pods =
        |affinity: &Affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some();
    spec.affinity.as_ref().is_some_and(of_pods)
        || spec.topology_spread_constraints.is_some()
        || spec.volumes.is_some()
        || spec.resource_claims.is_some()
        || has_ports()
}

/// Whether a pod's own rules may exclude others.
fn repels(spec: &PodSpec) -> bool {
    spec.affinity.as_ref().is_some_and(|affinity| affinity.pod_anti_affinity.is_some())
}

/// Pods other than the application's own actors', as far as rules of a template or of the pods depend on them.
pub(crate) fn existing_pods<'a>(
    index: &'a Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    templates: &[PodTemplate],
) -> Vec<ExistingPod<'a>> {
    let all_matter = templates.iter().any(depends_on_pods);
    let matters = |spec: &PodSpec| all_matter || repels(spec) || may_need_devices(index, spec);
    let own: BTreeSet<String> = actors.names.iter().map(ActorName::short).collect();
    let key = ApplicationKey::of(application);
    let decided = LazyCell::new(|| decided_nodes(index, &key));
    let mut hosted: BTreeSet<(ApplicationKey, String)> = BTreeSet::new();
    let mut found = Vec::new();
    for (name, held) in &index.pods {
        let spec = held.pod.spec.as_ref().filter(|spec| matters(spec));
        let (Some(node), Some(spec), false) = (held.node.as_deref(), spec, is_terminal(&held.pod)) else {
            continue;
        };
        let is_terminating = held.pod.metadata.deletion_timestamp.is_some();
        let mut stage = if is_terminating { Stage::Terminating } else { Stage::Present };
        if let Ownership::OwnedBy((owner, instance)) = index.owner_of_pod(&held.pod) {
            let actor = actors_of_instance(instance).into_iter().next().map(|actor| actor.short());
            if owner.uid() == application.uid() && actor.as_ref().is_some_and(|actor| own.contains(actor)) {
                continue;
            }
            let owner = ApplicationKey::of(owner);
            let goal = actor.as_ref().and_then(|actor| decided.get(&owner)?.get(actor.as_str()));
            if goal.is_some_and(|goal| *goal != node) {
                stage = Stage::Leaving;
            } else if !is_terminating {
                hosted.extend(actor.map(|actor| (owner, actor)));
            }
        } else if scheduled_node(&held.pod).is_none() {
            continue;
        } else if spec.node_name.is_none() {
            stage = Stage::Nominated;
        }
        found.push(ExistingPod {
            name: format!("{}/{}", name.0, name.1),
            namespace: &name.0,
            labels: Cow::Borrowed(held.pod.labels()),
            node,
            spec: Cow::Borrowed(spec),
            stage,
        });
    }
    found.extend(decided_pods(index, &key, &hosted, matters));
    found
}

/// Running pods of the application's actors whose labels, host ports or anti-affinity are not those of their templates, by the
/// actor's snapshot id.
///
/// Until they are replaced, other actors obey the rules between pods as kube-scheduler finds them.
pub(crate) fn outdated_pods<'a>(
    index: &'a Index,
    application: &ActorApplication,
    templates: &[PodTemplate],
) -> BTreeMap<String, ExistingPod<'a>> {
    let merged = Labels::new();
    let pod = |instance: &Arc<Instance>| {
        let ((namespace, name), held) =
            index.pods.get_key_value(&(namespace_of(instance.as_ref()), instance.name_any()))?;
        let is_own = matches!(index.owner_of_pod(&held.pod), Ownership::OwnedBy(_));
        if !is_own || is_terminal(&held.pod) || held.pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let (spec, labels) = (held.pod.spec.as_ref()?, held.pod.labels());
        let pool = index.pool(pool_of(unit_of(&held.pod)?, &index.pools)?)?;
        let group = instance.spec.actor_group.as_deref()?;
        let is_its = |it: &&PodTemplate| it.group() == group && it.kinds.contains(pool.spec.kind.as_str());
        let template = templates.iter().find(is_its)?;
        let mut kept = template.labels.iter().filter(|(key, _)| *key != labels::TEMPLATE_HASH);
        let is_current = kept.all(|(key, value)| labels.get(key) == Some(value))
            && host_ports(spec).is_subset(&host_ports(&template.spec))
            && anti_affinity(spec, namespace, &merged) == anti_affinity(&template.spec, namespace, labels);
        if is_current {
            return None;
        }
        let id = actors_of_instance(instance).first()?.to_string();
        let pod = ExistingPod {
            name: format!("{namespace}/{name}"),
            namespace,
            labels: Cow::Borrowed(labels),
            node: spec.node_name.as_deref()?,
            spec: Cow::Borrowed(spec),
            stage: Stage::Present,
        };
        Some((id, pod))
    };
    index.instances_of(application).into_iter().filter_map(pod).collect()
}

/// The decided nodes of the other applications' actors, by short name.
fn decided_nodes<'a>(
    index: &'a Index,
    key: &ApplicationKey,
) -> BTreeMap<&'a ApplicationKey, BTreeMap<&'a str, &'a str>> {
    let nodes = |placement: &'a Placement| {
        let all = placement.spec.assignments.iter();
        all.map(|it| (it.actor.as_str(), it.node.as_str())).collect()
    };
    index.decisions_beside(key).map(|(other, _, placement)| (other, nodes(placement))).collect()
}

/// Actors of other applications that are decided and not `hosted`: they have no pod on the decided node that stays.
fn decided_pods<'a>(
    index: &'a Index,
    key: &ApplicationKey,
    hosted: &BTreeSet<(ApplicationKey, String)>,
    matters: impl Fn(&PodSpec) -> bool,
) -> Vec<ExistingPod<'a>> {
    let mut found = Vec::new();
    let empty = PodSpec::default();
    for (other, application, placement) in index.decisions_beside(key) {
        let mut ways = application.spec.actors.iter().flat_map(|group| &group.implementations);
        if !ways.any(|way| matters(way.template.spec.as_ref().unwrap_or(&empty))) {
            continue;
        }
        // Lists of a refused manifest are not walked; its pods count as they are.
        if exceeds_limits(application) {
            continue;
        }
        let actors = desired_actors(index, application);
        let group_of: BTreeMap<String, &String> =
            actors.names.iter().map(|name| (name.short(), &name.group)).collect();
        for assignment in &placement.spec.assignments {
            let pool = index.pool(&assignment.pool);
            let group = group_of.get(&assignment.actor);
            let (Some(pool), Some(group)) = (pool, group) else { continue };
            let group = application.spec.actors.iter().find(|it| it.name == **group);
            let way = group.and_then(|group| {
                Some((group, group.implementations.iter().find(|way| way.kind == pool.spec.kind)?))
            });
            let Some((group, way)) = way else { continue };
            if hosted.contains(&(other.clone(), assignment.actor.clone())) {
                continue;
            }
            let own = way.template.metadata.as_ref().and_then(|of| of.labels.clone());
            found.push(ExistingPod {
                name: format!("{other}/{}", assignment.actor),
                namespace: &other.namespace,
                labels: Cow::Owned(pod_labels(application, group, own.unwrap_or_default())),
                node: &assignment.node,
                spec: way.template.spec.as_ref().map(Cow::Borrowed).unwrap_or_default(),
                stage: Stage::Decided,
            });
        }
    }
    found
}
