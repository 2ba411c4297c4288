//! Limits of a manifest, checked from counts before anything is listed or derived: a manifest that exceeds them harms only itself.

use std::collections::BTreeMap;

use crds::{ActorApplication, ActorGroup, Channel, ChannelPattern};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use placement::MOST_EDGES;

use crate::demand::actors::ApplicationActors;
use crate::demand::application::{GroupMember, MAX_ACTORS, manifest_size};

/// Maximum number of entries of a list of a template.
const MAX_ENTRIES: usize = 64;

/// Maximum number of topology spread constraints with `DoNotSchedule`, required pod (anti-)affinity terms and host ports of all
/// templates: constraints over all nodes are derived from each.
const MAX_POD_RULES: usize = 1024;

/// Why an application is too large to be planned: actors, edges, and rules of its templates.
pub(crate) fn size_problem(application: &ActorApplication, actors: &ApplicationActors) -> Option<String> {
    let is_requested = |member: &GroupMember| matches!(member, GroupMember::Requested(_));
    let requested = actors.names.iter().filter(|name| is_requested(&name.member)).count();
    let count = manifest_size(application).saturating_add(requested);
    if count > MAX_ACTORS {
        return Some(format!(
            "the application has {count} actors, at most {MAX_ACTORS} are supported; divide it"
        ));
    }
    let groups = application.spec.actors.iter().map(|group| group.name.as_str());
    let sizes = groups.zip(actors.by_group(application)).map(|(name, members)| (name, members.len()));
    let sizes = sizes.collect();
    let edges = edges_of(application, &sizes).saturating_add(avoided_pairs(application, &sizes));
    if edges > MOST_EDGES {
        return Some(format!(
            "channels and avoid rules create {edges} edges, at most {MOST_EDGES} are supported; avoid smaller groups"
        ));
    }
    let rules = pod_rules(application);
    // a single list that is too long is the clearer problem
    (rules > MAX_POD_RULES && template_problem(application).is_none()).then(|| {
        format!(
            "the templates have {rules} topology spread constraints, pod affinity terms and host ports in total, at most \
             {MAX_POD_RULES} are supported; divide the application"
        )
    })
}

/// The first template with a list that is too long, and what to do.
pub(crate) fn template_problem(application: &ActorApplication) -> Option<String> {
    templates(application).find_map(|(at, spec)| {
        let (list, count) = PodLists::of(spec).longest();
        let (group, kind) = at;
        (count > MAX_ENTRIES).then(|| {
            format!(
                "spec.actors[{group}].implementations[{kind}].template: has {count} {list}, at most {MAX_ENTRIES} are supported; \
                 remove some"
            )
        })
    })
}

/// Whether lists of its templates, one of them or together, are too long.
pub(crate) fn exceeds_limits(application: &ActorApplication) -> bool {
    pod_rules(application) > MAX_POD_RULES || template_problem(application).is_some()
}

/// Number of rules of all templates; implementations of a group with the same rules count once.
fn pod_rules(application: &ActorApplication) -> usize {
    let of_group = |group: &ActorGroup| {
        let specs = group.implementations.iter().filter_map(|way| way.template.spec.as_ref());
        let mut known: Vec<&PodSpec> = Vec::new();
        let mut rules = 0;
        for spec in specs {
            let lists = PodLists::of(spec);
            let is_alike = |other: &&PodSpec| {
                other.affinity == spec.affinity
                    && other.topology_spread_constraints == spec.topology_spread_constraints
                    && PodLists::of(other).host_ports == lists.host_ports
            };
            if !known.iter().any(is_alike) {
                rules += lists.rules();
                known.push(spec);
            }
        }
        rules
    };
    application.spec.actors.iter().map(of_group).sum()
}

/// Upper bound on the edges of the channels, without listing them; a channel between groups is one edge.
fn edges_of(application: &ActorApplication, sizes: &BTreeMap<&str, usize>) -> usize {
    let size = |name: &str| sizes.get(name).copied().unwrap_or(0);
    let of_channel = |channel: &Channel| match channel.pattern {
        ChannelPattern::AllToAll => 1,
        ChannelPattern::OneToOne | ChannelPattern::Ring => size(&channel.from),
    };
    application.spec.channels.iter().map(of_channel).fold(0, usize::saturating_add)
}

/// Number of pairs that `avoid` creates, without listing them.
fn avoided_pairs(application: &ActorApplication, sizes: &BTreeMap<&str, usize>) -> usize {
    let size = |name: &String| sizes.get(name.as_str()).copied().unwrap_or(0);
    let of_group =
        |group: &ActorGroup| group.avoid.iter().map(size).sum::<usize>().saturating_mul(size(&group.name));
    application.spec.actors.iter().map(of_group).fold(0, usize::saturating_add)
}

/// All templates, each with its group and kind.
fn templates(application: &ActorApplication) -> impl Iterator<Item = ((&str, &str), &PodSpec)> {
    application.spec.actors.iter().flat_map(|group| {
        let ways = group.implementations.iter();
        ways.filter_map(|way| Some(((group.name.as_str(), way.kind.as_str()), way.template.spec.as_ref()?)))
    })
}

/// Lengths of a template's lists.
struct PodLists {
    spreads: usize,
    required_spreads: usize,
    affinity: usize,
    anti_affinity: usize,
    node_terms: usize,
    tolerations: usize,
    host_ports: usize,
}

impl PodLists {
    fn of(spec: &PodSpec) -> Self {
        let length = |list: Option<usize>| list.unwrap_or(0);
        let affinity = spec.affinity.as_ref();
        let near = affinity.and_then(|all| all.pod_affinity.as_ref());
        let apart = affinity.and_then(|all| all.pod_anti_affinity.as_ref());
        let nodes = affinity.and_then(|all| all.node_affinity.as_ref());
        let on_host = |container: &Container| {
            let ports = container.ports.iter().flatten();
            ports.filter(|port| spec.host_network == Some(true) || port.host_port.is_some()).count()
        };
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let spreads = spec.topology_spread_constraints.iter().flatten();
        Self {
            spreads: spreads.clone().count(),
            required_spreads: spreads.filter(|it| it.when_unsatisfiable == "DoNotSchedule").count(),
            affinity: length(near.and_then(|it| {
                it.required_during_scheduling_ignored_during_execution.as_ref().map(Vec::len)
            })),
            anti_affinity: length(apart.and_then(|it| {
                it.required_during_scheduling_ignored_during_execution.as_ref().map(Vec::len)
            })),
            node_terms: length(nodes.and_then(|it| {
                let required = it.required_during_scheduling_ignored_during_execution.as_ref()?;
                Some(required.node_selector_terms.len())
            })),
            tolerations: length(spec.tolerations.as_ref().map(Vec::len)),
            host_ports: containers.map(on_host).sum(),
        }
    }

    /// Number of entries that each yield constraints over all nodes.
    fn rules(&self) -> usize {
        self.required_spreads + self.affinity + self.anti_affinity + self.host_ports
    }

    /// The longest list whose entries are limited, and its length.
    fn longest(&self) -> (&'static str, usize) {
        let lists = [
            ("topologySpreadConstraints", self.spreads),
            ("required terms of podAffinity", self.affinity),
            ("required terms of podAntiAffinity", self.anti_affinity),
            ("required terms of nodeAffinity", self.node_terms),
            ("tolerations", self.tolerations),
        ];
        lists.into_iter().max_by_key(|(_, count)| *count).unwrap_or_default()
    }
}
