//! A real Prometheus next to the cluster, with the chart's scrape configuration.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{Cluster, Process, binaries, command, ports, process::Launch, wait};

/// The scrape interval: short, because tests wait for scrapes.
const INTERVAL: &str = "500ms";
/// The file name of the configuration.
const CONFIGURATION: &str = "prometheus.yaml";
/// The limit for a query to return the expected result.
const LIMIT: Duration = Duration::from_mins(3);

/// A running Prometheus.
pub struct Prometheus {
    process: Process,
    port: u16,
}

/// One scrape job, as derived from the chart's objects by the Prometheus Operator or by a common configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name: the label `job` of all of its series.
    pub name: String,
    /// The path of the metrics.
    pub path: String,
    /// The port in the manifest.
    pub port: u16,
    /// Whether labels of the metrics override those of the target.
    pub honor_labels: bool,
}

impl Job {
    /// The job of the Prometheus Operator for the first endpoint of a `PodMonitor` and pods of `template`.
    ///
    /// Fails if the monitor does not select them, or names a port that they lack.
    pub fn of_monitor(monitor: &Value, template: &Value) -> Result<Self> {
        let name = monitor["metadata"]["name"].as_str().context("a PodMonitor has a name")?;
        let labels = &template["metadata"]["labels"];
        let selector = monitor["spec"]["selector"]["matchLabels"].as_object();
        let selector = selector.with_context(|| format!("{name} selects nothing"))?;
        for (label, value) in selector {
            ensure!(labels[label] == *value, "{name} wants {label}={value}, the pods have {}", labels[label]);
        }
        let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
        let containers = template["spec"]["containers"].as_array().into_iter().flatten();
        let mut declared =
            containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
        let port = declared.find(|port| port["name"] == endpoint["port"]);
        let port = port.with_context(|| format!("{name}: no port {}", endpoint["port"]))?;
        Ok(Self {
            name: format!("podMonitor/{name}"),
            path: endpoint["path"].as_str().unwrap_or("/metrics").to_owned(),
            port: serde_json::from_value(port["containerPort"].clone())?,
            honor_labels: endpoint["honorLabels"].as_bool().unwrap_or_default(),
        })
    }

    /// The job for the `prometheus.io/…` annotations of the pods of `template`.
    pub fn of_annotations(name: &str, template: &Value) -> Result<Self> {
        let annotations = &template["metadata"]["annotations"];
        let of = |key: &str| annotations[format!("prometheus.io/{key}")].as_str();
        ensure!(of("scrape") == Some("true"), "{name} is not to be scraped: {annotations}");
        Ok(Self {
            name: format!("annotations/{name}"),
            path: of("path").unwrap_or("/metrics").to_owned(),
            port: of("port").context("no port")?.parse()?,
            honor_labels: true,
        })
    }

    fn configuration(&self, process: &Process) -> Result<Value> {
        let target = format!("127.0.0.1:{}", process.port(self.port)?);
        Ok(json!({"job_name": self.name, "metrics_path": self.path, "honor_labels": self.honor_labels,
            "scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "static_configs": [{"targets": [target]}]}))
    }
}

impl Cluster {
    /// Starts a Prometheus with these jobs, each for one process, and waits until it is ready.
    pub async fn prometheus(&self, jobs: &[(Job, &Process)]) -> Result<Prometheus> {
        let folder = self.prometheus_folder()?;
        let jobs = jobs.iter().map(|(job, process)| job.configuration(process));
        let jobs = jobs.collect::<Result<Vec<_>>>()?;
        self.start_prometheus(&folder, &json!({"scrape_configs": jobs})).await
    }

    /// Starts a Prometheus that reads its configuration anew when the file changes; returns it with the path of the file.
    pub async fn reloading_prometheus(&self, configuration: &Value) -> Result<(Prometheus, PathBuf)> {
        let folder = self.prometheus_folder()?;
        let prometheus = self.start_prometheus(&folder, configuration).await?;
        Ok((prometheus, folder.join(CONFIGURATION)))
    }

    /// A new folder for a Prometheus.
    fn prometheus_folder(&self) -> Result<PathBuf> {
        let folder = self.plane().state.join("run").join(format!("prometheus-{}", self.number()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(folder)
    }

    async fn start_prometheus(&self, folder: &Path, configuration: &Value) -> Result<Prometheus> {
        let tools = binaries::ensure_prometheus().await?;
        // JSON is YAML
        let file = folder.join(CONFIGURATION);
        fs::write(&file, configuration.to_string())?;
        let port = ports::free_one()?;
        let arguments = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            // otherwise the first scrape is after five seconds
            "--scrape.discovery-reload-interval=1s".to_owned(),
            "--log.level=warn".to_owned(),
            "--enable-feature=auto-reload-config".to_owned(),
            "--config.auto-reload-interval=1s".to_owned(),
        ];
        let launch = Launch {
            arguments: arguments.into(),
            environment: BTreeMap::new(),
            ports: [(port, port)].into(),
            readiness: Some((port, "/-/ready".to_owned())),
        };
        let process = self.run("prometheus", tools.path("prometheus")?, launch)?;
        process.wait_ready().await?;
        Ok(Prometheus { process, port })
    }
}

impl Prometheus {
    /// Starts a Prometheus that scrapes nothing and has these samples, in the `OpenMetrics` format with times.
    pub async fn with_samples(cluster: &Cluster, samples: &str) -> Result<Self> {
        let tools = binaries::ensure_prometheus().await?;
        let folder = cluster.prometheus_folder()?;
        let file = folder.join("samples.txt");
        fs::write(&file, samples)?;
        let mut promtool = tokio::process::Command::new(tools.path("promtool")?);
        promtool.args(["tsdb", "create-blocks-from", "openmetrics"]).args([&file, &folder.join("data")]);
        command::run(promtool, "").await?;
        cluster.start_prometheus(&folder, &json!({})).await
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> Result<String> {
        Ok(format!("http://127.0.0.1:{}", self.process.port(self.port)?))
    }

    /// Evaluates an expression: labels and value of each series.
    pub async fn query(&self, expression: &str) -> Result<Vec<(BTreeMap<String, String>, f64)>> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(expression))).await?;
        let series = answer["data"]["result"].as_array().context("an instant vector")?;
        let parse = |one: &Value| {
            let labels = serde_json::from_value(one["metric"].clone())?;
            let value = one["value"][1].as_str().context("a value")?.parse()?;
            Ok((labels, value))
        };
        series.iter().map(parse).collect()
    }

    /// Waits until an expression has a result; the error lists the targets.
    pub async fn seen(&self, expression: &str) -> Result<Vec<(BTreeMap<String, String>, f64)>> {
        let look = async || {
            let series = self.query(expression).await?;
            if series.is_empty() {
                bail!("no series for {expression}; targets: {}", self.targets().await?);
            }
            Ok(series)
        };
        wait::until(LIMIT, look).await.map_err(|seen| anyhow::anyhow!("{seen}"))
    }

    /// The syntax tree of an expression from Prometheus' own parser; fails with its error.
    pub async fn parsed(&self, expression: &str) -> Result<Value> {
        let mut answer = self.ask(&format!("/api/v1/parse_query?query={}", encoded(expression))).await?;
        Ok(answer["data"].take())
    }

    /// The type of each scraped metric family of a job, by name.
    pub async fn types(&self, job: &str) -> Result<BTreeMap<String, String>> {
        let target = encoded(&format!("{{job=\"{job}\"}}"));
        let answer = self.ask(&format!("/api/v1/targets/metadata?match_target={target}")).await?;
        let all = answer["data"].as_array().context("a list of metadata")?.iter();
        let type_of =
            |one: &Value| Some((one["metric"].as_str()?.to_owned(), one["type"].as_str()?.to_owned()));
        Ok(all.filter_map(type_of).collect())
    }

    async fn targets(&self) -> Result<String> {
        let answer = self.ask("/api/v1/targets").await?;
        let targets = answer["data"]["activeTargets"].as_array().into_iter().flatten();
        let said = targets.map(|it| format!("{} {} {}", it["scrapePool"], it["health"], it["lastError"]));
        Ok(said.collect::<Vec<_>>().join("; "))
    }

    async fn ask(&self, path: &str) -> Result<Value> {
        let (status, body) = self.process.get(path).await?;
        ensure!(status == 200, "Prometheus answers {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }
}

/// Encodes a text for a query string.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}
