//! Quotas of namespaces: who has to look again when one changes, or when others give something back.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use world::{ApplicationKey, Index};

use crate::caches::{Caches, Indexed};
use crate::watches::{Names, Seen};

impl Indexed for ResourceQuota {
    fn happened(caches: &Caches, seen: &mut Seen, quota: Arc<Self>, present: bool) {
        let namespace = quota.namespace().unwrap_or_default();
        if !present {
            seen.forget(quota.as_ref());
            caches.change(|index| index.remove_quota(&namespace, &quota.name_any()));
        } else if seen.changed(quota.as_ref(), &quota.spec) {
            caches.change(|index| index.put_quota(quota));
        } else {
            return;
        }
        let keys =
            caches.applications.state().into_iter().map(|application| ApplicationKey::of(&application));
        caches.ring_touched(keys.filter(|key| key.namespace == namespace));
    }

    fn keep(index: &mut Index, names: &Names) {
        index.keep_quotas(names);
    }
}

impl Caches {
    /// A foreign pod of this namespace is gone: a quota may have room for actors without a place.
    pub fn gave_quota_back(&self, namespace: &str) {
        if self.index().quotas_of(namespace).next().is_none() {
            return;
        }
        let mut without = self.touched().without_place();
        without.retain(|key| key.namespace == namespace);
        self.ring_touched(without);
    }
}
