//! Objects that pod templates refer to: how they are slimmed, and which applications a change enqueues.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::Serialize;
use world::{ApplicationKey, Index, SchedulingKind};

use crate::watch::caches::Caches;
use crate::watch::indexed::Indexed;
use crate::watch::slim;
use crate::watch::watches::{ChangeFilter, Names};

/// Makes kinds indexed; the function says whether pods of a template depend on the kind.
macro_rules! indexed {
    ($($kind:ty: $depends:expr;)*) => {
        $(impl Indexed for $kind {
            fn on_event(caches: &Caches, filter: &mut ChangeFilter, object: Arc<Self>, present: bool) {
                on_event(caches, filter, object, present, $depends);
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
    PriorityClass: |spec| spec.priority_class_name.is_some();
    ServiceAccount: |spec| spec.service_account_name.is_some() || spec.service_account.is_some();
    PersistentVolumeClaim: has_claimed_volume;
    PersistentVolume: has_claimed_volume;
    StorageClass: has_claimed_volume;
    CSINode: has_claimed_volume;
    DeviceClass: has_resource_claim;
    ResourceClaim: has_resource_claim;
    ResourceClaimTemplate: has_resource_claim;
    ResourceSlice: has_resource_claim;
}

fn has_claimed_volume(spec: &PodSpec) -> bool {
    let mut volumes = spec.volumes.iter().flatten();
    volumes.any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
}

fn has_resource_claim(spec: &PodSpec) -> bool {
    spec.resource_claims.iter().flatten().next().is_some()
}

/// Updates the index, and enqueues the applications whose templates depend on the kind.
fn on_event<K: SchedulingKind + Serialize>(
    caches: &Caches,
    filter: &mut ChangeFilter,
    object: Arc<K>,
    present: bool,
    depends: fn(&PodSpec) -> bool,
) {
    let namespace = object.namespace();
    if !present {
        filter.forget(object.as_ref());
        caches.change(|index| index.remove_scheduling(object.as_ref()));
    } else if filter.changed(object.as_ref(), object.as_ref()) {
        caches.change(|index| index.put_scheduling(object));
    } else {
        return;
    }
    let of_it = caches.applications.state().into_iter().filter(|application| {
        let mut ways = application.spec.actors.iter().flat_map(|group| &group.implementations);
        namespace.as_ref().is_none_or(|namespace| application.namespace().as_ref() == Some(namespace))
            && ways
                .any(|way| way.template.spec.as_ref().map_or_else(|| depends(&PodSpec::default()), depends))
    });
    caches.enqueue_replan(of_it.map(|application| ApplicationKey::of(&application)));
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

/// Keeps the name.
pub fn device_class(class: &mut DeviceClass) {
    identity(class);
    (class.spec.config, class.spec.selectors) = (None, None);
}

/// Keeps which nodes can use the devices; a slice describes up to 128 devices with all attributes.
pub fn slice(slice: &mut ResourceSlice) {
    identity(slice);
    slice.spec.shared_counters = None;
    for device in slice.spec.devices.iter_mut().flatten() {
        (device.attributes, device.capacity, device.consumes_counters) = (None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use crds::ActorApplication;
    use futures::channel::mpsc;
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slimmed_slice_still_names_its_nodes() {
        let device = |more: serde_json::Value| json!({"name": "d", "nodeName": "n", "attributes": more});
        let read = |version: &str, of_device: serde_json::Value| -> ResourceSlice {
            let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
            serde_json::from_value(json!({"metadata": {"name": "s", "resourceVersion": version}, "spec": {
                "driver": "gpu.example.com", "pool": pool, "perDeviceNodeSelection": true, "devices": [of_device]}}))
            .unwrap()
        };
        let mut one = read("1", device(json!({"index": {"int": 1}})));
        let mut other = read("2", device(json!({"index": {"int": 2}})));
        slice(&mut one);
        slice(&mut other);
        assert_eq!(one, other, "a change of attributes is no news");
        assert_eq!(one.spec.devices.unwrap()[0].node_name.as_deref(), Some("n"));
    }

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
        ] {
            let spec = spec(given);
            assert_eq!((has_claimed_volume(&spec), has_resource_claim(&spec)), (volume, device), "{spec:?}");
        }
    }
}
