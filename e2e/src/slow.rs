//! A slow link between the product and the API server: what is asked arrives at once, and each answer comes late.
//!
//! It passes on TLS as it is. So a request is done long before whoever asked knows of it, as with an API server or a load
//! balancer that is overloaded.

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

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// A link to a cluster's API server; it is cut when this is dropped.
pub struct SlowLink {
    port: u16,
    late: Arc<watch::Sender<Duration>>,
    server: JoinHandle<()>,
}

impl SlowLink {
    /// Opens a link, over which answers come at once until [`late_by`](Self::late_by) says otherwise.
    pub async fn open(cluster: &Cluster) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let late = Arc::new(watch::Sender::new(Duration::ZERO));
        let server = cluster.plane().server();
        let to = server.strip_prefix("https://").context("the API server has no https address")?.to_owned();
        let server = tokio::spawn(serve(listener, to, Arc::clone(&late)));
        Ok(Self { port, late, server })
    }

    /// Where the API server is for who goes over this link; its certificate is one for loopback.
    #[must_use]
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Lets every answer that comes from now on be so late.
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
    // they end with this
    let mut links = JoinSet::new();
    loop {
        // a client that goes away is its own affair
        let Ok((client, _)) = listener.accept().await else { continue };
        let Ok(server) = TcpStream::connect(&to).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let greeting = Arc::new(Greeting::default());
        links.spawn(ask(from_client, to_server, Arc::clone(&greeting)));
        links.spawn(answer(from_server, to_client, greeting, late.subscribe()));
        while links.try_join_next().is_some() {}
    }
}

/// Both sides agree on keys first, which is no answer to anything.
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
    // dropped, this half tells the server that nobody asks any more
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
