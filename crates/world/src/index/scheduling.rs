//! Objects that pod templates refer to, and that decide whether and where the scheduler accepts a pod.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kube::{Resource, ResourceExt};
use placement::Strict;
use serde_json::{Map, Value};

use crate::index::names::{Name, namespace_of};

/// A kind of [`SchedulingObjects`].
pub trait SchedulingKind: Resource<DynamicType = ()> + Any + Sized {
    /// Its name, with the namespace if it has one.
    type Key: SchedulingKey;

    /// All objects of this kind.
    fn all(objects: &SchedulingObjects) -> &BTreeMap<Self::Key, Arc<Self>>;

    /// All objects of this kind, to change them.
    fn all_mut(objects: &mut SchedulingObjects) -> &mut BTreeMap<Self::Key, Arc<Self>>;
}

/// The key of an object among those of its kind.
pub trait SchedulingKey: Ord {
    /// The key of this object.
    fn of(object: &impl ResourceExt) -> Self;

    /// Whether namespace and name are among these; cluster-scoped objects have an empty namespace.
    fn is_among(&self, names: &BTreeSet<(String, String)>) -> bool;
}

impl SchedulingKey for String {
    fn of(object: &impl ResourceExt) -> Self {
        object.name_any()
    }

    fn is_among(&self, names: &BTreeSet<(String, String)>) -> bool {
        names.contains(&(Self::new(), self.clone()))
    }
}

impl SchedulingKey for Name {
    fn of(object: &impl ResourceExt) -> Self {
        (namespace_of(object), object.name_any())
    }

    fn is_among(&self, names: &BTreeSet<(String, String)>) -> bool {
        names.contains(self)
    }
}

macro_rules! scheduling_objects {
    ($($field:ident: $kind:ty, $key:ty;)*) => {
        /// Objects that pod templates refer to, by name or by namespace and name.
        #[derive(Clone, Debug, Default)]
        pub struct SchedulingObjects {
            $(pub(crate) $field: BTreeMap<$key, Arc<$kind>>,)*
            /// Kinds whose objects cannot be read.
            unknown: BTreeSet<String>,
            /// Kinds that the API server does not serve.
            unserved: BTreeSet<String>,
            /// Whether the admission plugin `ExtendedResourceToleration` is enabled.
            pub(crate) tolerates_extended_resources: bool,
        }

        $(impl SchedulingKind for $kind {
            type Key = $key;

            fn all(objects: &SchedulingObjects) -> &BTreeMap<Self::Key, Arc<Self>> {
                &objects.$field
            }

            fn all_mut(objects: &mut SchedulingObjects) -> &mut BTreeMap<Self::Key, Arc<Self>> {
                &mut objects.$field
            }
        })*

        impl SchedulingObjects {
            /// Adds an object of a file; other kinds are ignored. Older versions of an API group are read as the newest.
            pub(crate) fn read(
                &mut self,
                (group, kind): (&str, &str),
                value: Value,
            ) -> Result<(), serde_path_to_error::Error<serde_json::Error>> {
                $(if group == <$kind>::group(&()) && kind == <$kind>::kind(&()) {
                    let value = newest::<$kind>(value);
                    self.put::<$kind>(Arc::new(serde_path_to_error::deserialize(Strict(value))?));
                    return Ok(());
                })*
                Ok(())
            }
        }
    };
}

/// An object of any version of its API group as the newest version writes it.
fn newest<K: SchedulingKind>(mut value: Value) -> Value {
    let mut change_each = |path: &str, change: fn(&mut Map<String, Value>)| {
        let items = value.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten();
        items.filter_map(Value::as_object_mut).for_each(change);
    };
    for requests in ["/spec/devices/requests", "/spec/spec/devices/requests"] {
        change_each(requests, set_exactly);
    }
    change_each("/spec/devices", raise_basic);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), K::api_version(&()).into());
    }
    value
}

/// In `resource.k8s.io/v1beta1` a request has the fields of `exactly` itself.
fn set_exactly(request: &mut Map<String, Value>) {
    let class = request.get("deviceClassName").and_then(Value::as_str);
    if class.is_some_and(|class| !class.is_empty()) {
        let name = request.remove("name");
        let exactly = std::mem::take(request);
        request.extend(name.map(|name| ("name".to_owned(), name)));
        request.insert("exactly".to_owned(), exactly.into());
    }
}

/// In `resource.k8s.io/v1beta1` the field `basic` has the fields of a device.
fn raise_basic(device: &mut Map<String, Value>) {
    if let Some(Value::Object(basic)) = device.remove("basic") {
        device.extend(basic);
    }
}

scheduling_objects! {
    runtime_classes: RuntimeClass, String;
    priority_classes: PriorityClass, String;
    service_accounts: ServiceAccount, Name;
    claims: PersistentVolumeClaim, Name;
    volumes: PersistentVolume, String;
    storage_classes: StorageClass, String;
    csi_nodes: CSINode, String;
    csi_drivers: CSIDriver, String;
    storage_capacities: CSIStorageCapacity, Name;
    resource_claim_templates: ResourceClaimTemplate, Name;
    resource_claims: ResourceClaim, Name;
    device_classes: DeviceClass, String;
    resource_slices: ResourceSlice, String;
}

impl SchedulingObjects {
    /// Adds or updates an object.
    pub fn put<K: SchedulingKind>(&mut self, object: Arc<K>) {
        K::all_mut(self).insert(K::Key::of(object.as_ref()), object);
    }

    /// The API server has the admission plugin `ExtendedResourceToleration`.
    pub fn tolerate_extended_resources(&mut self) {
        self.tolerates_extended_resources = true;
    }

    /// Records whether the API server serves this kind.
    pub fn set_served<K: SchedulingKind>(&mut self, is_served: bool) {
        let kind = K::kind(&()).into_owned();
        if is_served {
            self.unserved.remove(&kind)
        } else {
            self.unserved.insert(kind)
        };
    }

    /// Whether the API server does not serve this kind.
    pub(crate) fn is_unserved<K: SchedulingKind>(&self) -> bool {
        self.unserved.contains(K::kind(&()).as_ref())
    }

    /// The objects of this kind cannot be read, so none is judged missing.
    pub fn set_unknown<K: SchedulingKind>(&mut self) {
        self.unknown.insert(K::kind(&()).into_owned());
    }

    /// Whether the objects of this kind cannot be read.
    pub(crate) fn is_unknown<K: SchedulingKind>(&self) -> bool {
        self.unknown.contains(K::kind(&()).as_ref())
    }

    /// Whether there is no object with this key.
    pub(crate) fn lacks<K: SchedulingKind>(&self, key: &K::Key) -> bool {
        !self.is_unknown::<K>() && !K::all(self).contains_key(key)
    }
}
