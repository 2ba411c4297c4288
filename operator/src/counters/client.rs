//! A client of Prometheus that bounds the size of answers.

use std::path::PathBuf;
use std::time::Duration;

use counters::{AnswerError, MAX_SAMPLES, SampleRefusal};
use prometheus_http_query::Client;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Certificate, redirect};

use crate::config::CounterSource;

/// Bytes of an answer: [`MAX_SAMPLES`] samples with long names.
const MAX_BYTES: usize = 64 << 20;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    /// The token is not a header value.
    #[error("the token has characters that a header cannot have")]
    Token(#[source] reqwest::header::InvalidHeaderValue),
    /// The URL is malformed, or the server cannot be reached.
    #[error("cannot query Prometheus")]
    Send(#[source] prometheus_http_query::Error),
    /// The connection broke, or TLS cannot be set up.
    #[error("cannot read the answer of Prometheus")]
    Read(#[source] reqwest::Error),
    /// Neither 200 nor an error of the API.
    #[error("Prometheus answers with status {0}")]
    Status(u16),
    /// The answer is not used.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The operator stops.
    #[error("the operator stops")]
    Stopped,
    /// There was no answer in time.
    #[error("Prometheus did not answer in time")]
    Late,
}

impl QueryError {
    /// The reason under which the window is counted; none when the operator stops.
    pub fn refusal(&self) -> Option<SampleRefusal> {
        match self {
            Self::Stopped => None,
            Self::Answer(AnswerError::Incomplete(_)) => Some(SampleRefusal::Truncated),
            _ => Some(SampleRefusal::Unanswered),
        }
    }
}

/// A client of one Prometheus.
#[derive(Clone)]
pub struct PrometheusClient {
    client: Client,
    token_file: Option<PathBuf>,
}

impl PrometheusClient {
    /// A client of the Prometheus at this URL.
    ///
    /// # Errors
    /// The URL or the certificates are invalid.
    pub fn new(url: &str, source: &CounterSource) -> Result<Self, QueryError> {
        // Another crate may have installed the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().redirect(redirect::Policy::none());
        let builder = match &source.prometheus_ca_file {
            Some(file) => {
                let pem = std::fs::read(file).map_err(|e| QueryError::File(file.clone(), e))?;
                builder.tls_certs_only(Certificate::from_pem_bundle(&pem).map_err(QueryError::Read)?)
            }
            // Without TLS the image needs no root certificates.
            None if url.starts_with("http://") => builder.tls_certs_only([]),
            None => builder,
        };
        let http = builder.build().map_err(QueryError::Read)?;
        let client = Client::from(http, url).map_err(QueryError::Send)?;
        Ok(Self { client, token_file: source.prometheus_token_file.clone() })
    }

    /// The bytes of the answer to an instant query, evaluated at this second of Prometheus' clock, or now.
    ///
    /// # Errors
    /// There is no answer within `limit`, or it is too large.
    pub async fn query(
        &self,
        expression: &str,
        time: Option<f64>,
        limit: Duration,
    ) -> Result<Vec<u8>, QueryError> {
        let answer = tokio::time::timeout(limit, self.unlimited(expression, time, limit));
        answer.await.map_err(|_| QueryError::Late)?
    }

    async fn unlimited(
        &self,
        expression: &str,
        time: Option<f64>,
        limit: Duration,
    ) -> Result<Vec<u8>, QueryError> {
        let milliseconds = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        // One more than accepted, so that a cut answer is noticed.
        let mut query =
            self.client.query(expression).timeout(milliseconds.max(1)).query("limit", MAX_SAMPLES + 1);
        if let Some(time) = time {
            query = query.query("time", format!("{time:.3}"));
        }
        if let Some(file) = &self.token_file {
            // Read each time, because the kubelet renews it.
            let token = std::fs::read_to_string(file).map_err(|e| QueryError::File(file.clone(), e))?;
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            query = query.header(AUTHORIZATION, value.map_err(QueryError::Token)?);
        }
        let mut response = query.post_raw().await.map_err(QueryError::Send)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(QueryError::Read)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(AnswerError::Incomplete(format!("more than {MAX_BYTES} bytes")).into());
            }
            body.extend_from_slice(&chunk);
        }
        // Errors of the API have a body that says why.
        let is_answer = status.is_success() || body.starts_with(b"{");
        if is_answer { Ok(body) } else { Err(QueryError::Status(status.as_u16())) }
    }
}
