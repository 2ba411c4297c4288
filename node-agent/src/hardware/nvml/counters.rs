//! Readings of GPUs.

use std::collections::BTreeMap;

use nvml_links::Traffic;
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::{
        device::{Clock, EccCounter, MemoryError, PerformancePolicy, TemperatureSensor},
        nv_link::UtilizationCountUnit,
    },
    enums::nv_link::Counter,
    error::NvmlError,
    sys_exports::field_id,
};

use super::{
    gpus::{Gpu, LINKS, is_lost, list, number},
    xids::Xids,
};
use crate::hardware::reading::{
    ClockDomain, DeviceReading, ErrorKind,
    Quantity::{
        self, ClockHertz, EnergyJoules, Errors, LinkReceiveBytes, LinkTransmitBytes, MemoryUsedBytes,
        MemoryUtilization, PowerLimitWatts, PowerWatts, TemperatureCelsius, ThrottleSeconds, Utilization,
        XidErrors,
    },
    Sensor, ThrottleReason,
};

/// The maximum plausible temperature in °C. Higher values are sentinels.
const MAX_CELSIUS: u32 = 200;

/// The maximum plausible power in mW. Higher values are sentinels.
const MAX_MILLIWATTS: u32 = 100_000_000;

/// The readings of all present GPUs and partitions. GPUs that are lost or not listed have only XID errors.
pub fn read(nvml: &Nvml, xids: Option<&Xids>) -> Result<Vec<DeviceReading>, NvmlError> {
    let mut readings = Vec::new();
    let mut counts = xids.map(Xids::all).unwrap_or_default();
    for gpu in list(nvml)?.0 {
        // Values of a lost GPU are cached or 0, which would look like a counter reset.
        if is_lost(&gpu.handle) {
            continue;
        }
        let mut quantities = of_gpu(&gpu);
        quantities.extend(counts.remove(&gpu.id).map(of_xids).into_iter().flatten());
        readings.push(DeviceReading { device: gpu.id.clone(), quantities });
        for (id, handle) in &gpu.partitions {
            let mut quantities = Vec::new();
            memory_used(handle, &mut quantities);
            readings.push(DeviceReading { device: id.clone(), quantities });
        }
    }
    // The last event of a GPU that falls off the bus is an XID error.
    readings.extend(
        counts.into_iter().map(|(device, counts)| DeviceReading { device, quantities: of_xids(counts) }),
    );
    Ok(readings)
}

fn of_xids(counts: BTreeMap<u16, u64>) -> Vec<(Quantity, f64)> {
    let all = (Errors { kind: ErrorKind::Xid }, exact(counts.values().sum()));
    let by_number = counts.into_iter().map(|(xid, count)| (XidErrors { xid }, exact(count)));
    std::iter::once(all).chain(by_number).collect()
}

fn of_gpu(gpu: &Gpu<'_>) -> Vec<(Quantity, f64)> {
    let handle = &gpu.handle;
    let mut quantities = Vec::new();
    let mut put = |quantity, value: Option<f64>| quantities.extend(value.map(|value| (quantity, value)));
    // A share is at most 1; any other value is invalid.
    let share = |percent: u32| (percent <= 100).then(|| f64::from(percent) / 100.0);

    if let Ok(utilization) = handle.utilization_rates() {
        put(Utilization, share(utilization.gpu));
        put(MemoryUtilization, share(utilization.memory));
    }
    let energy = handle.total_energy_consumption().ok().filter(|millijoules| *millijoules < u64::MAX / 2);
    let watts = |milliwatts: u32| (milliwatts < MAX_MILLIWATTS).then(|| f64::from(milliwatts) / 1000.0);
    match energy {
        Some(millijoules) => put(EnergyJoules, Some(exact(millijoules) / 1000.0)),
        None => put(PowerWatts, handle.power_usage().ok().and_then(watts)),
    }
    put(PowerLimitWatts, handle.enforced_power_limit().ok().and_then(watts));

    let core = handle.temperature(TemperatureSensor::Gpu).ok().filter(|it| *it < MAX_CELSIUS).map(f64::from);
    put(TemperatureCelsius { sensor: Sensor::Core }, core);
    let memory = number(handle, field_id::NVML_FI_DEV_MEMORY_TEMP);
    // A GPU without such a sensor reports 0.
    let memory = memory.filter(|it| *it > 0.0 && *it < f64::from(MAX_CELSIUS));
    put(TemperatureCelsius { sensor: Sensor::Memory }, memory);

    for (clock, domain) in [(Clock::SM, ClockDomain::Compute), (Clock::Memory, ClockDomain::Memory)] {
        let megahertz = handle.clock_info(clock).ok().filter(|it| *it < 100_000);
        put(ClockHertz { domain }, megahertz.map(|it| f64::from(it) * 1e6));
    }
    for (reason, seconds) in throttled(handle) {
        put(ThrottleSeconds { reason }, seconds);
    }
    for (kind, count) in errors(handle) {
        put(Errors { kind }, count);
    }
    memory_used(handle, &mut quantities);
    traffic(handle, &mut quantities);
    quantities
}

fn memory_used(handle: &Device<'_>, quantities: &mut Vec<(Quantity, f64)>) {
    if let Ok(memory) = handle.memory_info()
        && memory.used <= memory.total
    {
        quantities.push((MemoryUsedBytes, exact(memory.used)));
    }
}

/// The throttled time of a GPU, by reason.
fn throttled(handle: &Device<'_>) -> [(ThrottleReason, Option<f64>); 3] {
    let seconds = |policy| {
        let nanoseconds = handle.violation_status(policy).ok()?.violation_time;
        (nanoseconds < u64::MAX / 2).then(|| exact(nanoseconds) / 1e9)
    };
    let other = [PerformancePolicy::BoardLimit, PerformancePolicy::Reliability].map(seconds);
    [
        (ThrottleReason::Power, seconds(PerformancePolicy::Power)),
        (ThrottleReason::Thermal, seconds(PerformancePolicy::Thermal)),
        (ThrottleReason::Other, other.into_iter().flatten().reduce(|a, b| a + b)),
    ]
}

fn errors(handle: &Device<'_>) -> [(ErrorKind, Option<f64>); 3] {
    let ecc = |kind| handle.total_ecc_errors(kind, EccCounter::Aggregate).ok().map(exact);
    [
        (ErrorKind::EccCorrected, ecc(MemoryError::Corrected)),
        (ErrorKind::EccUncorrected, ecc(MemoryError::Uncorrected)),
        (ErrorKind::PcieReplay, handle.pcie_replay_counter().ok().map(f64::from)),
    ]
}

/// The traffic of each NVLink, from the counters of newer GPUs, or from those of older ones if they count bytes.
fn traffic(handle: &Device<'_>, quantities: &mut Vec<(Quantity, f64)>) {
    let is_active = |link: &u32| handle.link_wrapper_for(*link).is_active().unwrap_or(false);
    let links: Vec<u32> = (0..LINKS).filter(is_active).collect();
    if links.is_empty() {
        return;
    }
    let counted = nvml_links::traffic(handle, &links);
    for Traffic { link, sent_bytes, received_bytes } in &counted {
        quantities.push((LinkTransmitBytes { link: *link }, exact(*sent_bytes)));
        quantities.push((LinkReceiveBytes { link: *link }, exact(*received_bytes)));
    }
    if !counted.is_empty() {
        return;
    }
    for link in links {
        let wrapper = handle.link_wrapper_for(link);
        let in_bytes = wrapper
            .utilization_control(Counter::Zero)
            .is_ok_and(|it| it.units == UtilizationCountUnit::Bytes);
        if in_bytes && let Ok(bytes) = wrapper.utilization_counter(Counter::Zero) {
            quantities.push((LinkTransmitBytes { link }, exact(bytes.send)));
            quantities.push((LinkReceiveBytes { link }, exact(bytes.receive)));
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes and nanoseconds below 2^53 for a hundred days are whole"
)]
fn exact(value: u64) -> f64 {
    value as f64
}
