//! Labels of namespaces, and the defaults of their `LimitRange`s.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::{ActorApplication, labels};
use k8s_openapi::api::core::v1::LimitRange;

use crate::demand::pods::Amounts;
use crate::index::names::{Name, namespace_of};
use crate::numbers::quantity;

/// Labels and limits by namespace.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    pub limits: BTreeMap<Name, Arc<LimitRange>>,
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

    /// Default requests of a container in this namespace.
    ///
    /// A `LimitRange` from a file may lack what the API server fills in: the default request falls back to the default
    /// limit, then to the maximum, then to the minimum.
    pub fn defaults(&self, namespace: &str) -> Amounts {
        let mut defaults = Amounts::new();
        let from = self.limits.range((namespace.to_owned(), String::new())..);
        for (_, limits) in from.take_while(|((of, _), _)| of == namespace) {
            let items = limits.spec.iter().flat_map(|spec| &spec.limits);
            for item in items.filter(|item| item.type_ == "Container") {
                let by_rank = [&item.default_request, &item.default, &item.max, &item.min];
                for (resource, amount) in by_rank.into_iter().flatten().flatten() {
                    // The first `LimitRange` that sets a resource wins, as in admission.
                    if quantity(&amount.0).is_ok() {
                        defaults.entry(resource.clone()).or_insert_with(|| amount.clone());
                    }
                }
            }
        }
        defaults
    }
}
