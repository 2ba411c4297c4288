//! The nodes that the agent serves: descriptions, publication state, and nodes that wait for their Node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use crds::NodeTopologySpec;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store},
};
use tokio::time::Instant;

/// The metadata of a Node, reduced to name, uid and one label.
pub type NodeMeta = PartialObjectMeta<Node>;

/// The minimum time between two repairs of a NodeTopology that another writer keeps changing.
const REPAIR_INTERVAL: Duration = Duration::from_secs(2);

/// The described nodes, shared by all tasks of the agent.
#[derive(Debug)]
pub struct Roster {
    entries: Mutex<BTreeMap<String, Entry>>,
    nodes: Store<NodeMeta>,
}

/// One node.
#[derive(Debug, Default)]
struct Entry {
    /// `None` if the description was removed and the empty topology is not published yet.
    spec: Option<Arc<NodeTopologySpec>>,
    /// The uid of the Node for which the current `spec` was published, and the time of the last write.
    published: Option<(String, Instant)>,
    /// Whether anything was published for the current Node.
    was_published: bool,
    failures: u32,
    is_waiting: bool,
}

/// What to publish for a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Nothing: the node is not described here.
    None,
    /// This topology; `None` if its description was removed.
    Publish(Option<Arc<NodeTopologySpec>>),
}

impl Roster {
    /// An empty roster over the Nodes of the cluster.
    pub fn new(nodes: Store<NodeMeta>) -> Self {
        Self { entries: Mutex::default(), nodes }
    }

    /// Replaces the descriptions; returns the nodes that changed.
    pub fn describe(&self, topologies: &BTreeMap<String, Arc<NodeTopologySpec>>) -> Vec<String> {
        let mut entries = self.lock();
        let mut changed = Vec::new();
        for (node, entry) in &mut *entries {
            if entry.spec.is_some() && !topologies.contains_key(node) {
                (entry.spec, entry.published) = (None, None);
                changed.push(node.clone());
            }
        }
        for (node, spec) in topologies {
            let entry = entries.entry(node.clone()).or_default();
            if entry.spec.as_ref() != Some(spec) {
                (entry.spec, entry.published) = (Some(Arc::clone(spec)), None);
                changed.push(node.clone());
            }
        }
        changed
    }

    /// What to publish for `node`.
    pub fn task(&self, node: &str) -> Task {
        self.lock().get(node).map_or(Task::None, |entry| Task::Publish(entry.spec.clone()))
    }

    /// The delay before `node` is written again, if the same content was written recently.
    ///
    /// It limits the write rate of two agents that describe the same node and overwrite each other.
    pub fn repair_delay(&self, node: &str, uid: &str) -> Option<Duration> {
        let entries = self.lock();
        let (for_uid, at) = entries.get(node)?.published.as_ref()?;
        let left = REPAIR_INTERVAL.checked_sub(at.elapsed())?;
        (for_uid == uid).then_some(left)
    }

    /// Records that `spec` is published for `node`; `written` if this took a write.
    pub fn published(&self, node: &str, uid: &str, spec: Option<&Arc<NodeTopologySpec>>, written: bool) {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(node) else { return };
        (entry.was_published, entry.failures) = (true, 0);
        if entry.spec.as_ref() != spec {
            return; // the description changed meanwhile, and is published next
        }
        if spec.is_none() {
            entries.remove(node);
        } else if written {
            entry.published = Some((uid.to_owned(), Instant::now()));
        }
    }

    /// Records that publishing `node` failed; returns the number of consecutive failures.
    pub fn failed(&self, node: &str) -> u32 {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(node) else { return 1 };
        entry.failures = entry.failures.saturating_add(1);
        entry.failures
    }

    /// The described nodes whose Node exists, with its uid. These have Leases.
    pub fn alive(&self) -> BTreeMap<String, String> {
        let entries = self.lock();
        let described = entries.iter().filter(|(_, entry)| entry.spec.is_some());
        described.filter_map(|(node, _)| Some((node.clone(), self.uid(node)?))).collect()
    }

    /// All described topologies, by name of the node.
    pub fn topologies(&self) -> BTreeMap<String, Arc<NodeTopologySpec>> {
        let entries = self.lock();
        entries.iter().filter_map(|(node, entry)| Some((node.clone(), entry.spec.clone()?))).collect()
    }

    /// The names of all nodes that are described, or whose empty topology is not published yet.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Whether each described node was published once, or waits for its Node.
    pub fn is_ready(&self) -> bool {
        let entries = self.lock();
        entries
            .iter()
            .all(|(node, entry)| entry.spec.is_none() || entry.was_published || self.uid(node).is_none())
    }

    /// Records that the Node exists.
    pub fn appeared(&self, node: &str) {
        if let Some(entry) = self.lock().get_mut(node) {
            entry.is_waiting = false;
        }
    }

    /// The described nodes whose Node is missing since the last call.
    ///
    /// Call it after the Nodes are listed: it drops removed descriptions whose Node does not exist.
    pub fn newly_waiting(&self) -> Vec<String> {
        let mut entries = self.lock();
        entries.retain(|node, entry| entry.spec.is_some() || self.uid(node).is_some());
        let mut names = Vec::new();
        for (node, entry) in &mut *entries {
            let is_waiting = self.uid(node).is_none();
            if is_waiting && !entry.is_waiting {
                (entry.was_published, entry.published) = (false, None);
                names.push(node.clone());
            }
            entry.is_waiting = is_waiting;
        }
        names
    }

    /// The Nodes of the cluster.
    pub fn nodes(&self) -> Store<NodeMeta> {
        self.nodes.clone()
    }

    fn uid(&self, node: &str) -> Option<String> {
        self.nodes.get(&ObjectRef::new(node))?.uid()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().expect("no task panics while it holds the roster")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::{
        core::{ObjectMeta, PartialObjectMetaExt},
        runtime::{reflector::store, watcher::Event},
    };

    fn node(name: &str, uid: &str) -> NodeMeta {
        let (name, uid) = (Some(name.to_owned()), Some(uid.to_owned()));
        ObjectMeta { name, uid, ..ObjectMeta::default() }.into_response_partial()
    }

    fn described(names: &[&str]) -> BTreeMap<String, Arc<NodeTopologySpec>> {
        names.iter().map(|name| ((*name).to_owned(), Arc::default())).collect()
    }

    #[test]
    fn a_node_waits_for_its_node_is_published_and_is_emptied() {
        let (nodes, mut cluster) = store();
        let roster = Roster::new(nodes);
        assert_eq!(roster.describe(&described(&["a", "b"])), ["a", "b"]);
        assert!(roster.describe(&described(&["a", "b"])).is_empty(), "nothing changed");
        assert_eq!(roster.newly_waiting(), ["a", "b"]);
        assert!(roster.newly_waiting().is_empty(), "reported once");
        assert!(roster.is_ready() && roster.alive().is_empty());

        cluster.apply_watcher_event(&Event::Apply(node("a", "1")));
        roster.appeared("a");
        assert!(!roster.is_ready(), "a exists and is not published");
        let spec = roster.topologies()["a"].clone();
        roster.published("a", "1", Some(&spec), true);
        assert!(roster.is_ready());
        assert_eq!(roster.alive(), BTreeMap::from([("a".to_owned(), "1".to_owned())]));
        assert!(roster.repair_delay("a", "1").is_some(), "written a moment ago");
        assert!(roster.repair_delay("a", "2").is_none(), "another Node of that name");

        cluster.apply_watcher_event(&Event::Delete(node("a", "1")));
        assert_eq!(roster.newly_waiting(), ["a"], "reported again");
        assert!(roster.alive().is_empty());

        cluster.apply_watcher_event(&Event::Apply(node("a", "2")));
        roster.appeared("a");
        assert!(!roster.is_ready(), "the new Node has no topology yet");
        assert_eq!(roster.describe(&described(&[])), ["a", "b"]);
        assert_eq!(roster.task("a"), Task::Publish(None));
        assert!(roster.newly_waiting().is_empty());
        assert_eq!(roster.task("b"), Task::None, "dropped without Node and description");
        roster.published("a", "2", None, true);
        assert_eq!(roster.task("a"), Task::None);
    }

    #[test]
    fn a_description_that_changed_meanwhile_is_not_recorded_as_published() {
        let (nodes, _cluster) = store();
        let roster = Roster::new(nodes);
        roster.describe(&described(&["a"]));
        roster.published("a", "1", None, true);
        assert_ne!(roster.task("a"), Task::None);
        assert!(roster.repair_delay("a", "1").is_none());
        assert_eq!([roster.failed("a"), roster.failed("a")], [1, 2]);
    }
}
