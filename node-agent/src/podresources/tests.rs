//! The client with a kubelet that is absent, restarts, rejects requests, or sends garbage.

use std::path::Path;

use super::{
    Kubelet, ListError,
    fake::{FakePodResourcesServer, Reply, pod},
};
use crate::metrics::CollectorState;

fn socket(folder: &Path) -> std::path::PathBuf {
    folder.join("kubelet.sock")
}

#[tokio::test]
async fn the_client_reconnects_after_a_kubelet_restart() {
    let folder = tempfile::tempdir().unwrap();
    let socket = socket(folder.path());
    let mut client = Kubelet::new(&socket);
    let error = client.list().await.unwrap_err();
    assert_eq!(error.state(), CollectorState::Absent);
    let message = format!("there is no socket {}: mount the kubelet's folder", socket.display());
    assert!(error.to_string().starts_with(&message), "{error}");

    let pods = vec![pod("vision", "crop-0", "nvidia.com/gpu", &["GPU-1"])];
    let kubelet = FakePodResourcesServer::start(&socket, Reply::Pods(pods.clone()));
    assert_eq!(client.list().await.unwrap(), pods);
    assert_eq!(client.list().await.unwrap(), pods);
    drop(kubelet);
    assert_eq!(client.list().await.unwrap_err().state(), CollectorState::Error, "the connection broke");
    assert_eq!(client.list().await.unwrap_err().state(), CollectorState::Absent);

    let _back = FakePodResourcesServer::start(&socket, Reply::Pods(Vec::new()));
    assert_eq!(client.list().await.unwrap(), []);
}

#[tokio::test]
async fn errors_are_distinguished_and_the_next_response_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet =
        FakePodResourcesServer::start(&socket(folder.path()), Reply::Status(8, "rejected by rate limit"));
    let mut client = Kubelet::new(socket(folder.path()));
    let error = client.list().await.unwrap_err();
    assert!(matches!(error, ListError::Throttled(_)), "{error:?}");
    assert_eq!(error.to_string(), "the kubelet rate-limits requests: rejected by rate limit");

    kubelet.set_reply(Reply::Status(12, "unknown service"));
    let error = client.list().await.unwrap_err();
    assert!(matches!(error, ListError::Unknown(_)), "{error:?}");
    kubelet.set_reply(Reply::Status(13, "list failed"));
    let error = client.list().await.unwrap_err();
    assert_eq!(error.to_string(), "the kubelet's response is unusable: Internal: list failed");

    // truncated fields, wrong types, invalid text: each is an error, none is an empty list
    for garbage in [vec![0xff; 64], vec![0x0a, 0x7f, 1], vec![0x0a, 0x03, 0x0a, 0x01, 0xff]] {
        kubelet.set_reply(Reply::Garbage(garbage.clone()));
        let error = client.list().await.expect_err("garbage");
        assert_eq!(error.reason(), "refused", "{garbage:?}: {error}");
    }
    kubelet.set_reply(Reply::Pods(Vec::new()));
    assert_eq!(client.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_file_instead_of_a_socket_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    std::fs::write(&path, "a file").unwrap();
    let error = Kubelet::new(&path).list().await.unwrap_err();
    assert_eq!(error.reason(), "unreachable", "{error}");
    assert!(error.to_string().contains("cannot reach the kubelet"), "{error}");
}

#[tokio::test]
async fn a_kubelet_that_does_not_reply_times_out() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = FakePodResourcesServer::start(&socket(folder.path()), Reply::Hang);
    let mut client = Kubelet::new(socket(folder.path()));
    client.timeout = std::time::Duration::from_millis(50);
    let error = client.list().await.unwrap_err();
    assert_eq!(error.reason(), "timeout", "{error}");
    client.timeout = super::TIMEOUT;
    kubelet.set_reply(Reply::Pods(Vec::new()));
    assert_eq!(client.list().await.unwrap(), []);
}
