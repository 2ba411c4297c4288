//! A driver of dynamic resource allocation (DRA) for the kubelets of real nodes: its devices are nothing but names.
//!
//! Messages and services of `k8s.io/kubelet/pkg/apis/{dra/v1,pluginregistration/v1}/api.proto`, with the fields that are used here.

use std::{
    collections::HashMap,
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use futures::future::try_join;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::net::UnixListener;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::http::{Request as HttpRequest, Response as HttpResponse},
};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::{
    RealNode,
    kubelet_api::{Empty, connections},
};

/// The folder of the kubelet, as it sees it.
const KUBELET: &str = "/var/lib/kubelet";

#[derive(Clone, PartialEq, prost::Message)]
struct PluginInfo {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    name: String,
    /// The socket of the driver, as the kubelet sees it.
    #[prost(string, tag = "3")]
    endpoint: String,
    #[prost(string, repeated, tag = "4")]
    supported_versions: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Claims {
    #[prost(message, repeated, tag = "1")]
    claims: Vec<Claim>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Claim {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Prepared {
    /// By the uid of the claim.
    #[prost(map = "string, message", tag = "1")]
    claims: HashMap<String, PreparedClaim>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PreparedClaim {
    #[prost(message, repeated, tag = "1")]
    devices: Vec<PreparedDevice>,
    #[prost(string, tag = "2")]
    error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PreparedDevice {
    #[prost(string, repeated, tag = "1")]
    request_names: Vec<String>,
    #[prost(string, tag = "2")]
    pool_name: String,
    #[prost(string, tag = "3")]
    device_name: String,
    #[prost(string, repeated, tag = "4")]
    cdi_device_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Unprepared {
    /// By the uid of the claim.
    #[prost(map = "string, message", tag = "1")]
    claims: HashMap<String, UnpreparedClaim>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnpreparedClaim {
    #[prost(string, tag = "1")]
    error: String,
}

/// The driver of one node.
struct Driver {
    name: String,
    /// Where containerd reads descriptions of devices.
    cdi: PathBuf,
    client: Client,
}

/// Serves a driver to the kubelet of a node until it fails. A container gets the name of its device in the variable `DEVICES`.
///
/// # Errors
/// When a socket or folder cannot be made, or a server fails.
pub async fn serve(node: &RealNode, name: &str, client: Client) -> Result<()> {
    let driver = Arc::new(Driver { name: name.to_owned(), cdi: node.state.join("cdi"), client });
    let (plugins, registry) =
        (node.kubelet().join("plugins").join(name), node.kubelet().join("plugins_registry"));
    for folder in [&plugins, &registry, &driver.cdi] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // The kubelet calls a new socket in the registry at once.
    let sockets = (plugins.join("dra.sock"), registry.join(format!("{name}-reg.sock")));
    let of_claims = driver.clone();
    let claims = listen(&sockets.0, move |request| claims(of_claims.clone(), request));
    let registration = listen(&sockets.1, move |request| registration(driver.clone(), request));
    try_join(claims, registration).await.map(drop)
}

async fn listen<F, A>(socket: &Path, answer: F) -> Result<()>
where
    F: Fn(HttpRequest<Body>) -> A + Clone + Send + 'static,
    A: Future<Output = HttpResponse<Body>> + Send + 'static,
{
    let listener =
        UnixListener::bind(socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
    let service = service_fn(move |request| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(answer(request).await) }
    });
    let served = tonic::transport::Server::builder().serve_with_incoming(service, connections(listener));
    served.await.context("the server of the driver ended")
}

/// One call of the service `Registration`.
async fn registration(driver: Arc<Driver>, request: HttpRequest<Body>) -> HttpResponse<Body> {
    let path = request.uri().path().to_owned();
    let mut grpc =
        (tonic::server::Grpc::new(ProstCodec::default()), tonic::server::Grpc::new(ProstCodec::default()));
    match path.as_str() {
        "/pluginregistration.Registration/GetInfo" => {
            let info = PluginInfo {
                kind: "DRAPlugin".into(),
                name: driver.name.clone(),
                endpoint: format!("{KUBELET}/plugins/{}/dra.sock", driver.name),
                supported_versions: vec!["v1.DRAPlugin".into()],
            };
            let answer = service_fn(move |_: Request<Empty>| {
                let info = info.clone();
                async move { Ok(Response::new(info)) }
            });
            grpc.0.unary(answer, request).await
        }
        "/pluginregistration.Registration/NotifyRegistrationStatus" => {
            let answer = service_fn(async |_: Request<Empty>| Ok(Response::new(Empty {})));
            grpc.1.unary(answer, request).await
        }
        other => Status::unimplemented(other.to_owned()).into_http(),
    }
}

/// One call of the service `DRAPlugin`.
async fn claims(driver: Arc<Driver>, request: HttpRequest<Body>) -> HttpResponse<Body> {
    let path = request.uri().path().to_owned();
    match path.rsplit('/').next() {
        Some("NodePrepareResources") => {
            let answer = service_fn(move |asked: Request<Claims>| {
                let driver = driver.clone();
                async move {
                    let mut claims = HashMap::new();
                    for claim in asked.into_inner().claims {
                        let prepared = driver.prepare(&claim).await.unwrap_or_else(|error| PreparedClaim {
                            error: format!("{error:#}"),
                            ..PreparedClaim::default()
                        });
                        claims.insert(claim.uid, prepared);
                    }
                    Ok(Response::new(Prepared { claims }))
                }
            });
            tonic::server::Grpc::new(ProstCodec::default()).unary(answer, request).await
        }
        Some("NodeUnprepareResources") => {
            let answer = service_fn(move |asked: Request<Claims>| {
                let driver = driver.clone();
                async move {
                    let claims = asked.into_inner().claims.into_iter().map(|claim| {
                        // It may never have been prepared.
                        let _ = fs::remove_file(driver.description(&claim));
                        (claim.uid, UnpreparedClaim::default())
                    });
                    Ok(Response::new(Unprepared { claims: claims.collect() }))
                }
            });
            tonic::server::Grpc::new(ProstCodec::default()).unary(answer, request).await
        }
        _ => Status::unimplemented(path).into_http(),
    }
}

impl Driver {
    /// The file that describes the devices of a claim.
    fn description(&self, claim: &Claim) -> PathBuf {
        self.cdi.join(format!("{}-{}.json", self.name, claim.uid))
    }

    /// Describes the allocated devices of a claim to containerd.
    async fn prepare(&self, claim: &Claim) -> Result<PreparedClaim> {
        let claims: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &claim.namespace);
        let object = claims.get(&claim.name).await.context("the claim cannot be read")?;
        anyhow::ensure!(object.uid().as_ref() == Some(&claim.uid), "another claim has its name");
        let allocation = object.status.and_then(|status| status.allocation).context("it is not allocated")?;
        let results = allocation.devices.and_then(|devices| devices.results).unwrap_or_default();
        let own: Vec<_> = results.into_iter().filter(|result| result.driver == self.name).collect();
        let kind = format!("{}/device", self.name);
        let named = |device: &str| format!("{}-{device}", claim.uid);
        let described = own.iter().map(|result| {
            let edits = json!({"env": [format!("DEVICES={}", result.device)]});
            json!({"name": named(&result.device), "containerEdits": edits})
        });
        let text = json!({"cdiVersion": "0.6.0", "kind": kind, "devices": described.collect::<Vec<_>>()});
        fs::write(self.description(claim), text.to_string()).context("the description cannot be written")?;
        let device =
            |result: &k8s_openapi::api::resource::v1::DeviceRequestAllocationResult| PreparedDevice {
                request_names: vec![result.request.clone()],
                pool_name: result.pool.clone(),
                device_name: result.device.clone(),
                cdi_device_ids: vec![format!("{kind}={}", named(&result.device))],
            };
        Ok(PreparedClaim { devices: own.iter().map(device).collect(), error: String::new() })
    }
}
