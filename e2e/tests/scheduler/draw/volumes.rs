//! Bound claims, whose volumes only some nodes can use.

use serde_json::{Value, json};

use super::Draw;

impl Draw {
    /// Adds claims to some groups; returns each with its volume, the volume first.
    pub(super) fn volumes(&mut self, application: &mut Value, nodes: &[Value]) -> Vec<(Value, Value)> {
        if !self.chance(40) {
            return Vec::new();
        }
        (0..self.rng.usize(1..=2)).map(|index| self.volume(index, application, nodes)).collect()
    }

    /// A volume of one or two nodes or of a zone, and its claim, which one or two groups use.
    fn volume(&mut self, index: usize, application: &mut Value, nodes: &[Value]) -> (Value, Value) {
        let (name, claim) = (self.own(&format!("volume-{index}")), format!("data-{index}"));
        let mode = self.pick(&["ReadWriteMany", "ReadWriteMany", "ReadWriteOncePod"]);
        let expression = if self.chance(30) {
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self.own("east")]})
        } else {
            let hosts = [(); 2].map(|()| self.pick(nodes)["metadata"]["name"].clone());
            json!({"key": self.own_key("host"), "operator": "In", "values": hosts})
        };
        for _ in 0..self.rng.usize(1..=2) {
            let Some(groups) = application["spec"]["actors"].as_array_mut() else { continue };
            let group = self.rng.usize(0..groups.len());
            let spec = &mut groups[group]["implementations"][0]["template"]["spec"];
            let volume = json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
            match spec["volumes"].as_array_mut() {
                Some(all) if all.contains(&volume) => {}
                Some(all) => all.push(volume),
                None => spec["volumes"] = json!([volume]),
            }
        }
        let namespace = self.own("a");
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": [mode], "storageClassName": "", "local": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": namespace, "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace}, "spec": {"accessModes": [mode], "storageClassName": "",
            "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}});
        (volume, claim)
    }
}
