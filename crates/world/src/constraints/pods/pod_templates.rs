//! Pods as kube-scheduler's inter-pod filters see them: templates of the application, and pods that are there.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, ActorGroup, labels};
use k8s_openapi::api::core::v1::{ContainerPort, Node, PodAffinityTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;
use placement::file::{Constraint, Domain, Places};

use crate::constraints::devices::device_requests::device_requests;
use crate::constraints::nodes::selectors::{label_requirements, labels_match};
use crate::demand::actors::ApplicationActors;
use crate::demand::requested::admission;
use crate::index::load::by_unit::BoundPods;
use crate::units::offer::Offer;
use crate::{ApplicationKey, Index};

/// Labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// Implementations of an application: group and kind.
pub(crate) type Implementations<'a> = BTreeSet<(&'a str, &'a str)>;

/// The pods of a group on some kinds.
pub(crate) struct PodTemplate<'a> {
    /// Snapshot ids of the group's actors.
    pub ids: Vec<String>,
    /// The kinds with this template.
    pub kinds: BTreeSet<&'a str>,
    /// Labels that all of its pods have.
    pub labels: Labels,
    pub spec: PodSpec,
}

/// The templates of an application, as after admission. Implementations that differ only in what no filter reads are one.
pub(crate) fn templates<'a>(
    index: &Index,
    application: &'a ActorApplication,
    actors: &ApplicationActors,
) -> Vec<PodTemplate<'a>> {
    let namespace = ApplicationKey::of(application).namespace;
    let of_namespace = admission(index, &namespace);
    let devices = |spec: &PodSpec| device_requests(index, &namespace, spec);
    let mut found: Vec<PodTemplate<'a>> = Vec::new();
    for group in &application.spec.actors {
        let first = found.len();
        for implementation in &group.implementations {
            let spec = of_namespace.spec(implementation.template.spec.as_ref(), None);
            let own = implementation.template.metadata.as_ref().and_then(|of| of.labels.clone());
            let labels = pod_labels(application, group, own.unwrap_or_default());
            let is_alike = |known: &&mut PodTemplate| {
                known.labels == labels
                    && is_alike(&known.spec, &spec)
                    && devices(&known.spec) == devices(&spec)
            };
            match found[first..].iter_mut().find(is_alike) {
                Some(known) => drop(known.kinds.insert(&implementation.kind)),
                None => found.push(PodTemplate {
                    ids: actors.ids(&group.name),
                    kinds: BTreeSet::from([implementation.kind.as_str()]),
                    labels,
                    spec,
                }),
            }
        }
    }
    found.retain(|template| !template.ids.is_empty());
    found
}

/// Labels that all pods of a group have. The hash of a template stands for itself: only pods of one template share it.
pub(crate) fn pod_labels(application: &ActorApplication, group: &ActorGroup, mut own: Labels) -> Labels {
    let added = [
        (labels::APPLICATION, application.name_any()),
        (labels::ACTOR_GROUP, group.name.clone()),
        (labels::TEMPLATE_HASH, format!("of {}", group.name)),
    ];
    own.extend(added.map(|(key, value)| (key.to_owned(), value)));
    own
}

/// Whether filters between pods treat two templates alike.
fn is_alike(a: &PodSpec, b: &PodSpec) -> bool {
    a.affinity == b.affinity
        && a.node_selector == b.node_selector
        && a.topology_spread_constraints == b.topology_spread_constraints
        && a.tolerations == b.tolerations
        && a.runtime_class_name == b.runtime_class_name
        && a.volumes == b.volumes
        && a.host_network == b.host_network
        && a.resource_claims == b.resource_claims
        && ports(a).eq(ports(b))
}

/// Ports of containers and sidecars. Other init containers have ended when the pod is ready.
pub(crate) fn ports(spec: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten())
}

impl PodTemplate<'_> {
    /// The name of its group.
    pub fn group(&self) -> &str {
        self.labels.get(labels::ACTOR_GROUP).map_or("", String::as_str)
    }

    /// The implementations with this template.
    pub fn implementations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds.iter().map(move |kind| (self.group(), *kind))
    }

    /// Keeps the template's actors off some nodes, except those that run there.
    pub fn never_on(
        &self,
        offer: &Offer,
        reason: String,
        is_excluded: impl Fn(&str) -> bool,
    ) -> Option<Constraint> {
        let is_own = |kind: &str| self.kinds.contains(kind);
        let units = offer.units.iter().filter(|unit| is_own(&unit.kind) && is_excluded(&unit.node));
        let units: Vec<String> = units.map(|unit| unit.id.clone()).collect();
        (!units.is_empty()).then(|| Constraint::Never {
            actors: self.ids.clone(),
            places: Places::Units(units),
            except_current: true,
            reason: Some(reason),
        })
    }
}

/// What the rules between pods, and between pods and volumes, are derived from.
pub(crate) struct PodRules<'a> {
    pub index: &'a Index,
    pub application: &'a ActorApplication,
    pub namespace: &'a str,
    pub templates: &'a [PodTemplate<'a>],
    /// Pods other than those of the application's actors.
    pub existing: &'a [ExistingPod<'a>],
    /// Pods of the application's actors that hold a node.
    pub bound: &'a BoundPods<'a>,
    /// Running pods of its actors that differ from their templates, by the actor's snapshot id.
    pub outdated: &'a BTreeMap<String, ExistingPod<'a>>,
    pub offer: &'a Offer,
}

impl<'a> PodRules<'a> {
    /// The pods whose ports and anti-affinity keep others away.
    pub fn repelling(&self) -> impl Iterator<Item = &'a ExistingPod<'a>> {
        self.existing.iter().chain(self.outdated.values())
    }

    /// The application's implementations whose pods all terms select.
    pub fn selected(&self, terms: &[PodTerm]) -> Implementations<'a> {
        let is_selected =
            |it: &&PodTemplate| terms.iter().all(|term| term.matches(self.index, self.namespace, &it.labels));
        self.templates.iter().filter(is_selected).flat_map(PodTemplate::implementations).collect()
    }

    /// Snapshot ids of the actors whose running pods the terms do not select, although they select those of the newest template.
    pub fn not_selected_yet(&self, terms: &[PodTerm]) -> BTreeSet<&'a str> {
        let is_selected =
            |pod: &ExistingPod| terms.iter().all(|term| term.matches(self.index, pod.namespace, &pod.labels));
        self.outdated.iter().filter(|(_, pod)| !is_selected(pod)).map(|(id, _)| id.as_str()).collect()
    }

    /// The pods that all terms select and that others may join, by position among those that are there.
    pub fn selected_existing(&self, terms: &[PodTerm]) -> BTreeSet<usize> {
        let is_selected = |pod: &ExistingPod| {
            !matches!(pod.stage, Stage::Leaving | Stage::Nominated)
                && terms.iter().all(|term| term.matches(self.index, pod.namespace, &pod.labels))
        };
        let all = self.existing.iter().enumerate();
        all.filter(|(_, pod)| is_selected(pod)).map(|(at, _)| at).collect()
    }

    /// Snapshot ids of the actors with one of these implementations; and the kinds of those that have others, too.
    pub fn actors_of(&self, some: &Implementations) -> (Vec<String>, Option<BTreeMap<String, Vec<String>>>) {
        let mut ids: BTreeSet<&String> = BTreeSet::new();
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for template in self.templates {
            let group = template.group();
            let in_group = some.range((group, "")..).take_while(|(of, _)| *of == group);
            let listed: Vec<String> = in_group.map(|(_, kind)| (*kind).to_owned()).collect();
            if listed.is_empty() {
                continue;
            }
            ids.extend(&template.ids);
            if template.implementations().any(|it| !some.contains(&it)) {
                kinds.extend(template.ids.iter().map(|id| (id.clone(), listed.clone())));
            }
        }
        (ids.into_iter().cloned().collect(), Some(kinds).filter(|kinds| !kinds.is_empty()))
    }

    /// The same for peers, without those `not_yet` selected.
    pub fn peers_of(
        &self,
        some: &Implementations,
        not_yet: &BTreeSet<&str>,
    ) -> (Vec<String>, Option<BTreeMap<String, Vec<String>>>) {
        let (mut ids, kinds) = self.actors_of(some);
        ids.retain(|id| !not_yet.contains(id.as_str()));
        (ids, kinds)
    }
}

/// How far a pod is on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is there and stays.
    Present,
    /// It is terminating.
    Terminating,
    /// Its actor is decided on another node.
    Leaving,
    /// It waits for pods that it preempts. kube-scheduler also tries without it, so no other pod can join it.
    Nominated,
    /// Its actor is decided on the node and has no pod there yet.
    Decided,
}

/// A pod that is there, or another application's actor that has no pod at its decided place yet.
pub(crate) struct ExistingPod<'a> {
    /// Namespace and name.
    pub name: String,
    pub namespace: &'a str,
    pub labels: Cow<'a, Labels>,
    pub node: &'a str,
    pub spec: Cow<'a, PodSpec>,
    pub stage: Stage,
}

impl ExistingPod<'_> {
    /// The name without its namespace.
    pub fn short_name(&self) -> &str {
        self.name.split_once('/').map_or("", |(_, name)| name)
    }
}

/// A term of pod affinity or anti-affinity, or the selector of a spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodTerm {
    selector: Option<LabelSelector>,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
    pub topology_key: String,
}

impl PodTerm {
    /// A term in a pod of this namespace and with these labels.
    pub fn of(term: &PodAffinityTerm, namespace: &str, labels: &Labels) -> Self {
        let mut selector = term.label_selector.clone();
        merge(&mut selector, term.match_label_keys.as_deref(), "In", labels);
        merge(&mut selector, term.mismatch_label_keys.as_deref(), "NotIn", labels);
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        Self {
            selector,
            namespaces,
            namespace_selector: term.namespace_selector.clone(),
            topology_key: term.topology_key.clone(),
        }
    }

    /// The selector of a spread, which counts pods of its own namespace.
    pub fn in_namespace(
        selector: Option<&LabelSelector>,
        keys: Option<&[String]>,
        topology_key: &str,
        (namespace, labels): (&str, &Labels),
    ) -> Self {
        let mut selector = selector.cloned();
        merge(&mut selector, keys, "In", labels);
        Self {
            selector,
            namespaces: BTreeSet::from([namespace.to_owned()]),
            namespace_selector: None,
            topology_key: topology_key.to_owned(),
        }
    }

    /// Whether it selects a pod. A missing selector selects none.
    pub fn matches(&self, index: &Index, namespace: &str, labels: &Labels) -> bool {
        let by_namespace = self.namespaces.contains(namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| index.selects(selector, namespace));
        by_namespace && self.selector.as_ref().is_some_and(|selector| labels_match(selector, labels))
    }

    /// Whether it has no requirement on labels.
    pub fn is_empty(&self) -> bool {
        self.selector.as_ref().is_none_or(|of| {
            of.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
                && of.match_expressions.as_ref().is_none_or(Vec::is_empty)
        })
    }

    /// The selected pods, for users.
    pub fn pods(&self) -> String {
        let parts: Vec<String> = self.selector.iter().flat_map(label_requirements).collect();
        if parts.is_empty() { "pods".to_owned() } else { format!("pods with {}", parts.join(", ")) }
    }
}

/// Adds the pod's own values of some labels to a selector, as the API server does.
fn merge(selector: &mut Option<LabelSelector>, keys: Option<&[String]>, operator: &str, labels: &Labels) {
    let Some(selector) = selector else { return };
    for key in keys.unwrap_or_default() {
        if let Some(value) = labels.get(key) {
            selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
        }
    }
}

/// Nodes by the value of a label.
pub(crate) struct TopologyDomains<'a> {
    nodes: BTreeMap<&'a str, Vec<&'a str>>,
    of_node: BTreeMap<&'a str, &'a str>,
}

impl<'a> TopologyDomains<'a> {
    /// The eligible nodes that have the label.
    pub fn of(index: &'a Index, key: &str, is_eligible: impl Fn(&Node) -> bool) -> Self {
        let mut domains = Self { nodes: BTreeMap::new(), of_node: BTreeMap::new() };
        for (name, node) in index.nodes.iter().filter(|(_, node)| is_eligible(node)) {
            if let Some(value) = node.labels().get(key) {
                domains.nodes.entry(value).or_default().push(name);
                domains.of_node.insert(name, value);
            }
        }
        domains
    }

    /// Sets of nodes that are connected by equal values of any of these labels.
    pub fn connected(index: &'a Index, keys: impl IntoIterator<Item = &'a String>) -> Self {
        let mut of_node: BTreeMap<&str, &str> = BTreeMap::new();
        for key in keys {
            for nodes in Self::of(index, key, |_| true).nodes.into_values() {
                let known: BTreeSet<&str> =
                    nodes.iter().map(|node| of_node.get(node).copied().unwrap_or(node)).collect();
                let Some(first) = known.first().copied() else { continue };
                of_node.extend(nodes.into_iter().map(|node| (node, first)));
                if known.len() > 1 {
                    of_node.values_mut().filter(|it| known.contains(**it)).for_each(|it| *it = first);
                }
            }
        }
        let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (node, domain) in &of_node {
            nodes.entry(domain).or_default().push(node);
        }
        Self { nodes, of_node }
    }

    /// The domain of a node.
    pub fn at(&self, node: &str) -> Option<&'a str> {
        self.of_node.get(node).copied()
    }

    /// Pods by domain.
    pub fn count<'p>(&self, pods: impl Iterator<Item = &'p ExistingPod<'p>>) -> BTreeMap<&'a str, u64> {
        let mut counts = BTreeMap::new();
        for at in pods.filter_map(|pod| self.at(pod.node)) {
            *counts.entry(at).or_default() += 1;
        }
        counts
    }

    /// Number of domains.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether each node is a domain.
    pub fn are_nodes(&self) -> bool {
        self.nodes.values().all(|nodes| nodes.len() == 1)
    }

    /// The domains of a constraint: nodes with units, and the pods on each that are no actors of the application.
    pub fn listed(&self, offer: &Offer, others: &BTreeMap<&str, u64>) -> Vec<Domain> {
        let hosts: BTreeSet<&str> = offer.units.iter().map(|unit| unit.node.as_str()).collect();
        let domain = |(value, nodes): (&&str, &Vec<&str>)| Domain {
            nodes: nodes
                .iter()
                .filter(|node| hosts.contains(**node))
                .map(|node| (*node).to_owned())
                .collect(),
            others: others.get(value).copied().unwrap_or(0),
        };
        self.nodes.iter().map(domain).collect()
    }
}
