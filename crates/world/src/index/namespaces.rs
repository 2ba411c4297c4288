//! What holds in a namespace beside its quotas: its labels, and what admission gives containers that ask for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::LimitRange;

use crate::demand::pods::Quantities;
use crate::index::objects::Name;
use crate::numbers::quantity;

/// What is known of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    pub limits: BTreeMap<Name, Arc<LimitRange>>,
}

impl Namespaces {
    /// What a container of this namespace requests that neither requests nor limits a resource itself.
    ///
    /// A `LimitRange` as a file may leave out what the API server fills in: the maximum stands for the default, that for the
    /// default request, and the minimum for one that has none of them.
    pub fn defaults(&self, namespace: &str) -> Quantities {
        let mut defaults = Quantities::new();
        let from = self.limits.range((namespace.to_owned(), String::new())..);
        for (_, limits) in from.take_while(|((of, _), _)| of == namespace) {
            let items = limits.spec.iter().flat_map(|spec| &spec.limits);
            for item in items.filter(|item| item.type_ == "Container") {
                let by_rank = [&item.default_request, &item.default, &item.max, &item.min];
                for (resource, amount) in by_rank.into_iter().flatten().flatten() {
                    // Admission asks one after the other, and what is set is left alone.
                    if let Ok(amount) = quantity(&amount.0) {
                        defaults.entry(resource.clone()).or_insert(amount);
                    }
                }
            }
        }
        defaults
    }
}
