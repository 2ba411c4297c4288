//! The product where containers really run: kubelets and containerd, the chart's DaemonSet in its own security
//! context, devices that a device plugin hands out.
//!
//! One control plane with two nodes and one installed product for all tests, which take turns with it.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agent;
mod devices;
mod hello;
mod live;
mod nodes;
mod release;
mod restart;
mod scene;
