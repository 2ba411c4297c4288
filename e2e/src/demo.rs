//! `cairn-e2e demo`: the product in half a minute, on a real control plane, as a user would see it.
//!
//! The video surveillance of the APO paper is placed on four nodes; then the node with the GPUs is deleted.
//! All output comes from the API, the operator's debug port, and `kubectl cairn`.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, anyhow, bail, ensure};
use crds::{ActorApplication, Placement, PlacementSpec, labels};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    events::v1::Event,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams},
};

use crate::{
    Cluster, Process, command, control_plane, keeper,
    process::http_get,
    product::{self, NAMESPACE, tree},
    wait,
};
use facts::Facts;
use story::{Story, grouped};

mod facts;
pub(crate) mod story;

/// The namespace and the name of the example application.
const APPLICATION: (&str, &str) = ("vision", "surveillance");
/// The node that is deleted.
const LOST: &str = "cairn-gpu";
/// The maximum line length of an event.
const EVENT_WIDTH: usize = 100;
/// The limit for planning and applying a placement; two or three seconds are usual.
const SOON: Duration = Duration::from_mins(3);

/// Runs the demo and stops everything afterwards, also after errors and Ctrl-C.
///
/// With `hold` it keeps running until Ctrl-C and prints how to access the cluster.
pub async fn run(hold: bool) -> Result<()> {
    let story = Story::begin();
    // report missing programs before anything starts
    for program in [product::OPERATOR, product::AGENT, "kubectl-cairn"] {
        keeper::built(program)?;
    }
    story.step("Starting a real control plane: etcd, kube-apiserver, controller manager, scheduler, and KWOK for nodes");
    let cluster = Cluster::start()?;
    let shown = tokio::select! {
        shown = show(&cluster, &story) => {
            if shown.is_err() {
                control_plane::mark_failed(&cluster.plane().state);
            }
            shown
        }
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    if hold && shown.is_ok() {
        look_around(&cluster, &story).await?;
    }
    let ended = shown.map(drop);
    drop(cluster);
    story.step("Stopped everything; nothing is left running");
    ended
}

/// Prints how to access the cluster, and waits for Ctrl-C.
async fn look_around(cluster: &Cluster, story: &Story) -> Result<()> {
    story.say("");
    story.step("Holding. Look around from another terminal; Ctrl-C here stops everything:");
    let (kubeconfig, kubectl) = (cluster.plane().kubeconfig.display(), cluster.plane().bin.join("kubectl"));
    let (namespace, _) = APPLICATION;
    let resources = "nodes,actorapplications,placements,instances,pods";
    story.say(format!("KUBECONFIG={kubeconfig} {} get {resources} -n {namespace}", kubectl.display()));
    tokio::signal::ctrl_c().await.context("cannot listen for Ctrl-C")
}

/// Both steps. The returned value keeps the product running.
async fn show<'a>(cluster: &'a Cluster, story: &'a Story) -> Result<Scene<'a>> {
    let client = cluster.client().await?;
    let nodes = tree("examples/nodes.yaml");
    story.step("Four machines of four cores: examples/nodes.yaml");
    cluster.kubectl(["apply".as_ref(), "-f".as_ref(), nodes.as_os_str()]).await?;
    let names: Vec<String> = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    cluster.wait_nodes_ready(&names).await?;

    story.step(format!("Installing the chart with Helm: charts/cairn into {NAMESPACE}"));
    cluster.install(&tree("examples/topologies"), &[]).await?;
    story.step("Starting operator and node agent as processes, as KWOK's nodes run no containers: with the");
    story.say("arguments, environment and probes of the chart, and with tokens of its ServiceAccounts");
    let agent = cluster.start_agent().await?;
    let operator = cluster.start_operator().await?;

    let (namespace, _) = APPLICATION;
    story.step("Applying examples/pools.yaml and examples/surveillance.yaml");
    let pools = tree("examples/pools.yaml");
    cluster.kubectl(["apply".as_ref(), "-f".as_ref(), pools.as_os_str()]).await?;
    cluster.kubectl(["create", "namespace", namespace]).await?;
    let application = tree("examples/surveillance.yaml");
    cluster.kubectl(["apply".as_ref(), "-f".as_ref(), application.as_os_str()]).await?;
    let scene = Scene { cluster, client, story, operator, _agent: agent };
    let placed = scene.settled(None).await?;
    story.step(format!("{} of {} actors are placed, and their pods run:", placed.running, placed.wanted));
    scene.placement(&placed.decision).await?;

    story.say("");
    story.step(format!("Deleting the node with the GPUs: kubectl delete node {LOST}"));
    let since = jiff::Timestamp::now();
    Api::<Node>::all(scene.client.clone()).delete(LOST, &DeleteParams::default()).await?;
    let moved = scene.settled(Some(&placed.decision)).await?;
    story.step(format!(
        "{} of {} actors are placed and run again. What moved, and why:",
        moved.running, moved.wanted
    ));
    scene.moves(&moved.decision);
    scene.events(since).await?;
    scene.placement(&moved.decision).await?;
    scene.anew(&moved.decision.spec).await?;
    Ok(scene)
}

/// The running product and the output.
struct Scene<'a> {
    cluster: &'a Cluster,
    client: Client,
    story: &'a Story,
    operator: Process,
    _agent: Process,
}

/// An applied placement.
struct Settled {
    decision: Placement,
    wanted: usize,
    running: usize,
}

impl Scene<'_> {
    /// Waits until a placement newer than `before` is applied: every actor's pod runs on its assigned unit.
    async fn settled(&self, before: Option<&Placement>) -> Result<Settled> {
        let (namespace, name) = APPLICATION;
        let applications = Api::<ActorApplication>::namespaced(self.client.clone(), namespace);
        let decisions = Api::<Placement>::namespaced(self.client.clone(), namespace);
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let settled = wait::until(SOON, async || {
            let application = applications.get(name).await?;
            let wanted = application
                .spec
                .actors
                .iter()
                .map(|group| usize::try_from(group.replicas).unwrap_or(0))
                .sum();
            let Some(decision) = decisions.get_opt(name).await? else {
                bail!("no placement has been decided yet")
            };
            ensure!(
                before.is_none_or(|before| before.metadata.generation < decision.metadata.generation),
                "nothing new is decided yet"
            );
            let pods = pods.list(&ListParams::default()).await?;
            let places: BTreeMap<&str, &str> =
                decision.spec.assignments.iter().map(|place| (&*place.actor, &*place.unit)).collect();
            let running = pods.iter().filter(|pod| runs_where(pod, &places)).count();
            let seen = format!("{} of {wanted} actors are placed, {running} run there", places.len());
            self.story.progress(&seen);
            ensure!(places.len() == wanted && running == wanted && pods.items.len() == wanted, seen);
            Ok(Settled { decision, wanted, running })
        });
        settled.await.map_err(|seen| anyhow!("waited {SOON:?} in vain: {seen}"))
    }

    /// The assignments with their reasons, the load of each unit, and the objective.
    async fn placement(&self, decision: &Placement) -> Result<()> {
        let (namespace, name) = APPLICATION;
        let debug = self.operator.port(8081)?;
        let (status, snapshot) = http_get(debug, &format!("/debug/snapshot/{namespace}/{name}")).await?;
        ensure!(status == 200, "the operator has no snapshot ({status}): {snapshot}");
        let facts = Facts::read(&snapshot)?;
        let spec = &decision.spec;
        let rows: Vec<_> = spec
            .assignments
            .iter()
            .map(|place| {
                let kind = facts.kind(&place.unit).to_owned();
                let why = facts.why(&place.actor, &place.unit, &spec.assignments);
                [place.actor.clone(), place.unit.clone(), place.node.clone(), kind, why]
            })
            .collect();
        self.story.table(["ACTOR", "UNIT", "NODE", "KIND", "WHY"], &rows);
        let work = format!("WORK PER {}", facts.window());
        self.story.table(["UNIT", &work, "ACTORS"], &facts.loads(&spec.assignments));
        self.story.say("");
        self.story.say(format!("objective  {}", in_words(spec)));
        self.story.say(format!("           {} {}", vector(spec), by_whom(spec)));
        Ok(())
    }

    fn moves(&self, decision: &Placement) {
        let rows: Vec<_> = decision
            .spec
            .moves
            .iter()
            .map(|step| {
                let from = step.from.clone().unwrap_or_else(|| "nowhere".to_owned());
                [step.actor.clone(), from, step.to.clone(), step.reason.clone()]
            })
            .collect();
        self.story.table(["ACTOR", "FROM", "TO", "WHY"], &rows);
    }

    /// The events about the application since a moment, oldest first.
    async fn events(&self, since: jiff::Timestamp) -> Result<()> {
        let (namespace, name) = APPLICATION;
        let events =
            Api::<Event>::namespaced(self.client.clone(), namespace).list(&ListParams::default()).await?;
        let concerns = |event: &Event| {
            event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(name))
                && event.event_time.as_ref().is_some_and(|time| time.0 >= since)
        };
        let mut events: Vec<_> = events.into_iter().filter(concerns).collect();
        events.sort_by(|one, other| one.event_time.cmp(&other.event_time));
        self.story.say("");
        self.story.say(format!("kubectl events -n {namespace} --for actorapplication/{name}"));
        for event in events {
            let note = event.note.unwrap_or_default();
            let lines = wrapped(&note, EVENT_WIDTH);
            for (line, reason) in
                lines.iter().zip(event.reason.iter().map(String::as_str).chain(std::iter::repeat("")))
            {
                self.story.say(format!("  {reason:<8} {line}"));
            }
        }
        Ok(())
    }

    /// Compares the placement with a new plan without running actors, so without migration costs.
    async fn anew(&self, spec: &PlacementSpec) -> Result<()> {
        let intent = "nodes,actorapplications,devicepools,nodetopologies,configmaps";
        let dump = self.cluster.kubectl(["get", intent, "-A", "-oyaml"]).await?.stdout;
        let mut plan = self.cluster.kubectl_cairn()?;
        let (namespace, name) = APPLICATION;
        plan.args(["plan", "-f", "-", "-o", "json", "--application", &format!("{namespace}/{name}")]);
        let plan: serde_json::Value = serde_json::from_str(&command::run(plan, &dump).await?.stdout)?;
        let value = |criterion: &str| plan["objective"][criterion].as_i64().unwrap_or_default();
        let level = |level: &String| level.split('+').map(value).sum::<i64>();
        let best: Vec<i64> = spec.levels.iter().map(level).collect();
        let proven = if plan["optimal"] == true { "the proven optimum" } else { "the best that was found" };
        self.story.say("");
        self.story.say(format!(
            "placing anew, as if nothing ran: {proven} is {best:?} (`kubectl cairn plan` on a dump),"
        ));
        self.story.say(if best == values(spec) {
            "and the decision is as good"
        } else {
            "and the decision differs: a move must earn its price"
        });
        Ok(())
    }
}

/// Wraps text into lines of at most so many characters; a longer word has its own line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            *line += " ";
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Whether the pod runs on its actor's assigned unit and is not terminating.
fn runs_where(pod: &Pod, places: &BTreeMap<&str, &str>) -> bool {
    let (Some(actor), Some(unit)) = (pod.labels().get(labels::ACTOR), pod.annotations().get(labels::UNIT))
    else {
        return false;
    };
    let running = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    running && pod.metadata.deletion_timestamp.is_none() && places.get(&**actor) == Some(&&**unit)
}

fn values(spec: &PlacementSpec) -> Vec<i64> {
    let value = |criterion: &str| spec.objective.get(criterion).copied().unwrap_or_default();
    spec.levels.iter().map(|level| level.split('+').map(value).sum()).collect()
}

/// `[0, 59040, 21]`, the most important first.
fn vector(spec: &PlacementSpec) -> String {
    format!("{:?}", values(spec))
}

/// `found by search, proven optimal by branch-and-bound, judged by clingo`.
fn by_whom(spec: &PlacementSpec) -> String {
    let proven = spec
        .proven_by
        .as_ref()
        .map_or("not proven optimal".to_owned(), |by| format!("proven optimal by {by}"));
    let judged = match spec.judged.as_deref() {
        None | Some("none") => "not judged by clingo".to_owned(),
        Some("all") => "judged by clingo".to_owned(),
        Some(what) => format!("judged by clingo: {what}"),
    };
    format!("found by {}, {proven}, {judged}", spec.found_by.as_deref().unwrap_or("unknown"))
}

/// `overload 0, communication 59,040 + migration 0, annoyance 21`.
fn in_words(spec: &PlacementSpec) -> String {
    let value = |criterion: &str| spec.objective.get(criterion).copied().unwrap_or_default();
    let words = |criterion: &str| format!("{criterion} {}", grouped(value(criterion)));
    let level = |level: &String| level.split('+').map(words).collect::<Vec<_>>().join(" + ");
    spec.levels.iter().map(level).collect::<Vec<_>>().join(", ")
}
