//! Pod templates of actors.

use serde_json::{Value, json};

use super::{Draw, TAINT, WORLD};

/// A feature of a template.
#[derive(Clone, Copy, PartialEq)]
enum Feature {
    NodeSelector,
    NodeAffinity,
    Tolerations,
    Affinity,
    AntiAffinity,
    Spread,
    HostPort,
    PodLevelResources,
    RuntimeClass,
    Disk,
}

const FEATURES: [Feature; 12] = [
    Feature::NodeSelector,
    Feature::NodeAffinity,
    Feature::Tolerations,
    Feature::Affinity,
    Feature::AntiAffinity,
    Feature::AntiAffinity,
    Feature::Spread,
    Feature::Spread,
    Feature::HostPort,
    Feature::PodLevelResources,
    Feature::RuntimeClass,
    Feature::Disk,
];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

impl Draw {
    /// A template with some features. It selects the nodes of its world.
    pub(super) fn template(&mut self) -> Value {
        let labels = self.labels();
        let mut spec = json!({"nodeSelector": {WORLD: self.name}, "containers": []});
        self.containers(&mut spec);
        let mut features: Vec<Feature> = (0..self.rng.usize(1..=4)).map(|_| self.pick(&FEATURES)).collect();
        features.dedup();
        // It replaces the containers, so the ports come later.
        features.sort_by_key(|feature| *feature != Feature::PodLevelResources);
        for feature in features {
            self.add(feature, &labels, &mut spec);
        }
        json!({"metadata": {"labels": labels}, "spec": spec})
    }

    fn add(&mut self, feature: Feature, labels: &Value, spec: &mut Value) {
        match feature {
            Feature::NodeSelector => spec["nodeSelector"]["disk"] = json!(self.pick(&["ssd", "hdd"])),
            Feature::NodeAffinity => {
                let terms: Vec<Value> = (0..self.rng.usize(1..=2)).map(|_| self.node_term()).collect();
                spec["affinity"]["nodeAffinity"] = json!({REQUIRED: {"nodeSelectorTerms": terms}});
            }
            Feature::Tolerations => spec["tolerations"] = json!([self.toleration()]),
            Feature::Affinity => {
                let terms: Vec<Value> = (0..self.few()).map(|_| self.pod_term(labels)).collect();
                spec["affinity"]["podAffinity"] = json!({REQUIRED: terms});
            }
            Feature::AntiAffinity => {
                let terms: Vec<Value> = (0..self.few()).map(|_| self.pod_term(labels)).collect();
                spec["affinity"]["podAntiAffinity"] = json!({REQUIRED: terms});
            }
            Feature::Spread => {
                let mut constraints: Vec<Value> = (0..self.few()).map(|_| self.spread(labels)).collect();
                // The API server refuses two with the same key and the same reaction.
                constraints.dedup_by_key(|it| (it["topologyKey"].clone(), it["whenUnsatisfiable"].clone()));
                spec["topologySpreadConstraints"] = json!(constraints);
            }
            Feature::HostPort => self.host_port(spec),
            Feature::PodLevelResources => self.pod_level_resources(spec),
            Feature::RuntimeClass => self.name_runtime_class(spec),
            Feature::Disk => spec["volumes"] = json!([self.disk()]),
        }
    }

    /// A disk that pods of one node cannot share, or only to read.
    fn disk(&mut self) -> Value {
        let (name, reads) = (self.own("disk"), self.chance(50));
        match self.rng.u32(0..3) {
            0 => json!({"name": "disk", "awsElasticBlockStore": {"volumeID": name}}),
            1 => json!({"name": "disk", "gcePersistentDisk": {"pdName": name, "readOnly": reads}}),
            _ => {
                json!({"name": "disk", "iscsi": {"targetPortal": "10.0.0.1", "iqn": format!("iqn.2026-11.example:{name}"),
                "lun": 0, "readOnly": reads}})
            }
        }
    }

    /// Mostly one of these.
    fn few(&mut self) -> usize {
        if self.chance(25) { 2 } else { 1 }
    }

    fn node_term(&mut self) -> Value {
        let rack = self.own_key("rack");
        let expression = match self.rng.u32(0..6) {
            0 => {
                json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self.own("east")]})
            }
            1 => json!({"key": rack, "operator": "Exists"}),
            2 => json!({"key": rack, "operator": "NotIn", "values": ["r0"]}),
            3 => json!({"key": "generation", "operator": "Gt", "values": ["3"]}),
            4 => json!({"key": "disk", "operator": "DoesNotExist"}),
            _ => {
                let field = json!({"key": "metadata.name", "operator": "NotIn", "values": [self.own("n0")]});
                return json!({"matchFields": [field]});
            }
        };
        json!({"matchExpressions": [expression]})
    }

    fn toleration(&mut self) -> Value {
        match self.rng.u32(0..5) {
            0 => json!({"key": TAINT, "operator": "Exists"}),
            1 => json!({"key": TAINT, "operator": "Equal", "value": "red", "effect": "NoSchedule"}),
            2 => json!({"operator": "Exists", "effect": "NoSchedule"}),
            // An hour: longer than the world exists.
            3 => {
                json!({"key": TAINT, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600})
            }
            _ => json!({"key": TAINT, "value": "blue"}),
        }
    }
}
