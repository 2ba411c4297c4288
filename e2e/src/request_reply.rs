//! Request-reply actors: the program `cairn-e2e-actor` in real pods, which share a folder of the machine with the harness and are
//! scraped by a real Prometheus.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use crds::labels;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{Cluster, images::Image, keeper};

/// The image of the actors.
const IMAGE: &str = "registry.local/loop-actor:e2e";
/// The service time of a request in microseconds.
pub const SERVICE_MICROSECONDS: u32 = 300;
/// The port of their counters.
const METRICS: u16 = 9100;
/// The time between two looks at the pods.
const FOLLOW: Duration = Duration::from_millis(500);
/// The files of the shared folder.
const HOT_PAIR: &str = "pair";
const JOURNAL: &str = "journal";
/// Where pods have the folder.
const MOUNT: &str = "/shared";

/// Builds the image, and loads it on all real nodes.
///
/// # Errors
/// The program is not built, or a node does not accept the image.
pub async fn load(cluster: &Cluster) -> Result<()> {
    cluster.load(&Image::new(IMAGE, "/actor").program(&keeper::built("cairn-e2e-actor")?, "/actor")?).await
}

/// The folder that actors share with the harness: the file with the hot pair, and the journal of received requests.
pub struct SharedFolder {
    folder: TempDir,
    is_journaled: bool,
}

impl SharedFolder {
    /// An empty folder; with `is_journaled`, actors record the requests that they receive.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(is_journaled: bool) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a folder for the actors")?;
        // Users of pods read it, and write the journal.
        let mode = if is_journaled { 0o777 } else { 0o755 };
        fs::set_permissions(folder.path(), Permissions::from_mode(mode))?;
        let shared = Self { folder, is_journaled };
        if is_journaled {
            fs::write(shared.path(JOURNAL), "")?;
            fs::set_permissions(shared.path(JOURNAL), Permissions::from_mode(0o666))?;
        }
        Ok(shared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a pair of actors hot, by their numbers; a reader sees the old or the new one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn heat(&self, (one, other): (usize, usize)) -> Result<()> {
        let (file, draft) = (self.path(HOT_PAIR), self.path("draft"));
        fs::write(&draft, format!("{one}-{other}\n"))
            .and_then(|()| fs::rename(&draft, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// The requests that all actors received so far, in the order of their arrival.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn journal(&self) -> Result<Vec<ReceivedRequest>> {
        let text = fs::read_to_string(self.path(JOURNAL)).context("cannot read the journal")?;
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(ReceivedRequest::parse).collect()
    }

    /// The template of the actors' pods, each of which requests so much of a core.
    pub fn template(&self, cpu: &str) -> Value {
        let mut variables = vec![
            ("HOT_PAIR_FILE", format!("{MOUNT}/{HOT_PAIR}")),
            ("SERVICE_MICROSECONDS", SERVICE_MICROSECONDS.to_string()),
        ];
        if self.is_journaled {
            variables.push(("JOURNAL_FILE", format!("{MOUNT}/{JOURNAL}")));
        }
        let variables: Vec<_> =
            variables.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let probe = json!({"httpGet": {"path": "/metrics", "port": "metrics"}, "periodSeconds": 1});
        let mount = json!({"name": "shared", "mountPath": MOUNT, "readOnly": !self.is_journaled});
        let container = json!({"name": "actor", "image": IMAGE, "imagePullPolicy": "Never", "env": variables,
            "ports": [{"name": "metrics", "containerPort": METRICS}], "readinessProbe": probe,
            "volumeMounts": [mount], "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}}});
        let host = json!({"path": self.folder.path(), "type": "Directory"});
        json!({"spec": {"terminationGracePeriodSeconds": 2, "containers": [container],
            "volumes": [{"name": "shared", "hostPath": host}]}})
    }
}

/// A trace of an actor's process: it sent or received something at a time, in nanoseconds of the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActorTrace {
    /// Which actor.
    pub actor: String,
    /// When its process began.
    pub began: u64,
    /// When it sent or received.
    pub at: u64,
}

/// A numbered request that an actor received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Who received it, and when.
    pub receiver: ActorTrace,
    /// Who sent it, and when.
    pub sender: ActorTrace,
    /// Its number among those of that process to this receiver.
    pub number: u64,
}

impl ReceivedRequest {
    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [receiver, began, at, sender, sender_began, sent, number] = words[..] else {
            bail!("a line of the journal is {line:?}")
        };
        let trace = |actor: &str, began: &str, at: &str| {
            anyhow::Ok(ActorTrace { actor: actor.to_owned(), began: began.parse()?, at: at.parse()? })
        };
        Ok(Self {
            receiver: trace(receiver, began, at)?,
            sender: trace(sender, sender_began, sent)?,
            number: number.parse()?,
        })
    }
}

/// Checks a journal: no actor sent or received in two processes at the same time, and no request arrived twice.
///
/// # Errors
/// Says which requests contradict that.
pub fn check(journal: &[ReceivedRequest]) -> Result<()> {
    let mut numbers = BTreeSet::new();
    for request in journal {
        let ReceivedRequest { receiver, sender, number } = request;
        let is_new =
            numbers.insert(((&receiver.actor, receiver.began), (&sender.actor, sender.began), number));
        ensure!(is_new, "a request arrived twice: {request:?}");
    }
    // A process of an actor follows the one that began before.
    let traces = journal.iter().flat_map(|request| [&request.receiver, &request.sender]);
    let traces: BTreeSet<&ActorTrace> = traces.collect();
    for (before, after) in traces.iter().zip(traces.iter().skip(1)) {
        let is_overlap = before.actor == after.actor && before.at > after.at;
        ensure!(!is_overlap, "an actor was in two pods: {before:?}, {after:?}");
    }
    Ok(())
}

/// The scrape configuration for the pods of applications, as the chart's `PodMonitor` makes it: labels of the target, and none
/// that a pod could forge.
pub fn scraping(pods: &[Pod]) -> Value {
    let target = |pod: &Pod| {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone())?;
        let labels = json!({"namespace": pod.namespace()?, "pod": pod.name_any()});
        Some(json!({"targets": [format!("{address}:{METRICS}")], "labels": labels}))
    };
    let targets: Vec<_> = pods.iter().filter_map(target).collect();
    json!({"scrape_configs": [{"job_name": "monitoring/cairn-actors", "honor_labels": false, "honor_timestamps": false,
        "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": targets}]})
}

/// Keeps the targets in the configuration file of a Prometheus those of the actors' pods; ends only with an error.
///
/// # Errors
/// The pods cannot be listed, or the file cannot be written.
pub async fn follow_pods(client: Client, file: PathBuf) -> Result<Infallible> {
    let pods = Api::<Pod>::all(client);
    let mut written = String::new();
    loop {
        let there = pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
        let text = scraping(&there).to_string();
        if text != written {
            fs::write(&file, &text).context("cannot write the targets of Prometheus")?;
            written = text;
        }
        sleep(FOLLOW).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lines(lines: &[&str]) -> Result<()> {
        let journal: Result<Vec<_>> = lines.iter().map(|line| ReceivedRequest::parse(line)).collect();
        check(&journal?)
    }

    #[test]
    fn a_journal_shows_an_actor_in_two_pods() {
        let of_one = ["b-0 1 11 a-0 2 10 1", "b-0 1 21 a-0 2 20 2"];
        let of_next = ["b-0 1 31 a-0 25 30 1", "a-0 25 41 b-0 1 40 1"];
        check_lines(&[of_one, of_next].concat()).unwrap();
        // A request of the first one that arrives late is none of two pods.
        check_lines(&[&of_one[..], &of_next, &["b-0 1 60 a-0 2 22 3"]].concat()).unwrap();
        // The first one sends, or receives, after the next one began to.
        for late in ["b-0 1 51 a-0 2 50 3", "a-0 2 51 b-0 1 50 1"] {
            let error = check_lines(&[&of_one[..], &of_next, &[late]].concat()).unwrap_err().to_string();
            assert!(error.starts_with("an actor was in two pods"), "{error}");
        }
        let twice = check_lines(&[of_one, of_one].concat()).unwrap_err().to_string();
        assert!(twice.starts_with("a request arrived twice"), "{twice}");
        assert!(check_lines(&["b-0 10"]).is_err());
    }
}
