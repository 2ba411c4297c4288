//! The configuration of a node's containerd, kubelet and network plugins.

use std::path::Path;

use serde_json::json;

use super::{PAUSE_IMAGE, Plan, network};

/// The pod network: a bridge inside the node, and addresses of the node's range.
pub(super) fn network(plan: &Plan) -> String {
    let state = plan.node.state.display();
    let bridge = json!({
        "type": "bridge",
        "bridge": "pods",
        "isDefaultGateway": true,
        "ipMasq": false,
        "ipam": {
            "type": "host-local",
            "dataDir": format!("{state}/cni-addresses"),
            "ranges": [[{"subnet": plan.network.pods()}]],
        },
    });
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}).to_string()
}

/// Without `CAP_SYS_RESOURCE`, which containers rarely have, runc cannot lower a process's OOM score:
/// hence `restrict_oom_score_adj`.
pub(super) fn containerd(plan: &Plan) -> String {
    let (state, bin) = (plan.node.state.display(), plan.bin.display());
    format!(
        r#"version = 3
root = "{state}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
  path = "{state}/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  cdi_spec_dirs = ["{state}/cdi"]
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{bin}"]
    conf_dir = "{state}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{bin}/runc"
        SystemdCgroup = false
"#
    )
}

pub(super) fn containerd_flags(plan: &Plan) -> Vec<String> {
    vec![containerd_config_flag(&plan.node.state), "--log-level=info".into()]
}

/// The flag that identifies containerd of the node with this folder.
pub(super) fn containerd_config_flag(state: &Path) -> String {
    format!("--config={}/containerd.toml", state.display())
}

/// The kubelet's configuration; JSON is YAML.
pub(super) fn kubelet(plan: &Plan, cgroup: &str) -> String {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": plan.node.address,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": plan.authority},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": false,
        "failCgroupV1": false, // some machines still use version 1
        "oomScoreAdj": 0, // its own -999 needs CAP_SYS_RESOURCE, as more open files than these do
        "maxOpenFiles": 20000,
        "resolvConf": "",
        "clusterDNS": [network::NAMES],
        "clusterDomain": "cluster.local",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins", // the default would be made under /usr
        "imageGCHighThresholdPercent": 100, // images could not be pulled again
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"}, // however full the disk is
        "topologyManagerPolicy": "single-numa-node", // rejects pods with wrong topology hints
        "syncFrequency": "10s", // how soon a changed ConfigMap shows
        "nodeStatusUpdateFrequency": "2s", // how soon new devices show
        "nodeStatusReportFrequency": "5m",
    });
    if !plan.foreign_cores.is_empty() {
        let foreign: Vec<String> = plan.foreign_cores.iter().map(ToString::to_string).collect();
        configuration["cpuManagerPolicy"] = json!("static");
        configuration["cpuManagerPolicyOptions"] = json!({"strict-cpu-reservation": "true"});
        configuration["reservedSystemCPUs"] = json!(foreign.join(","));
    }
    configuration.to_string()
}

/// The flag that identifies the kubelet of the node with this folder.
pub(super) fn kubelet_config_flag(state: &Path) -> String {
    format!("--config={}/kubelet.yaml", state.display())
}

pub(super) fn kubelet_flags(plan: &Plan) -> Vec<String> {
    let state = plan.node.state.display();
    vec![
        kubelet_config_flag(&plan.node.state),
        format!("--kubeconfig={state}/kubeconfig"),
        format!("--hostname-override={}", plan.node.name),
        format!("--node-ip={}", plan.node.address),
    ]
}
