//! Actors reach each other by name across nodes, also after moves.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, ensure};
use crds::labels;
use e2e::{Namespace, images::Image, product::tree, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use serde_json::{Value, json};

use crate::scene::{DEVICES, SOON, alone, cluster, product};

/// The image that the example names; here it is this machine's busybox.
const IMAGE: &str = "docker.io/library/busybox:1.37";

/// What the example uses of it.
const TOOLS: [&str; 5] = ["grep", "nc", "sh", "sleep", "tr"];

/// The number of new answers to wait for: one may have been in flight.
const ANSWERS: usize = 3;

fn busybox() -> Image {
    let places = ["/usr/bin/busybox", "/bin/busybox"].map(Path::new);
    let program = places.into_iter().find(|place| place.exists());
    let program = program.expect("busybox is installed, of Debian's package of that name");
    let image = Image::new(IMAGE, "/bin/sh").program(program, "/bin/busybox").unwrap();
    TOOLS.iter().fold(image, |image, tool| image.link("/bin/busybox", &format!("/bin/{tool}")))
}

/// The example, with each group pinned to a node.
fn manifest(nodes: [&str; 2]) -> Value {
    let text = fs::read_to_string(tree("examples/hello-actors.yaml")).unwrap();
    let mut manifest: Value = serde_yaml::from_str(&text).unwrap();
    for (group, node) in nodes.into_iter().enumerate() {
        manifest["spec"]["actors"][group]["pinTo"] = json!({"node": node});
    }
    manifest
}

/// The callers and callees of an application on their nodes.
struct Hello<'a> {
    namespace: Namespace<'a>,
    pods: Api<Pod>,
}

impl Hello<'_> {
    /// Pins callers and callees to these nodes, and waits until all run there and nowhere else.
    async fn on(&self, nodes: [&str; 2]) {
        let [of_callers, of_others] = nodes;
        self.namespace.apply(&manifest(nodes).to_string()).await.unwrap();
        let wanted = [
            ("callee-0", of_others),
            ("callee-1", of_others),
            ("caller-0", of_callers),
            ("caller-1", of_callers),
        ];
        wait_for("every actor runs on its node", SOON, async || {
            let found = self.pods.list(&ListParams::default().labels(labels::ACTOR)).await?;
            let place = |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let runs = phase == Some("Running") && pod.metadata.deletion_timestamp.is_none();
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|_| runs);
                (pod.labels()[labels::ACTOR].clone(), node.unwrap_or_default())
            };
            let mut places: Vec<_> = found.iter().map(place).collect();
            places.sort();
            ensure!(places == wanted.map(|(actor, node)| (actor.to_owned(), node.to_owned())), "{places:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// The number of greetings by caller and callee.
    async fn greetings(&self) -> Result<BTreeMap<String, usize>> {
        let domain = format!("hello.{}.svc", self.namespace.name());
        let mut counts = BTreeMap::new();
        for caller in ["caller-0", "caller-1"] {
            let log = self.pods.logs(&format!("hello-{caller}"), &LogParams::default()).await?;
            for callee in ["callee-0", "callee-1"] {
                let line = format!("{callee}.{domain} says: hello from {caller}, this is {callee} on a cpu");
                counts.insert(line.clone(), log.lines().filter(|said| **said == line).count());
            }
        }
        Ok(counts)
    }

    /// Waits until every callee has greeted every caller from now on.
    async fn find_each_other(&self) {
        let before = wait_for("every caller has a log", SOON, async || self.greetings().await).await;
        wait_for("callers and callees find each other", SOON, async || {
            let now = self.greetings().await?;
            let silent = now.iter().find(|(line, count)| **count < before[*line] + ANSWERS);
            ensure!(silent.is_none(), "{silent:?}; the log ends with {}", self.last_words().await?);
            anyhow::Ok(())
        })
        .await;
    }

    /// The last log lines of the callers.
    async fn last_words(&self) -> Result<String> {
        let log = self.pods.logs("hello-caller-0", &LogParams::default()).await?;
        log.lines().next_back().map(str::to_owned).context("nothing")
    }
}

#[tokio::test]
async fn example_actors_find_their_peers_after_a_move() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    cluster.load(&busybox()).await.unwrap();
    cluster.start_dns().await.unwrap();
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"},
        "spec": {"kind": "cpu"}});
    cluster.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    let namespace = cluster.namespace("hello").await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), namespace.name());
    let hello = Hello { namespace, pods };

    let [(one, _), (two, _)] = DEVICES;
    for nodes in [[one, two], [one, one], [two, one]] {
        hello.on(nodes).await;
        hello.find_each_other().await;
    }

    hello.namespace.kubectl(["delete", "actorapp", "hello"]).await.unwrap();
    cluster.kubectl(["delete", "devicepool", "cpus"]).await.unwrap();
}
