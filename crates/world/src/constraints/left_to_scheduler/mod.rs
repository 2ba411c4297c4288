//! Rules of templates, namespaces and quotas that plans do not model.

mod labels;
mod namespaces;
mod templates;

use std::collections::BTreeSet;

use crds::ActorApplication;

use crate::Index;
use crate::constraints::left_to_scheduler::labels::left_of_labels;
use crate::constraints::left_to_scheduler::namespaces::left_of_namespace;
use crate::constraints::left_to_scheduler::templates::left_of_templates;
use crate::constraints::pods::pod_templates::templates;
use crate::constraints::volumes::volume_choice::undecided_volumes;
use crate::constraints::volumes::volume_limits::unmodelled_limits;
use crate::demand::actors::ApplicationActors;
use crate::index::names::namespace_of;
use crate::units::offer::Offer;

/// The rules for an application's pods that only kube-scheduler or admission evaluates, each as a sentence.
pub(crate) fn left_to_scheduler(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    offer: &Offer,
) -> Vec<String> {
    let (application, actors) = own;
    let templates = templates(index, application, actors);
    let mut found: BTreeSet<String> = left_of_namespace(index, own);
    found.extend(left_of_templates(index, own, offer));
    found.extend(left_of_labels(index, &namespace_of(application), &templates));
    found.extend(undecided_volumes(index, own, &templates));
    found.extend(unmodelled_limits(index, own, &templates, offer));
    found.into_iter().collect()
}
