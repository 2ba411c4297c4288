//! Capacities, requests in all forms, and host ports.

use serde_json::{Map, Value, json};

use super::{DONGLE, Draw};

impl Draw {
    pub(super) fn amounts_of_node(&mut self) -> Value {
        let mut amounts = json!({"cpu": self.pick(&["3", "4", "6", "3500m"]), "memory": self.pick(&["4Gi", "8Gi", "3500M"]),
            "pods": self.pick(&["110", "110", "110", "3"])});
        if self.chance(50) {
            amounts["ephemeral-storage"] = json!("8Gi");
        }
        if self.chance(35) {
            amounts[DONGLE] = json!(self.pick(&["1", "2"]));
        }
        amounts
    }

    /// Replaces the containers of a spec: one or two, and init containers and sidecars.
    pub(super) fn containers(&mut self, spec: &mut Value) {
        let mut containers = vec![self.container("actor")];
        if self.chance(20) {
            containers.push(self.container("helper"));
        }
        spec["containers"] = json!(containers);
        let mut init = Vec::new();
        if self.chance(15) {
            init.push(self.container("prepare"));
        }
        if self.chance(15) {
            let mut sidecar = self.container("sidecar");
            sidecar["restartPolicy"] = json!("Always");
            init.push(sidecar);
        }
        if self.chance(10) {
            init.push(self.container("last"));
        }
        if !init.is_empty() {
            spec["initContainers"] = json!(init);
        }
    }

    fn container(&mut self, name: &str) -> Value {
        let mut container = json!({"name": name, "image": "none"});
        let cpu = self.pick(&["100m", "0.3", "250m", "500m", "0.7", "1200m"]);
        let memory = self.pick(&["64Mi", "128M", "0.25Gi", "1e8", "600Mi"]);
        let (mut requests, mut limits) = (Map::new(), Map::new());
        match self.rng.u32(0..8) {
            0 => {}
            1 => limits.extend([("cpu".to_owned(), json!(cpu)), ("memory".to_owned(), json!(memory))]),
            2 => drop(requests.insert("memory".to_owned(), json!(memory))),
            3 => {
                // Without a request of memory the limit is it.
                requests.insert("cpu".to_owned(), json!(cpu));
                limits.extend([("cpu".to_owned(), json!("2")), ("memory".to_owned(), json!(memory))]);
            }
            _ => requests.extend([("cpu".to_owned(), json!(cpu)), ("memory".to_owned(), json!(memory))]),
        }
        if self.chance(8) {
            requests.insert("ephemeral-storage".to_owned(), json!("3Gi"));
        }
        if self.chance(8) {
            limits.insert(DONGLE.to_owned(), json!("1"));
        }
        if !requests.is_empty() || !limits.is_empty() {
            container["resources"] = json!({"requests": requests, "limits": limits});
        }
        container
    }

    /// Requests of the whole pod, above those of its one container or without one.
    pub(super) fn pod_level_resources(&mut self, spec: &mut Value) {
        let mut container = json!({"name": "actor", "image": "none"});
        if self.chance(60) {
            container["resources"] = json!({"requests": {"cpu": "500m", "memory": "64Mi"}});
        }
        spec["containers"] = json!([container]);
        spec.as_object_mut().map(|spec| spec.remove("initContainers"));
        spec["resources"] = match self.rng.u32(0..3) {
            0 => json!({"requests": {"cpu": "1500m", "memory": "256Mi"}}),
            1 => json!({"limits": {"cpu": "3", "memory": "1Gi"}}),
            _ => json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "512Mi"}}),
        };
    }

    /// Adds a host port to a container, a sidecar, or an init container, where it does not count.
    pub(super) fn host_port(&mut self, spec: &mut Value) {
        if spec["hostNetwork"] == true {
            return;
        }
        let mut port = json!({"containerPort": 80, "hostPort": self.pick(&[8080, 8080, 8081])});
        if self.chance(30) {
            port["hostIP"] = json!(self.pick(&["127.0.0.1", "127.0.0.2", "0.0.0.0"]));
        }
        if self.chance(30) {
            port["protocol"] = json!(self.pick(&["TCP", "UDP", "SCTP"]));
        }
        let is_of_init = spec.get("initContainers").is_some() && self.chance(40);
        let list = if is_of_init { "initContainers" } else { "containers" };
        if !is_of_init && self.chance(15) {
            // The API server sets the host port.
            spec["hostNetwork"] = json!(true);
            port = json!({"containerPort": 8080});
        }
        spec[list][0]["ports"] = json!([port]);
    }

    /// Names the runtime class of this world, which has an overhead.
    pub(super) fn name_runtime_class(&mut self, spec: &mut Value) {
        let name = self.own("kata");
        spec["runtimeClassName"] = json!(name);
        let selector = json!({super::WORLD: self.name});
        self.runtime_class =
            Some(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name},
            "handler": "kata", "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
            "scheduling": {"nodeSelector": selector}}));
    }
}
