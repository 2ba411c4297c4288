//! Objects that pod templates refer to: how they are slimmed, and which applications a change enqueues.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crds::DevicePool;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate, ResourceSlice,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::Serialize;
use world::{ApplicationKey, Index, SchedulingKind, controller_ref};

use crate::runtime::clock::moment;
use crate::watch::caches::Caches;
use crate::watch::indexed::Indexed;
use crate::watch::slim;
use crate::watch::watches::{ChangeFilter, Names};

/// Makes kinds indexed; the function says whether pods of a template depend on the kind.
macro_rules! indexed {
    ($($kind:ty: $depends:expr;)*) => {
        $(impl Indexed for $kind {
            fn on_event(caches: &Caches, filter: &mut ChangeFilter, object: Arc<Self>, present: bool) {
                on_event(caches, filter, &object, present, $depends);
            }

            fn keep(index: &mut Index, names: &Names) {
                index.retain_scheduling::<Self>(names);
            }
        })*
    };
}

indexed! {
    // Pools may also set the class.
    RuntimeClass: |_| true;
    // One class may be the default.
    PriorityClass: |_| true;
    ServiceAccount: |spec| spec.service_account_name.is_some() || spec.service_account.is_some();
    PersistentVolumeClaim: has_claimed_volume;
    PersistentVolume: has_claimed_volume;
    StorageClass: has_claimed_volume;
    CSINode: |spec| has_claimed_volume(spec) || has_disk(spec);
    CSIDriver: has_claimed_volume;
    CSIStorageCapacity: has_claimed_volume;
    DeviceClass: needs_devices;
    ResourceClaim: needs_devices;
    ResourceClaimTemplate: needs_devices;
    ResourceSlice: needs_devices;
}

fn has_claimed_volume(spec: &PodSpec) -> bool {
    let mut volumes = spec.volumes.iter().flatten();
    volumes.any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
}

/// Whether it has a volume that counts as one of a CSI driver, without a claim.
fn has_disk(spec: &PodSpec) -> bool {
    spec.volumes.iter().flatten().any(slim::is_disk)
}

/// Whether pods may need devices: a `DeviceClass` may also serve an extended resource.
fn needs_devices(spec: &PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let resources = containers.filter_map(|container| container.resources.as_ref());
    let mut names = resources.flat_map(|it| it.requests.iter().chain(&it.limits)).flat_map(BTreeMap::keys);
    spec.resource_claims.iter().flatten().next().is_some() || names.any(|name| name.contains('/'))
}

/// Updates the index, and enqueues the applications whose templates depend on the kind.
fn on_event<K: SchedulingKind + Serialize>(
    caches: &Caches,
    filter: &mut ChangeFilter,
    object: &Arc<K>,
    present: bool,
    depends: fn(&PodSpec) -> bool,
) {
    if present && !filter.changed(object.as_ref(), object.as_ref()) {
        return;
    }
    let any: &dyn Any = object.as_ref();
    // The capacity of a driver is in the driver's namespace, and counts in all.
    let namespace = object.namespace().filter(|_| !any.is::<CSIStorageCapacity>());
    let claim = any.downcast_ref::<ResourceClaim>();
    let was_allocated = claim.is_some_and(|claim| {
        let index = caches.index();
        let known = index.resource_claim(&claim.namespace().unwrap_or_default(), &claim.name_any());
        known.is_some_and(|known| is_allocated(known))
    });
    let is_freed = was_allocated && !(present && claim.is_some_and(is_allocated));
    let nodes = caches.index().nodes_with_devices(object.as_ref());
    let mut nodes = nodes.into_iter();
    let change = |index: &mut Index| {
        if present {
            index.put_scheduling(object.clone());
        } else {
            filter.forget(object.as_ref());
            index.remove_scheduling(object.as_ref());
        }
    };
    match nodes.next() {
        // A claim takes or frees a device; a slice may change all of them.
        Some(node) => caches.change_node(&node, claim.is_none(), change),
        None => caches.change(change),
    }
    for node in nodes {
        caches.change_node(&node, claim.is_none(), |_| ());
    }
    let owner = claim.and_then(|claim| controller_ref(claim, "Instance"));
    if let Some(key) = owner.and_then(|owner| caches.index().application_of(&owner.uid)) {
        caches.enqueue(&key);
    }
    if any.is::<DeviceClass>() {
        let name = object.name_any();
        let kinds: Vec<String> = {
            let index = caches.index();
            let pools = index.pools().filter(|pool| class_of(pool) == Some(&name));
            pools.map(|pool| pool.spec.kind.clone()).collect()
        };
        if !kinds.is_empty() {
            caches.triggers().capacity_freed(kinds.iter().map(String::as_str), None, moment());
            caches.enqueue_all();
        }
    }
    // Actors of other namespaces may get the devices of a claim.
    let waiting = if is_freed { caches.triggers().capacity_grew() } else { Vec::new() };
    let of_it = caches.applications.state().into_iter().filter(|application| {
        let mut ways = application.spec.actors.iter().flat_map(|group| &group.implementations);
        let is_near = namespace.as_ref().is_none_or(|it| application.namespace().as_ref() == Some(it));
        (is_near || waiting.contains(&ApplicationKey::of(application)))
            && ways
                .any(|way| way.template.spec.as_ref().map_or_else(|| depends(&PodSpec::default()), depends))
    });
    caches.enqueue_replan(of_it.map(|application| ApplicationKey::of(&application)));
}

fn is_allocated(claim: &ResourceClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| status.allocation.is_some())
}

/// The class of a pool's devices.
fn class_of(pool: &DevicePool) -> Option<&String> {
    Some(&pool.spec.resource.as_ref()?.dra.as_ref()?.device_class_name)
}

/// Drops the version, which changes with every write.
pub fn unversioned<K: ResourceExt>(object: &mut K) {
    slim::metadata(object);
    let metadata = object.meta_mut();
    (metadata.resource_version, metadata.generation) = (None, None);
}

/// Keeps name and deletion of the metadata.
pub fn identity<K: ResourceExt>(object: &mut K) {
    let metadata = object.meta_mut();
    *metadata = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        uid: metadata.uid.take(),
        deletion_timestamp: metadata.deletion_timestamp.take(),
        ..ObjectMeta::default()
    };
}

/// Keeps name and value.
pub fn priority_class(class: &mut PriorityClass) {
    identity(class);
    class.description = None;
}

/// Keeps the name.
pub fn account(account: &mut ServiceAccount) {
    identity(account);
    (account.secrets, account.image_pull_secrets) = (None, None);
}

/// Keeps the selectors, and the age, by which one of several classes of a resource is chosen.
pub fn device_class(class: &mut DeviceClass) {
    let created = class.metadata.creation_timestamp.take();
    identity(class);
    class.metadata.creation_timestamp = created;
    class.spec.config = None;
}

/// Keeps the owner, the unit, the request and the allocation.
pub fn resource_claim(claim: &mut ResourceClaim) {
    let owners = claim.metadata.owner_references.take();
    let unit = claim.metadata.annotations.take().and_then(|mut all| all.remove_entry(crds::labels::UNIT));
    identity(claim);
    claim.metadata.owner_references = owners;
    claim.metadata.annotations = unit.map(|unit| BTreeMap::from([unit]));
    if let Some(status) = claim.status.take() {
        claim.status = Some(ResourceClaimStatus { allocation: status.allocation, ..Default::default() });
    }
}

#[cfg(test)]
mod tests {
    use crds::ActorApplication;
    use futures::channel::mpsc;
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;
    use crate::queue::triggers::Waiting;

    #[test]
    fn a_change_enqueues_the_applications_whose_templates_depend_on_the_kind() {
        let (store, mut writer) = reflector::store();
        for (namespace, name, spec) in [
            ("shop", "devices", json!({"containers": [], "resourceClaims": [{"name": "c"}]})),
            ("away", "devices", json!({"containers": [], "resourceClaims": [{"name": "c"}]})),
            ("shop", "accounts", json!({"containers": [], "serviceAccountName": "me"})),
            ("shop", "plain", json!({"containers": []})),
        ] {
            let ways = json!([{"kind": "cpu", "serviceTime": "1ms", "template": {"spec": spec}}]);
            let spec = json!({"actors": [{"name": "a", "implementations": ways}]});
            let mut application = ActorApplication::new(name, serde_json::from_value(spec).unwrap());
            application.metadata.namespace = Some(namespace.to_owned());
            writer.apply_watcher_event(&watcher::Event::Apply(application));
        }
        let (requests, mut enqueued) = mpsc::unbounded();
        let caches = Caches::new(store, requests, Arc::default(), Vec::new());
        let mut drain = || {
            let all = std::iter::from_fn(|| enqueued.try_recv().ok());
            let mut names: Vec<_> =
                all.map(|it| format!("{}/{}", it.namespace.unwrap_or_default(), it.name)).collect();
            names.sort();
            names.join(" ")
        };
        let mut filter = ChangeFilter::default();
        let object = |version: &str| json!({"metadata": {"name": "o", "namespace": "shop", "resourceVersion": version}});
        let account: ServiceAccount = serde_json::from_value(object("1")).unwrap();
        ServiceAccount::on_event(&caches, &mut filter, Arc::new(account.clone()), true);
        assert_eq!(drain(), "shop/accounts");
        ServiceAccount::on_event(&caches, &mut filter, Arc::new(account.clone()), true);
        assert_eq!(drain(), "", "nothing changed");
        ServiceAccount::on_event(&caches, &mut filter, Arc::new(account), false);
        assert_eq!(drain(), "shop/accounts");
        let claim: ResourceClaim = serde_json::from_value(object("1")).unwrap();
        ResourceClaim::on_event(&caches, &mut ChangeFilter::default(), Arc::new(claim), true);
        assert_eq!(drain(), "shop/devices");
        let class: DeviceClass = serde_json::from_value(json!({"metadata": {"name": "o"}})).unwrap();
        DeviceClass::on_event(&caches, &mut ChangeFilter::default(), Arc::new(class), true);
        assert_eq!(drain(), "away/devices shop/devices");
        let class = RuntimeClass::default();
        RuntimeClass::on_event(&caches, &mut ChangeFilter::default(), Arc::new(class), true);
        assert_eq!(drain(), "away/devices shop/accounts shop/devices shop/plain");
        // A claim is freed that actors of another namespace may wait for.
        let mut held = object("1");
        held["status"] = json!({"allocation": {}});
        let held: ResourceClaim = serde_json::from_value(held).unwrap();
        ResourceClaim::on_event(&caches, &mut filter, Arc::new(held.clone()), true);
        assert_eq!(drain(), "shop/devices");
        let unplaced = vec![("cpu".to_owned(), BTreeMap::new())];
        let key = ApplicationKey { namespace: "away".to_owned(), name: "devices".to_owned() };
        caches.triggers().set_waiting(&key, Waiting { unplaced, ..Waiting::default() });
        ResourceClaim::on_event(&caches, &mut filter, Arc::new(held), false);
        assert_eq!(drain(), "away/devices shop/devices");
    }

    #[test]
    fn templates_depend_on_the_kinds_they_name() {
        let spec = |value| serde_json::from_value::<PodSpec>(value).unwrap();
        for (given, volume, device) in [
            (json!({"containers": []}), false, false),
            (json!({"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}), false, false),
            (
                json!({"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
                true,
                false,
            ),
            (json!({"containers": [], "volumes": [{"name": "v", "ephemeral": {}}]}), true, false),
            (json!({"containers": [], "resourceClaims": [{"name": "c"}]}), false, true),
            (
                json!({"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}]}),
                false,
                true,
            ),
            (json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}), false, false),
        ] {
            let spec = spec(given);
            assert_eq!((has_claimed_volume(&spec), needs_devices(&spec)), (volume, device), "{spec:?}");
        }
    }
}
