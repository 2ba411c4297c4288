//! Device readings as series.

use std::{collections::BTreeMap, sync::Arc};

use crds::{Health, NodeTopologySpec};

use super::Series;
use metric_names::agent::{
    DEVICE_CLOCK, DEVICE_ENERGY, DEVICE_ERRORS, DEVICE_LINK_RECEIVE, DEVICE_LINK_TRANSMIT,
    DEVICE_MEMORY_USED, DEVICE_MEMORY_UTILIZATION, DEVICE_POWER, DEVICE_POWER_LIMIT, DEVICE_TEMPERATURE,
    DEVICE_THROTTLE, DEVICE_UTILIZATION, DEVICE_XID_ERRORS,
};

use crate::hardware::reading::{DeviceReading, Quantity};

/// Adds the series of each reading whose device is in a topology. Lost devices have only those of error counters.
///
/// Drivers may return zeros for a board that fell off the bus, which would look like counter resets.
pub fn add(
    series: &mut Series,
    topologies: &BTreeMap<String, Arc<NodeTopologySpec>>,
    readings: &[DeviceReading],
) {
    for reading in readings {
        let mut found = topologies.iter().filter_map(|(node, spec)| {
            Some((node, spec.devices.iter().find(|device| device.id == reading.device)?))
        });
        if let Some((node, device)) = found.next() {
            let is_present = device.health != Health::Lost;
            let quantities = reading.quantities.iter().filter(|(it, _)| is_present || it.is_error_count());
            for &(quantity, value) in quantities {
                add_one(series, node, &reading.device, quantity, value);
            }
        }
    }
}

fn add_one(series: &mut Series, node: &str, device: &str, quantity: Quantity, value: f64) {
    let plain = [node, device];
    let with = |label| [node, device, label];
    match quantity {
        Quantity::Utilization => series.add(&DEVICE_UTILIZATION, &plain, value),
        Quantity::MemoryUtilization => series.add(&DEVICE_MEMORY_UTILIZATION, &plain, value),
        Quantity::MemoryUsedBytes => series.add(&DEVICE_MEMORY_USED, &plain, value),
        Quantity::EnergyJoules => series.add(&DEVICE_ENERGY, &plain, value),
        Quantity::PowerWatts => series.add(&DEVICE_POWER, &plain, value),
        Quantity::PowerLimitWatts => series.add(&DEVICE_POWER_LIMIT, &plain, value),
        Quantity::TemperatureCelsius { sensor } => {
            series.add(&DEVICE_TEMPERATURE, &with(sensor.into()), value);
        }
        Quantity::ClockHertz { domain } => series.add(&DEVICE_CLOCK, &with(domain.into()), value),
        Quantity::ThrottleSeconds { reason } => series.add(&DEVICE_THROTTLE, &with(reason.into()), value),
        Quantity::Errors { kind } => series.add(&DEVICE_ERRORS, &with(kind.into()), value),
        Quantity::XidErrors { xid } => series.add(&DEVICE_XID_ERRORS, &with(&xid.to_string()), value),
        Quantity::LinkTransmitBytes { link } => {
            series.add(&DEVICE_LINK_TRANSMIT, &with(&link.to_string()), value);
        }
        Quantity::LinkReceiveBytes { link } => {
            series.add(&DEVICE_LINK_RECEIVE, &with(&link.to_string()), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hardware::reading::{ClockDomain, ErrorKind, Sensor, ThrottleReason},
        metrics::Metrics,
    };
    use crds::Device;

    fn of_machine(health: Health) -> BTreeMap<String, Arc<NodeTopologySpec>> {
        let gpu = Device { id: "gpu-0".into(), type_: "GPU".into(), health, ..Device::default() };
        let spec = NodeTopologySpec { devices: vec![gpu], links: Vec::new() };
        BTreeMap::from([("node-a".to_owned(), Arc::new(spec))])
    }

    fn everything(device: &str) -> DeviceReading {
        let quantities = [
            Quantity::Utilization,
            Quantity::MemoryUtilization,
            Quantity::MemoryUsedBytes,
            Quantity::EnergyJoules,
            Quantity::PowerWatts,
            Quantity::PowerLimitWatts,
            Quantity::TemperatureCelsius { sensor: Sensor::Memory },
            Quantity::ClockHertz { domain: ClockDomain::Compute },
            Quantity::ThrottleSeconds { reason: ThrottleReason::Thermal },
            Quantity::Errors { kind: ErrorKind::EccUncorrected },
            Quantity::LinkTransmitBytes { link: 0 },
            Quantity::LinkReceiveBytes { link: 11 },
            Quantity::XidErrors { xid: 79 },
        ];
        let values = quantities.into_iter().zip((1_u32..).map(|n| f64::from(n) / 4.0));
        DeviceReading { device: device.to_owned(), quantities: values.collect() }
    }

    #[test]
    fn every_quantity_has_its_series_and_a_lost_device_has_its_errors() {
        let text = |health| {
            let topologies = of_machine(health);
            let mut series = Series::default();
            add(&mut series, &topologies, &[everything("gpu-0"), everything("gpu-9")]);
            let text = Metrics::new().unwrap().render(&topologies, series).unwrap();
            let of_device = |line: &&str| line.starts_with("cairn_device_") && line.contains("device=");
            text.lines().filter(of_device).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(text(Health::Degraded));
        let lost = text(Health::Lost);
        let errors = lost.lines().filter(|line| line.contains("errors_total"));
        assert_eq!((errors.count(), lost.lines().count()), (2, 7), "errors, info and health: {lost}");
    }
}
