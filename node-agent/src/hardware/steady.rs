//! Health that does not flicker: another one counts once it was seen several times in a row.
//!
//! What is published moves actors. One slow answer of a driver, or one good answer of a board that fails, must not.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health};

/// After how many looks in a row a device counts as lost or degraded: with a look every 2 s, within 5 s.
const WORSE: u32 = 2;
/// After how many it counts as well again.
const BETTER: u32 = 3;
/// After how many nobody knows: a driver that is busy is silent for some seconds.
const SILENT: u32 = 5;

/// The health of each device as it is published.
#[derive(Debug, Default)]
pub struct Steady(BTreeMap<String, Held>);

#[derive(Debug)]
struct Held {
    health: Health,
    /// What was said of it last, and in how many looks in a row something of its kind, not counting those without a word.
    other: Health,
    looks: u32,
    /// In how many looks in a row nothing was said of it.
    silent: u32,
}

impl Steady {
    /// Takes in one look, and gives each device the health that counts; of a new one that is what was seen.
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
    /// Takes in what was seen: what is said counts once it was said often enough, though a slow driver be silent in between.
    fn see(&mut self, seen: Health) {
        let Some(enough_of_it) = enough(seen) else {
            self.silent = self.silent.saturating_add(1);
            if self.silent >= SILENT {
                // what it says after that is news
                (self.health, self.looks) = (seen, 0);
            }
            return;
        };
        self.silent = 0;
        // lost or degraded: either is bad news about the same board
        self.looks = if Some(enough_of_it) == enough(self.other) { self.looks.saturating_add(1) } else { 1 };
        self.other = seen;
        if self.looks >= enough_of_it {
            self.health = seen;
        }
    }
}

/// Whether an answer leaves out a device that was known: asked once more, a platform that did not load or a board that was being reset may
/// be there again.
pub fn lacks(known: &[Device], found: &[Device]) -> bool {
    known.iter().any(|device| found.iter().all(|other| other.id != device.id))
}

/// In how many looks in a row this must be said to count; none where nothing is said.
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

    /// What counts after each look at one device: `o` is ok, `d` degraded, `l` lost, `?` unknown, `-` not there.
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
    fn a_change_counts_once_it_was_seen_often_enough() {
        for (seen, counts) in [
            ("oooo", "oooo"),
            // one bad look, one slow answer, four of them
            ("olooo", "ooooo"),
            ("o?ooo", "ooooo"),
            ("o????oo", "ooooooo"),
            // it is lost, and one good answer, or two, are not the end of that
            ("olllll", "oollll"),
            ("ollolool", "oollllll"),
            ("olloooo", "oollloo"),
            ("odddo", "ooddd"),
            ("oldld", "oodld"),
            // silence, and then an answer
            ("o??????ooo", "ooooo????o"),
            ("o?????o?oo", "ooooo????o"),
            ("l?????l?l", "lllll???l"),
            // a driver that answers each second look only
            ("o?l?l?l", "oooolll"),
            ("d?o?o?o?d?d", "ddddddooood"),
            ("?o?o?o", "?????o"),
            ("o????l????l", "ooooooooool"),
            // what comes new, or comes back, is what it is seen as
            ("l", "l"),
            ("ol-lo", "oo-ll"),
        ] {
            assert_eq!(held(seen), counts, "{seen}");
        }
    }
}
