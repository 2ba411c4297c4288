//! A slow link between the product and the API server: requests arrive at once, responses are delayed.
//!
//! It forwards TLS unchanged. So a request takes effect long before the client knows it, as with an overloaded API server or load
//! balancer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use crate::Cluster;

/// The buffer size.
const CHUNK: usize = 64 * 1024;

/// A link to a cluster's API server, closed on drop.
pub struct SlowLink {
    port: u16,
    late: Arc<watch::Sender<Duration>>,
    server: JoinHandle<()>,
}

impl SlowLink {
    /// Opens a link without delay; see [`late_by`](Self::late_by).
    pub async fn open(cluster: &Cluster) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let late = Arc::new(watch::Sender::new(Duration::ZERO));
        let server = cluster.plane().server();
        let to = server.strip_prefix("https://").context("the API server has no https address")?.to_owned();
        let server = tokio::spawn(serve(listener, to, Arc::clone(&late)));
        Ok(Self { port, late, server })
    }

    /// The URL of the API server through this link; its certificate is valid for loopback.
    #[must_use]
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Sets the delay of all further responses.
    pub fn late_by(&self, late: Duration) {
        self.late.send_replace(late);
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, to: String, late: Arc<watch::Sender<Duration>>) {
    // they end with this task
    let mut links = JoinSet::new();
    loop {
        // errors of a client's connection are ignored
        let Ok((client, _)) = listener.accept().await else { continue };
        let Ok(server) = TcpStream::connect(&to).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let greeting = Arc::new(Greeting::default());
        links.spawn(ask(from_client, to_server, Arc::clone(&greeting)));
        links.spawn(answer(from_server, to_client, greeting, late.subscribe()));
        while links.try_join_next().is_some() {}
    }
}

/// The TLS handshake is not delayed.
#[derive(Default)]
struct Greeting {
    answered: AtomicBool,
    over: AtomicBool,
}

async fn ask(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, greeting: Arc<Greeting>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = client.read(&mut chunk).await {
        greeting.over.fetch_or(greeting.answered.load(Ordering::Acquire), Ordering::AcqRel);
        if server.write_all(&chunk[..length]).await.is_err() {
            break;
        }
    }
    // dropping this half closes the connection to the server
}

async fn answer(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    greeting: Arc<Greeting>,
    late: watch::Receiver<Duration>,
) {
    let (queue, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = server.read(&mut chunk).await {
            let late = if greeting.over.load(Ordering::Acquire) { *late.borrow() } else { Duration::ZERO };
            greeting.answered.store(true, Ordering::Release);
            if queue.send((Instant::now() + late, chunk[..length].to_vec())).is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((at, chunk)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if client.write_all(&chunk).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(read, write);
}
