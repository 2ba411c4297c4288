//! Failed requests to the API server: a message and a bounded reason.

use std::{error::Error as _, time::Duration};

use kube::runtime::watcher;

/// The timeout of one request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The API server rejected the request, or could not be reached.
    #[error("{}", message(.0))]
    Refused(#[from] kube::Error),
    /// The request timed out.
    #[error("no response from the API server within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout(#[from] tokio::time::error::Elapsed),
}

/// Why a request failed: a closed set, used as metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// The object violates its schema.
    Invalid,
    /// RBAC does not allow it.
    Forbidden,
    /// The kind or the namespace does not exist.
    NotFound,
    /// Another client changed the object at the same time.
    Conflict,
    /// The API server throttles.
    Throttled,
    /// The API server failed.
    Server,
    /// The request timed out.
    Timeout,
    /// No connection.
    Unreachable,
}

impl Failure {
    /// The bounded reason.
    pub fn reason(&self) -> Reason {
        let Self::Refused(kube::Error::Api(status)) = self else {
            return if matches!(self, Self::Timeout(_)) { Reason::Timeout } else { Reason::Unreachable };
        };
        match status.code {
            401 | 403 => Reason::Forbidden,
            404 => Reason::NotFound,
            409 => Reason::Conflict,
            429 => Reason::Throttled,
            500.. => Reason::Server,
            _ => Reason::Invalid,
        }
    }

    /// The backoff before the `failures`-th consecutive attempt, from 1: 0.5 s, doubled each time.
    ///
    /// At most 30 s. Schema violations are retried every 30 s from the first failure.
    pub fn retry_after(&self, failures: u32) -> Duration {
        const MAX_BACKOFF: Duration = Duration::from_secs(30);
        match self.reason() {
            Reason::Invalid => MAX_BACKOFF,
            _ => Duration::from_millis(500)
                .saturating_mul(1 << failures.saturating_sub(1).min(10))
                .min(MAX_BACKOFF),
        }
    }
}

/// Awaits `request` for at most [`REQUEST_TIMEOUT`].
pub async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    Ok(tokio::time::timeout(REQUEST_TIMEOUT, request).await??)
}

/// The message of a client error: the API server's own message, or the chain of causes.
fn message(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({})", status.message, status.code);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Many errors already include their source.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// The message of a watch error, with the most likely cause.
pub fn watch_message(error: &watcher::Error, kind: &str) -> String {
    let (text, code) = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            (message(error), if let kube::Error::Api(status) = error { status.code } else { 0 })
        }
        watcher::Error::WatchError(status) => (status.message.clone(), status.code),
        watcher::Error::NoResourceVersion => (error.to_string(), 0),
    };
    match code {
        401 | 403 => format!("{text}; the agent's role must allow list and watch of {kind}"),
        404 => format!("{text}; check that the CustomResourceDefinition {kind} is installed"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn api(code: u16) -> Failure {
        Failure::Refused(kube::Error::Api(Box::new(Status { code, ..Status::failure("no", "Because") })))
    }

    #[test]
    fn retries_back_off_and_schema_violations_wait_longest() {
        let millis = |failure: &Failure, n| failure.retry_after(n).as_millis();
        assert_eq!([1, 2, 3, 7, 99].map(|n| millis(&api(500), n)), [500, 1_000, 2_000, 30_000, 30_000]);
        assert_eq!(millis(&api(422), 1), 30_000);
        assert_eq!(millis(&api(403), 1), 500);
        assert_eq!(api(409).reason(), Reason::Conflict);
        assert_eq!(api(503).to_string(), "no (503)");
    }

    #[test]
    fn a_watch_error_names_the_remedy() {
        let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(Status {
            code: 404,
            ..Status::failure("the server could not find the requested resource", "NotFound")
        })));
        assert_eq!(
            watch_message(&error, "nodetopologies.cairn.dev"),
            "the server could not find the requested resource (404); check that the CustomResourceDefinition \
             nodetopologies.cairn.dev is installed"
        );
    }
}
