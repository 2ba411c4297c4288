//! How operator and node agent answer over HTTP: to so many at once, and to nobody for long.
//!
//! Each address has connections of its own: whoever holds all those of one keeps nobody from asking at another. So what a
//! kubelet probes is served apart from what everybody may scrape.

mod scrapes;

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

pub use scrapes::Scrapes;

/// How many connections are served at once at one address; further ones wait to be accepted.
pub const CONNECTIONS: usize = 64;
/// How long a client may take to send a request's head, and how long a connection may idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection lives, so that a client which does not read cannot hold it.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(2);

/// What clients are given.
#[derive(Clone, Copy)]
struct Limits {
    connections: usize,
    head: Duration,
    connection: Duration,
}

/// Answers on `listener`. Never ends.
pub async fn serve(listener: TcpListener, pages: Router) -> Infallible {
    let limits = Limits { connections: CONNECTIONS, head: HEAD_TIMEOUT, connection: CONNECTION_TIMEOUT };
    serve_within(limits, listener, pages).await
}

async fn serve_within(limits: Limits, listener: TcpListener, pages: Router) -> Infallible {
    let slots = Arc::new(Semaphore::new(limits.connections));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, mostly: it passes, and must not be asked for in a tight loop.
                warn!("cannot accept a connection: {error}");
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
                Ok(Err(error)) => debug!("a connection ended early: {error}"),
                Err(_) => debug!("a connection was closed after {:?}", limits.connection),
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

    /// Answers `ok` at `/`, and never at `/never`.
    async fn start(limits: Limits) -> SocketAddr {
        let pages = Router::new().route("/", get(async || "ok")).route("/never", get(pending::<()>));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_within(limits, listener, pages));
        address
    }

    /// The first line of the answer; nothing, where the connection was closed without one.
    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // What was sent and not read makes it a connection that was reset.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap().lines().next().unwrap_or_default().to_owned()
    }

    fn request(page: &str) -> String {
        format!("GET {page} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    }

    #[tokio::test]
    async fn who_holds_all_connections_of_one_address_keeps_nobody_from_another() {
        let limits = Limits { connections: 2, head: LONG, connection: LONG };
        let (full, free) = (start(limits).await, start(limits).await);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(TcpStream::connect(full).await.unwrap());
        }
        assert_eq!(ask(free, &request("/")).await, "HTTP/1.1 200 OK");
        let waits = timeout(SHORT, ask(full, &request("/"))).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(held);
        assert_eq!(ask(full, &request("/")).await, "HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn who_says_nothing_or_half_a_head_is_not_waited_for() {
        let address = start(Limits { connections: 1, head: SHORT, connection: LONG }).await;
        for nothing in ["", "GET / HTTP/1.1\r\nHost: a\r\n"] {
            let closed = timeout(LONG / 2, ask(address, nothing)).await;
            assert!(closed.is_ok_and(|answer| !answer.contains("200")), "{nothing:?}");
        }
    }

    #[tokio::test]
    async fn no_connection_lives_for_long() {
        let address = start(Limits { connections: 1, head: LONG, connection: SHORT }).await;
        assert_eq!(timeout(LONG / 2, ask(address, &request("/never"))).await.unwrap(), "");
    }

    #[tokio::test]
    async fn what_is_not_http_is_refused() {
        let address = start(Limits { connections: 1, head: LONG, connection: LONG }).await;
        let answer = ask(address, "nonsense\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}
