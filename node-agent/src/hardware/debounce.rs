//! Hysteresis of health: a change is published after several consecutive observations.
//!
//! A change of the published health moves actors. One slow response of a driver, or one good response of a failing
//! board, must not do so.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health};

/// The consecutive observations after which a device is lost or degraded: within 5 s, with a probe every 2 s.
const BAD_AFTER: u32 = 2;
/// The consecutive observations after which it is healthy again.
const OK_AFTER: u32 = 3;
/// The consecutive probes without a response after which it is unknown. A busy driver may not respond for some seconds.
const UNKNOWN_AFTER: u32 = 5;

/// The published health of each device.
#[derive(Debug, Default)]
pub struct HealthDebouncer(BTreeMap<String, DeviceHealth>);

#[derive(Debug)]
struct DeviceHealth {
    health: Health,
    /// The last observation, and the number of consecutive ones of its kind, ignoring probes without a response.
    last: Health,
    count: u32,
    /// The number of consecutive probes without a response.
    unanswered: u32,
}

impl HealthDebouncer {
    /// Processes one probe, and sets the published health of each device. A new device has the observed health.
    pub fn hold(&mut self, devices: &mut [Device]) {
        let present: BTreeSet<&str> = devices.iter().map(|device| device.id.as_str()).collect();
        self.0.retain(|id, _| present.contains(id.as_str()));
        for device in devices {
            let observed = device.health;
            let new = || DeviceHealth { health: observed, last: observed, count: 0, unanswered: 0 };
            let state = self.0.entry(device.id.clone()).or_insert_with(new);
            state.observe(observed);
            device.health = state.health;
        }
    }
}

impl DeviceHealth {
    /// Processes one observation. It is published after enough consecutive ones, ignoring unanswered probes in between.
    fn observe(&mut self, observed: Health) {
        let Some(needed) = required(observed) else {
            self.unanswered = self.unanswered.saturating_add(1);
            if self.unanswered >= UNKNOWN_AFTER {
                // Later observations are counted from the start.
                (self.health, self.count) = (observed, 0);
            }
            return;
        };
        self.unanswered = 0;
        // Lost and degraded are counted together.
        self.count = if Some(needed) == required(self.last) { self.count.saturating_add(1) } else { 1 };
        self.last = observed;
        if self.count >= needed {
            self.health = observed;
        }
    }
}

/// Whether a result lacks a known device. Another probe has to confirm this: a platform may have failed to load, or a
/// board may be in a reset.
pub fn lacks(known: &[Device], found: &[Device]) -> bool {
    known.iter().any(|device| found.iter().all(|it| it.id != device.id))
}

/// The required number of consecutive observations; `None` if there was no response.
fn required(observed: Health) -> Option<u32> {
    match observed {
        Health::Ok => Some(OK_AFTER),
        Health::Degraded | Health::Lost => Some(BAD_AFTER),
        Health::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The health after each probe of one device: `o` is ok, `d` degraded, `l` lost, `?` unknown, `-` absent.
    fn published(observations: &str) -> String {
        let states =
            [('o', Health::Ok), ('d', Health::Degraded), ('l', Health::Lost), ('?', Health::Unknown)];
        let mut steady = HealthDebouncer::default();
        let mut look = |observed: char| {
            let health = states.iter().find(|(letter, _)| *letter == observed).map(|(_, health)| *health);
            let device = health.map(|health| Device { id: "gpu-0".into(), health, ..Device::default() });
            let mut devices: Vec<_> = device.into_iter().collect();
            steady.hold(&mut devices);
            let now = devices.first().map(|device| device.health);
            states.iter().find(|(_, health)| Some(*health) == now).map_or('-', |(letter, _)| *letter)
        };
        observations.chars().map(&mut look).collect()
    }

    #[test]
    fn health_changes_after_enough_observations() {
        for (observed, counts) in [
            ("oooo", "oooo"),
            // one bad observation, one slow response, four slow responses
            ("olooo", "ooooo"),
            ("o?ooo", "ooooo"),
            ("o????oo", "ooooooo"),
            // it is lost, and one or two good responses do not change that
            ("olllll", "oollll"),
            ("ollolool", "oollllll"),
            ("olloooo", "oollloo"),
            ("odddo", "ooddd"),
            ("oldld", "oodld"),
            // no response, and then some
            ("o??????ooo", "ooooo????o"),
            ("o?????o?oo", "ooooo????o"),
            ("l?????l?l", "lllll???l"),
            // a driver that responds to every second probe
            ("o?l?l?l", "oooolll"),
            ("d?o?o?o?d?d", "ddddddooood"),
            ("?o?o?o", "?????o"),
            ("o????l????l", "ooooooooool"),
            // a new or returning device is as observed
            ("l", "l"),
            ("ol-lo", "oo-ll"),
        ] {
            assert_eq!(published(observed), counts, "{observed}");
        }
    }
}
