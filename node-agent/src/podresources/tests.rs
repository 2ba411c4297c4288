//! The client with a socket that exists, is missing, returns, refuses, or sends garbage.

use std::path::Path;

use super::{
    Kubelet, ListError,
    fake::{Answer, FakeKubelet, pod},
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
    let words = format!("there is no socket {}: mount the kubelet's folder", socket.display());
    assert!(error.to_string().starts_with(&words), "{error}");

    let pods = vec![pod("vision", "crop-0", "nvidia.com/gpu", &["GPU-1"])];
    let kubelet = FakeKubelet::start(&socket, Answer::Pods(pods.clone()));
    assert_eq!(client.list().await.unwrap(), pods);
    assert_eq!(client.list().await.unwrap(), pods);
    drop(kubelet);
    assert_eq!(client.list().await.unwrap_err().state(), CollectorState::Error, "the connection broke");
    assert_eq!(client.list().await.unwrap_err().state(), CollectorState::Absent);

    let _back = FakeKubelet::start(&socket, Answer::Pods(Vec::new()));
    assert_eq!(client.list().await.unwrap(), []);
}

#[tokio::test]
async fn refusals_are_distinguished_and_the_next_answer_counts() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = FakeKubelet::start(&socket(folder.path()), Answer::Status(8, "rejected by rate limit"));
    let mut client = Kubelet::new(socket(folder.path()));
    let error = client.list().await.unwrap_err();
    assert!(matches!(error, ListError::Throttled(_)), "{error:?}");
    assert_eq!(error.to_string(), "the kubelet asks for patience: rejected by rate limit");

    kubelet.says(Answer::Status(12, "unknown service"));
    let error = client.list().await.unwrap_err();
    assert!(matches!(error, ListError::Unknown(_)), "{error:?}");
    kubelet.says(Answer::Status(13, "list failed"));
    let error = client.list().await.unwrap_err();
    assert_eq!(error.to_string(), "the kubelet's answer cannot be used: Internal: list failed");

    // truncated fields, wrong types, invalid text: each is an error, none is an empty list
    for garbage in [vec![0xff; 64], vec![0x0a, 0x7f, 1], vec![0x0a, 0x03, 0x0a, 0x01, 0xff]] {
        kubelet.says(Answer::Garbage(garbage.clone()));
        let error = client.list().await.expect_err("garbage");
        assert_eq!(error.reason(), "refused", "{garbage:?}: {error}");
    }
    kubelet.says(Answer::Pods(Vec::new()));
    assert_eq!(client.list().await.unwrap(), []);
}

#[tokio::test]
async fn what_is_no_kubelet_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket(folder.path());
    std::fs::write(&path, "a file").unwrap();
    let error = Kubelet::new(&path).list().await.unwrap_err();
    assert_eq!(error.reason(), "unreachable", "{error}");
    assert!(error.to_string().contains("does not answer"), "{error}");
}

#[tokio::test]
async fn a_kubelet_that_says_nothing_is_given_up_for_now() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = FakeKubelet::start(&socket(folder.path()), Answer::Silence);
    let mut client = Kubelet::new(socket(folder.path()));
    client.patience = std::time::Duration::from_millis(50);
    let error = client.list().await.unwrap_err();
    assert_eq!(error.reason(), "timeout", "{error}");
    client.patience = super::TIMEOUT;
    kubelet.says(Answer::Pods(Vec::new()));
    assert_eq!(client.list().await.unwrap(), []);
}
