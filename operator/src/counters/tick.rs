//! One tick: the queries of one window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use counters::{ALL_SERIES, AnswerError, Collected, Collector, CounterSeries, Roster, VectorAnswer};

use super::client::{PrometheusClient, QueryError};

/// The window that is asked for.
#[derive(Clone, Debug)]
pub struct WindowQuery {
    /// Selects the scrapes of actors.
    pub selector: String,
    /// Its length.
    pub milliseconds: u64,
    /// How long before the evaluation it ended.
    pub offset_milliseconds: u64,
    /// When to evaluate, in seconds of Prometheus' clock; `None` is now.
    pub time: Option<f64>,
}

/// The samples of a window.
#[derive(Debug)]
pub struct TickResult {
    /// When Prometheus evaluated the queries; `None` if no answer had a sample.
    pub evaluated_at: Option<f64>,
    /// What was reported.
    pub collected: Collected,
}

/// Queries the series of a window one after the other.
///
/// # Errors
/// Any query has no complete answer within half of the window.
pub async fn tick(
    client: &PrometheusClient,
    query: &WindowQuery,
    roster: Arc<Roster>,
) -> Result<TickResult, QueryError> {
    let deadline = Instant::now() + Duration::from_millis(query.milliseconds) / 2;
    let mut collector = Collector::new(roster);
    let mut time = query.time;
    for series in ALL_SERIES {
        let expression = series.query(&query.selector, query.milliseconds, query.offset_milliseconds);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(QueryError::Late);
        }
        let body = client.query(&expression, time, left).await?;
        // Answers are large.
        let added = tokio::task::spawn_blocking(move || add(collector, series, &body)).await;
        let evaluated_at;
        (collector, evaluated_at) = added.map_err(|_| QueryError::Stopped)??;
        // The operator's clock is not used: later queries are evaluated when the first one was.
        time = time.or(evaluated_at);
    }
    Ok(TickResult { evaluated_at: time, collected: collector.finish() })
}

/// Adds the samples of an answer; also returns when it was evaluated.
fn add(
    mut collector: Collector,
    series: CounterSeries,
    body: &[u8],
) -> Result<(Collector, Option<f64>), AnswerError> {
    let answer = VectorAnswer::parse(body)?;
    collector.add(series, answer.samples());
    Ok((collector, answer.evaluated_at()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::extract::State;
    use axum::http::{HeaderMap, StatusCode};
    use axum::response::{IntoResponse, Response};
    use axum::routing::post;
    use counters::{RosterApplication, RunningActor, SampleRefusal};
    use futures::{StreamExt, stream};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::CounterSource;

    const BAD_BYTES: usize = 65 << 20;

    /// The fault in the server's response to the query for messages; all other queries succeed.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        None,
        Status,
        Refused,
        Silence,
        Cut,
        Truncated,
        Huge,
        Foreign,
        /// The samples come so late that no window has any.
        Late,
    }

    /// Parameters of the received queries.
    type Log = Arc<Mutex<Vec<Vec<(String, String)>>>>;

    fn vector(series: &str) -> String {
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
    }

    fn sample(pod: &str, value: &str) -> String {
        format!(
            r#"{{"metric":{{"namespace":"n","pod":"{pod}","actor":"a-0","peer":"n/app/b-0"}},"value":[1000.25,"{value}"]}}"#
        )
    }

    async fn answer(State((fault, log)): State<(Fault, Log)>, headers: HeaderMap, form: String) -> Response {
        let form = reqwest::Url::parse(&format!("http://any/?{form}")).unwrap();
        let mut form: Vec<(String, String)> = form.query_pairs().into_owned().collect();
        let token = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        form.extend(token.map(|token| ("token".to_owned(), token)));
        let is_first = form
            .iter()
            .any(|(name, value)| name == "query" && value.contains("actor_channel_messages_total"));
        log.lock().unwrap().push(form);
        let good = vector(&sample("p", "7"));
        match fault {
            _ if !is_first => vector("").into_response(),
            Fault::Late => vector("").into_response(),
            Fault::None => good.into_response(),
            Fault::Status => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Fault::Refused => {
                let body = r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#;
                (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
            }
            Fault::Silence => std::future::pending().await,
            Fault::Cut => {
                let half = Bytes::copy_from_slice(&good.as_bytes()[..good.len() / 2]);
                let broken = stream::iter([Ok(half), Err(std::io::Error::other("cut"))]);
                Body::from_stream(broken.boxed()).into_response()
            }
            Fault::Truncated => {
                let warnings = r#","warnings":["results truncated due to limit"]}"#;
                format!("{}{warnings}", good.strip_suffix('}').unwrap()).into_response()
            }
            Fault::Huge => vec![b' '; BAD_BYTES].into_response(),
            Fault::Foreign => {
                let foreign = (0..1000).map(|at| sample(&format!("other-{at}"), "3")).collect::<Vec<_>>();
                vector(&[foreign.join(","), sample("p", "NaN")].join(",")).into_response()
            }
        }
    }

    fn roster() -> Roster {
        let actor = |name: &str, pod: &str| RunningActor {
            name: name.to_owned(),
            group: "g".to_owned(),
            pod: pod.to_owned(),
            kind: "cpu".to_owned(),
            speed: 1.0,
            service_microseconds: 1.0,
        };
        let actors = vec![actor("a-0", "p"), actor("b-0", "q")];
        Roster::new(vec![RosterApplication { namespace: "n".to_owned(), name: "app".to_owned(), actors }])
    }

    fn source() -> CounterSource {
        CounterSource {
            prometheus_url: None,
            prometheus_token_file: None,
            prometheus_ca_file: None,
            counters_selector: String::new(),
        }
    }

    /// One tick against a server with this fault, and the queries that the server received.
    async fn run(fault: Fault, milliseconds: u64) -> (Result<TickResult, QueryError>, Log) {
        let log = Log::default();
        let pages = Router::new().route("/api/v1/query", post(answer)).with_state((fault, log.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        tokio::spawn(serving::serve(listener, pages));
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "secret\n").unwrap();
        let source = CounterSource { prometheus_token_file: Some(token.path().to_owned()), ..source() };
        let client = PrometheusClient::new(&format!("http://{address}"), &source).unwrap();
        let query = WindowQuery {
            selector: "job=\"actors\"".to_owned(),
            milliseconds,
            offset_milliseconds: 0,
            time: None,
        };
        (tick(&client, &query, Arc::new(roster())).await, log)
    }

    #[tokio::test]
    async fn later_queries_are_evaluated_when_the_first_one_was() {
        let (ticked, log) = run(Fault::None, 600_000).await;
        let ticked = ticked.unwrap();
        assert_eq!(ticked.evaluated_at, Some(1000.25));
        assert_eq!(ticked.collected.windows[0].pair("a-0", "b-0").unwrap().messages.to_string(), "7");
        let log = log.lock().unwrap();
        assert_eq!(log.len(), 12);
        let of = |query: &[(String, String)], name: &str| {
            query.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
        };
        for (at, query) in log.iter().enumerate() {
            assert_eq!(of(query, "time").as_deref(), (at > 0).then_some("1000.250"), "{query:?}");
            assert_eq!(of(query, "limit").as_deref(), Some("200001"));
            assert_eq!(of(query, "token").as_deref(), Some("Bearer secret"));
            assert!(of(query, "query").unwrap().contains("[600000ms]"));
        }
    }

    #[tokio::test]
    async fn bad_answers_leave_the_window_without_data() {
        use SampleRefusal::{Truncated, Unanswered};
        for (fault, milliseconds, expected, refusal) in [
            (Fault::Status, 600_000, "Prometheus answers with status 500", Unanswered),
            (Fault::Refused, 600_000, "Prometheus refuses the query: query timed out", Unanswered),
            (Fault::Silence, 200, "Prometheus did not answer in time", Unanswered),
            // Before or after the head of the answer.
            (Fault::Cut, 600_000, "cannot ", Unanswered),
            (
                Fault::Truncated,
                600_000,
                "the answer is incomplete: results truncated due to limit",
                Truncated,
            ),
            (Fault::Huge, 600_000, "the answer is incomplete: more than 67108864 bytes", Truncated),
        ] {
            let (ticked, _) = run(fault, milliseconds).await;
            let error = ticked.unwrap_err();
            assert!(error.to_string().starts_with(expected), "{fault:?}: {error}");
            assert_eq!(error.refusal(), Some(refusal), "{fault:?}");
        }
    }

    #[tokio::test]
    async fn foreign_series_are_counted_and_refused() {
        let (ticked, _) = run(Fault::Foreign, 600_000).await;
        let refused = ticked.unwrap().collected.refused;
        assert_eq!(refused, [(SampleRefusal::Value, 1), (SampleRefusal::UnknownPod, 1000)].into());
    }

    #[tokio::test]
    async fn a_window_whose_samples_come_late_has_no_evaluation_time() {
        let ticked = run(Fault::Late, 600_000).await.0.unwrap();
        assert_eq!(ticked.evaluated_at, None);
        assert!(!ticked.collected.windows[0].has_data());
    }

    #[tokio::test]
    async fn an_unreachable_server_and_bad_settings_are_errors() {
        let client = PrometheusClient::new("http://127.0.0.1:1", &source()).unwrap();
        let error = client.query("up", None, Duration::from_mins(1)).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot query Prometheus");
        assert!(PrometheusClient::new("prometheus", &source()).is_err());
        let missing = Some("/nowhere/ca.crt".into());
        let with_ca = CounterSource { prometheus_ca_file: missing, ..source() };
        let error = PrometheusClient::new("https://prometheus", &with_ca).err().unwrap();
        assert_eq!(error.to_string(), "cannot read /nowhere/ca.crt");
    }
}
