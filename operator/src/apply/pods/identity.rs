//! Identity and peers of an actor, as environment and files of its pod. Pure.
//!
//! Host names are stable: `crop-0.surveillance.vision.svc` follows the actor, because a headless Service publishes the address
//! of the pod with that host name.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, ChannelPattern, labels};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EnvVar, PodSpec, Service, ServiceSpec, Volume, VolumeMount,
};
use kube::ResourceExt;
use serde::Serialize;
use world::{ActorName, object_name};

use crate::apply::owned::ownership::metadata;

/// Mount path of the peers file.
const PEERS_FOLDER: &str = "/run/cairn/peers";
/// File name, and key in the ConfigMap.
const PEERS_FILE: &str = "peers.json";
/// Name of the volume; a template's volume of the same name takes precedence.
const PEERS_VOLUME: &str = "cairn-peers";

/// Name of the ConfigMap with the peers file.
pub fn peers_name(application: &str) -> String {
    format!("{application}-peers")
}

/// Sets environment and host name of a pod; `has_peers` says that the application owns the peers file.
pub fn introduce(
    spec: &mut PodSpec,
    application: &ActorApplication,
    actor: &ActorName,
    kind: &str,
    root: bool,
    has_peers: bool,
) {
    spec.hostname = Some(actor.short());
    spec.subdomain = Some(actor.application.name.clone());
    let mut identity = vec![
        ("CAIRN_NAMESPACE", actor.application.namespace.clone()),
        ("CAIRN_APPLICATION", actor.application.name.clone()),
        ("CAIRN_GROUP", actor.group.clone()),
        ("CAIRN_ACTOR", actor.short()),
        ("CAIRN_INSTANCE", object_name(actor)),
        ("CAIRN_KIND", kind.to_owned()),
        ("CAIRN_ROOT", root.to_string()),
    ];
    if has_peers {
        identity.push(("CAIRN_PEERS_FILE", format!("{PEERS_FOLDER}/{PEERS_FILE}")));
        mount_peers(spec, application);
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        introduce_container(container, &identity);
    }
}

/// Mounts the peers file into every container.
fn mount_peers(spec: &mut PodSpec, application: &ActorApplication) {
    let volumes = spec.volumes.get_or_insert_default();
    if !volumes.iter().any(|volume| volume.name == PEERS_VOLUME) {
        // Optional: an actor may start while the file is recreated.
        let peers = ConfigMapVolumeSource {
            name: peers_name(&application.name_any()),
            optional: Some(true),
            ..ConfigMapVolumeSource::default()
        };
        let name = PEERS_VOLUME.to_owned();
        volumes.push(Volume { name, config_map: Some(peers), ..Volume::default() });
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let mounts = container.volume_mounts.get_or_insert_default();
        if !mounts.iter().any(|mount| mount.mount_path == PEERS_FOLDER) {
            mounts.push(VolumeMount {
                name: PEERS_VOLUME.to_owned(),
                mount_path: PEERS_FOLDER.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
        }
    }
}

/// Prepended, so that the template's variables may refer to it; variables of the same name are replaced.
fn introduce_container(container: &mut Container, identity: &[(&str, String)]) {
    let given = container.env.take().unwrap_or_default();
    let others = given.into_iter().filter(|own| !identity.iter().any(|(name, _)| *name == own.name));
    let ours = identity.iter().map(|(name, value)| EnvVar {
        name: (*name).to_owned(),
        value: Some(value.clone()),
        value_from: None,
    });
    container.env = Some(ours.chain(others).collect());
}

/// The headless Service of an application. Addresses are published before readiness, as actors find each other first.
pub fn service(application: &ActorApplication) -> Service {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        publish_not_ready_addresses: Some(true),
        selector: Some([(labels::APPLICATION.to_owned(), application.name_any())].into()),
        ..ServiceSpec::default()
    };
    let metadata = metadata(application, application.name_any());
    Service { metadata, spec: Some(spec), status: None }
}

/// Whether a Service resolves other names than this spec, as far as a Service can be changed.
pub fn is_changed(there: Option<&ServiceSpec>, wanted: &ServiceSpec) -> bool {
    let facts = |spec: &ServiceSpec| (spec.selector.clone(), spec.publish_not_ready_addresses);
    there.is_none_or(|there| facts(there) != facts(wanted))
}

/// The peers file.
#[derive(Serialize)]
struct Peers<'a> {
    /// Host names of each group's actors, by index; requested ones follow, the oldest first.
    actors: BTreeMap<&'a str, Vec<String>>,
    /// The channels between groups.
    channels: Vec<Channel<'a>>,
}

#[derive(Serialize)]
struct Channel<'a> {
    from: &'a str,
    to: &'a str,
    pattern: ChannelPattern,
}

/// The host name of an actor.
fn host(actor: &ActorName) -> String {
    format!("{}.{}.{}.svc", actor.short(), actor.application.name, actor.application.namespace)
}

/// Whether a peers file lists all these actors.
pub fn names_all(peers: &ConfigMap, actors: &[ActorName]) -> bool {
    let text = peers.data.as_ref().and_then(|data| data.get(PEERS_FILE));
    let file = text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let groups = file.as_ref().and_then(|file| file.get("actors")?.as_object());
    let hosts = groups.into_iter().flatten().filter_map(|(_, hosts)| hosts.as_array()).flatten();
    let hosts: BTreeSet<&str> = hosts.filter_map(serde_json::Value::as_str).collect();
    groups.is_some() && actors.iter().all(|actor| hosts.contains(host(actor).as_str()))
}

/// The ConfigMap that pods mount as their peers file.
pub fn peers(application: &ActorApplication, all: &[ActorName]) -> ConfigMap {
    let mut actors: BTreeMap<&str, Vec<String>> =
        application.spec.actors.iter().map(|group| (group.name.as_str(), Vec::new())).collect();
    for actor in all {
        actors.entry(&actor.group).or_default().push(host(actor));
    }
    let channels = application.spec.channels.iter();
    let channels = channels.map(|it| Channel { from: &it.from, to: &it.to, pattern: it.pattern }).collect();
    // Serialization of names cannot fail.
    let text = serde_json::to_string_pretty(&Peers { actors, channels }).unwrap_or_default();
    let data = Some([(PEERS_FILE.to_owned(), text)].into());
    let metadata = metadata(application, peers_name(&application.name_any()));
    ConfigMap { metadata, data, ..ConfigMap::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application() -> ActorApplication {
        let way = |kind| json!({"kind": kind, "serviceTime": "1ms", "template": {"spec": {"containers": [{"name": "main"}]}}});
        let spec = json!({"actors": [
            {"name": "crop", "replicas": 2, "implementations": [way("cpu")]},
            {"name": "sink", "implementations": [way("cpu")]}],
            "channels": [{"from": "crop", "to": "sink", "rate": "1/s", "pattern": "AllToAll"}]});
        let mut application = ActorApplication::new("cams", serde_json::from_value(spec).unwrap());
        application.metadata.namespace = Some("vision".into());
        application.metadata.uid = Some("1".into());
        application
    }

    #[test]
    fn the_peers_file_lists_stable_host_names() {
        let written = peers(&application(), &world::manifest_actors(&application()));
        assert_eq!(written.metadata.owner_references.unwrap()[0].uid, "1");
        insta::assert_snapshot!(written.data.unwrap()["peers.json"], @r#"
        {
          "actors": {
            "crop": [
              "crop-0.cams.vision.svc",
              "crop-1.cams.vision.svc"
            ],
            "sink": [
              "sink-0.cams.vision.svc"
            ]
          },
          "channels": [
            {
              "from": "crop",
              "to": "sink",
              "pattern": "AllToAll"
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_peers_file_of_an_earlier_manifest_is_kept_if_it_names_the_running_actors() {
        let all = world::manifest_actors(&application());
        let mut written = peers(&application(), &all);
        assert!(names_all(&written, &all) && names_all(&written, &all[1..]) && names_all(&written, &[]));
        assert!(!names_all(&peers(&application(), &all[1..]), &all), "one is missing");
        // A group that the manifest no longer has.
        let mut other = application();
        other.spec.actors.remove(0);
        assert!(names_all(&peers(&other, &all), &all));
        for text in ["theirs", "{}", r#"{"actors":{"crop":"crop-0"}}"#] {
            written.data = Some([("peers.json".to_owned(), text.to_owned())].into());
            assert!(!names_all(&written, &all), "{text}");
        }
        written.data = None;
        assert!(!names_all(&written, &[]));
    }

    #[test]
    fn identity_variables_precede_those_of_the_template() {
        let application = application();
        let given: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "env": [{"name": "HELLO", "value": "$(CAIRN_ACTOR)"},
                {"name": "CAIRN_ROOT", "value": "mine"}], "volumeMounts": [{"name": "own", "mountPath": "/own"}]}]}))
        .unwrap();
        let mut spec = given.clone();
        introduce(&mut spec, &application, &world::manifest_actors(&application)[1], "cpu", false, true);
        let env_of = |container: &Container| -> Vec<String> {
            let env = container.env.iter().flatten();
            env.map(|it| format!("{}={}", it.name, it.value.clone().unwrap_or_default())).collect()
        };
        insta::assert_snapshot!(env_of(&spec.containers[0]).join("\n"), @r"
        CAIRN_NAMESPACE=vision
        CAIRN_APPLICATION=cams
        CAIRN_GROUP=crop
        CAIRN_ACTOR=crop-1
        CAIRN_INSTANCE=cams-crop-1
        CAIRN_KIND=cpu
        CAIRN_ROOT=false
        CAIRN_PEERS_FILE=/run/cairn/peers/peers.json
        HELLO=$(CAIRN_ACTOR)
        ");
        assert_eq!(env_of(&spec.init_containers.as_ref().unwrap()[0]).len(), 8);
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("crop-1"), Some("cams")));
        let mounts = |container: &Container| -> Vec<String> {
            container.volume_mounts.iter().flatten().map(|it| it.mount_path.clone()).collect()
        };
        assert_eq!(mounts(&spec.containers[0]), ["/own", "/run/cairn/peers"]);
        assert_eq!(spec.volumes.unwrap()[0].config_map.as_ref().unwrap().name, "cams-peers");

        // A foreign ConfigMap of that name is not mounted.
        let mut spec = given;
        introduce(&mut spec, &application, &world::manifest_actors(&application)[1], "cpu", false, false);
        assert_eq!((env_of(&spec.containers[0]).len(), spec.volumes), (8, None));
        assert_eq!(mounts(&spec.containers[0]), ["/own"]);
    }

    #[test]
    fn the_service_is_headless_and_selects_all_actors() {
        let spec = service(&application()).spec.unwrap();
        assert_eq!(
            (spec.cluster_ip.as_deref(), spec.publish_not_ready_addresses),
            (Some("None"), Some(true))
        );
        assert_eq!(spec.selector.unwrap(), [("cairn.dev/application".to_owned(), "cams".to_owned())].into());
    }
}
