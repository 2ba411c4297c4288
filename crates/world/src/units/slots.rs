//! Which slots of a pool there are on a node, by number: who holds one keeps its number.

use std::collections::{BTreeMap, BTreeSet};

/// How a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Actors may come.
    Offered,
    /// Who is there stays, and nobody comes: more are held than there is room for, and whose device is missing nobody knows.
    HeldOnly,
}

/// Who has which slot of a pool on a node.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Those that pods of ours are on.
    pub held: BTreeSet<usize>,
    /// Of those, the ones whose own device is known to be lost.
    pub lost: BTreeSet<usize>,
    /// Those that are offered no more, and that somebody is on still: no other takes their room.
    pub leaving: BTreeSet<usize>,
    /// Those that were decided for somebody.
    pub decided: BTreeSet<usize>,
}

/// The slots where `room` of them can be used.
///
/// Held ones stay, in the same number, whatever there is room for, unless their own device is lost. Decided ones keep
/// their number as long as there is room, and who comes new takes the smallest number that nobody has.
pub(crate) fn slots(claims: &Claims, room: usize) -> BTreeMap<usize, State> {
    let kept = || claims.held.difference(&claims.lost).copied();
    let state = if kept().count() > room { State::HeldOnly } else { State::Offered };
    let mut slots: BTreeMap<usize, State> = kept().map(|slot| (slot, state)).collect();
    let leaving = claims.leaving.iter().filter(|slot| !slots.contains_key(slot)).count();
    let room = room.saturating_sub(leaving);
    let free = |slot: &usize| !claims.held.contains(slot);
    for slot in claims.decided.iter().copied().chain(0..).filter(free) {
        if slots.len() >= room {
            break;
        }
        slots.insert(slot, State::Offered);
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `room=N held=A,B lost=A decided=C`.
    fn read(text: &str) -> (Claims, usize) {
        let (mut claims, mut room) = (Claims::default(), 0);
        for (what, numbers) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
            let numbers: Vec<usize> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
            match what {
                "room" => room = numbers[0],
                "held" => claims.held.extend(numbers),
                "lost" => claims.lost.extend(numbers),
                "leaving" => claims.leaving.extend(numbers),
                "decided" => claims.decided.extend(numbers),
                other => panic!("{other}"),
            }
        }
        (claims, room)
    }

    fn shown(slots: &BTreeMap<usize, State>) -> String {
        let one = |(slot, state): (&usize, &State)| {
            let mark = if *state == State::HeldOnly { "!" } else { "" };
            format!("{slot}{mark}")
        };
        slots.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn who_holds_a_slot_keeps_it() {
        let table = [
            ("room=2", "0 1"),
            ("room=0", ""),
            // a foreign pod came onto a free one: the held one is still there, by its name
            ("room=1 held=1", "1"),
            ("room=2 held=1", "0 1"),
            // a kubelet that starts anew offers none for a moment
            ("room=0 held=0,1", "0! 1!"),
            // one is lost, and nobody knows whose it is
            ("room=1 held=0,1", "0! 1!"),
            // it is known: the other one stays
            ("room=1 held=0,1 lost=0", "1"),
            ("room=1 held=0 lost=0", "1"),
            ("room=0 held=0 lost=0", ""),
            // and until the lost one is left, nobody comes in its stead
            ("room=1 held=0 lost=0 leaving=0", ""),
            ("room=2 held=0 lost=0 leaving=0", "1"),
            ("room=1 held=0 leaving=0", "0"),
            // decided ones keep their numbers while there is room, and come after those that are held
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

    /// A day of small noise at a node of four devices, three of them held: room comes and goes, foreign pods and restarts
    /// of the kubelet. Nobody loses the slot that it holds, and afterwards all is as before.
    #[test]
    fn a_day_of_noise_moves_nobody() {
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
    fn whoever_holds_what_slots_are_sticky() {
        for (held, lost) in subsets().flat_map(|held| subsets().map(move |lost| (held.clone(), lost))) {
            for (decided, room) in
                subsets().flat_map(|decided| (0..5).map(move |room| (decided.clone(), room)))
            {
                let claims = Claims { held: held.clone(), lost: lost.clone(), decided, ..Claims::default() };
                let (now, less) = (slots(&claims, room), slots(&claims, room.saturating_sub(1)));
                let kept: BTreeSet<usize> = held.difference(&lost).copied().collect();
                assert!(kept.iter().all(|slot| now.contains_key(slot)), "{claims:?} {room}");
                assert_eq!(now.len(), kept.len().max(room), "{claims:?} {room}");
                assert!(
                    less.keys().all(|slot| now.contains_key(slot)),
                    "room takes no slot away: {claims:?} {room}"
                );
                assert!(held.intersection(&lost).all(|slot| !now.contains_key(slot)), "{claims:?} {room}");
                let crowded = now.values().any(|state| *state == State::HeldOnly);
                assert_eq!(crowded, kept.len() > room, "{claims:?} {room}");
            }
        }
    }
}
