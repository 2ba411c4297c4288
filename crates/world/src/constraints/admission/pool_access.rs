//! Namespaces in the index, and the pools that their applications may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::{ActorApplication, DevicePool};
use k8s_openapi::api::core::v1::{LimitRange, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use placement::file::{Constraint, Places};

use crate::Index;
use crate::constraints::nodes::selectors::labels_match;
use crate::demand::actors::ApplicationActors;
use crate::index::names::namespace_of;
use crate::index::namespaces::POD_ANNOTATIONS;
use crate::units::offer::Offer;

impl Index {
    /// Adds or updates a namespace.
    pub fn put_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.name_any();
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        if namespace.metadata.deletion_timestamp.is_some() || phase == Some("Terminating") {
            self.namespaces.terminating.insert(name.clone());
        } else {
            self.namespaces.terminating.remove(&name);
        }
        let restricts = |key: &&str| {
            namespace.annotations().get(*key).is_some_and(|value| !matches!(value.trim(), "" | "[]"))
        };
        let annotations = POD_ANNOTATIONS.into_iter().filter(restricts).collect();
        self.namespaces.annotations.insert(name.clone(), annotations);
        // `SetDefaults_Namespace`; a file may lack the label.
        let mut labels = namespace.labels().clone();
        labels.extend(name_label(&name));
        self.namespaces.labels.insert(name, labels);
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.labels.remove(name);
        self.namespaces.annotations.remove(name);
        self.namespaces.terminating.remove(name);
    }

    /// Removes the namespaces that are not among `names`.
    pub fn retain_namespaces(&mut self, names: &BTreeSet<(String, String)>) {
        let names: BTreeSet<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
        self.namespaces.labels.retain(|name, _| names.contains(name.as_str()));
        self.namespaces.annotations.retain(|name, _| names.contains(name.as_str()));
        self.namespaces.terminating.retain(|name| names.contains(name.as_str()));
    }

    /// The priority of an application, within the limit of its namespace.
    pub fn priority(&self, application: &ActorApplication) -> i32 {
        self.namespaces.priority(application)
    }

    /// Adds or updates a `LimitRange`.
    pub fn put_limits(&mut self, limits: Arc<LimitRange>) {
        self.forget_loads();
        self.namespaces.limits.insert((namespace_of(limits.as_ref()), limits.name_any()), limits);
    }

    /// Removes a `LimitRange`.
    pub fn remove_limits(&mut self, namespace: &str, name: &str) {
        self.forget_loads();
        self.namespaces.limits.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Removes the limits that are not among `names`.
    pub fn retain_limits(&mut self, names: &BTreeSet<(String, String)>) {
        self.forget_loads();
        self.namespaces.limits.retain(|name, _| names.contains(name));
    }

    /// Whether applications of a namespace may use a pool.
    pub fn may_use(&self, namespace: &str, pool: &DevicePool) -> bool {
        pool.spec.namespace_selector.as_ref().is_none_or(|selector| self.selects(selector, namespace))
    }

    /// Whether a selector matches the labels of a namespace.
    pub(crate) fn selects(&self, selector: &LabelSelector, namespace: &str) -> bool {
        match self.namespaces.labels.get(namespace) {
            Some(labels) => labels_match(selector, labels),
            None => labels_match(selector, &name_label(namespace).into()),
        }
    }
}

/// The label that every namespace has.
fn name_label(namespace: &str) -> [(String, String); 1] {
    [("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())]
}

/// Pools that do not select this namespace; running actors stay.
pub(crate) fn denied_pools(
    index: &Index,
    namespace: &str,
    actors: &ApplicationActors,
    offer: &Offer,
) -> Vec<Constraint> {
    let own: Vec<String> = actors.names.iter().map(ToString::to_string).collect();
    let of_pool = |pool: &Arc<DevicePool>| {
        let name = pool.name_any();
        let units: Vec<String> =
            offer.units.iter().filter(|unit| unit.pool == name).map(|unit| unit.id.clone()).collect();
        let reason = Some(format!(
            "pool {name} does not select namespace {namespace}; see its spec.namespaceSelector"
        ));
        let rule = Constraint::Never {
            actors: own.clone(),
            places: Places::Units(units.clone()),
            except_current: true,
            reason,
        };
        (!units.is_empty()).then_some(rule)
    };
    if own.is_empty() {
        return Vec::new();
    }
    index.pools().filter(|pool| !index.may_use(namespace, pool)).filter_map(of_pool).collect()
}
