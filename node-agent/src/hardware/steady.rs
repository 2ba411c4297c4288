//! Hysteresis of health: a change counts once it was observed several times in a row.
//!
//! Published health moves actors. One slow answer of a driver, or one good answer of a failing board, must not.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health};

/// The consecutive observations after which a device is lost or degraded: with a probe every 2 s, within 5 s.
const WORSE: u32 = 2;
/// The number after which it is healthy again.
const BETTER: u32 = 3;
/// The number after which it is unknown: a busy driver may be silent for some seconds.
const SILENT: u32 = 5;

/// The published health of each device.
#[derive(Debug, Default)]
pub struct Steady(BTreeMap<String, Held>);

#[derive(Debug)]
struct Held {
    health: Health,
    /// The last observation, and the number of consecutive ones of its kind, ignoring probes without an answer.
    other: Health,
    looks: u32,
    /// The number of consecutive probes without an answer.
    silent: u32,
}

impl Steady {
    /// Processes one probe, and sets the health of each device; that of a new device is as observed.
    pub fn hold(&mut self, devices: &mut [Device]) {
        let there: BTreeSet<&str> = devices.iter().map(|device| device.id.as_str()).collect();
        self.0.retain(|id, _| there.contains(id.as_str()));
        for device in devices {
            let seen = device.health;
            let new = || Held { health: seen, other: seen, looks: 0, silent: 0 };
            let held = self.0.entry(device.id.clone()).or_insert_with(new);
            held.see(seen);
            device.health = held.health;
        }
    }
}

impl Held {
    /// Processes one observation: it counts once it was made often enough, even with unanswered probes in between.
    fn see(&mut self, seen: Health) {
        let Some(enough_of_it) = enough(seen) else {
            self.silent = self.silent.saturating_add(1);
            if self.silent >= SILENT {
                // a later observation is new
                (self.health, self.looks) = (seen, 0);
            }
            return;
        };
        self.silent = 0;
        // lost and degraded count together as bad
        self.looks = if Some(enough_of_it) == enough(self.other) { self.looks.saturating_add(1) } else { 1 };
        self.other = seen;
        if self.looks >= enough_of_it {
            self.health = seen;
        }
    }
}

/// Whether an answer lacks a known device. One more probe decides: a platform that failed to load, or a board during a reset,
/// may return.
pub fn lacks(known: &[Device], found: &[Device]) -> bool {
    known.iter().any(|device| found.iter().all(|other| other.id != device.id))
}

/// The number of consecutive observations that are needed; `None` for no answer.
fn enough(seen: Health) -> Option<u32> {
    match seen {
        Health::Ok => Some(BETTER),
        Health::Degraded | Health::Lost => Some(WORSE),
        Health::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The health after each probe of one device: `o` is ok, `d` degraded, `l` lost, `?` unknown, `-` absent.
    fn held(looks: &str) -> String {
        let states =
            [('o', Health::Ok), ('d', Health::Degraded), ('l', Health::Lost), ('?', Health::Unknown)];
        let mut steady = Steady::default();
        let mut look = |seen: char| {
            let health = states.iter().find(|(letter, _)| *letter == seen).map(|(_, health)| *health);
            let device = health.map(|health| Device { id: "gpu-0".into(), health, ..Device::default() });
            let mut devices: Vec<_> = device.into_iter().collect();
            steady.hold(&mut devices);
            let now = devices.first().map(|device| device.health);
            states.iter().find(|(_, health)| Some(*health) == now).map_or('-', |(letter, _)| *letter)
        };
        looks.chars().map(&mut look).collect()
    }

    #[test]
    fn health_changes_after_enough_observations() {
        for (seen, counts) in [
            ("oooo", "oooo"),
            // one bad observation, one slow answer, four of them
            ("olooo", "ooooo"),
            ("o?ooo", "ooooo"),
            ("o????oo", "ooooooo"),
            // it is lost, and one or two good answers do not end that
            ("olllll", "oollll"),
            ("ollolool", "oollllll"),
            ("olloooo", "oollloo"),
            ("odddo", "ooddd"),
            ("oldld", "oodld"),
            // no answer, and then one
            ("o??????ooo", "ooooo????o"),
            ("o?????o?oo", "ooooo????o"),
            ("l?????l?l", "lllll???l"),
            // a driver that answers every second probe only
            ("o?l?l?l", "oooolll"),
            ("d?o?o?o?d?d", "ddddddooood"),
            ("?o?o?o", "?????o"),
            ("o????l????l", "ooooooooool"),
            // a new or returning device is as observed
            ("l", "l"),
            ("ol-lo", "oo-ll"),
        ] {
            assert_eq!(held(seen), counts, "{seen}");
        }
    }
}
