//! Resource quotas, limit ranges and namespaces: which applications a change enqueues.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota};
use kube::ResourceExt;
use world::{ApplicationKey, Index};

use crate::watch::caches::Caches;
use crate::watch::indexed::Indexed;
use crate::watch::watches::{ChangeFilter, Names};

impl Indexed for ResourceQuota {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, quota: Arc<Self>, present: bool) {
        let namespace = quota.namespace().unwrap_or_default();
        if !present {
            filter.forget(quota.as_ref());
            caches.change(|index| index.remove_quota(&namespace, &quota.name_any()));
        } else if filter.changed(quota.as_ref(), &quota.spec) {
            caches.change(|index| index.put_quota(quota));
        } else {
            return;
        }
        caches.enqueue_namespace(&namespace);
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_quotas(names);
    }
}

impl Indexed for LimitRange {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, limits: Arc<Self>, present: bool) {
        let namespace = limits.namespace().unwrap_or_default();
        if !present {
            filter.forget(limits.as_ref());
            caches.change(|index| index.remove_limits(&namespace, &limits.name_any()));
        } else if filter.changed(limits.as_ref(), &limits.spec) {
            caches.change(|index| index.put_limits(limits));
        } else {
            return;
        }
        caches.enqueue_namespace(&namespace);
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_limits(names);
    }
}

impl Indexed for Namespace {
    fn on_event(caches: &Caches, filter: &mut ChangeFilter, namespace: Arc<Self>, present: bool) {
        let name = namespace.name_any();
        if !present {
            filter.forget(namespace.as_ref());
            caches.change(|index| index.remove_namespace(&name));
            return;
        }
        let facts = (namespace.labels(), namespace.annotations(), &namespace.metadata.deletion_timestamp);
        if filter.changed(namespace.as_ref(), &facts) {
            caches.change(|index| index.put_namespace(&namespace));
            caches.enqueue_namespace(&name);
        }
    }

    fn keep(index: &mut Index, names: &Names) {
        index.retain_namespaces(names);
    }
}

impl Caches {
    /// Enqueues all applications of a namespace for planning.
    fn enqueue_namespace(&self, namespace: &str) {
        let keys = self.applications.state().into_iter().map(|application| ApplicationKey::of(&application));
        self.enqueue_replan(keys.filter(|key| key.namespace == namespace));
    }

    /// A foreign pod was deleted: a quota of the namespace may admit unplaced actors.
    pub fn quota_freed(&self, namespace: &str) {
        if self.index().quotas_of(namespace).next().is_none() {
            return;
        }
        let mut without = self.triggers().capacity_grew();
        without.retain(|key| key.namespace == namespace);
        self.enqueue_replan(without);
    }
}
