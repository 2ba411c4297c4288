//! The counters of a pod that pretends to be another one, and to have measured at another time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::{Cluster, wait_for};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{SOON, rendered};

/// How far the forged time is away from now, beyond what Prometheus still accepts as new.
const AWAY: Duration = Duration::from_mins(10);

/// Answers every request with these metrics.
async fn serve(listener: TcpListener, metrics: String) {
    let length = metrics.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{metrics}"
    );
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = [0; 4096];
        // The scraper tries again.
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

#[tokio::test]
async fn a_pod_can_forge_neither_its_name_nor_the_time_of_a_sample() {
    let cluster = Cluster::shared();
    let settings =
        ["--set=metrics.podMonitor.create=true", "--set=counters.prometheusUrl=http://prometheus:9090"];
    let monitor = rendered(cluster, "PodMonitor", &settings).await.remove("cairn-actors").unwrap();
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let milliseconds = (SystemTime::now() - AWAY).duration_since(UNIX_EPOCH).unwrap().as_millis();
    let forged = format!(
        "actor_busy_seconds_total{{actor=\"a-0\",namespace=\"victim\",pod=\"victim-0\"}} 5 {milliseconds}\n"
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, forged));
    // The labels that discovery gives to the targets of a PodMonitor.
    let target = json!({"targets": [address.to_string()], "labels": {"namespace": "own", "pod": "own-0"}});
    let job = json!({"job_name": "monitoring/cairn-actors", "honor_labels": endpoint["honorLabels"],
        "honor_timestamps": endpoint["honorTimestamps"], "scrape_interval": "1s", "scrape_timeout": "1s",
        "static_configs": [target]});
    let (prometheus, _) = cluster.reloading_prometheus(&json!({"scrape_configs": [job]})).await.unwrap();

    let series = prometheus.seen("actor_busy_seconds_total").await.unwrap();
    for (labels, _) in &series {
        let of = |name: &str| labels.get(name).map(String::as_str);
        assert_eq!((of("namespace"), of("pod")), (Some("own"), Some("own-0")), "{labels:?}");
        assert_eq!(of("exported_namespace"), Some("victim"), "{labels:?}");
    }
    // The increase of a window needs samples within it.
    wait_for("the window has the samples", SOON, async || {
        let scrapes = prometheus.query("count_over_time(actor_busy_seconds_total[10s])").await?;
        anyhow::ensure!(scrapes.iter().any(|(_, count)| *count >= 4.0), "{scrapes:?}");
        anyhow::Ok(())
    })
    .await;
}
