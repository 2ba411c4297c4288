//! Resource claims of actors: made with the pod, and gone when it moves.

use anyhow::ensure;
use e2e::{SimulatedNode, wait_for};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application};

const DRIVER: &str = "claims.example.com";

/// The devices `a` and `b` of node `one`; `a` may be tainted.
fn slice(generation: u32, tainted: bool) -> Value {
    let device = |name: &str, tainted: bool| {
        let taints = if tainted { json!([{"key": "broken", "effect": "NoExecute"}]) } else { json!([]) };
        json!({"name": name, "attributes": {"uuid": {"string": format!("uuid-{name}")}}, "taints": taints})
    };
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "one-claims"}, "spec": {
        "driver": DRIVER, "nodeName": "one", "devices": [device("a", tainted), device("b", false)],
        "pool": {"name": "one", "generation": generation, "resourceSliceCount": 1}}})
}

#[tokio::test]
async fn a_claim_is_deleted_when_its_actor_has_moved() {
    let env = TestEnv::new("claims", [SimulatedNode::new("one")], []).await;
    move_claimed_actor(&env).await;
}

/// Offers the two devices of node `one` as units of kind `npu`, which actors claim.
pub async fn offer_claimed_devices(env: &TestEnv) {
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "claimed"},
        "spec": {"kind": "npu", "resource": {"dra": {"deviceClassName": DRIVER}}}});
    env.apply(&pool).await;
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]}});
    env.apply(&class).await;
    env.apply(&slice(1, false)).await;
    env.wait_offered("claimed", 2).await;
}

/// Removes what [`offer_claimed_devices`] created, except the pool.
pub async fn withdraw_claimed_devices(env: &TestEnv) {
    let slices = Api::<ResourceSlice>::all(env.client.clone());
    slices.delete("one-claims", &DeleteParams::default()).await.unwrap();
    Api::<DeviceClass>::all(env.client.clone()).delete(DRIVER, &DeleteParams::default()).await.unwrap();
}

/// Runs an actor on one of two claimed devices of node `one`, and taints the device until the actor runs on the other; then deletes
/// the application.
pub async fn move_claimed_actor(env: &TestEnv) {
    offer_claimed_devices(env).await;
    let claiming = application("claiming", &[("worker", 1, &[("npu", "1ms")])]);
    env.apply(&claiming).await;
    let placed = env.wait_reconciled("claiming", AppState::all_placed).await;
    let before = placed.places()["worker-0"].to_owned();
    let claims: Api<ResourceClaim> = env.api();
    let held = async || anyhow::Ok(claims.list(&ListParams::default()).await?.items);
    let first = held().await.unwrap();
    assert_eq!(first.len(), 1);

    // The taint is of the device in use: the devices are alike, so the plan may have chosen either.
    let mut tainted = slice(2, before.ends_with("-a"));
    if before.ends_with("-b") {
        tainted["spec"]["devices"][1]["taints"] = json!([{"key": "broken", "effect": "NoExecute"}]);
    }
    env.apply(&tainted).await;
    env.wait_until("claiming", |state| {
        state.all_placed()?;
        ensure!(state.places()["worker-0"] != before, "it is on {before}");
        Ok(())
    })
    .await;
    wait_for("only the claim of the new device is left", TIMEOUT, async || {
        let now = held().await?;
        let names: Vec<String> = now.iter().map(ResourceExt::name_any).collect();
        ensure!(now.len() == 1 && now[0].uid() != first[0].uid(), "{names:?}");
        anyhow::Ok(())
    })
    .await;
    env.namespace.kubectl_with(["delete", "-f-"], &claiming.to_string()).await.unwrap();
    withdraw_claimed_devices(env).await;
}
