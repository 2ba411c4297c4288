//! Solver slots: a queue ordered by priority, then age. Background searches come last and always leave one slot free if there
//! are several.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crds::ActorApplication;
use jiff::Timestamp;
use tokio::sync::oneshot;
use world::{ApplicationKey, Index};

/// Order of the queue: foreground before background, then higher priority, then older, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    background: bool,
    priority: Reverse<i32>,
    created: Option<Timestamp>,
    key: ApplicationKey,
}

impl Rank {
    pub fn of(application: &ActorApplication, index: &Index) -> Self {
        let created = application.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let key = ApplicationKey::of(application);
        Self { background: false, priority: Reverse(index.priority(application)), created, key }
    }

    /// Ranks behind all foreground searches if `is`.
    pub fn background(self, is: bool) -> Self {
        Self { background: is, ..self }
    }
}

/// A fixed number of slots with a queue.
#[derive(Clone)]
pub struct SolverSlots(Arc<Mutex<SlotsState>>);

struct SlotsState {
    slots: usize,
    free: usize,
    /// Slots held by background searches.
    background: usize,
    /// Number of the next waiter: one application may wait twice.
    arrivals: u64,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<()>>,
}

impl SlotsState {
    /// Whether a slot is available; background searches leave one free if there are several.
    fn has_slot(&self, background: bool) -> bool {
        self.free > 0 && (!background || self.background < self.slots.saturating_sub(1).max(1))
    }

    fn take(&mut self, background: bool) {
        self.free -= 1;
        self.background += usize::from(background);
    }

    fn give_back(&mut self, background: bool) {
        self.free += 1;
        self.background -= usize::from(background);
    }
}

/// A slot, handed to the next waiter on drop.
pub struct SolverSlot {
    solver_slots: SolverSlots,
    background: bool,
}

impl SolverSlots {
    /// A queue for this many slots.
    pub fn new(slots: usize) -> Self {
        Self(Arc::new(Mutex::new(SlotsState {
            slots,
            free: slots,
            background: 0,
            arrivals: 0,
            waiting: BTreeMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, SlotsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, background: bool) -> SolverSlot {
        SolverSlot { solver_slots: self.clone(), background }
    }

    /// A slot, if one is available without waiting.
    pub fn try_acquire(&self, rank: &Rank) -> Option<SolverSlot> {
        let mut state = self.state();
        state.has_slot(rank.background).then(|| state.take(rank.background))?;
        Some(self.slot(rank.background))
    }

    /// Whether a foreground search would have to wait.
    pub fn is_full(&self) -> bool {
        !self.state().has_slot(false)
    }

    /// Whether a background search would have to wait.
    pub fn is_full_for_background(&self) -> bool {
        !self.state().has_slot(true)
    }

    /// Whether a foreground search holds a slot or waits for one.
    pub fn has_foreground_demand(&self) -> bool {
        let state = self.state();
        let is_next = state.waiting.first_key_value().is_some_and(|((rank, _), _)| !rank.background);
        is_next || state.slots - state.free > state.background
    }

    /// Waits for a slot.
    pub async fn acquire(&self, rank: Rank) -> SolverSlot {
        let background = rank.background;
        let granted = {
            let mut state = self.state();
            if state.has_slot(background) {
                state.take(background);
                return self.slot(background);
            }
            let (grant, granted) = oneshot::channel();
            let number = state.arrivals;
            state.arrivals += 1;
            state.waiting.insert((rank, number), grant);
            granted
        };
        let mut waiter = Waiter { solver_slots: self, background, granted };
        // The sender is never dropped: the queue outlives its waiters.
        drop((&mut waiter.granted).await);
        self.slot(background)
    }
}

/// A waiter; a slot granted to a cancelled one is handed on.
struct Waiter<'a> {
    solver_slots: &'a SolverSlots,
    background: bool,
    granted: oneshot::Receiver<()>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if self.granted.try_recv().is_ok() {
            drop(self.solver_slots.slot(self.background));
        }
    }
}

impl Drop for SolverSlot {
    fn drop(&mut self) {
        let mut state = self.solver_slots.state();
        state.give_back(self.background);
        while let Some(next) = state.waiting.first_entry() {
            let background = next.key().0.background;
            if !state.has_slot(background) {
                return;
            }
            // Cancelled waiters are skipped.
            if state.waiting.pop_first().is_some_and(|(_, next)| next.send(()).is_ok()) {
                state.take(background);
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
        Rank { background: fields.next().is_some(), priority, created, key }
    }

    /// `NAME:PRIORITY:AGE[:leisure]` queue up while the only slot is taken; returns the order in which they get it.
    fn served(come: &str) -> String {
        let solver_slots = SolverSlots::new(1);
        let first = solver_slots.acquire(rank("first:0:0")).now_or_never().unwrap();
        let mut waiting: Vec<(&str, LocalBoxFuture<'_, SolverSlot>)> =
            come.split(' ').map(|text| (text, solver_slots.acquire(rank(text)).boxed_local())).collect();
        for (_, granted) in &mut waiting {
            assert!(granted.now_or_never().is_none());
        }
        drop(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let (at, slot) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, granted))| Some((at, granted.now_or_never()?)))
                .unwrap();
            order.push(waiting.remove(at).0.split(':').next().unwrap());
            drop(slot);
        }
        assert!(solver_slots.acquire(rank("last:0:0")).now_or_never().is_some(), "the slot is free again");
        order.join(" ")
    }

    #[test]
    fn slots_are_granted_by_priority_then_age() {
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
    fn background_searches_leave_one_slot_free() {
        for (slots, background) in [(1, 1), (2, 1), (3, 2)] {
            let solver_slots = SolverSlots::new(slots);
            let leisure = |number: usize| rank(&format!("l{number}:0:0:leisure"));
            let held: Vec<SolverSlot> =
                (0..background).map(|number| solver_slots.try_acquire(&leisure(number)).unwrap()).collect();
            assert!(solver_slots.is_full_for_background() && solver_slots.try_acquire(&leisure(9)).is_none());
            assert_eq!(
                (solver_slots.is_full(), solver_slots.has_foreground_demand()),
                (slots == 1, false),
                "{slots}"
            );
            let mut more = Box::pin(solver_slots.acquire(leisure(9)));
            assert!((&mut more).now_or_never().is_none());
            let mut needs = Box::pin(solver_slots.acquire(rank("needs:0:0")));
            let needed = (&mut needs).now_or_never();
            assert_eq!(
                (needed.is_some(), solver_slots.has_foreground_demand()),
                (slots > 1, true),
                "{slots}"
            );
            drop(needed);
            assert!((&mut more).now_or_never().is_none());
            drop(held);
            assert_eq!((&mut more).now_or_never().is_some(), slots > 1, "{slots}");
            assert!(slots > 1 || (&mut needs).now_or_never().is_some());
            drop(more);
            assert!(
                !solver_slots.has_foreground_demand()
                    && solver_slots.try_acquire(&rank("last:0:0")).is_some()
            );
        }
    }

    #[test]
    fn cancelled_waiters_are_skipped() {
        let solver_slots = SolverSlots::new(1);
        let first = solver_slots.acquire(rank("first:0:0")).now_or_never().unwrap();
        let mut gone = Box::pin(solver_slots.acquire(rank("gone:9:0")));
        assert!((&mut gone).now_or_never().is_none());
        let mut waiter = Box::pin(solver_slots.acquire(rank("waits:0:0")));
        assert!((&mut waiter).now_or_never().is_none());
        drop(gone);
        drop(first);
        assert!(waiter.now_or_never().is_some());
    }

    #[test]
    fn a_slot_granted_to_a_cancelled_waiter_is_handed_on() {
        let solver_slots = SolverSlots::new(1);
        let first = solver_slots.acquire(rank("first:0:0")).now_or_never().unwrap();
        let mut gone = Box::pin(solver_slots.acquire(rank("gone:9:0")));
        assert!((&mut gone).now_or_never().is_none());
        drop(first);
        drop(gone);
        assert!(solver_slots.acquire(rank("next:0:0")).now_or_never().is_some());
    }
}
