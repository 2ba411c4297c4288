//! Host ports: the plug-in `NodePorts` of kube-scheduler.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};
use placement::file::{Constraint, Scope};

use crate::constraints::pods::pod_templates::{PodRules, ports};

/// A port of the host: address, protocol and number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    address: String,
    protocol: String,
    number: i32,
}

/// All addresses of a host.
const ANY_ADDRESS: &str = "0.0.0.0";

impl HostPort {
    fn conflicts(&self, other: &Self) -> bool {
        let is_any = |port: &Self| port.address == ANY_ADDRESS;
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || is_any(self) || is_any(other))
    }

    fn describe(&self) -> String {
        let address = if self.address == ANY_ADDRESS { String::new() } else { format!("{}:", self.address) };
        format!("host port {address}{}/{}", self.number, self.protocol)
    }
}

/// Host ports of a pod. On the host's network, the API server makes each container port a host port.
pub(crate) fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let on_host = spec.host_network == Some(true);
    let port = |port: &ContainerPort| {
        let number = port.host_port.filter(|number| *number > 0);
        let text = |text: &Option<String>, default: &str| {
            text.as_ref().filter(|text| !text.is_empty()).map_or(default, String::as_str).to_owned()
        };
        Some(HostPort {
            address: text(&port.host_ip, ANY_ADDRESS),
            protocol: text(&port.protocol, "TCP"),
            number: number.or_else(|| on_host.then_some(port.container_port))?,
        })
    };
    ports(spec).filter_map(port).collect()
}

/// Constraints by host ports: among the application's actors, and with pods that are there.
pub(crate) fn host_port_constraints(of: &PodRules) -> Vec<Constraint> {
    let templates = of.templates;
    let mut rules = Vec::new();
    let own: Vec<BTreeSet<HostPort>> = templates.iter().map(|template| host_ports(&template.spec)).collect();
    if own.iter().all(BTreeSet::is_empty) {
        return rules;
    }
    let used: Vec<(&str, BTreeSet<HostPort>)> =
        of.repelling().map(|pod| (pod.node, host_ports(&pod.spec))).collect();
    for (position, (template, ports)) in templates.iter().zip(&own).enumerate() {
        for port in ports {
            let is_taken =
                |(_, ports): &&(&str, BTreeSet<HostPort>)| ports.iter().any(|it| port.conflicts(it));
            let nodes: BTreeSet<&str> = used.iter().filter(is_taken).map(|(node, _)| *node).collect();
            let reason = format!("another pod has {}", port.describe());
            rules.extend(template.never_on(of.offer, reason, |node| nodes.contains(node)));
        }
        for (other, others) in templates.iter().zip(&own).skip(position) {
            let mut conflicts = ports.iter().filter(|port| others.iter().any(|it| port.conflicts(it)));
            let Some(port) = conflicts.next() else { continue };
            let actors: BTreeSet<&String> = template.ids.iter().chain(&other.ids).collect();
            if actors.len() > 1 {
                rules.push(Constraint::Apart {
                    on: Scope::Node,
                    actors: actors.into_iter().cloned().collect(),
                    reason: Some(format!("each needs {}", port.describe())),
                });
            }
        }
    }
    rules
}
