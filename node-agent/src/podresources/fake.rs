//! A fake PodResources socket for tests.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Response},
    routing::post,
};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use prost::{Message as _, bytes::Bytes};
use tokio::{
    net::UnixListener,
    task::{AbortHandle, JoinSet},
};

use super::wire::{
    ContainerDevices, ContainerMemory, ContainerResources, ListPodResourcesResponse, NumaNode, PodResources,
    TopologyInfo,
};

/// The reply to each request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These pods.
    Pods(Vec<PodResources>),
    /// A gRPC status code and a message.
    Status(i32, &'static str),
    /// Bytes that are not a message.
    Garbage(Vec<u8>),
    /// No reply, ever.
    Hang,
}

/// A fake kubelet; dropping it stops the server and removes its socket.
pub struct FakePodResourcesServer {
    socket: PathBuf,
    shared: Arc<Shared>,
    server: AbortHandle,
}

struct Shared {
    reply: Mutex<Reply>,
    requests: AtomicUsize,
}

impl FakePodResourcesServer {
    pub fn start(socket: &Path, reply: Reply) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let shared = Arc::new(Shared { reply: Mutex::new(reply), requests: AtomicUsize::new(0) });
        let list = post(list).with_state(Arc::clone(&shared));
        let service =
            TowerToHyperService::new(Router::<()>::new().route("/v1.PodResourcesLister/List", list));
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                connections.spawn(async move {
                    let server = Builder::new(TokioExecutor::new()).http2_only();
                    // Clients may disconnect at any time.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { socket: socket.to_owned(), shared, server: server.abort_handle() }
    }

    /// Changes the reply.
    pub fn set_reply(&self, reply: Reply) {
        *self.shared.reply.lock().unwrap() = reply;
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for FakePodResourcesServer {
    fn drop(&mut self) {
        self.server.abort();
        std::fs::remove_file(&self.socket).unwrap();
    }
}

async fn list(State(shared): State<Arc<Shared>>) -> Response<Body> {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let reply = shared.reply.lock().unwrap().clone();
    let (body, code, text) = match reply {
        Reply::Pods(pod_resources) => (ListPodResourcesResponse { pod_resources }.encode_to_vec(), 0, ""),
        Reply::Status(code, text) => (Vec::new(), code, text),
        Reply::Garbage(bytes) => (bytes, 0, ""),
        Reply::Hang => std::future::pending().await,
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.to_string().parse().unwrap());
    trailers.insert("grpc-message", text.parse().unwrap());
    let mut frame = Vec::new();
    if code == 0 {
        // gRPC framing: not compressed, then the length
        frame.push(0);
        frame.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        frame.extend(body);
    }
    let body = Full::new(Bytes::from(frame)).with_trailers(async move { Some(Ok(trailers)) });
    Response::builder().header("content-type", "application/grpc").body(Body::new(body)).unwrap()
}

/// A pod of one container with devices of one resource.
pub fn pod(namespace: &str, name: &str, resource: &str, ids: &[&str]) -> PodResources {
    let devices = ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: ids.iter().map(|&id| id.to_owned()).collect(),
    };
    let container = ContainerResources {
        name: "actor".to_owned(),
        devices: vec![devices],
        ..ContainerResources::default()
    };
    PodResources { name: name.to_owned(), namespace: namespace.to_owned(), containers: vec![container] }
}

/// Memory of a type on these NUMA domains.
pub fn memory(memory_type: &str, domains: &[i64]) -> ContainerMemory {
    let nodes = domains.iter().map(|&id| NumaNode { id }).collect();
    ContainerMemory { memory_type: memory_type.to_owned(), topology: Some(TopologyInfo { nodes }) }
}
