//! The harness: a real Kubernetes on loopback, simulated nodes, and the product as users install it.
//!
//! It depends on no internals of the product, only on kubectl, Helm and the API; the product's
//! processes run with the chart's settings.
//!
//! # Structure
//!
//! ```text
//! test ──stdin──► cairn-e2e up ──┬─► etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok
//!                                └─stdin─► cairn-e2e node: containerd, a kubelet, and their containers
//!      ──stdin──► cairn-e2e keep ─┴─► the operator, a node agent
//! ```
//!
//! - [`binaries`] builds the pinned tools of `e2e/control-plane/*/go.mod` once into a cache outside the tree.
//! - [`control_plane`] is the supervisor behind `cairn-e2e up`: ports, certificates, processes, one state folder.
//! - [`keeper`] runs one process and reads orders on its stdin. Both end when that pipe is closed, which the
//!   kernel does when a test dies; their children are killed by a parent-death
//!   signal. So nothing outlives a test.
//! - [`cluster::Cluster`] is the API for tests: clients, kubectl, Helm, namespaces, simulated nodes, the audit log.
//! - [`product`] installs the chart and starts its programs; [`demo`] presents it, [`bench`](mod@bench), [`scale`],
//!   [`versus_kube_scheduler`] and [`planning`] measure it,
//!   [`chaos`] kills it at random and checks the audit log, [`upgrade`] upgrades it and rolls back, [`footprint`] measures its agents; [`gpus`] compares them with `nvidia-smi`.
//! - [`gate`] stops the product between two of its writes; [`slow`] delays the API server's responses.
//! - [`hardware`] provides fake GPUs and a fake kubelet for agents.
//! - [`real_nodes`] are kubelets with containerd, where simulated nodes do not suffice; [`images`] builds their images.
//! - [`request_reply`] are actors that send each other requests in real pods.
//! - [`pods`] reads conditions of pods.
//! - [`prometheus`] scrapes as the chart configures; [`binaries`] builds it on first use.
//! - [`rbac`] finds permissions of a `ServiceAccount` that were never used.
//! - [`workload`] reads a Deployment or `DaemonSet` from the API and runs it as a [`process::Process`].
//! - [`wait`] is the only place that waits, always for a condition and with a limit.
//!
//! # In a test
//!
//! `tests/harness.rs` shows each part in use. Most tests begin with:
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
//! `CAIRN_KEEP=1` is set; the supervisor then prints its path.

pub mod audit;
pub mod bench;
pub mod binaries;
pub mod certificates;
pub mod chaos;
pub mod cluster;
pub mod command;
pub mod control_plane;
pub mod demo;
pub mod demo_loop;
pub mod etcd;
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
pub mod pods;
pub mod ports;
pub mod process;
pub mod product;
pub mod prometheus;
pub mod rbac;
pub mod real_nodes;
pub mod release;
pub mod request_reply;
pub mod scale;
pub mod slow;
pub mod upgrade;
pub mod versus_kube_scheduler;
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
