//! Statuses of device pools.

use std::sync::Arc;
use std::time::Duration;

use crds::{DevicePool, DevicePoolStatus};
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::Notify;
use world::{Policy, PoolReport};

use crate::error::Error;
use crate::runtime::context::Context;
use crate::status::report::{Finding, conditions};

/// Changes within this time are one status update.
const DEBOUNCE: Duration = Duration::from_millis(300);

/// Pause after a failed write, multiplied by the number of failures,
const RETRY: Duration = Duration::from_secs(3);
/// up to this one.
const MAX_RETRIES: u32 = 10;

/// Keeps the statuses of all pools up to date; ends only with the process.
pub async fn run(ctx: Arc<Context>, changed: Arc<Notify>) {
    let mut failures = 0;
    loop {
        let failed = report(&ctx).await;
        failures = if failed.is_empty() { 0 } else { failures + 1 };
        for (pool, e) in &failed {
            tracing::warn!(
                pool = pool.name_any(),
                error = e.chain(),
                "failed to write the status of a pool; retrying"
            );
            if failures > 1 {
                ctx.report_failed_work(pool.as_ref(), "Report", std::slice::from_ref(e)).await;
            }
        }
        if !failed.is_empty() {
            changed.notify_one();
            tokio::time::sleep(RETRY * failures.min(MAX_RETRIES)).await;
        }
        changed.notified().await;
        tokio::time::sleep(DEBOUNCE).await;
    }
}

/// Writes changed statuses; returns the pools whose status could not be written.
async fn report(ctx: &Context) -> Vec<(Arc<DevicePool>, Error)> {
    let (reports, pools) = {
        let index = ctx.caches.index();
        // Counts do not depend on a policy.
        let reports = world::pools(&index, &Policy::builtin("pools"));
        (reports, index.pools().cloned().collect::<Vec<_>>())
    };
    let mut failed = Vec::new();
    for pool in pools {
        let Some((report, allocated)) = reports.get(&pool.name_any()) else { continue };
        let status = status(&pool, report, *allocated, Timestamp::now());
        if pool.status.as_ref() != Some(&status) {
            let written = ctx.writer.apply_status(pool.as_ref(), &status).await;
            failed.extend(written.err().map(|e| (pool, e)));
        }
    }
    failed
}

fn status(pool: &DevicePool, report: &PoolReport, allocated: usize, now: Timestamp) -> DevicePoolStatus {
    let before = pool.status.clone().unwrap_or_default();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let problem = report.main_problem();
    let message = match (problem, report.healthy) {
        (Some((_, problem)), _) => problem.to_string(),
        (None, 0) if report.units > 0 => format!(
            "none of the {} units can be used now: claims of other pods hold their devices, or kube-scheduler allocates none",
            report.units
        ),
        (None, 0) => {
            "no node offers what the pool selects; check nodeSelector, devices and resource".to_owned()
        }
        (None, healthy) => format!("{healthy} units can be used"),
    };
    let well = report.is_ready();
    let reason = problem.map_or(if well { "Offered" } else { "Empty" }, |(type_, _)| type_);
    let mut findings = vec![Finding { type_: "Ready", holds: well, reason, message }];
    let problems = report.problems.iter().chain(&report.notes);
    findings.extend(problems.map(|(type_, message)| Finding {
        type_,
        holds: true,
        reason: type_,
        message: message.to_string(),
    }));
    DevicePoolStatus {
        observed_generation: pool.metadata.generation,
        units: count(report.units),
        healthy: count(report.healthy),
        allocated: count(allocated),
        conditions: conditions(&before.conditions, findings, pool.metadata.generation, now),
    }
}
