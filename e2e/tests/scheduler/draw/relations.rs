//! Relations between pods: affinity, anti-affinity and topology spread.

use serde_json::{Value, json};

use super::{Draw, WORLD};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

impl Draw {
    /// A term of a required affinity or anti-affinity of a pod with these labels.
    pub(super) fn pod_term(&mut self, labels: &Value) -> Value {
        let (selector, names_tier) = self.selector(labels);
        let rack = self.own_key("rack");
        let mut term =
            json!({"topologyKey": self.pick(&[HOST, HOST, ZONE, rack.as_str()]), "labelSelector": selector});
        match self.rng.u32(0..10) {
            0 => term["namespaces"] = json!([self.own("b")]),
            1 => term["namespaces"] = json!([self.own("a"), self.own("b")]),
            2 => term["namespaceSelector"] = json!({"matchLabels": {WORLD: self.name, "team": "b"}}),
            3 => {
                // Together they are a union.
                term["namespaces"] = json!([self.own("a")]);
                term["namespaceSelector"] = json!({"matchExpressions": [
                    {"key": WORLD, "operator": "In", "values": [self.name]}, {"key": "team", "operator": "NotIn", "values": ["a"]}]});
            }
            _ => {}
        }
        if !names_tier && self.chance(8) {
            term["matchLabelKeys"] = json!(["tier"]);
        }
        term
    }

    /// A topology spread constraint of a pod with these labels, mostly a hard one.
    pub(super) fn spread(&mut self, labels: &Value) -> Value {
        let (selector, names_tier) = self.selector(labels);
        let is_hard = self.chance(90);
        // Without the node affinity other worlds would count, unless the key is of this world.
        let ignores_affinity = self.chance(20);
        let (host, rack) = (self.own_key("host"), self.own_key("rack"));
        let keys = if ignores_affinity { [&*host, &*rack, &*rack] } else { [HOST, ZONE, &*rack] };
        let mut constraint = json!({"maxSkew": self.pick(&[1, 1, 2]), "topologyKey": self.pick(&keys),
            "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" }, "labelSelector": selector});
        if is_hard && self.chance(25) {
            constraint["minDomains"] = json!(self.rng.u32(1..=3));
        }
        if ignores_affinity {
            constraint["nodeAffinityPolicy"] = json!("Ignore");
        } else if self.chance(15) {
            constraint["nodeAffinityPolicy"] = json!("Honor");
        }
        if self.chance(30) {
            constraint["nodeTaintsPolicy"] = json!(self.pick(&["Honor", "Honor", "Ignore"]));
        }
        if self.chance(20) {
            let key = if names_tier { crds::labels::TEMPLATE_HASH } else { "tier" };
            constraint["matchLabelKeys"] = json!([key]);
        }
        constraint
    }

    /// A selector of pods, often of those with the same `app`, and whether it names the label `tier`.
    fn selector(&mut self, labels: &Value) -> (Value, bool) {
        if self.chance(40) {
            return (json!({"matchLabels": {"app": labels["app"]}}), false);
        }
        let app = self.pick(&["x", "y", "z"]);
        let tier = self.pick(&["front", "back"]);
        match self.rng.u32(0..12) {
            0 => {
                (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "x"]}]}), false)
            }
            1 => (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            2 => (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), true),
            3 => {
                (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": [tier]}]}), true)
            }
            4 => (json!({"matchLabels": {"app": app, "tier": tier}}), true),
            5 => (json!({"matchLabels": {crds::labels::ACTOR_GROUP: self.pick(&["a", "b"])}}), false),
            6 => (json!({"matchLabels": {crds::labels::APPLICATION: "app"}}), false),
            7 if self.chance(50) => (json!({}), false),
            _ => (json!({"matchLabels": {"app": app}}), false),
        }
    }
}
