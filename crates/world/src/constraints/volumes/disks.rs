//! Disks in templates without a claim: the plug-in `VolumeRestrictions` of kube-scheduler.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use placement::file::{Constraint, Domain, Scope};

use crate::constraints::pods::pod_templates::PodRules;

/// A disk that a pod mounts.
struct Mount<'a> {
    disk: Disk<'a>,
    is_read_only: bool,
}

/// A disk that the scheduler recognises in several pods.
enum Disk<'a> {
    Ebs { volume: &'a str },
    Gce { name: &'a str },
    Iscsi { iqn: &'a str },
    Rbd { monitors: &'a [String], pool: &'a str, image: &'a str },
}

impl<'a> Mount<'a> {
    fn of(volume: &'a Volume) -> Option<Self> {
        let mount = |disk, read_only: Option<bool>| Self { disk, is_read_only: read_only == Some(true) };
        let ebs = || {
            let of = volume.aws_elastic_block_store.as_ref()?;
            Some(mount(Disk::Ebs { volume: &of.volume_id }, None))
        };
        let gce = || {
            let of = volume.gce_persistent_disk.as_ref()?;
            Some(mount(Disk::Gce { name: &of.pd_name }, of.read_only))
        };
        let iscsi = || {
            let of = volume.iscsi.as_ref()?;
            Some(mount(Disk::Iscsi { iqn: &of.iqn }, of.read_only))
        };
        let rbd = || {
            let of = volume.rbd.as_ref()?;
            // The API server sets this pool.
            let pool = of.pool.as_deref().filter(|pool| !pool.is_empty()).unwrap_or("rbd");
            Some(mount(Disk::Rbd { monitors: &of.monitors, pool, image: &of.image }, of.read_only))
        };
        ebs().or_else(gce).or_else(iscsi).or_else(rbd)
    }

    fn conflicts(&self, other: &Self) -> bool {
        let is_same = match (&self.disk, &other.disk) {
            (Disk::Ebs { volume: a }, Disk::Ebs { volume: b })
            | (Disk::Gce { name: a }, Disk::Gce { name: b })
            | (Disk::Iscsi { iqn: a }, Disk::Iscsi { iqn: b }) => a == b,
            (
                Disk::Rbd { monitors: a, pool: pool_a, image: image_a },
                Disk::Rbd { monitors: b, pool: pool_b, image: image_b },
            ) => pool_a == pool_b && image_a == image_b && a.iter().any(|monitor| b.contains(monitor)),
            _ => false,
        };
        is_same && !(self.is_read_only && other.is_read_only)
    }

    fn describe(&self) -> String {
        match &self.disk {
            Disk::Ebs { volume } => format!("EBS volume {volume}"),
            Disk::Gce { name } => format!("GCE disk {name}"),
            Disk::Iscsi { iqn } => format!("iSCSI target {iqn}"),
            Disk::Rbd { pool, image, .. } => format!("RBD image {pool}/{image}"),
        }
    }
}

fn mounts(spec: &PodSpec) -> Vec<Mount<'_>> {
    spec.volumes.iter().flatten().filter_map(Mount::of).collect()
}

/// Constraints by disks: among the application's actors, and with pods that are there.
pub(crate) fn disk_constraints(of: &PodRules) -> Vec<Constraint> {
    let templates = of.templates;
    let mut rules = Vec::new();
    let own: Vec<Vec<Mount>> = templates.iter().map(|template| mounts(&template.spec)).collect();
    if own.iter().all(Vec::is_empty) {
        return rules;
    }
    let used: Vec<(&str, Vec<Mount>)> = of.existing.iter().map(|pod| (pod.node, mounts(&pod.spec))).collect();
    for (position, (template, mounts)) in templates.iter().zip(&own).enumerate() {
        for mount in mounts {
            let is_used = |(_, others): &&(&str, Vec<Mount>)| others.iter().any(|it| mount.conflicts(it));
            let nodes: BTreeSet<&str> = used.iter().filter(is_used).map(|(node, _)| *node).collect();
            let reason = format!("another pod uses {}", mount.describe());
            rules.extend(template.never_on(of.offer, reason, |node| nodes.contains(node)));
        }
        for (other, others) in templates.iter().zip(&own).skip(position) {
            let mut conflicts = mounts.iter().flat_map(|mount| others.iter().map(move |it| (mount, it)));
            let Some((mount, it)) = conflicts.find(|(mount, it)| mount.conflicts(it)) else { continue };
            let reason = Some(format!("each uses {}", mount.describe()));
            let all: BTreeSet<&String> = template.ids.iter().chain(&other.ids).collect();
            if all.len() < 2 {
                continue;
            }
            // Actors that mount a disk only to read it may share a node.
            rules.push(if mount.conflicts(mount) && it.conflicts(it) {
                Constraint::Apart { on: Scope::Node, actors: all.into_iter().cloned().collect(), reason }
            } else {
                let (actors, peers) = (template.ids.clone(), other.ids.clone());
                Constraint::Peers {
                    actors,
                    peers,
                    domains: each_node(of),
                    actor_kinds: None,
                    peer_kinds: None,
                    max: Some(0),
                    skew: None,
                    join: None,
                    reason,
                }
            });
        }
    }
    rules
}

fn each_node(of: &PodRules) -> Vec<Domain> {
    let hosts: BTreeSet<&String> = of.offer.units.iter().map(|unit| &unit.node).collect();
    hosts.into_iter().map(|node| Domain { nodes: vec![node.clone()], others: 0 }).collect()
}
