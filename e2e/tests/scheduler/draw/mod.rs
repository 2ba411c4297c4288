//! Random worlds: nodes, foreign pods and one application, from a seed.
//!
//! Worlds share a control plane, so nothing of one world may count in another. Names, zones and the keys of racks are its own,
//! and namespaces are selected by the label `world`.

mod relations;
mod resources;
mod template;
mod volumes;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::world::World;

/// The label of nodes and namespaces that names their world.
pub const WORLD: &str = "world";
/// The key of the drawn taints.
const TAINT: &str = "example.org/dedicated";
/// An extended resource.
const DONGLE: &str = "example.org/dongle";

/// A generator for one world.
struct Draw {
    rng: Rng,
    name: String,
    /// The runtime class, once a pod names it.
    runtime_class: Option<Value>,
}

/// The world of a seed.
pub fn world(seed: u64) -> World {
    let mut draw = Draw { rng: Rng::with_seed(seed), name: format!("w{seed}"), runtime_class: None };
    let nodes: Vec<Value> = (0..draw.rng.usize(2..=5)).map(|index| draw.node(index)).collect();
    let foreign = (0..draw.rng.usize(0..=6)).map(|index| draw.foreign(index, &nodes)).collect();
    let mut application = draw.application();
    let pool = draw.pool();
    let namespaces = ["a", "b"].map(|suffix| draw.namespace(suffix)).into();
    // Last, so that the rest of a world does not depend on it.
    let volumes = draw.volumes(&mut application, &nodes);
    World {
        name: draw.name,
        namespaces,
        runtime_class: draw.runtime_class,
        volumes,
        nodes,
        foreign,
        pool,
        application,
    }
}

impl Draw {
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(0..of.len())].clone()
    }

    /// A name of this world.
    fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// A label key that only nodes of this world have.
    fn own_key(&self, name: &str) -> String {
        format!("{}.example.org/{name}", self.name)
    }

    fn namespace(&mut self, suffix: &str) -> Value {
        let name = self.own(suffix);
        let labels = json!({"kubernetes.io/metadata.name": name, WORLD: self.name, "team": suffix});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    }

    fn node(&mut self, index: usize) -> Value {
        let name = self.own(&format!("n{index}"));
        let zone = self.own(if index.is_multiple_of(2) { "east" } else { "west" });
        let mut labels = Map::from_iter([(WORLD.to_owned(), json!(self.name))]);
        let mut label = |key: String, value: Value| drop(labels.insert(key, value));
        label("kubernetes.io/os".to_owned(), json!("linux"));
        label(self.own_key("host"), json!(name));
        if self.chance(90) {
            label("kubernetes.io/hostname".to_owned(), json!(name));
        }
        if self.chance(80) {
            label("topology.kubernetes.io/zone".to_owned(), json!(zone));
        }
        if self.chance(65) {
            label(self.own_key("rack"), json!(format!("r{}", self.rng.usize(0..3))));
        }
        if self.chance(60) {
            label("disk".to_owned(), json!(self.pick(&["ssd", "hdd"])));
        }
        if self.chance(60) {
            label("generation".to_owned(), json!(self.rng.u32(1..9).to_string()));
        }
        let mut taints = Vec::new();
        if self.chance(25) {
            let effect = self.pick(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"]);
            taints.push(json!({"key": TAINT, "value": self.pick(&["red", "blue"]), "effect": effect}));
        }
        let is_cordoned = self.chance(7);
        if is_cordoned {
            taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
        }
        let amounts = self.amounts_of_node();
        let (annotation, value) = e2e::nodes::ANNOTATION;
        let addresses =
            json!([{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}]);
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {annotation: value}},
            "spec": {"taints": taints, "unschedulable": is_cordoned},
            "status": {"addresses": addresses, "allocatable": amounts, "capacity": amounts}})
    }

    /// A bound pod. It tolerates all taints, because the controller manager would delete it otherwise.
    fn foreign(&mut self, index: usize, nodes: &[Value]) -> Value {
        let node = self.pick(nodes)["metadata"]["name"].clone();
        let labels = self.labels();
        let namespace = if self.chance(65) { "a" } else { "b" };
        let mut spec = json!({"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [{}]});
        self.containers(&mut spec);
        if self.chance(40) {
            let term = self.pod_term(&labels);
            spec["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        if self.chance(25) {
            self.host_port(&mut spec);
        }
        if self.chance(10) {
            self.name_runtime_class(&mut spec);
            spec["overhead"] = json!({"cpu": "250m", "memory": "64Mi"});
            // As admission does.
            spec["nodeSelector"] = json!({WORLD: self.name});
        }
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("foreign-{index}"), "namespace": self.own(namespace), "labels": labels},
            "spec": spec, "status": {"phase": "Running"}})
    }

    fn pool(&mut self) -> Value {
        let mut pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool",
            "metadata": {"name": self.own("cpus")}, "spec": {"kind": "cpu"}});
        if self.chance(10) {
            pool["spec"]["podDefaults"] = json!({"tolerations": [{"key": TAINT, "operator": "Exists"}]});
        }
        pool
    }

    fn application(&mut self) -> Value {
        let names = &["a", "b", "c"][..self.rng.usize(1..=3)];
        let groups: Vec<Value> = names.iter().map(|group| self.group(group)).collect();
        let mut spec = json!({"actors": groups});
        if self.chance(50) {
            // Communication pulls actors to one node, against anti-affinity.
            let (from, to) = (self.pick(names), self.pick(names));
            spec["channels"] = json!([{"from": from, "to": to, "rate": "10/s", "pattern": "AllToAll"}]);
        }
        json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
            "metadata": {"name": "app", "namespace": self.own("a")}, "spec": spec})
    }

    fn group(&mut self, name: &str) -> Value {
        let template = self.template();
        json!({"name": name, "replicas": self.rng.u32(1..=4),
            "implementations": [{"kind": "cpu", "serviceTime": "1ms", "template": template}]})
    }

    /// Labels of a pod.
    fn labels(&mut self) -> Value {
        let mut labels = json!({"app": self.pick(&["x", "y", "z"])});
        if self.chance(60) {
            labels["tier"] = json!(self.pick(&["front", "back"]));
        }
        labels
    }
}
