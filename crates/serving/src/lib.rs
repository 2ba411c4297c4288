//! The HTTP server of operator and node agent, with limits on connections and time.
//!
//! The connection limit is per address, so probes are served at another address than scrapes, which can exhaust it.

mod metrics_cache;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

pub use metrics_cache::MetricsCache;

/// The maximum number of concurrent connections per address; further ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 64;
/// Timeout for the head of a request, and for idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum lifetime of a connection, so that a client that does not read cannot hold it.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(2);

/// The limits of a server.
#[derive(Clone, Copy)]
struct ServerLimits {
    connections: usize,
    head: Duration,
    connection: Duration,
}

/// Serves `pages` on `listener` forever.
pub async fn serve(listener: TcpListener, pages: Router) -> Infallible {
    let limits =
        ServerLimits { connections: MAX_CONNECTIONS, head: HEAD_TIMEOUT, connection: CONNECTION_TIMEOUT };
    serve_within(limits, listener, pages).await
}

async fn serve_within(limits: ServerLimits, listener: TcpListener, pages: Router) -> Infallible {
    let slots = Arc::new(Semaphore::new(limits.connections));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Usually too many open files, which is transient. Do not retry in a tight loop.
                warn!(%error, "failed to accept a connection");
                sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(pages.clone());
        tokio::spawn(async move {
            let mut server = Builder::new(TokioExecutor::new()).http1_only();
            server.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            match timeout(limits.connection, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "connection error"),
                Err(_) => debug!(limit = ?limits.connection, "connection closed at its time limit"),
            }
            drop(slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, net::SocketAddr};

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    /// Longer than any of these tests.
    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(50);

    /// Starts a server that responds at `/`, and never at `/never`.
    async fn start(limits: ServerLimits) -> SocketAddr {
        let pages = Router::new().route("/", get(async || "ok")).route("/never", get(pending::<()>));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_within(limits, listener, pages));
        address
    }

    /// The status line of the response; empty if the connection was closed without one.
    async fn send(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // Ignore a reset, which unread data causes.
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8(response).unwrap().lines().next().unwrap_or_default().to_owned()
    }

    fn request(page: &str) -> String {
        format!("GET {page} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    }

    #[tokio::test]
    async fn exhausted_address_does_not_affect_another() {
        let limits = ServerLimits { connections: 2, head: LONG, connection: LONG };
        let (full, free) = (start(limits).await, start(limits).await);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(TcpStream::connect(full).await.unwrap());
        }
        assert_eq!(send(free, &request("/")).await, "HTTP/1.1 200 OK");
        let waits = timeout(SHORT, send(full, &request("/"))).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(held);
        assert_eq!(send(full, &request("/")).await, "HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn incomplete_requests_time_out() {
        let address = start(ServerLimits { connections: 1, head: SHORT, connection: LONG }).await;
        for incomplete in ["", "GET / HTTP/1.1\r\nHost: a\r\n"] {
            let closed = timeout(LONG / 2, send(address, incomplete)).await;
            assert!(closed.is_ok_and(|response| !response.contains("200")), "{incomplete:?}");
        }
    }

    #[tokio::test]
    async fn connections_are_closed_at_their_time_limit() {
        let address = start(ServerLimits { connections: 1, head: LONG, connection: SHORT }).await;
        assert_eq!(timeout(LONG / 2, send(address, &request("/never"))).await.unwrap(), "");
    }

    #[tokio::test]
    async fn invalid_http_is_rejected() {
        let address = start(ServerLimits { connections: 1, head: LONG, connection: LONG }).await;
        let response = send(address, "nonsense\r\n\r\n").await;
        assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    }
}
