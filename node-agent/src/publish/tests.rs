//! Requests to the API server, recorded by a mock server.

use std::fmt::Write as _;

use crds::{Device, Health};
use http::{Request, Response};
use kube::{Client, client::Body};
use tower_test::mock;

use super::*;

/// Publishes `desired` to an API server with these `replies`, one for each request.
///
/// Returns the outcome and the requests.
async fn run(desired: DesiredState<'_>, replies: Vec<(u16, Value)>) -> (Result<Outcome, Failure>, String) {
    let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
    let api = Api::<NodeTopology>::all(Client::new(service, "default"));
    let server = async {
        let mut sent = String::new();
        for (code, response) in replies {
            let (request, respond) = handle.next_request().await.expect("another request is expected");
            let (head, body) = request.into_parts();
            writeln!(sent, "{} {}", head.method, head.uri).unwrap();
            if let Some(format) = head.headers.get("content-type") {
                let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
                writeln!(sent, "{}\n{}", format.to_str().unwrap(), without_transition_time(&body)).unwrap();
            }
            let response = Body::from(serde_json::to_vec(&response).unwrap());
            respond.send_response(Response::builder().status(code).body(response).unwrap());
        }
        sent
    };
    tokio::join!(publish(&api, desired), server)
}

/// The body without the transition time, which differs between runs.
fn without_transition_time(body: &Value) -> String {
    let mut body = body.clone();
    if let Some(timestamp) = body.pointer_mut("/status/conditions/0/lastTransitionTime") {
        *timestamp = json!("NOW");
    }
    serde_json::to_string_pretty(&body).unwrap()
}

fn machine() -> NodeTopologySpec {
    let gpu = Device { id: "gpu-0".into(), type_: "GPU".into(), health: Health::Ok, ..Device::default() };
    NodeTopologySpec { devices: vec![gpu], links: Vec::new() }
}

fn desired(spec: &NodeTopologySpec) -> DesiredState<'_> {
    DesiredState { node: "node-a", uid: "uid-1", spec: Some(spec), allocations: None, release: None }
}

/// The object after `desired` was published as generation 1.
fn current(desired: DesiredState<'_>) -> NodeTopology {
    let mut object: NodeTopology = serde_json::from_value(desired.body()).unwrap();
    object.metadata.generation = Some(1);
    object.status = desired.status_change(&object, Timestamp::UNIX_EPOCH);
    object
}

fn without_status(object: &NodeTopology) -> Value {
    json!(NodeTopology { status: None, ..object.clone() })
}

fn not_found() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "no", "code": 404})
}

#[tokio::test]
async fn what_is_not_there_is_applied_with_its_owner_and_then_its_status() {
    let spec = machine();
    let object = current(desired(&spec));
    let replies = vec![(404, not_found()), (201, without_status(&object)), (200, json!(object))];
    let (outcome, sent) = run(desired(&spec), replies).await;
    assert_eq!(outcome.unwrap(), Outcome::Written);
    insta::assert_snapshot!(sent);
}

#[tokio::test]
async fn what_is_there_already_is_read_and_not_written() {
    let spec = machine();
    let (outcome, sent) = run(desired(&spec), vec![(200, json!(current(desired(&spec))))]).await;
    assert_eq!(outcome.unwrap(), Outcome::Unchanged);
    assert_eq!(sent, "GET /apis/cairn.dev/v1alpha1/nodetopologies/node-a\n");
}

#[tokio::test]
async fn a_changed_status_is_written_alone() {
    let spec = machine();
    let mut object = current(desired(&spec));
    object.status.as_mut().unwrap().devices = Some("9 GPU".into());
    let (outcome, sent) = run(desired(&spec), vec![(200, json!(object)), (200, json!(object))]).await;
    assert_eq!(outcome.unwrap(), Outcome::Written);
    insta::assert_snapshot!(sent);
}

#[tokio::test]
async fn devices_of_other_field_managers_are_removed() {
    let spec = machine();
    let object = current(desired(&spec));
    let mut foreign = object.clone();
    foreign.spec.devices.push(Device { id: "gpu-9".into(), type_: "GPU".into(), ..Device::default() });
    // The apply keeps the device of the other field manager; the merge patch does not.
    let replies = vec![(200, json!(foreign)), (200, json!(foreign)), (200, json!(object))];
    let (outcome, sent) = run(desired(&spec), replies).await;
    assert_eq!(outcome.unwrap(), Outcome::Written);
    insta::assert_snapshot!(sent);
}

#[tokio::test]
async fn a_removed_description_leaves_a_node_without_devices_that_is_not_ready() {
    let spec = machine();
    let gone = DesiredState { spec: None, ..desired(&spec) };
    let mut emptied: NodeTopology = serde_json::from_value(gone.body()).unwrap();
    emptied.metadata.generation = Some(2);
    emptied.status = current(desired(&spec)).status;
    let replies = vec![(200, json!(current(desired(&spec)))), (200, json!(emptied)), (200, json!(emptied))];
    let (outcome, sent) = run(gone, replies).await;
    assert_eq!(outcome.unwrap(), Outcome::Written);
    insta::assert_snapshot!(sent);
}

#[tokio::test]
async fn failures_quote_the_api_server() {
    let spec = machine();
    let message = "NodeTopology.cairn.dev \"node-a\" is invalid: spec: Invalid value";
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "message": message, "code": 422});
    let (outcome, _) = run(desired(&spec), vec![(404, not_found()), (422, refusal)]).await;
    let failure = outcome.unwrap_err();
    assert_eq!(failure.to_string(), format!("{message} (422)"));
    assert_eq!(<&str>::from(failure.reason()), "invalid");
}

#[test]
fn a_recreated_node_is_published_again() {
    let spec = machine();
    let object = current(desired(&spec));
    assert!(desired(&spec).matches(&object));
    assert!(!DesiredState { uid: "uid-2", ..desired(&spec) }.matches(&object));
}

#[test]
fn allocations_are_written_on_change_and_kept_while_unknown() {
    let spec = machine();
    let mut object = current(desired(&spec));
    let gpu = Allocation { pod: "crop-0".into(), device_ids: vec!["gpu-0".into()], ..Allocation::default() };
    let allocated = DesiredState { allocations: Some(std::slice::from_ref(&gpu)), ..desired(&spec) };
    assert!(!allocated.matches(&object));
    object.status = allocated.status_change(&object, Timestamp::UNIX_EPOCH);
    assert_eq!(object.status.as_ref().unwrap().allocations, std::slice::from_ref(&gpu));
    assert!(allocated.matches(&object));
    assert!(desired(&spec).matches(&object), "the allocations are unknown");
    let empty = DesiredState { allocations: Some(&[]), ..desired(&spec) };
    assert_eq!(empty.status_change(&object, Timestamp::UNIX_EPOCH).unwrap().allocations, []);
}

#[test]
fn the_release_condition_exists_while_requested() {
    let spec = machine();
    let conditions = |object: &NodeTopology| -> Vec<String> {
        let conditions = &object.status.as_ref().unwrap().conditions;
        conditions.iter().map(|it| format!("{} {} {}", it.type_, it.status, it.reason)).collect()
    };
    let mut object = current(desired(&spec));
    let (waits, done) = (Release::Waits("it hangs".into()), Release::Done);
    for (release, expected) in [
        (Some(&waits), &["Ready True Reported", "DriverReleased False Waiting"][..]),
        (Some(&done), &["Ready True Reported", "DriverReleased True Released"]),
        (None, &["Ready True Reported"]),
    ] {
        let now = DesiredState { release, ..desired(&spec) };
        assert!(!now.matches(&object), "{expected:?}");
        object.status = now.status_change(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(conditions(&object), expected);
        assert!(now.matches(&object), "{expected:?}");
    }
    let foreign =
        Condition { type_: "Inspected".into(), ..object.status.as_ref().unwrap().conditions[0].clone() };
    object.status.as_mut().unwrap().conditions.push(foreign);
    assert!(desired(&spec).matches(&object));
}

#[test]
fn the_transition_time_changes_only_with_the_status() {
    let spec = machine();
    let mut object = current(desired(&spec));
    object.metadata.generation = Some(2);
    let later = Timestamp::UNIX_EPOCH + std::time::Duration::from_mins(1);
    let status = desired(&spec).status_change(&object, later).unwrap();
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.conditions[0].last_transition_time.0, Timestamp::UNIX_EPOCH);

    let status = DesiredState { spec: None, ..desired(&spec) }.status_change(&object, later).unwrap();
    assert_eq!(status.conditions[0].last_transition_time.0, later);
}
