//! A kubelet for tests: it accepts registrations, and calls plugins as the kubelet does.

use std::{
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use http::{Request as HttpRequest, uri::PathAndQuery};
use prost::Message;
use tokio::{net::UnixListener, sync::mpsc, task::JoinHandle};
use tonic::{
    Request, Response, Status, Streaming, body::Body, client::Grpc, server::Grpc as ServerGrpc,
    transport::Server,
};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::wire::{Empty, LIST_AND_WATCH, ListAndWatchResponse, REGISTER, RegisterRequest};
use crate::kubelet_socket::connect;

/// A fake kubelet; dropping it stops the server and removes its socket.
pub struct FakeRegistrationServer {
    folder: PathBuf,
    registrations: mpsc::UnboundedReceiver<RegisterRequest>,
    refusal: Arc<Mutex<Option<&'static str>>>,
    server: JoinHandle<()>,
}

impl FakeRegistrationServer {
    /// Starts in `folder`, and removes the sockets of plugins, as a starting kubelet does.
    pub fn start(folder: &Path) -> Self {
        for entry in fs::read_dir(folder).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let listener = UnixListener::bind(folder.join("kubelet.sock")).unwrap();
        let (sender, registrations) = mpsc::unbounded_channel();
        let refusal = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&refusal);
        let service = service_fn(move |request: HttpRequest<Body>| {
            let (sender, refusal) = (sender.clone(), *shared.lock().unwrap());
            async move {
                if request.uri().path() != REGISTER {
                    return Ok::<_, Infallible>(Status::unimplemented("unknown method").into_http());
                }
                let register = service_fn(move |request: Request<RegisterRequest>| {
                    let _ = sender.send(request.into_inner());
                    let response = refusal.map_or(Ok(Empty {}), |message| Err(Status::unknown(message)));
                    async move { response.map(Response::new) }
                });
                Ok(ServerGrpc::new(ProstCodec::default()).unary(register, request).await)
            }
        });
        let server = tokio::spawn(async move {
            let connections = super::server::connections(listener);
            Server::builder().serve_with_incoming(service, connections).await.unwrap();
        });
        Self { folder: folder.to_owned(), registrations, refusal, server }
    }

    /// Refuses registrations with this message, or accepts them.
    pub fn set_refusal(&self, message: Option<&'static str>) {
        *self.refusal.lock().unwrap() = message;
    }

    /// The next registration.
    pub async fn registration(&mut self) -> RegisterRequest {
        self.registrations.recv().await.unwrap()
    }

    /// The resources of the next registrations, sorted.
    pub async fn registered(&mut self, count: usize) -> Vec<String> {
        let mut resources = Vec::new();
        for _ in 0..count {
            resources.push(self.registration().await.resource_name);
        }
        resources.sort();
        resources
    }

    /// The devices of a plugin, now and after every change.
    pub async fn watch(&self, endpoint: &str) -> Streaming<ListAndWatchResponse> {
        let mut plugin = Grpc::new(connect(&self.folder.join(endpoint)).await.unwrap());
        plugin.ready().await.unwrap();
        let codec = ProstCodec::<Empty, ListAndWatchResponse>::default();
        let path = PathAndQuery::from_static(LIST_AND_WATCH);
        plugin.server_streaming(Request::new(Empty {}), path, codec).await.unwrap().into_inner()
    }

    /// A call of a plugin.
    pub async fn call<Q, R>(&self, endpoint: &str, path: &'static str, request: Q) -> Result<R, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut plugin = Grpc::new(connect(&self.folder.join(endpoint)).await.unwrap());
        plugin.ready().await.unwrap();
        let codec = ProstCodec::<Q, R>::default();
        let response = plugin.unary(Request::new(request), PathAndQuery::from_static(path), codec).await;
        response.map(Response::into_inner)
    }
}

impl Drop for FakeRegistrationServer {
    fn drop(&mut self) {
        self.server.abort();
        // The next kubelet may have removed it.
        let _ = fs::remove_file(self.folder.join("kubelet.sock"));
    }
}
