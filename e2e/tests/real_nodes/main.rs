//! The product in real containers: kubelets and containerd, the chart's DaemonSet in its own security
//! context, devices from a device plugin.
//!
//! One control plane with two nodes and one installed product for all tests, which run one at a time.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agent;
mod devices;
mod dra;
mod hello;
mod live;
mod moves;
mod nodes;
mod numa;
mod release;
mod restart;
mod scene;
