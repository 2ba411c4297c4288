//! Rules between pods.

pub(crate) mod existing_pods;
pub(crate) mod host_ports;
pub(crate) mod mutual_affinity;
pub(crate) mod peer_affinity;
pub(crate) mod pod_affinity;
pub(crate) mod pod_templates;
pub(crate) mod topology_spread;
