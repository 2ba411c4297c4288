//! Labels, annotations and deletion of namespaces, and the defaults of their `LimitRange`s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{ActorApplication, labels};
use k8s_openapi::api::core::v1::LimitRange;

use crate::demand::admission::ContainerDefaults;
use crate::demand::pods::Amounts;
use crate::index::names::{Name, namespace_of};
use crate::numbers::quantity;

/// Annotations of namespaces by which admission changes or rejects pods.
pub const POD_ANNOTATIONS: [&str; 4] = [
    "scheduler.alpha.kubernetes.io/node-selector",
    "scheduler.alpha.kubernetes.io/defaultTolerations",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
    "openshift.io/node-selector",
];

/// Labels and limits by namespace, and the namespaces that are being deleted.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Those of [`POD_ANNOTATIONS`] that select or restrict something, by namespace.
    pub annotations: BTreeMap<String, BTreeSet<&'static str>>,
    pub limits: BTreeMap<Name, Arc<LimitRange>>,
    /// Namespaces that are being deleted.
    pub terminating: BTreeSet<String>,
}

impl Namespaces {
    /// The priority of an application: at most what an administrator allows its namespace by the label
    /// `cairn.dev/max-priority`. A value that is no number allows no positive priority.
    pub fn priority(&self, application: &ActorApplication) -> i32 {
        let labels = self.labels.get(&namespace_of(application));
        let limit = labels.and_then(|labels| labels.get(labels::MAX_PRIORITY));
        let limit = limit.map_or(i32::MAX, |limit| limit.parse().unwrap_or(0));
        application.spec.priority.min(limit)
    }

    /// Default requests and limits of a container in this namespace.
    ///
    /// A `LimitRange` from a file may lack what the API server fills in: the default limit falls back to the maximum, the
    /// default request to the default limit, then to the minimum.
    pub fn defaults(&self, namespace: &str) -> ContainerDefaults {
        let mut defaults = ContainerDefaults::default();
        let from = self.limits.range((namespace.to_owned(), String::new())..);
        for (_, limits) in from.take_while(|((of, _), _)| of == namespace) {
            let items = limits.spec.iter().flat_map(|spec| &spec.limits);
            // The last item of a `LimitRange` that sets a resource wins, and the first `LimitRange`, as in admission.
            for item in items.filter(|item| item.type_ == "Container").rev() {
                let of_limits = [&item.default, &item.max];
                let of_requests = [&item.default_request, &item.default, &item.max, &item.min];
                add_missing(&mut defaults.limits, &of_limits);
                add_missing(&mut defaults.requests, &of_requests);
            }
        }
        defaults
    }
}

/// Adds the first amount of each resource.
fn add_missing(defaults: &mut Amounts, by_rank: &[&Option<Amounts>]) {
    for (resource, amount) in by_rank.iter().copied().flatten().flatten() {
        if quantity(&amount.0).is_ok() {
            defaults.entry(resource.clone()).or_insert_with(|| amount.clone());
        }
    }
}
