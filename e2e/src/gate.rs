//! A gate in the API server: it admits a number of creations of a resource, or of writes of a user, and blocks further ones.
//!
//! A validating webhook. With it a test can stop the product between two of its writes, and observe that.

use std::{
    collections::BTreeMap,
    fs,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use axum::{Json, Router, extract::State, routing::post};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        version,
    },
};

use crate::{Cluster, Namespace, wait};

/// The webhook timeout; the longest that the API server allows.
const PATIENCE_SECONDS: u32 = 30;
/// The limit for the API server to call the webhook for the first time.
const SOON: Duration = Duration::from_mins(3);
/// An object for dry-run creations that show whether the webhook is called.
const TRIAL: &str = "configmaps";

/// A gate around one namespace, removed on drop.
pub struct Gate<'a> {
    cluster: &'a Cluster,
    name: String,
    doors: Arc<Doors>,
    server: JoinHandle<()>,
}

/// The room of all writes of one user.
pub const WRITES: &str = "writes";

/// The state of the gate.
struct Doors {
    /// By resource, how many creations are still admitted, and how many are or were blocked.
    rooms: Mutex<BTreeMap<String, Room>>,
    /// The user whose writes count, of whatever resource, in the room [`WRITES`].
    user: Option<String>,
    open: watch::Sender<bool>,
    asked: watch::Sender<bool>,
}

#[derive(Debug)]
struct Room {
    free: usize,
    held: usize,
}

impl<'a> Gate<'a> {
    /// Closes a gate around `namespace` that admits so many creations of each of these resources, such as `pods`.
    ///
    /// Returns when the API server calls it.
    pub async fn close(
        cluster: &'a Cluster,
        namespace: &Namespace<'_>,
        rooms: &[(&str, usize)],
    ) -> Result<Self> {
        let resources: Vec<&str> = rooms.iter().map(|(resource, _)| *resource).chain([TRIAL]).collect();
        Self::new(cluster, namespace, rooms, None, (&["CREATE"], &resources)).await
    }

    /// Closes a gate around `namespace` that admits so many writes of this user; dry runs and events are not counted.
    ///
    /// Returns when the API server calls it.
    pub async fn close_writes(
        cluster: &'a Cluster,
        namespace: &Namespace<'_>,
        user: String,
        admitted: usize,
    ) -> Result<Self> {
        let operations = ["CREATE", "UPDATE", "DELETE"];
        Self::new(cluster, namespace, &[(WRITES, admitted)], Some(user), (&operations, &["*/*"])).await
    }

    async fn new(
        cluster: &'a Cluster,
        namespace: &Namespace<'_>,
        rooms: &[(&str, usize)],
        user: Option<String>,
        (operations, resources): (&[&str], &[&str]),
    ) -> Result<Self> {
        let room = |&(resource, free): &(&str, usize)| (resource.to_owned(), Room { free, held: 0 });
        let doors = Arc::new(Doors {
            rooms: Mutex::new(rooms.iter().map(room).collect()),
            user,
            open: watch::Sender::new(false),
            asked: watch::Sender::new(false),
        });
        let pki = cluster.plane().state.join("pki");
        // the API server's own certificate is valid for loopback
        let certificates =
            CertificateDer::pem_file_iter(pki.join("kube-apiserver.crt"))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(pki.join("kube-apiserver.key"))?;
        let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let pages = Router::new().route("/", post(judge)).with_state(Arc::clone(&doors));
        let server = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), pages));
        let gate = Self { cluster, name: format!("gate-{namespace}"), doors, server };

        let authority =
            fs::read(cluster.plane().authority()).context("cannot read the authority's certificate")?;
        let hook = json!({
            "name": "gate.cairn.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "timeoutSeconds": PATIENCE_SECONDS, "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": ByteString(authority)},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": resources}],
        });
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": gate.name}, "webhooks": [hook]});
        cluster.kubectl_with(["apply", "-f-"], &configuration.to_string()).await?;
        let asked = wait::until(SOON, async || {
            namespace.kubectl(["create", "configmap", "trial", "--dry-run=server"]).await?;
            ensure!(*gate.doors.asked.borrow(), "the API server does not ask the gate");
            anyhow::Ok(())
        });
        asked.await.map_err(|seen| anyhow!("the gate is not closed: {seen}"))?;
        Ok(gate)
    }

    /// The number of creations of this resource, or of [`WRITES`], that are or were blocked.
    pub fn held(&self, resource: &str) -> usize {
        self.doors.rooms().get(resource).map_or(0, |room| room.held)
    }

    /// Admits everything from now on; blocked requests are refused.
    pub fn open(&self) {
        self.doors.open.send_replace(true);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        let mut kubectl = self.cluster.command("kubectl");
        kubectl.args(["delete", "validatingwebhookconfiguration", &self.name]);
        // best effort: the whole cluster is deleted soon
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
        self.server.abort();
    }
}

impl Doors {
    fn rooms(&self) -> MutexGuard<'_, BTreeMap<String, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a creation of this resource is admitted; waits until that is known.
    async fn lets_in(&self, resource: &str) -> bool {
        if *self.open.borrow() {
            return true;
        }
        match self.rooms().get_mut(resource) {
            None => {
                self.asked.send_replace(true);
                return true;
            }
            Some(room) if room.free > 0 => {
                room.free -= 1;
                return true;
            }
            Some(room) => room.held += 1,
        }
        // the sender lives as long as this value
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        false
    }
}

/// Answers an `AdmissionReview`.
async fn judge(State(doors): State<Arc<Doors>>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let resource = request["resource"]["resource"].as_str().unwrap_or_default();
    // A dry run creates nothing.
    let is_tried = resource != TRIAL && request["dryRun"] == true;
    let counted = match &doors.user {
        None => Some(resource),
        Some(_) if resource == TRIAL => Some(TRIAL),
        Some(user) if request["userInfo"]["username"] == *user.as_str() && resource != "events" => {
            Some(WRITES)
        }
        Some(_) => None,
    };
    let allowed = match counted {
        Some(counted) if !is_tried => doors.lets_in(counted).await,
        _ => true,
    };
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": allowed, "status": {"message": "the gate was closed"}}}))
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, pages: Router) {
    loop {
        // errors of a client's connection are ignored
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (tls, service) = (tls.clone(), TowerToHyperService::new(pages.clone()));
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let server = Builder::new(TokioExecutor::new()).http1_only();
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
