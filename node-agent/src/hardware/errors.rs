//! Error counters of lost devices: they often contain the cause of the loss, so they must outlive the device's
//! readings.

use std::collections::{BTreeMap, BTreeSet};

use super::reading::{DeviceReading, Quantity};

/// The last error counters of each device.
#[derive(Debug, Default)]
pub struct ErrorCounters(BTreeMap<String, BTreeMap<Quantity, f64>>);

impl ErrorCounters {
    /// Reduces the readings of lost devices to their error counters, and adds the last ones of devices without a
    /// reading.
    ///
    /// Drivers may return zeros for a lost device. Its counters never decrease until it returns.
    pub fn keep(&mut self, readings: Vec<DeviceReading>, lost: &BTreeSet<String>) -> Vec<DeviceReading> {
        let (of_lost, mut of_present): (Vec<_>, Vec<_>) =
            readings.into_iter().partition(|reading| lost.contains(&reading.device));
        for reading in &of_present {
            let errors = reading.quantities.iter().filter(|(quantity, _)| quantity.is_error_count());
            let errors: BTreeMap<_, _> = errors.copied().collect();
            if !errors.is_empty() {
                self.0.insert(reading.device.clone(), errors);
            }
        }
        for reading in of_lost {
            let known = self.0.entry(reading.device).or_default();
            for (quantity, value) in reading.quantities.into_iter().filter(|(it, _)| it.is_error_count()) {
                let before = known.entry(quantity).or_insert(value);
                *before = before.max(value);
            }
        }
        let kept = lost.iter().filter_map(|device| {
            let errors = self.0.get(device).filter(|errors| !errors.is_empty())?;
            let quantities = errors.iter().map(|(quantity, value)| (*quantity, *value)).collect();
            Some(DeviceReading { device: device.clone(), quantities })
        });
        of_present.extend(kept);
        of_present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::reading::ErrorKind;

    const ECC: Quantity = Quantity::Errors { kind: ErrorKind::EccCorrected };
    const XID: Quantity = Quantity::XidErrors { xid: 79 };

    fn reading(quantities: &[(Quantity, f64)]) -> Vec<DeviceReading> {
        vec![DeviceReading { device: "gpu-0".into(), quantities: quantities.to_vec() }]
    }

    #[test]
    fn errors_of_a_lost_device_are_kept_and_nothing_else() {
        let mut errors = ErrorCounters::default();
        let (none, lost) = (BTreeSet::new(), BTreeSet::from(["gpu-0".to_owned()]));
        let whole = reading(&[(Quantity::Utilization, 0.5), (ECC, 7.0)]);
        assert_eq!(errors.keep(whole.clone(), &none), whole);
        // it falls off the bus: the driver reports an event and zeros
        let after = reading(&[(Quantity::EnergyJoules, 0.0), (ECC, 0.0), (XID, 1.0)]);
        assert_eq!(errors.keep(after, &lost), reading(&[(ECC, 7.0), (XID, 1.0)]));
        // the driver no longer lists it
        assert_eq!(errors.keep(Vec::new(), &lost), reading(&[(ECC, 7.0), (XID, 1.0)]));
        assert_eq!(errors.keep(Vec::new(), &none), [], "it is not known to be lost");
        // it returns after a reset
        let back = reading(&[(ECC, 0.0), (XID, 1.0)]);
        assert_eq!(errors.keep(back.clone(), &none), back);
        assert_eq!(errors.keep(Vec::new(), &lost), back);
    }
}
