//! Revisions of an application's templates: which one each pod was created from. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::{ActorApplication, ActorGroup, labels};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::apply::owned::ownership::metadata;

/// Revisions kept besides those in use.
const KEPT: usize = 10;

/// What a `ControllerRevision` holds: templates by group, then by kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct RevisionData {
    templates: BTreeMap<String, BTreeMap<String, PodTemplateSpec>>,
}

impl RevisionData {
    fn of(application: &ActorApplication) -> Self {
        let ways = |group: &ActorGroup| {
            let ways = group.implementations.iter();
            ways.map(|way| (way.kind.clone(), way.template.clone())).collect()
        };
        let groups = application.spec.actors.iter();
        Self { templates: groups.map(|group| (group.name.clone(), ways(group))).collect() }
    }

    fn read(revision: &ControllerRevision) -> Self {
        let data = revision.data.as_ref().map(|data| data.0.clone()).unwrap_or_default();
        // Foreign data counts as an empty state.
        serde_json::from_value(data).unwrap_or_default()
    }

    fn hashes(&self) -> ByWay {
        let ways = |ways: &BTreeMap<String, PodTemplateSpec>| {
            ways.iter().map(|(kind, template)| (kind.clone(), hash(template))).collect()
        };
        self.templates.iter().map(|(group, its)| (group.clone(), ways(its))).collect()
    }
}

/// A hash of a template, ten digits.
pub fn hash(template: &impl Serialize) -> String {
    let text = serde_json::to_string(template).unwrap_or_default();
    // FNV-1a: short and stable across machines and versions; a collision gains nothing.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")[..10].to_owned()
}

/// The revision of the present templates.
pub fn newest(application: &ActorApplication) -> ControllerRevision {
    let state = RevisionData::of(application);
    let name = format!("{}-{}", application.name_any(), hash(&state));
    ControllerRevision {
        metadata: metadata(application, name),
        revision: application.metadata.generation.unwrap_or(0),
        data: serde_json::to_value(&state).ok().map(RawExtension),
    }
}

/// The existing revisions, the oldest first.
pub struct Revisions(pub Vec<Arc<ControllerRevision>>);

impl Revisions {
    fn named(&self, name: &str) -> Option<&Arc<ControllerRevision>> {
        self.0.iter().find(|revision| revision.name_any() == name)
    }

    /// Whether the revision of this name exists, that is, was accepted by the API server.
    pub fn knows(&self, name: &str) -> bool {
        self.named(name).is_some()
    }

    /// Groups and kinds whose template is in no revision.
    pub fn unknown(&self, application: &ActorApplication) -> Vec<(String, String)> {
        let known: Vec<RevisionData> = self.0.iter().map(|revision| RevisionData::read(revision)).collect();
        let newest = RevisionData::of(application);
        let ways = newest.templates.iter().flat_map(|(group, ways)| ways.iter().map(move |way| (group, way)));
        let is_new = |(group, (kind, template)): &(&String, (&String, &PodTemplateSpec))| {
            !known.iter().any(|state| {
                state
                    .templates
                    .get(*group)
                    .and_then(|ways| ways.get(*kind))
                    .is_some_and(|old| old == *template)
            })
        };
        ways.filter(is_new).map(|(group, (kind, _))| (group.clone(), kind.clone())).collect()
    }

    /// The manifest with the templates of this revision, as far as it has them.
    pub fn with_templates_of(&self, name: Option<&str>, application: &ActorApplication) -> ActorApplication {
        let mut application = application.clone();
        let Some(state) = name.and_then(|name| self.named(name)).map(|found| RevisionData::read(found))
        else {
            return application;
        };
        for group in &mut application.spec.actors {
            for way in &mut group.implementations {
                if let Some(old) = state.templates.get(&group.name).and_then(|ways| ways.get(&way.kind)) {
                    way.template.clone_from(old);
                }
            }
        }
        application
    }

    /// The oldest revisions beyond the limit that are not in use.
    pub fn surplus(&self, in_use: &[&str]) -> Vec<Arc<ControllerRevision>> {
        let spare = self.0.len().saturating_sub(KEPT);
        let unused = self.0.iter().filter(|revision| !in_use.contains(&revision.name_any().as_str()));
        unused.take(spare).cloned().collect()
    }
}

/// Hashes of templates, by group and kind.
pub struct Hashes {
    newest: ByWay,
    /// Of the first revision.
    first: ByWay,
}

type ByWay = BTreeMap<String, BTreeMap<String, String>>;

impl Hashes {
    /// Those of the manifest and of the first revision.
    pub fn of(application: &ActorApplication, kept: &Revisions) -> Self {
        let first = kept.0.first().map(|first| RevisionData::read(first).hashes()).unwrap_or_default();
        Self { newest: RevisionData::of(application).hashes(), first }
    }

    /// Whether a pod of a group, on a unit of this kind, has another template than the manifest.
    ///
    /// A pod without a hash predates hashes and belongs to the first revision.
    pub fn is_outdated(&self, pod: &Pod, group: &str, kind: &str) -> bool {
        let way = |state: &ByWay| state.get(group).and_then(|ways| ways.get(kind)).cloned();
        let of_pod = pod.labels().get(labels::TEMPLATE_HASH).cloned().or_else(|| way(&self.first));
        let newest = way(&self.newest);
        of_pod.is_some() && newest.is_some() && of_pod != newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An application of groups `NAME=IMAGE`, all on `cpu`.
    fn application(groups: &str, generation: i64) -> ActorApplication {
        let group = |text: &str| {
            let (name, image) = text.split_once('=').unwrap();
            json!({"name": name, "implementations": [{"kind": "cpu", "serviceTime": "1ms",
                "template": {"spec": {"containers": [{"name": "main", "image": image}]}}}]})
        };
        let groups: Vec<_> = groups.split(' ').map(group).collect();
        let mut application =
            ActorApplication::new("app", serde_json::from_value(json!({"actors": groups})).unwrap());
        application.metadata.uid = Some("1".to_owned());
        application.metadata.generation = Some(generation);
        application
    }

    fn kept(states: &[&str]) -> Revisions {
        let state =
            |(at, groups): (usize, &&str)| Arc::new(newest(&application(groups, i64::try_from(at).unwrap())));
        Revisions(states.iter().enumerate().map(state).collect())
    }

    fn pod_of(image: Option<&str>) -> Pod {
        let mut pod = Pod::default();
        let hash = image.map(|image| {
            RevisionData::of(&application(&format!("a={image}"), 1)).hashes()["a"]["cpu"].clone()
        });
        pod.metadata.labels = hash.map(|hash| [(labels::TEMPLATE_HASH.to_owned(), hash)].into());
        pod
    }

    #[test]
    fn a_pod_is_outdated_if_its_template_changed() {
        let one = kept(&["a=1"]);
        let two = kept(&["a=1", "a=2"]);
        for (known, pod, now, expected) in [
            (&one, Some("1"), "a=1", false),
            (&one, Some("1"), "a=2", true),
            (&two, Some("2"), "a=2", false),
            (&two, Some("2"), "a=2 b=7", false),
            (&one, None, "a=1", false),
            (&one, None, "a=2", true),
            (&kept(&[]), None, "a=1", false),
            // another group's template is irrelevant, and a removed group has none
            (&two, Some("1"), "b=1", false),
        ] {
            let hashes = Hashes::of(&application(now, 9), known);
            assert_eq!(hashes.is_outdated(&pod_of(pod), "a", "cpu"), expected, "{pod:?} of {now}");
        }
    }

    #[test]
    fn the_revision_name_depends_on_the_templates_only() {
        let name = |groups: &str, generation| newest(&application(groups, generation)).name_any();
        assert_eq!(name("a=1", 1), name("a=1", 7));
        assert_ne!(name("a=1", 1), name("a=2", 1));
        assert_eq!(name("a=1", 1), "app-c6086f2f4a");
    }

    #[test]
    fn actors_restart_with_the_templates_of_a_revision() {
        let known = kept(&["a=1", "a=2"]);
        let now = application("a=3 b=3", 9);
        let images = |application: &ActorApplication| -> Vec<String> {
            let templates = application.spec.actors.iter().map(|group| &group.implementations[0].template);
            templates.map(|it| it.spec.clone().unwrap().containers[0].image.clone().unwrap()).collect()
        };
        let first = known.0[0].name_any();
        assert_eq!(images(&known.with_templates_of(Some(&first), &now)), ["1", "3"]);
        assert_eq!(images(&known.with_templates_of(Some("gone"), &now)), ["3", "3"]);
        assert_eq!(images(&known.with_templates_of(None, &now)), ["3", "3"]);
        let way = |group: &str| (group.to_owned(), "cpu".to_owned());
        assert_eq!(known.unknown(&now), [way("a"), way("b")]);
        assert_eq!(known.unknown(&application("a=1 b=3", 9)), [way("b")]);
    }

    #[test]
    fn the_last_ten_revisions_are_kept_and_those_in_use() {
        let states: Vec<String> = (0..12).map(|image| format!("a={image}")).collect();
        let states: Vec<&str> = states.iter().map(String::as_str).collect();
        let all = kept(&states);
        let name = |at: usize| all.0[at].name_any();
        let names = |those: Vec<Arc<ControllerRevision>>| -> Vec<String> {
            those.iter().map(|revision| revision.name_any()).collect()
        };
        assert_eq!(names(all.surplus(&[])), [name(0), name(1)]);
        assert_eq!(names(all.surplus(&[&name(0), &name(11)])), [name(1), name(2)]);
        assert_eq!(names(kept(&states[..10]).surplus(&[])), Vec::<String>::new());
    }
}
