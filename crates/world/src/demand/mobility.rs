//! Actors that never move for a gain.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, ActorGroup, labels};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use kube::ResourceExt;

/// Groups whose actors move only when they must, whatever a move gains.
///
/// Pinned groups, groups with the annotation `cairn.dev/do-not-move` on the application or a template, and groups whose pods hold
/// something of their node: claims, `hostPath` volumes or resource claims, unless `cairn.dev/may-move` is set.
pub fn groups_that_stay(application: &ActorApplication) -> BTreeSet<String> {
    let of_application = application.annotations();
    let stays = |group: &&ActorGroup| {
        let templates = group.implementations.iter().map(|implementation| &implementation.template);
        let is_set = |name: &str| {
            is_true(of_application, name) || templates.clone().any(|template| is_annotated(template, name))
        };
        let holds = || templates.clone().filter_map(|template| template.spec.as_ref()).any(holds_node);
        group.pin_to.is_some() || is_set(labels::DO_NOT_MOVE) || holds() && !is_set(labels::MAY_MOVE)
    };
    application.spec.actors.iter().filter(stays).map(|group| group.name.clone()).collect()
}

fn is_annotated(template: &PodTemplateSpec, name: &str) -> bool {
    let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    annotations.is_some_and(|annotations| is_true(annotations, name))
}

fn is_true(annotations: &BTreeMap<String, String>, name: &str) -> bool {
    annotations.get(name).is_some_and(|value| value == "true")
}

/// Whether pods of this spec hold something that a move loses or cannot take along.
fn holds_node(spec: &PodSpec) -> bool {
    let mut volumes = spec.volumes.iter().flatten();
    let holds = volumes.any(|volume| {
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() || volume.host_path.is_some()
    });
    holds || spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_something_of_their_node_stay() {
        for (annotations, group, template, expected) in [
            ("{}", "", "{}", false),
            ("{}", "pinTo: {node: n},", "{}", true),
            ("{cairn.dev/do-not-move: 'true'}", "", "{}", true),
            ("{cairn.dev/do-not-move: 'false'}", "", "{}", false),
            ("{}", "", "{metadata: {annotations: {cairn.dev/do-not-move: 'true'}}}", true),
            ("{}", "", "{spec: {containers: [], volumes: [{name: v, hostPath: {path: /v}}]}}", true),
            ("{}", "", "{spec: {containers: [], volumes: [{name: v, emptyDir: {}}]}}", false),
            ("{}", "", "{spec: {containers: [], resourceClaims: [{name: gpu}]}}", true),
            (
                "{cairn.dev/may-move: 'true'}",
                "",
                "{spec: {containers: [], resourceClaims: [{name: gpu}]}}",
                false,
            ),
            ("{cairn.dev/may-move: 'true'}", "pinTo: {node: n},", "{}", true),
        ] {
            let application = format!(
                "{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app, annotations: {annotations}}}, \
                 spec: {{actors: [{{name: a, {group} implementations: [{{kind: cpu, serviceTime: 1ms, template: {template}}}]}}]}}}}"
            );
            let application: ActorApplication = serde_yaml::from_str(&application).unwrap();
            assert_eq!(
                !groups_that_stay(&application).is_empty(),
                expected,
                "{annotations} {group} {template}"
            );
        }
    }
}
