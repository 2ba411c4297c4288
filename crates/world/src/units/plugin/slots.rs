//! Numbered slots of a pool on a node; a slot in use keeps its number.

use std::collections::{BTreeMap, BTreeSet};

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Accepts actors.
    Offered,
    /// Running actors stay, no new ones are placed: more slots are in use than there is capacity, and it is unknown
    /// which device is missing.
    Cordoned,
}

/// Slots of a pool on a node that are in use or decided.
#[derive(Debug, Default)]
pub(crate) struct SlotClaims {
    /// In use by our pods.
    pub held: BTreeSet<usize>,
    /// In use, with a device that is known to be lost.
    pub lost: BTreeSet<usize>,
    /// No longer offered but in use; nothing else gets their room.
    pub withdrawn: BTreeSet<usize>,
    /// Decided for an actor.
    pub decided: BTreeSet<usize>,
}

/// The slots, given a capacity of `room`.
///
/// Slots in use keep their number, whatever the capacity, unless their own device is lost. Decided ones keep theirs
/// while there is capacity. New ones get the smallest free number.
pub(crate) fn slots(claims: &SlotClaims, room: usize) -> BTreeMap<usize, SlotState> {
    let kept = || claims.held.difference(&claims.lost).copied();
    let state = if kept().count() > room { SlotState::Cordoned } else { SlotState::Offered };
    let mut slots: BTreeMap<usize, SlotState> = kept().map(|slot| (slot, state)).collect();
    let leaving = claims.withdrawn.iter().filter(|slot| !slots.contains_key(slot)).count();
    let room = room.saturating_sub(leaving);
    let free = |slot: &usize| !claims.held.contains(slot);
    for slot in claims.decided.iter().copied().chain(0..).filter(free) {
        if slots.len() >= room {
            break;
        }
        slots.insert(slot, SlotState::Offered);
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `room=N held=A,B lost=A decided=C`.
    fn read(text: &str) -> (SlotClaims, usize) {
        let (mut claims, mut room) = (SlotClaims::default(), 0);
        for (what, numbers) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
            let numbers: Vec<usize> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
            match what {
                "room" => room = numbers[0],
                "held" => claims.held.extend(numbers),
                "lost" => claims.lost.extend(numbers),
                "leaving" => claims.withdrawn.extend(numbers),
                "decided" => claims.decided.extend(numbers),
                other => panic!("{other}"),
            }
        }
        (claims, room)
    }

    fn shown(slots: &BTreeMap<usize, SlotState>) -> String {
        let one = |(slot, state): (&usize, &SlotState)| {
            let mark = if *state == SlotState::Cordoned { "!" } else { "" };
            format!("{slot}{mark}")
        };
        slots.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slots_in_use_stay() {
        let table = [
            ("room=2", "0 1"),
            ("room=0", ""),
            // a foreign pod took the free device: the slot in use keeps its number
            ("room=1 held=1", "1"),
            ("room=2 held=1", "0 1"),
            // a restarting kubelet briefly offers none
            ("room=0 held=0,1", "0! 1!"),
            // one is lost, and it is unknown which
            ("room=1 held=0,1", "0! 1!"),
            // it is known: the other one stays
            ("room=1 held=0,1 lost=0", "1"),
            ("room=1 held=0 lost=0", "1"),
            ("room=0 held=0 lost=0", ""),
            // until the pod on the lost device ends, its room is not given away
            ("room=1 held=0 lost=0 leaving=0", ""),
            ("room=2 held=0 lost=0 leaving=0", "1"),
            ("room=1 held=0 leaving=0", "0"),
            // decided slots keep their number while there is capacity, after those in use
            ("room=2 decided=3", "0 3"),
            ("room=1 decided=3,4", "3"),
            ("room=1 held=5 decided=3", "5"),
            ("room=3 held=5 decided=3,5", "0 3 5"),
        ];
        for (world, expected) in table {
            let (claims, room) = read(world);
            assert_eq!(shown(&slots(&claims, room)), expected, "{world}");
        }
    }

    /// A day of noise on a node with four devices, three of them in use: capacity fluctuates by foreign pods and
    /// kubelet restarts. Every slot in use stays, and afterwards all is as before.
    #[test]
    fn a_day_of_noise_moves_no_slot() {
        let (claims, _) = read("held=0,2,3 decided=0,2,3");
        let before = slots(&claims, 4);
        let mut noise: u64 = 1;
        for _minute in 0..24 * 60 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let room = usize::try_from(noise >> 62).unwrap();
            assert!(claims.held.iter().all(|slot| slots(&claims, room).contains_key(slot)), "{room}");
        }
        assert_eq!(slots(&claims, 4), before);
    }

    /// Every subset of the first four numbers.
    fn subsets() -> impl Iterator<Item = BTreeSet<usize>> {
        (0..16_usize).map(|bits| (0..4).filter(|slot| bits >> slot & 1 == 1).collect())
    }

    #[test]
    fn slots_are_sticky() {
        for (held, lost) in subsets().flat_map(|held| subsets().map(move |lost| (held.clone(), lost))) {
            for (decided, room) in
                subsets().flat_map(|decided| (0..5).map(move |room| (decided.clone(), room)))
            {
                let claims =
                    SlotClaims { held: held.clone(), lost: lost.clone(), decided, ..SlotClaims::default() };
                let (now, less) = (slots(&claims, room), slots(&claims, room.saturating_sub(1)));
                let kept: BTreeSet<usize> = held.difference(&lost).copied().collect();
                assert!(kept.iter().all(|slot| now.contains_key(slot)), "{claims:?} {room}");
                assert_eq!(now.len(), kept.len().max(room), "{claims:?} {room}");
                assert!(
                    less.keys().all(|slot| now.contains_key(slot)),
                    "room takes no slot away: {claims:?} {room}"
                );
                assert!(held.intersection(&lost).all(|slot| !now.contains_key(slot)), "{claims:?} {room}");
                let crowded = now.values().any(|state| *state == SlotState::Cordoned);
                assert_eq!(crowded, kept.len() > room, "{claims:?} {room}");
            }
        }
    }
}
