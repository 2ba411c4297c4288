//! Caching of the rendered metrics.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio::{sync::Mutex, time::Instant};
use tracing::error;

/// The content type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4";

/// The last rendered metrics, with their expiry.
#[derive(Debug, Default)]
pub struct MetricsCache(Mutex<Option<(Instant, Result<String, String>)>>);

impl MetricsCache {
    /// Responds with the cached metrics, or renders them if they expired. Concurrent requests wait for one rendering.
    ///
    /// `ttl` maps the duration of the rendering to the time for which its result is cached.
    pub async fn respond<E: Display>(
        &self,
        ttl: impl FnOnce(Duration) -> Duration,
        render: impl Future<Output = Result<String, E>>,
    ) -> Response {
        let mut last = self.0.lock().await;
        let text = match &*last {
            Some((until, text)) if Instant::now() < *until => text.clone(),
            _ => {
                let start = Instant::now();
                let text = render.await.map_err(|error| error.to_string());
                let until = Instant::now() + ttl(start.elapsed());
                last.insert((until, text)).1.clone()
            }
        };
        match text {
            Ok(text) => ([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
            Err(error) => {
                error!(%error, "failed to render the metrics");
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
            }
        }
    }
}
