//! The harness: a real Kubernetes on loopback, simulated nodes, and the product as a user meets it.
//!
//! Nothing here knows the product's code. It is seen through kubectl, Helm and the API, and its
//! processes run with what its chart rendered.
//!
//! # How it hangs together
//!
//! ```text
//! test ──stdin──► cairn-e2e up ──┬─► etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok
//!                                └─stdin─► cairn-e2e node: containerd, a kubelet, and their containers
//!      ──stdin──► cairn-e2e keep ─┴─► the operator, a node agent
//! ```
//!
//! - [`binaries`] builds the pinned tools of `e2e/control-plane/*/go.mod` once into a cache outside the tree.
//! - [`control_plane`] is the supervisor behind `cairn-e2e up`: ports, certificates, processes, one state folder.
//! - [`keeper`] holds one process and obeys lines on its stdin. Both end when that pipe closes, which the
//!   kernel does for a test that dies in any way; and what they start dies with *them* by a parent-death
//!   signal. So nothing outlives a test, whoever kills what.
//! - [`cluster::Cluster`] is what tests hold: clients, kubectl, Helm, namespaces, simulated nodes, the audit log.
//! - [`product`] installs the chart and starts what it rendered; [`demo`] shows all of it to people, [`bench`](mod@bench), [`scale`], [`beside`] and [`planning`] measure it,
//!   [`chaos`] kills it at random and checks what came of that, [`upgrade`] upgrades it and goes back, [`footprint`] measures its agents; [`gpus`] compares what they say with NVIDIA's own tool.
//! - [`gate`] stops the product between two of its writes; [`slow`] lets the API server's answers come late.
//! - [`hardware`] gives agents GPUs and a kubelet that are not there.
//! - [`real_nodes`] are kubelets with containerd, for what simulated nodes cannot show; [`images`] makes what they run.
//! - [`prometheus`] scrapes what the chart says; [`binaries`] builds it when a test first wants it.
//! - [`rbac`] says which rights of a `ServiceAccount` were never used.
//! - [`workload`] reads a Deployment or `DaemonSet` from the API and runs it as a [`process::Process`].
//! - [`wait`] is the only place that waits, always for a condition and with a bound.
//!
//! # In a test
//!
//! `tests/harness.rs` shows each part in use. What most tests begin with:
//!
//! ```text
//! let cluster = Cluster::shared(); // one control plane for all tests of this program
//! let nodes = cluster.nodes([SimulatedNode::new("gpu-0").resource("nvidia.com/gpu", 2)]).await.unwrap();
//! let namespace = cluster.namespace("pods").await.unwrap(); // gone when the test ends
//! namespace.apply(manifest).await.unwrap();
//!
//! let operator = cluster.deployment("cairn-system", "cairn-operator").await.unwrap(); // as rendered
//! let mut operator = operator.start(&keeper::built("cairn-operator").unwrap()).await.unwrap();
//! operator.wait_ready().await.unwrap();
//! ```
//!
//! The state folder (logs, audit log, certificates) is removed unless a test of the binary panicked or
//! `CAIRN_KEEP=1` is set; the supervisor then says where it is.

pub mod audit;
pub mod bench;
pub mod beside;
pub mod binaries;
pub mod certificates;
pub mod chaos;
pub mod cluster;
pub mod command;
pub mod control_plane;
pub mod demo;
pub mod footprint;
pub mod gate;
pub mod gpus;
pub mod hardware;
pub mod images;
pub mod keeper;
pub mod kubeconfig;
pub mod kubelet_api;
pub mod namespace;
pub mod nodes;
pub mod planning;
pub mod ports;
pub mod process;
pub mod product;
pub mod prometheus;
pub mod rbac;
pub mod real_nodes;
pub mod release;
pub mod scale;
pub mod slow;
pub mod upgrade;
pub mod wait;
pub mod workload;

pub use audit::{AuditEvent, AuditLog};
pub use cluster::Cluster;
pub use command::{CommandFailed, Output};
pub use gate::Gate;
pub use namespace::Namespace;
pub use nodes::{Nodes, SimulatedNode};
pub use process::Process;
pub use rbac::Grant;
pub use real_nodes::RealNode;
pub use wait::wait_for;
pub use workload::Workload;
