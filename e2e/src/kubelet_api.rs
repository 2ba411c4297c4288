//! Kubelet APIs used by the harness: device plugins (`v1beta1`) and pod resources (`v1`).
//!
//! Messages and services of `k8s.io/kubelet/pkg/apis/{deviceplugin/v1beta1,podresources/v1}/api.proto`, with the
//! fields that are used here. Written manually, as a protobuf compiler would add a hundred crates.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Error, Result, anyhow};
use futures::{Stream, StreamExt};
use tokio::net::{UnixListener, UnixStream};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::http::{Request as HttpRequest, uri::PathAndQuery},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::wait;

/// The method that lists the allocations of all pods.
const LIST: &str = "/v1.PodResourcesLister/List";

/// The limit for a kubelet to listen.
const KUBELET_LIMIT: Duration = Duration::from_mins(3);

/// Longer than any run.
const LONGEST_RUN: Duration = Duration::from_hours(24);

/// Nothing.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

/// The allocations of all pods.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodResourcesResponse {
    /// The pods.
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<PodResources>,
}

/// The allocations of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodResources {
    /// The pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Its containers.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// The allocations of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerResources {
    /// The container.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its devices.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// Its exclusive CPUs.
    #[prost(int64, repeated, tag = "3")]
    pub cpu_ids: Vec<i64>,
}

/// Devices of one resource.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerDevices {
    /// The resource, `nvidia.com/gpu` for example.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// The device ids.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// The registration of a plugin.
#[derive(Clone, PartialEq, prost::Message)]
struct Registration {
    #[prost(string, tag = "1")]
    version: String,
    /// The name of its socket, in the kubelet's plugin folder.
    #[prost(string, tag = "2")]
    endpoint: String,
    #[prost(string, tag = "3")]
    resource_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Devices {
    #[prost(message, repeated, tag = "1")]
    devices: Vec<Device>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Device {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    health: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Requests {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<ContainerRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerRequest {
    #[prost(string, repeated, tag = "1")]
    device_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Allocations {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Allocation>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Allocation {
    #[prost(map = "string, string", tag = "1")]
    environment: HashMap<String, String>,
}

/// Queries a kubelet's pod resources socket.
pub async fn pod_resources(socket: &Path) -> Result<Vec<PodResources>> {
    let channel = connect(socket).await?;
    let given: PodResourcesResponse = call(channel, LIST, Empty {}).await?;
    Ok(given.pods)
}

/// Serves the current allocations at `socket` until it fails.
pub async fn serve_pod_resources(socket: &Path, pods: Arc<Mutex<Vec<PodResources>>>) -> Result<()> {
    let listener =
        UnixListener::bind(socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
    let service = service_fn(move |request: HttpRequest<Body>| {
        let given =
            PodResourcesResponse { pods: pods.lock().unwrap_or_else(PoisonError::into_inner).clone() };
        async move {
            if request.uri().path() != LIST {
                return Ok(Status::unimplemented(request.uri().path().to_owned()).into_http());
            }
            let list = service_fn(move |_: Request<Empty>| {
                let given = given.clone();
                async { Ok(Response::new(given)) }
            });
            let answer = tonic::server::Grpc::new(ProstCodec::default()).unary(list, request).await;
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let served = tonic::transport::Server::builder().serve_with_incoming(service, connections(listener));
    served.await.context("the server of pod resources ended")
}

/// The beginning of the names of devices that no pod gets.
pub const BROKEN: &str = "broken";

/// Serves `devices` of `resource` to the kubelet with this folder, also after its restarts, until it fails.
///
/// Every device is healthy. A container gets the ids of its devices in the variable `DEVICES`, with commas. The kubelet cannot allocate
/// a device whose name begins with [`BROKEN`].
pub async fn serve_devices(kubelet: &Path, resource: &str, devices: &[String]) -> Result<()> {
    let folder = kubelet.join("device-plugins");
    let name = format!("cairn-e2e-{}.sock", std::process::id());
    loop {
        // a starting kubelet removes the sockets of plugins, which must register again
        let removed = wait::until(LONGEST_RUN, async || {
            if folder.join(&name).exists() { Err("the kubelet of before is there") } else { Ok(()) }
        });
        tokio::select! {
            biased; // polled in order: the socket is created before it is checked
            failed = serve_devices_once(&folder, &name, resource, devices) => return failed,
            removed = removed => removed.map_err(Error::msg)?,
        }
    }
}

/// As [`serve_devices`], until the kubelet restarts; its socket must exist.
async fn serve_devices_once(folder: &Path, name: &str, resource: &str, devices: &[String]) -> Result<()> {
    let listener = UnixListener::bind(folder.join(name))
        .with_context(|| format!("cannot listen in {}", folder.display()))?;
    let devices =
        devices.iter().map(|id| Device { id: id.clone(), health: "Healthy".into() }).collect::<Vec<_>>();
    let service = service_fn(move |request| {
        let devices = devices.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(request, devices).await) }
    });
    let serve = tonic::transport::Server::builder().serve_with_incoming(service, connections(listener));

    // the kubelet calls back before it answers; a starting kubelet does not listen at once
    let register = async {
        let registration =
            Registration { version: "v1beta1".into(), endpoint: name.into(), resource_name: resource.into() };
        let registered = wait::until(KUBELET_LIMIT, async || {
            let channel = connect(&folder.join("kubelet.sock")).await?;
            call::<_, Empty>(channel, "/v1beta1.Registration/Register", registration.clone()).await
        });
        registered.await.map_err(Error::msg)?;
        println!("registered {resource}");
        std::future::pending().await
    };
    tokio::select! {
        served = serve => served.context("the server of the plugin ended"),
        failed = register => failed,
    }
}

/// Incoming connections, one after the other.
fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    futures::stream::unfold(listener, async |listener| {
        let connection = listener.accept().await.map(|(connection, _)| connection);
        Some((connection, listener))
    })
}

/// One call of the service `v1beta1.DevicePlugin`.
async fn answer(request: HttpRequest<Body>, devices: Vec<Device>) -> tonic::codegen::http::Response<Body> {
    match request.uri().path() {
        // all options are false: no other calls
        "/v1beta1.DevicePlugin/GetDevicePluginOptions" => {
            let options = service_fn(async |_: Request<Empty>| Ok(Response::new(Empty {})));
            tonic::server::Grpc::new(ProstCodec::default()).unary(options, request).await
        }
        "/v1beta1.DevicePlugin/ListAndWatch" => {
            let list = service_fn(move |_: Request<Empty>| {
                // devices never change
                let first = futures::stream::iter([Ok(Devices { devices: devices.clone() })]);
                async { Ok(Response::new(first.chain(futures::stream::pending()))) }
            });
            tonic::server::Grpc::new(ProstCodec::default()).server_streaming(list, request).await
        }
        "/v1beta1.DevicePlugin/Allocate" => {
            let allocate = service_fn(async |asked: Request<Requests>| {
                let asked = asked.into_inner();
                let mut ids = asked.containers.iter().flat_map(|container| &container.device_ids);
                if let Some(id) = ids.find(|id| id.starts_with(BROKEN)) {
                    return Err(Status::internal(format!("device {id} does not answer")));
                }
                let allocation = |request: ContainerRequest| Allocation {
                    environment: [("DEVICES".to_owned(), request.device_ids.join(","))].into(),
                };
                let containers = asked.containers.into_iter().map(allocation).collect();
                Ok(Response::new(Allocations { containers }))
            });
            tonic::server::Grpc::new(ProstCodec::default()).unary(allocate, request).await
        }
        other => Status::unimplemented(other.to_owned()).into_http(),
    }
}

async fn connect(socket: &Path) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
    endpoint.connect().await.with_context(|| format!("no server on {}", socket.display()))
}

async fn call<Q, A>(channel: Channel, path: &'static str, question: Q) -> Result<A>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.with_context(|| format!("cannot call {path}"))?;
    let codec = ProstCodec::<Q, A>::default();
    let answer = client.unary(Request::new(question), PathAndQuery::from_static(path), codec).await;
    answer.map(Response::into_inner).map_err(|status| anyhow!("{path} answers {status}"))
}
