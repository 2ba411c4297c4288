//! Who waits for a search, and whose turn is next: by priority, then by age; what could wait is served last, and never has
//! all slots where there are several.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crds::ActorApplication;
use jiff::Timestamp;
use tokio::sync::oneshot;
use world::ApplicationKey;

/// Who is served first: who needs something before who could merely be better, then the higher priority, then the older,
/// then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    at_leisure: bool,
    priority: Reverse<i32>,
    created: Option<Timestamp>,
    key: ApplicationKey,
}

impl Rank {
    pub fn of(application: &ActorApplication) -> Self {
        let created = application.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let key = ApplicationKey::of(application);
        Self { at_leisure: false, priority: Reverse(application.spec.priority), created, key }
    }

    /// Behind all who are not.
    pub fn at_leisure(self, is: bool) -> Self {
        Self { at_leisure: is, ..self }
    }
}

/// So many slots, and who waits for one.
#[derive(Clone)]
pub struct Line(Arc<Mutex<State>>);

struct State {
    slots: usize,
    free: usize,
    /// How many are held by who could wait.
    at_leisure: usize,
    /// How many came so far: one application may wait twice.
    came: u64,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<()>>,
}

impl State {
    /// Whether there is a slot for who could wait, or for who could not: one is left for those where there are several.
    fn has_one(&self, at_leisure: bool) -> bool {
        self.free > 0 && (!at_leisure || self.at_leisure < self.slots.saturating_sub(1).max(1))
    }

    fn take(&mut self, at_leisure: bool) {
        self.free -= 1;
        self.at_leisure += usize::from(at_leisure);
    }

    fn give_back(&mut self, at_leisure: bool) {
        self.free += 1;
        self.at_leisure -= usize::from(at_leisure);
    }
}

/// A slot, given to the next when it is dropped.
pub struct Slot {
    line: Line,
    at_leisure: bool,
}

impl Line {
    /// A line for so many slots.
    pub fn new(slots: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            slots,
            free: slots,
            at_leisure: 0,
            came: 0,
            waiting: BTreeMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, at_leisure: bool) -> Slot {
        Slot { line: self.clone(), at_leisure }
    }

    /// A slot, where who has this rank need not wait for one.
    pub fn free(&self, rank: &Rank) -> Option<Slot> {
        let mut state = self.state();
        state.has_one(rank.at_leisure).then(|| state.take(rank.at_leisure))?;
        Some(self.slot(rank.at_leisure))
    }

    /// Whether who comes now has to wait.
    pub fn is_full(&self) -> bool {
        !self.state().has_one(false)
    }

    /// Whether who could wait has to, if it comes now.
    pub fn is_full_at_leisure(&self) -> bool {
        !self.state().has_one(true)
    }

    /// Whether somebody who could not wait has a slot or waits for one.
    pub fn is_needed(&self) -> bool {
        let state = self.state();
        let is_next = state.waiting.first_key_value().is_some_and(|((rank, _), _)| !rank.at_leisure);
        is_next || state.slots - state.free > state.at_leisure
    }

    /// Waits for a slot.
    pub async fn turn(&self, rank: Rank) -> Slot {
        let at_leisure = rank.at_leisure;
        let turn = {
            let mut state = self.state();
            if state.has_one(at_leisure) {
                state.take(at_leisure);
                return self.slot(at_leisure);
            }
            let (give, turn) = oneshot::channel();
            let number = state.came;
            state.came += 1;
            state.waiting.insert((rank, number), give);
            turn
        };
        let mut waits = Waits { line: self, at_leisure, turn };
        // Whoever has a slot gives it on, and the line outlives all who wait in it.
        drop((&mut waits.turn).await);
        self.slot(at_leisure)
    }
}

/// Who waits; a slot that was given to somebody who does not wait any more goes to the next.
struct Waits<'a> {
    line: &'a Line,
    at_leisure: bool,
    turn: oneshot::Receiver<()>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.turn.close();
        if self.turn.try_recv().is_ok() {
            drop(self.line.slot(self.at_leisure));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.line.state();
        state.give_back(self.at_leisure);
        while let Some(next) = state.waiting.first_entry() {
            let at_leisure = next.key().0.at_leisure;
            if !state.has_one(at_leisure) {
                return;
            }
            // Who does not wait any more is passed over.
            if state.waiting.pop_first().is_some_and(|(_, next)| next.send(()).is_ok()) {
                state.take(at_leisure);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::future::LocalBoxFuture;

    fn rank(text: &str) -> Rank {
        let mut fields = text.split(':');
        let (name, priority, age) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        let created = Some(Timestamp::from_second(age.parse().unwrap()).unwrap());
        let key = ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let priority = Reverse(priority.parse().unwrap());
        Rank { at_leisure: fields.next().is_some(), priority, created, key }
    }

    /// `NAME:PRIORITY:AGE[:leisure]` come one after the other while the only slot is taken; who has it then, one after the other.
    fn served(come: &str) -> String {
        let line = Line::new(1);
        let first = line.turn(rank("first:0:0")).now_or_never().unwrap();
        let mut waiting: Vec<(&str, LocalBoxFuture<'_, Slot>)> =
            come.split(' ').map(|text| (text, line.turn(rank(text)).boxed_local())).collect();
        for (_, turn) in &mut waiting {
            assert!(turn.now_or_never().is_none());
        }
        drop(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let (at, slot) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, turn))| Some((at, turn.now_or_never()?)))
                .unwrap();
            order.push(waiting.remove(at).0.split(':').next().unwrap());
            drop(slot);
        }
        assert!(line.turn(rank("last:0:0")).now_or_never().is_some(), "the slot is free again");
        order.join(" ")
    }

    #[test]
    fn the_higher_priority_is_served_first_and_then_the_older() {
        for (come, expected) in [
            ("a:0:1 b:0:2", "a b"),
            ("b:0:2 a:0:1", "a b"),
            ("a:0:1 b:5:2", "b a"),
            ("a:-1:1 b:0:9 c:0:8", "c b a"),
            ("b:0:1 a:0:1", "a b"),
            ("a:9:1:leisure b:0:2 c:0:1:leisure", "b a c"),
        ] {
            assert_eq!(served(come), expected, "{come}");
        }
    }

    #[test]
    fn one_slot_of_several_is_left_for_who_could_not_wait() {
        for (slots, at_leisure) in [(1, 1), (2, 1), (3, 2)] {
            let line = Line::new(slots);
            let leisure = |number: usize| rank(&format!("l{number}:0:0:leisure"));
            let held: Vec<Slot> =
                (0..at_leisure).map(|number| line.free(&leisure(number)).unwrap()).collect();
            assert!(line.is_full_at_leisure() && line.free(&leisure(9)).is_none());
            assert_eq!((line.is_full(), line.is_needed()), (slots == 1, false), "{slots}");
            let mut more = Box::pin(line.turn(leisure(9)));
            assert!((&mut more).now_or_never().is_none());
            let mut needs = Box::pin(line.turn(rank("needs:0:0")));
            let needed = (&mut needs).now_or_never();
            assert_eq!((needed.is_some(), line.is_needed()), (slots > 1, true), "{slots}");
            drop(needed);
            assert!((&mut more).now_or_never().is_none());
            drop(held);
            assert_eq!((&mut more).now_or_never().is_some(), slots > 1, "{slots}");
            assert!(slots > 1 || (&mut needs).now_or_never().is_some());
            drop(more);
            assert!(!line.is_needed() && line.free(&rank("last:0:0")).is_some());
        }
    }

    #[test]
    fn who_does_not_wait_any_more_is_passed_over() {
        let line = Line::new(1);
        let first = line.turn(rank("first:0:0")).now_or_never().unwrap();
        let mut gone = Box::pin(line.turn(rank("gone:9:0")));
        assert!((&mut gone).now_or_never().is_none());
        let mut waits = Box::pin(line.turn(rank("waits:0:0")));
        assert!((&mut waits).now_or_never().is_none());
        drop(gone);
        drop(first);
        assert!(waits.now_or_never().is_some());
    }

    #[test]
    fn who_goes_away_when_it_was_its_turn_leaves_the_slot_to_the_next() {
        let line = Line::new(1);
        let first = line.turn(rank("first:0:0")).now_or_never().unwrap();
        let mut gone = Box::pin(line.turn(rank("gone:9:0")));
        assert!((&mut gone).now_or_never().is_none());
        drop(first);
        drop(gone);
        assert!(line.turn(rank("next:0:0")).now_or_never().is_some());
    }
}
