//! The tools with their packages and pinned versions.

use std::path::{Path, PathBuf};

/// Flags of every `go` call: versions come from the module files only, and binaries contain no local paths.
pub(super) const GO_FLAGS: &str = "-mod=readonly -trimpath -buildvcs=false";

/// The file next to `kwok` with its standard stages.
pub(super) const KWOK_STAGES: &str = "kwok-stages.yaml";

/// Tools that are built from one Go module file.
#[derive(Clone, Debug)]
pub struct Set {
    /// The set's name, and its folder under `e2e/control-plane`.
    pub name: &'static str,
    /// The Go module that its tools come from.
    pub module: &'static str,
    /// Each tool's file name and main package.
    pub tools: &'static [(&'static str, &'static str)],
    /// The duration of the first build on two cores, in minutes.
    pub minutes: u8,
    /// The files that pin its versions and checksums.
    pub(super) pins: Pins,
    /// Build tags.
    pub(super) tags: &'static [&'static str],
    /// The C library that it links, by its pkg-config name, and its Debian package; none for pure Go.
    pub(super) links: Option<(&'static str, &'static str)>,
    /// Variables that the linker sets; `{version}` and `{minor}` stand for the module's.
    pub(super) variables: &'static [&'static str],
    /// Files of the module that become [`KWOK_STAGES`].
    pub(super) extra: &'static [&'static str],
    /// The `main.go` of a tool that is assembled here: its package is `.`.
    pub(super) main: Option<&'static str>,
}

/// The two files of a Go module that determine the build.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pins {
    /// `go.mod`, which pins every version.
    pub go_mod: &'static str,
    /// `go.sum`, which pins every checksum.
    pub go_sum: &'static str,
}

macro_rules! pinned {
    ($folder:literal) => {
        Pins {
            go_mod: include_str!(concat!("../../control-plane/", $folder, "/go.mod")),
            go_sum: include_str!(concat!("../../control-plane/", $folder, "/go.sum")),
        }
    };
}

/// The defaults of a set.
const PLAIN: Set = Set {
    name: "",
    module: "",
    tools: &[],
    minutes: 1,
    pins: Pins { go_mod: "", go_sum: "" },
    tags: &[],
    links: None,
    variables: &[],
    extra: &[],
    main: None,
};

/// The version that a Kubernetes program reports.
const KUBERNETES: &[&str] = &[
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor=1",
    "k8s.io/component-base/version.gitMinor={minor}",
    "k8s.io/component-base/version.gitTreeState=clean",
    "k8s.io/component-base/version.buildDate=1970-01-01T00:00:00Z",
];

/// The tools of every control plane.
pub const SETS: [Set; 5] = [
    Set {
        name: "kubernetes",
        module: "k8s.io/kubernetes",
        tools: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        minutes: 6,
        pins: pinned!("k8s"),
        variables: KUBERNETES,
        ..PLAIN
    },
    Set {
        name: "etcd",
        module: "go.etcd.io/etcd/server/v3",
        tools: &[("etcd", "go.etcd.io/etcd/server/v3")],
        minutes: 1,
        pins: pinned!("etcd"),
        ..PLAIN
    },
    Set {
        name: "kwok",
        module: "sigs.k8s.io/kwok",
        tools: &[("kwok", "sigs.k8s.io/kwok/cmd/kwok")],
        minutes: 2,
        pins: pinned!("kwok"),
        variables: &["sigs.k8s.io/kwok/pkg/consts.Version={version}"],
        extra: &[
            "kustomize/stage/node/fast/node-initialize.yaml",
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "kustomize/stage/pod/fast/pod-ready.yaml",
            "kustomize/stage/pod/fast/pod-complete.yaml",
            "kustomize/stage/pod/fast/pod-delete.yaml",
        ],
        ..PLAIN
    },
    Set {
        name: "helm",
        module: "helm.sh/helm/v4",
        tools: &[("helm", "helm.sh/helm/v4/cmd/helm")],
        minutes: 2,
        pins: pinned!("helm"),
        variables: &["helm.sh/helm/v4/internal/version.version={version}"],
        ..PLAIN
    },
    Set {
        name: "kubeconform",
        module: "github.com/yannh/kubeconform",
        tools: &[("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform")],
        minutes: 1,
        pins: pinned!("kubeconform"),
        variables: &["main.version={version}"],
        ..PLAIN
    },
];

/// The additional tools of real nodes: kubelet, containerd, runc, network plugins, DNS, and a driver of devices.
pub const NODE_SETS: [Set; 6] = [
    Set {
        name: "kubelet",
        module: "k8s.io/kubernetes",
        tools: &[("kubelet", "k8s.io/kubernetes/cmd/kubelet")],
        minutes: 3,
        pins: pinned!("kubelet"),
        variables: KUBERNETES,
        ..PLAIN
    },
    Set {
        name: "containerd",
        module: "github.com/containerd/containerd/v2",
        tools: &[
            ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
            ("containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
            ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
        minutes: 2,
        pins: pinned!("containerd"),
        variables: &["github.com/containerd/containerd/v2/version.Version={version}"],
        ..PLAIN
    },
    Set {
        name: "runc",
        module: "github.com/opencontainers/runc",
        tools: &[("runc", "github.com/opencontainers/runc")],
        minutes: 1,
        pins: pinned!("runc"),
        // without it, pods with a seccomp profile are refused, RuntimeDefault included
        tags: &["seccomp"],
        links: Some(("libseccomp", "libseccomp-dev")),
        ..PLAIN
    },
    Set {
        name: "cni",
        module: "github.com/containernetworking/plugins",
        tools: &[
            ("bridge", "github.com/containernetworking/plugins/plugins/main/bridge"),
            ("host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local"),
            ("loopback", "github.com/containernetworking/plugins/plugins/main/loopback"),
        ],
        minutes: 1,
        pins: pinned!("cni"),
        ..PLAIN
    },
    Set {
        name: "coredns",
        module: "github.com/coredns/coredns",
        // only the plugins that a cluster needs; those for clouds and tracing would triple the build time
        tools: &[("coredns", ".")],
        main: Some(include_str!("../../control-plane/coredns/main.go")),
        minutes: 1,
        pins: pinned!("coredns"),
        ..PLAIN
    },
    Set {
        name: "dra-driver",
        module: "k8s.io/dynamic-resource-allocation",
        tools: &[("dra-driver", ".")],
        main: Some(include_str!("../../control-plane/dra-driver/main.go")),
        minutes: 1,
        pins: pinned!("dra-driver"),
        ..PLAIN
    },
];

/// Prometheus, for the metrics tests only.
pub const PROMETHEUS: Set = Set {
    name: "prometheus",
    module: "github.com/prometheus/prometheus",
    tools: &[
        ("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
        ("promtool", "github.com/prometheus/prometheus/cmd/promtool"),
    ],
    minutes: 3,
    pins: pinned!("prometheus"),
    // targets are static: without the clients of thirty clouds it is half as large
    tags: &["netgo", "remove_all_sd"],
    variables: &["github.com/prometheus/common/version.Version={version}"],
    ..PLAIN
};

impl Set {
    /// The module's version, for example `v1.36.3`, as `go.mod` pins it.
    pub fn version(&self) -> &'static str {
        let pinned = |line: &'static str| {
            let version = line.trim_start_matches("require").trim_start().strip_prefix(self.module)?;
            version.split_whitespace().next().filter(|word| word.starts_with('v'))
        };
        self.pins.go_mod.lines().find_map(pinned).unwrap_or("unknown")
    }

    /// The folder of the built set in `cache`.
    pub fn folder(&self, cache: &Path) -> PathBuf {
        let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        let tools = self.tools.iter().map(|(_, package)| *package).chain(self.tags.iter().copied());
        let parts = [self.pins.go_mod, self.pins.go_sum, &self.linker_flags(), GO_FLAGS, &platform];
        let files = self.extra.iter().copied().chain(self.main);
        let hash = fnv1a(parts.into_iter().chain(tools).chain(files));
        cache.join("bin").join(format!("{}-{}-{hash:016x}", self.name, self.version()))
    }

    /// The value of `-ldflags`: no symbol tables, and the version that the tool reports.
    pub(super) fn linker_flags(&self) -> String {
        let minor = self.version().split('.').nth(1).unwrap_or_default();
        let variables = self.variables.iter().map(|variable| format!(" -X {variable}"));
        let text = "-s -w".to_owned() + &variables.collect::<String>();
        text.replace("{version}", self.version()).replace("{minor}", minor)
    }
}

/// The 64-bit FNV-1a hash of all parts, each ended by a zero byte; independent of the platform.
fn fnv1a<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = parts.flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::{NODE_SETS, PROMETHEUS, Pins, SETS, Set, fnv1a};

    #[test]
    fn sets_have_pinned_versions_and_separate_folders() {
        let all = || SETS.iter().chain(&NODE_SETS).chain([&PROMETHEUS]);
        let versions: Vec<_> = all().map(|set| format!("{} {}", set.name, set.version())).collect();
        assert_eq!(
            versions,
            [
                "kubernetes v1.36.3",
                "etcd v3.6.16",
                "kwok v0.8.0",
                "helm v4.3.1",
                "kubeconform v0.8.0",
                "kubelet v1.36.3",
                "containerd v2.4.2",
                "runc v1.5.2",
                "cni v1.9.1",
                "coredns v1.14.7",
                "dra-driver v0.36.3",
                "prometheus v0.315.0"
            ]
        );
        let folders: BTreeSet<_> = all().map(|set| set.folder(Path::new("/cache"))).collect();
        assert_eq!(folders.len(), all().count());
    }

    #[test]
    fn a_changed_pin_changes_the_folder() {
        let [kubernetes, ..] = SETS;
        let other = Set { pins: Pins { go_sum: "other", ..kubernetes.pins }, ..kubernetes.clone() };
        assert_ne!(kubernetes.folder(Path::new("/")), other.folder(Path::new("/")));
        assert!(kubernetes.linker_flags().contains("gitMinor=36 "));
    }

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a([].into_iter()), 0xcbf2_9ce4_8422_2325);
        assert_ne!(fnv1a(["ab", "c"].into_iter()), fnv1a(["a", "bc"].into_iter()));
    }
}
