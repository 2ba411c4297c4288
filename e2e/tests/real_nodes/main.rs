//! The product where containers really run: kubelets and containerd, the chart's DaemonSet in its own security
//! context, devices that a device plugin hands out.
//!
//! One control plane with two nodes and one installed product for all tests. They change different things, so they
//! may run side by side; only who restarts the API server has it alone.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agent;
mod devices;
mod nodes;
mod scene;
