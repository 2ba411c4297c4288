//! Reads applications' counters from Prometheus, one tick per window, and keeps the windows of each application.
//!
//! Only the leader queries. Without `--prometheus-url` nothing here runs.

mod client;
mod debug;
mod follow;
mod load_metrics;
mod store;
mod tick;

pub use client::PrometheusClient;
pub use debug::shown;
pub use follow::{Reader, run};
pub use load_metrics::{LoadMetrics, PlanCosts};
pub use store::LoadStore;
