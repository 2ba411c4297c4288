//! Polling of conditions with a time limit. The only place that sleeps.

use std::{
    fmt::Display,
    panic::Location,
    time::{Duration, Instant},
};

/// The polling interval: short compared with the waits, long compared with one request.
const INTERVAL: Duration = Duration::from_millis(50);

/// Polls `look` until it succeeds, at most for `limit`.
///
/// The error is the text of the last error of `look`.
pub async fn until<T, S: Display>(
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> Result<T, String> {
    let deadline = Instant::now() + limit;
    let mut last = "the first check did not finish".to_owned();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(seen)) => last = format!("{seen:#}"),
            Err(_) => return Err(last),
        }
        if Instant::now() + INTERVAL > deadline {
            return Err(last);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits in a test: as [`until`], and panics with `what` and the last error after `limit`.
#[track_caller]
pub fn wait_for<T, S: Display>(
    what: &str,
    limit: Duration,
    look: impl AsyncFnMut() -> Result<T, S>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        match until(limit, look).await {
            Ok(found) => found,
            Err(seen) => panic!("{caller}: waited {limit:?} in vain for: {what}; last seen: {seen}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::until;

    #[tokio::test]
    async fn a_timeout_reports_the_last_error() {
        let mut looks = 0;
        let seen: Result<(), _> = until(Duration::from_millis(180), async || {
            looks += 1;
            Err(format!("check {looks}"))
        })
        .await;
        assert_eq!(seen, Err(format!("check {looks}")));
        assert!(looks >= 2);
    }

    #[tokio::test]
    async fn a_hanging_check_ends_at_the_deadline() {
        let seen =
            until::<(), String>(Duration::from_millis(60), async || std::future::pending().await).await;
        assert_eq!(seen, Err("the first check did not finish".to_owned()));
    }
}
