//! The gRPC server of one resource, on a socket beside the kubelet's.

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::{Stream, stream};
use http::Request as HttpRequest;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};
use tonic::{Request, Response, Status, body::Body, server::Grpc, transport::Server};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{
    domains::OfferedDomain,
    wire::{
        ALLOCATE, AllocateRequest, AllocateResponse, ContainerAllocateResponse,
        ContainerPreferredAllocationRequest, ContainerPreferredAllocationResponse, DevicePluginOptions,
        Empty, LIST_AND_WATCH, ListAndWatchResponse, OPTIONS, PRE_START, PREFERRED,
        PreferredAllocationRequest, PreferredAllocationResponse,
    },
};

/// The offer of a server: a domain, and the number of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The domain.
    pub domain: OfferedDomain,
    /// The number of its devices.
    pub slots: u32,
}

/// The identity of a socket file: one that is created later at the same path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(u64, i64, i64);

impl Identity {
    /// The identity of the socket at `path`.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self(found.ino(), found.ctime(), found.ctime_nsec()))
    }
}

/// A server that listens until it is dropped, which removes its socket.
#[derive(Debug)]
pub struct Endpoint {
    socket: PathBuf,
    identity: Identity,
    offer: Arc<watch::Sender<Offer>>,
    server: JoinHandle<()>,
}

impl Endpoint {
    /// Listens at `socket`, and replaces a socket that an earlier agent left there.
    pub fn bind(socket: PathBuf, offer: Offer) -> io::Result<Self> {
        if fs::symlink_metadata(&socket).is_ok_and(|found| found.file_type().is_socket()) {
            fs::remove_file(&socket)?;
        }
        let listener = UnixListener::bind(&socket)?;
        let identity = Identity::of(&socket)?;
        let offer = Arc::new(watch::Sender::new(offer));
        // Connections outlive the server task. Their streams end when the endpoint drops the sender.
        let offered = Arc::downgrade(&offer);
        let service = service_fn(move |request| {
            let offered = offered.upgrade();
            async move {
                let Some(offered) = offered else {
                    return Ok::<_, Infallible>(Status::unavailable("the agent is stopping").into_http());
                };
                Ok(handle(request, &offered).await)
            }
        });
        let server = tokio::spawn(async move {
            // The plugin replaces a finished server, as it does a removed socket.
            let _ = Server::builder().serve_with_incoming(service, connections(listener)).await;
        });
        Ok(Self { socket, identity, offer, server })
    }

    /// Whether the kubelet can still connect. A starting kubelet removes the sockets of all plugins.
    pub fn listens(&self) -> bool {
        !self.server.is_finished() && Identity::of(&self.socket).is_ok_and(|now| now == self.identity)
    }

    /// Whether a kubelet is subscribed to the devices.
    pub fn is_watched(&self) -> bool {
        self.offer.receiver_count() > 0
    }

    /// Changes the offer, and sends it to subscribed kubelets.
    pub fn set(&self, now: Offer) {
        self.offer.send_if_modified(|before| std::mem::replace(before, now) != now);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
        // Another server may have replaced the socket.
        if Identity::of(&self.socket).is_ok_and(|now| now == self.identity) {
            let _ = fs::remove_file(&self.socket);
        }
    }
}

/// The incoming connections.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, async |listener| {
        let connection = listener.accept().await.map(|(connection, _)| connection);
        Some((connection, listener))
    })
}

/// Handles one call of the service `v1beta1.DevicePlugin`.
async fn handle(request: HttpRequest<Body>, offered: &watch::Sender<Offer>) -> http::Response<Body> {
    match request.uri().path() {
        OPTIONS => {
            // Both options are false: devices of a domain are interchangeable, and need no preparation.
            let options =
                service_fn(async |_: Request<Empty>| Ok(Response::new(DevicePluginOptions::default())));
            Grpc::new(ProstCodec::default()).unary(options, request).await
        }
        LIST_AND_WATCH => {
            let offers = offered.subscribe();
            let list = service_fn(move |_: Request<Empty>| {
                let lists = lists(offers.clone());
                async { Ok(Response::new(lists)) }
            });
            Grpc::new(ProstCodec::default()).server_streaming(list, request).await
        }
        ALLOCATE => {
            let domain = offered.borrow().domain;
            let allocate = service_fn(move |request: Request<AllocateRequest>| {
                let containers = request.into_inner().container_requests;
                let allocation = |_| ContainerAllocateResponse { envs: domain.environment() };
                let container_responses = containers.into_iter().map(allocation).collect();
                async { Ok(Response::new(AllocateResponse { container_responses })) }
            });
            Grpc::new(ProstCodec::default()).unary(allocate, request).await
        }
        PREFERRED => {
            let prefer = service_fn(async |request: Request<PreferredAllocationRequest>| {
                let containers = request.into_inner().container_requests;
                let container_responses = containers.into_iter().map(preferred).collect();
                Ok(Response::new(PreferredAllocationResponse { container_responses }))
            });
            Grpc::new(ProstCodec::default()).unary(prefer, request).await
        }
        PRE_START => {
            // The device ids are skipped as an unknown field.
            let start = service_fn(async |_: Request<Empty>| Ok(Response::new(Empty {})));
            Grpc::new(ProstCodec::default()).unary(start, request).await
        }
        other => Status::unimplemented(other.to_owned()).into_http(),
    }
}

/// The devices now, and after every change.
fn lists(mut offers: watch::Receiver<Offer>) -> impl Stream<Item = Result<ListAndWatchResponse, Status>> {
    offers.mark_changed();
    stream::unfold(offers, async |mut offers| {
        // The stream ends when the endpoint is dropped.
        offers.changed().await.ok()?;
        let Offer { domain, slots } = *offers.borrow_and_update();
        Some((Ok(ListAndWatchResponse { devices: domain.devices(slots) }), offers))
    })
}

/// The devices that must be included, and the first of the others.
fn preferred(request: ContainerPreferredAllocationRequest) -> ContainerPreferredAllocationResponse {
    let mut device_ids = request.must_include_device_ids;
    let size = usize::try_from(request.allocation_size).unwrap_or(0);
    for id in request.available_device_ids {
        if device_ids.len() >= size {
            break;
        }
        if !device_ids.contains(&id) {
            device_ids.push(id);
        }
    }
    ContainerPreferredAllocationResponse { device_ids }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_devices_contain_the_required_ones() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let request = ContainerPreferredAllocationRequest {
            available_device_ids: ids(&["a", "b", "c"]),
            must_include_device_ids: ids(&["b"]),
            allocation_size: 2,
        };
        assert_eq!(preferred(request).device_ids, ids(&["b", "a"]));
    }
}
