//! Room for pods of the planned application that request more than their templates.

use std::collections::BTreeMap;

use placement::file::Actor;

use crate::index::load::by_unit::{LoadSum, RunningPod};

/// Counts what pods request beyond their templates as load of the units where their actors stay.
///
/// An actor that moves gets a pod of the template's size, so its own requirements stay those of the template.
pub(crate) fn add_requests_beyond_templates(
    sums: &mut BTreeMap<String, LoadSum>,
    actors: &[Actor],
    larger: Vec<(RunningPod, BTreeMap<String, u64>)>,
) {
    if larger.is_empty() {
        return;
    }
    let places: BTreeMap<&str, &str> =
        actors.iter().filter_map(|actor| Some((actor.id.as_str(), actor.current.as_deref()?))).collect();
    for (pod, asks) in larger {
        if places.get(pod.actor.to_string().as_str()) == Some(&pod.unit) {
            sums.entry(pod.unit.to_owned()).or_default().add(&LoadSum { asks, ..LoadSum::default() });
        }
    }
}
