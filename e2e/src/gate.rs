//! A gate in the API server: so many objects of a kind are let in, and who wants to create more is kept waiting.
//!
//! It is a validating webhook. So a test can stop the product between two of its writes, and see that it stands there.

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

/// How long the API server lets the gate think; the longest that it grants.
const PATIENCE_SECONDS: u32 = 30;
/// How long the API server may take to ask the gate for the first time.
const SOON: Duration = Duration::from_mins(3);
/// What is created, as a trial, to see whether the gate is asked.
const TRIAL: &str = "configmaps";

/// A gate around one namespace; it is taken away when this is dropped.
pub struct Gate<'a> {
    cluster: &'a Cluster,
    name: String,
    doors: Arc<Doors>,
    server: JoinHandle<()>,
}

/// What is let in.
struct Doors {
    /// By resource, how many may still come in, and how many were not let in.
    rooms: Mutex<BTreeMap<String, Room>>,
    open: watch::Sender<bool>,
    asked: watch::Sender<bool>,
}

#[derive(Debug)]
struct Room {
    free: usize,
    held: usize,
}

impl<'a> Gate<'a> {
    /// Closes a gate around `namespace` that lets in so many objects of each of these resources, such as `pods`.
    ///
    /// Returns when the API server asks it.
    pub async fn close(
        cluster: &'a Cluster,
        namespace: &Namespace<'_>,
        rooms: &[(&str, usize)],
    ) -> Result<Self> {
        let room = |&(resource, free): &(&str, usize)| (resource.to_owned(), Room { free, held: 0 });
        let doors = Arc::new(Doors {
            rooms: Mutex::new(rooms.iter().map(room).collect()),
            open: watch::Sender::new(false),
            asked: watch::Sender::new(false),
        });
        let pki = cluster.plane().state.join("pki");
        // the API server's own certificate is one for loopback
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

        let resources: Vec<&str> = rooms.iter().map(|(resource, _)| *resource).chain([TRIAL]).collect();
        let authority =
            fs::read(cluster.plane().authority()).context("cannot read the authority's certificate")?;
        let hook = json!({
            "name": "gate.cairn.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "timeoutSeconds": PATIENCE_SECONDS, "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": ByteString(authority)},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": resources}],
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

    /// How many objects of this resource somebody waits to create, or waited in vain.
    pub fn held(&self, resource: &str) -> usize {
        self.doors.rooms().get(resource).map_or(0, |room| room.held)
    }

    /// Lets everything in from now on; who was kept waiting is refused.
    pub fn open(&self) {
        self.doors.open.send_replace(true);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        let mut kubectl = self.cluster.command("kubectl");
        kubectl.args(["delete", "validatingwebhookconfiguration", &self.name]);
        // best effort: the whole cluster goes away soon
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
        self.server.abort();
    }
}

impl Doors {
    fn rooms(&self) -> MutexGuard<'_, BTreeMap<String, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an object of this resource is let in, as soon as that is known.
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
        // the sender lives as long as this
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        false
    }
}

/// Answers one question of the API server, an `AdmissionReview`.
async fn judge(State(doors): State<Arc<Doors>>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let resource = request["resource"]["resource"].as_str().unwrap_or_default();
    // What is only tried creates nothing.
    let is_tried = resource != TRIAL && request["dryRun"] == true;
    let allowed = is_tried || doors.lets_in(resource).await;
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": allowed, "status": {"message": "the gate was closed"}}}))
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, pages: Router) {
    loop {
        // a client that goes away, or is none, is its own affair
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (tls, service) = (tls.clone(), TowerToHyperService::new(pages.clone()));
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let server = Builder::new(TokioExecutor::new()).http1_only();
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
