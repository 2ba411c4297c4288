//! Readings from `hwmon` and the drivers' own files. NVIDIA GPUs are read with NVML.

use std::path::Path;

use super::{
    classes::{ClassDevice, entries},
    number, numbered, text,
};
use crate::hardware::{
    hwloc::prefix,
    reading::{
        ClockDomain, DeviceReading, ErrorKind,
        Quantity::{
            self, ClockHertz, EnergyJoules, Errors, MemoryUsedBytes, MemoryUtilization, PowerLimitWatts,
            PowerWatts, TemperatureCelsius, Utilization,
        },
        Sensor,
    },
};

/// The readings of all devices.
pub fn read(root: &Path) -> Vec<DeviceReading> {
    let others = entries(root).into_iter().filter(|entry| entry.vendor != Some("nvidia"));
    let readings = others.map(|entry| DeviceReading {
        device: format!("{}-{}", prefix(entry.type_), entry.address),
        quantities: quantities(&entry),
    });
    readings.filter(|reading| !reading.quantities.is_empty()).collect()
}

fn quantities(entry: &ClassDevice) -> Vec<(Quantity, f64)> {
    let folder = &entry.folder;
    let mut quantities = Vec::new();
    let mut put = |quantity, value: Option<f64>| {
        let is_new = |known: &Vec<(Quantity, f64)>| known.iter().all(|(it, _)| *it != quantity);
        if let Some(value) = value.filter(|_| is_new(&quantities)) {
            quantities.push((quantity, value));
        }
    };
    let share = |file| number(folder, file).filter(|percent| *percent <= 100).map(|it| exact(it) / 100.0);
    put(Utilization, share("gpu_busy_percent"));
    put(MemoryUtilization, share("mem_busy_percent"));
    put(MemoryUsedBytes, number(folder, "mem_info_vram_used").map(exact));
    let (corrected, uncorrected) = memory_errors(folder);
    put(Errors { kind: ErrorKind::EccCorrected }, corrected);
    put(Errors { kind: ErrorKind::EccUncorrected }, uncorrected);
    put(Errors { kind: ErrorKind::PcieReplay }, number(folder, "pcie_replay_count").map(exact));
    for monitor in numbered(&folder.join("hwmon"), "hwmon") {
        let millionths = |file: &str| number(&monitor, file).map(|micro| exact(micro) / 1e6);
        match millionths("energy1_input") {
            Some(joules) => put(EnergyJoules, Some(joules)),
            None => put(PowerWatts, millionths("power1_average").or_else(|| millionths("power1_input"))),
        }
        put(PowerLimitWatts, millionths("power1_cap").or_else(|| millionths("power1_max")));
        for (sensor, celsius) in temperatures(&monitor) {
            put(TemperatureCelsius { sensor }, Some(celsius));
        }
        for (nth, domain) in [(1, ClockDomain::Compute), (2, ClockDomain::Memory)] {
            put(ClockHertz { domain }, number(&monitor, &format!("freq{nth}_input")).map(exact));
        }
    }
    quantities
}

/// The temperatures of the processor and its memory, by the labels of amdgpu, xe and i915. Without a label it is the
/// processor's.
fn temperatures(monitor: &Path) -> Vec<(Sensor, f64)> {
    let sensor = |nth: u32| {
        let celsius = exact(number(monitor, &format!("temp{nth}_input"))?) / 1000.0;
        let sensor = match text(monitor, &format!("temp{nth}_label")).as_deref() {
            Some("mem" | "vram") => Sensor::Memory,
            Some("edge" | "junction" | "pkg") | None => Sensor::Core,
            Some(_) => return None,
        };
        Some((sensor, celsius))
    };
    (1..=4).filter_map(sensor).collect()
}

/// The corrected and the uncorrected errors of memory, from lines such as `ue: 0` and `ce: 3`.
fn memory_errors(folder: &Path) -> (Option<f64>, Option<f64>) {
    let counts = text(&folder.join("ras"), "umc_err_count").unwrap_or_default();
    let count = |key: &str| {
        let line = counts.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        line?.trim().parse::<u64>().ok().map(exact)
    };
    (count("ce"), count("ue"))
}

#[expect(clippy::cast_precision_loss, reason = "counters below 2^53")]
fn exact(value: u64) -> f64 {
    value as f64
}
