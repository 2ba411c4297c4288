//! Metrics for whoever asks, however often.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio::{sync::Mutex, time::Instant};
use tracing::error;

/// Prometheus' format of text.
const TEXT: &str = "text/plain; version=0.0.4";

/// The last scrape, and until when it answers.
#[derive(Debug, Default)]
pub struct Scrapes(Mutex<Option<(Instant, Result<String, String>)>>);

impl Scrapes {
    /// The last scrape while it counts, else one that is made now; who comes meanwhile waits for that. `counts` says for how long one
    /// answers that took so long to make.
    pub async fn answer<E: Display>(
        &self,
        counts: impl FnOnce(Duration) -> Duration,
        make: impl Future<Output = Result<String, E>>,
    ) -> Response {
        let mut last = self.0.lock().await;
        let text = match &*last {
            Some((until, text)) if Instant::now() < *until => text.clone(),
            _ => {
                let begun = Instant::now();
                let text = make.await.map_err(|error| error.to_string());
                let until = Instant::now() + counts(begun.elapsed());
                last.insert((until, text)).1.clone()
            }
        };
        match text {
            Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
            Err(error) => {
                error!("cannot write the metrics: {error}");
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
            }
        }
    }
}
