//! Resource claims of actors, by which their pods get devices of dynamic resource allocation (DRA).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::{ObjectId, RefusalKey, RefusalScope};
use crds::{AllocatedDevices, Instance, Placement, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{
    CELDeviceSelector, DeviceClaim, DeviceRequest, DeviceSelector, ExactDeviceRequest, ResourceClaim,
    ResourceClaimSpec,
};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use world::{ActorName, ApplicationKey, Index, OwnedObjects, Unit, controller_ref, object_name};

use crate::apply::owned::ownership::owner;
use crate::apply::pods::eviction::Deferred;
use crate::apply::pods::lifecycle::delete;
use crate::apply::pods::manifest::{DEVICE, claim_name, labels_of};
use crate::error::{Error, Failures};
use crate::runtime::clock::moment;
use crate::runtime::context::Context;

/// When a device is looked at again that another claim has not released yet.
const RELEASE_CHECK: Duration = Duration::from_millis(500);

/// An actor's claim of a unit's device; `None` if the unit has none.
pub fn device_claim(actor: &ActorName, instance: &Instance, unit: &Unit) -> Option<ResourceClaim> {
    let claim = unit.claim.as_ref()?;
    let selector = |expression: &String| DeviceSelector {
        cel: Some(CELDeviceSelector { expression: expression.clone() }),
    };
    let request = DeviceRequest {
        name: DEVICE.to_owned(),
        exactly: Some(ExactDeviceRequest {
            device_class_name: claim.class.clone(),
            selectors: Some(claim.selectors.iter().map(selector).collect()),
            ..ExactDeviceRequest::default()
        }),
        ..DeviceRequest::default()
    };
    Some(ResourceClaim {
        metadata: ObjectMeta {
            name: claim_name(&object_name(actor), unit),
            namespace: Some(actor.application.namespace.clone()),
            labels: Some(labels_of(actor)),
            annotations: Some([(labels::UNIT.to_owned(), unit.id.clone())].into()),
            owner_references: owner(instance),
            ..ObjectMeta::default()
        },
        spec: ResourceClaimSpec {
            devices: Some(DeviceClaim { requests: Some(vec![request]), ..DeviceClaim::default() }),
        },
        status: None,
    })
}

/// Creates the claim of an actor's pod, before the pod; returns a refusal, or that the device is not released yet.
///
/// # Errors
/// When the API server fails, or the lease is lost.
pub async fn create_claim(
    actor: &ActorName,
    instance: &Instance,
    unit: &Unit,
    ctx: &Context,
) -> Result<Option<Deferred>, Error> {
    let Some(claim) = device_claim(actor, instance, unit) else { return Ok(None) };
    let (name, namespace) = (claim.name_any(), &actor.application.namespace);
    let (known, other) = {
        let index = ctx.caches.index();
        (index.resource_claim(namespace, &name).cloned(), index.held_by_another(unit, &name, namespace))
    };
    let wait = |why: String| {
        let until = moment() + RELEASE_CHECK;
        Ok(Some(Deferred::Create { actor: actor.short(), until, why, just_now: false }))
    };
    let of_node = || RefusalKey {
        scope: RefusalScope::Node(unit.node.clone()),
        group: actor.group.clone(),
        kind: unit.kind.clone(),
    };
    let refused = |about, message| Ok(Some(Deferred::Start(actor.short(), about, message)));
    if let Some(known) = &known {
        if known.metadata.deletion_timestamp.is_some() {
            return wait(format!("ResourceClaim {name} is being deleted"));
        }
        let owner = controller_ref(known.as_ref(), "Instance").map(|owner| &owner.uid);
        if owner != instance.metadata.uid.as_ref() {
            let message =
                format!("ResourceClaim {name} exists and is not of this Instance: delete or rename it");
            return refused(of_node(), message);
        }
    }
    if let Some(why) = other {
        return wait(why);
    }
    if known.is_some() {
        return Ok(None);
    }
    let Err(not) = ctx.writer.create(&claim).await? else { return Ok(None) };
    let by_namespace = RefusalKey { scope: RefusalScope::Namespace, ..RefusalKey::default() };
    let about = if not.by_namespace { by_namespace } else { of_node() };
    refused(about, format!("ResourceClaim {name}: {}", not.message))
}

/// Deletes the claims that neither a pod nor a decided place of their Instance uses.
///
/// # Errors
/// When the lease is lost; other errors are kept.
pub async fn delete_unused(
    key: &ApplicationKey,
    decision: &Placement,
    (units, instances): (&BTreeMap<String, Unit>, &OwnedObjects),
    ctx: &Context,
    failures: &mut Failures,
) -> Result<Vec<Deferred>, Error> {
    let places: BTreeMap<&str, &str> =
        decision.spec.assignments.iter().map(|it| (it.actor.as_str(), it.unit.as_str())).collect();
    let unused: Vec<(String, ObjectId)> = {
        let index = ctx.caches.index();
        let of_instance = |(instance, pod): &(Arc<Instance>, Option<Arc<Pod>>)| {
            let actors = world::actors_of_instance(instance);
            let place = actors.iter().find_map(|actor| places.get(actor.short().as_str()));
            unused(&index, instance, pod.as_deref(), place.copied(), units)
        };
        instances.values().flat_map(of_instance).collect()
    };
    let mut deferred = Vec::new();
    for (actor, claim) in unused {
        let deleted = delete::<ResourceClaim>(ctx, key, actor, &claim, false).await;
        deferred.extend(failures.keep(deleted)?.flatten());
    }
    Ok(deferred)
}

fn unused(
    index: &Index,
    instance: &Instance,
    pod: Option<&Pod>,
    place: Option<&str>,
    units: &BTreeMap<String, Unit>,
) -> Vec<(String, ObjectId)> {
    let wanted = place.and_then(|place| claim_name(&instance.name_any(), units.get(place)?));
    // A claim is deleted once the pod that terminates has released it.
    let running = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let is_used = |claim: &ResourceClaim| {
        let by_pod = running.is_some_and(|pod| claims_of(pod).any(|name| *name == claim.name_any()));
        let is_wanted = match &wanted {
            Some(name) => *name == claim.name_any(),
            None => place.is_some() && world::claimed_unit(claim) == place,
        };
        by_pod || is_wanted
    };
    let claims = index.claims_of(instance).filter(|claim| claim.metadata.deletion_timestamp.is_none());
    let unused = claims.filter(|claim| !is_used(claim));
    unused
        .map(|claim| {
            let id = ObjectId {
                name: claim.name_any(),
                uid: claim.uid().unwrap_or_default(),
                resource_version: None,
            };
            (instance.name_any(), id)
        })
        .collect()
}

/// Names of the claims that a pod uses.
fn claims_of(pod: &Pod) -> impl Iterator<Item = &String> {
    let claims = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    claims.filter_map(|claim| claim.resource_claim_name.as_ref())
}

/// Devices that the claims of an Instance's pod hold, by driver, for drivers that its node's agent does not report.
pub fn add_claimed(devices: &mut Vec<AllocatedDevices>, index: &Index, instance: &Instance, pod: &Pod) {
    let mut claimed = BTreeMap::<String, Vec<String>>::new();
    for name in claims_of(pod) {
        let claim = index.claims_of(instance).find(|claim| claim.name_any() == *name);
        for device in claim.into_iter().flat_map(|claim| world::allocated_devices(claim)) {
            claimed.entry(device.driver).or_default().push(format!("{}/{}", device.pool, device.device));
        }
    }
    claimed.retain(|driver, _| devices.iter().all(|known| known.resource != *driver));
    devices
        .extend(claimed.into_iter().map(|(resource, device_ids)| AllocatedDevices { resource, device_ids }));
    devices.sort_by(|a, b| a.resource.cmp(&b.resource));
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use world::DeviceClaim;

    use super::*;

    #[test]
    fn a_pod_claims_the_device_of_its_unit() {
        let template = json!({"spec": {"containers": [{"name": "side"}, {"name": "actor"}],
            "resourceClaims": [{"name": "own", "resourceClaimName": "mine"}]}});
        let ways = json!([{"kind": "gpu", "serviceTime": "1ms", "template": template}]);
        let mut application = crds::ActorApplication::new(
            "app",
            serde_json::from_value(json!({"actors": [{"name": "a", "implementations": ways}]})).unwrap(),
        );
        application.metadata.namespace = Some("ns".into());
        let actor = world::manifest_actors(&application).remove(0);
        let mut instance = crate::apply::pods::manifest::instance(&application, &actor);
        instance.metadata.uid = Some("2".into());
        let unit = |selector: &str| Unit {
            id: "node-0/gpus-gpu-1".into(),
            kind: "gpu".into(),
            node: "node-0".into(),
            zone: None,
            numa: None,
            pool: "gpus".into(),
            capacity: 1,
            capacity_per_actor: 1,
            memory_mib: None,
            slots: Some(1),
            resource: None,
            claim: Some(DeviceClaim {
                class: "gpu.nvidia.com".into(),
                selectors: vec![selector.into()],
                device: None,
                choices: Arc::default(),
            }),
            device: None,
            cordoned: None,
        };
        let claim = device_claim(&actor, &instance, &unit("device.attributes['d'].uuid == 'U'")).unwrap();
        let written = serde_json::to_value(&claim).unwrap();
        let exactly = json!({"deviceClassName": "gpu.nvidia.com",
            "selectors": [{"cel": {"expression": "device.attributes['d'].uuid == 'U'"}}]});
        assert_eq!(written.pointer("/spec/devices/requests/0/exactly"), Some(&exactly));
        assert_eq!(
            written.pointer("/metadata/annotations/cairn.dev~1unit"),
            Some(&json!("node-0/gpus-gpu-1"))
        );
        assert_eq!(written.pointer("/metadata/ownerReferences/0/uid"), Some(&json!("2")));
        let pod = |unit: &Unit| {
            crate::apply::pods::manifest::pod(&application, &actor, &instance, unit, None, false, false)
                .unwrap()
        };
        let claimed = pod(&unit("device.attributes['d'].uuid == 'U'"));
        assert_eq!(claims_of(&claimed).collect::<Vec<_>>(), ["mine", &claim.name_any()]);
        let spec = serde_json::to_value(claimed.spec.unwrap()).unwrap();
        assert_eq!(spec.pointer("/containers/1/resources/claims"), Some(&json!([{"name": "cairn-device"}])));
        assert_eq!(spec.pointer("/containers/0/resources"), None);
        let other = pod(&unit("true"));
        assert_ne!(claims_of(&other).nth(1), Some(&claim.name_any()), "another request is another claim");
    }
}
