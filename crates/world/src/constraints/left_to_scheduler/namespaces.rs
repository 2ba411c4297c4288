//! Rules of a namespace that plans do not model.

use std::collections::BTreeSet;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, ResourceQuota};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

use crate::Index;
use crate::constraints::admission::claim_quotas::ClaimQuota;
use crate::constraints::admission::quotas::{QuotaTarget, counted};
use crate::constraints::admission::resource_limits::is_unscoped;
use crate::constraints::volumes::volume_claims::{class_of, ephemeral};
use crate::demand::actors::ApplicationActors;
use crate::index::names::namespace_of;

/// Label of a namespace with the level that `PodSecurity` enforces.
const ENFORCED_LEVEL: &str = "pod-security.kubernetes.io/enforce";
/// The level that allows all pods.
const PRIVILEGED: &str = "privileged";
/// The name by which a quota counts Instances.
const INSTANCES: &str = "count/instances.cairn.dev";
/// Separates a `StorageClass` from what a quota counts of its claims.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// What only admission evaluates of quotas, labels and annotations of the application's namespace.
pub(super) fn left_of_namespace(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
) -> BTreeSet<String> {
    let namespace = namespace_of(own.0);
    let labels = index.namespaces.labels.get(&namespace);
    let level = labels.and_then(|labels| labels.get(ENFORCED_LEVEL)).filter(|level| *level != PRIVILEGED);
    let annotations = index.namespaces.annotations.get(&namespace).into_iter().flatten();
    let mut found: BTreeSet<String> =
        index.quotas_of(&namespace).flat_map(|quota| left_of_quota(index, own, quota)).collect();
    found.extend(level.map(|level| format!("PodSecurity {level} of the namespace")));
    found.extend(annotations.map(|name| format!("the annotation {name} of the namespace")));
    found
}

/// What only admission counts of a quota.
fn left_of_quota(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    quota: &ResourceQuota,
) -> Vec<String> {
    let name = quota.name_any();
    if !is_unscoped(quota) {
        return vec![format!("ResourceQuota {name}: its scopes")];
    }
    let hard = quota.spec.iter().filter_map(|spec| spec.hard.as_ref()).flat_map(|hard| hard.keys());
    let is_left = |name: &str| match ClaimQuota::of(index, name) {
        Some(of_claims) => of_claims.is_left(index, own),
        None => {
            matches!(counted(name), QuotaTarget::ByAdmission)
                || name == INSTANCES
                || counts_volumes(index, own.0, name)
        }
    };
    let left = hard.filter(|name| is_left(name));
    left.map(|counted| format!("ResourceQuota {name}: the sum of {counted}")).collect()
}

/// Whether a quota counts claims of ephemeral volumes under this name.
fn counts_volumes(index: &Index, application: &ActorApplication, name: &str) -> bool {
    let (class, counted) =
        name.split_once(OF_STORAGE_CLASS).map_or((None, name), |(class, of)| (Some(class), of));
    let is_of_class = |claim: &PersistentVolumeClaimSpec| {
        let own = claim.storage_class_name.clone();
        let own = own.or_else(|| class_of(index, claim).map(|class| class.name_any()));
        class.is_none_or(|class| match own {
            Some(own) => own == class,
            None => index.scheduling.is_unknown::<StorageClass>(),
        })
    };
    let mut ways = application.spec.actors.iter().flat_map(|group| &group.implementations);
    matches!(counted, "persistentvolumeclaims" | "count/persistentvolumeclaims" | "requests.storage")
        && ways.any(|way| way.template.spec.iter().flat_map(ephemeral).any(|(_, claim)| is_of_class(claim)))
}
