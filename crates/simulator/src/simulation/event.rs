//! Events and their order.

/// Event kinds; simultaneous events at one place are processed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum EventKind {
    /// A window ends.
    Window,
    /// An assignment takes effect.
    Reassign,
    /// A migrating actor arrives at a unit.
    Bind,
    /// A message arrives.
    Receive,
    /// A unit finishes an execution.
    End,
    /// A unit dispatches its next actor.
    Begin,
}

/// An event, ordered by time, place, kind, logical time, actor and sender.
///
/// A place is the rank of a unit's label; global events have place 0 and are processed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    time: u64,
    place: u32,
    what: EventKind,
    logical: u64,
    /// The actor concerned.
    pub actor: u32,
    /// The sender.
    pub sender: u32,
}

impl Event {
    /// An event that concerns only a place; times are not negative.
    pub fn at(time: f64, place: u32, what: EventKind) -> Self {
        Self { time: time.to_bits(), place, what, logical: 0, actor: 0, sender: 0 }
    }

    /// The arrival of an actor; times are not negative.
    pub fn bind(time: f64, place: u32, actor: u32) -> Self {
        Self { actor, ..Self::at(time, place, EventKind::Bind) }
    }

    /// A message for an actor; times are not negative.
    pub fn receive(time: f64, place: u32, logical: f64, actor: u32, sender: u32) -> Self {
        Self { logical: logical.to_bits(), actor, sender, ..Self::at(time, place, EventKind::Receive) }
    }

    /// Whether it precedes the other: the derived order, with a fast path since times nearly always differ.
    #[inline]
    fn before(self, other: Self) -> bool {
        self.time < other.time || (self.time == other.time && self < other)
    }

    /// Simulated time; the bits of non-negative floats order like the numbers.
    pub fn time(self) -> f64 {
        f64::from_bits(self.time)
    }

    /// Logical time of a message.
    pub fn logical(self) -> f64 {
        f64::from_bits(self.logical)
    }

    /// The event kind.
    pub fn what(self) -> EventKind {
        self.what
    }

    /// The place.
    pub fn place(self) -> u32 {
        self.place
    }
}

/// The event queue: a binary heap with the earliest event at the root.
///
/// Nearly every event schedules another one. A pop leaves the root vacant for the next push, so that both together cost
/// one sift-down.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    heap: Vec<Event>,
    /// Whether the root is vacant after a pop.
    open: bool,
}

impl EventQueue {
    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        if self.open {
            self.open = false;
            self.sink(event);
            return;
        }
        let mut at = self.heap.len();
        self.heap.push(event);
        while at > 0 {
            let parent = (at - 1) / 2;
            if !event.before(self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = event;
    }

    /// Removes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        if self.open {
            self.open = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let first = *self.heap.first()?;
        self.open = true;
        Some(first)
    }

    /// All messages in flight.
    pub fn messages(&self) -> impl Iterator<Item = Event> {
        self.heap[usize::from(self.open)..].iter().copied().filter(|event| event.what == EventKind::Receive)
    }

    /// Places an event at the root and sifts it down.
    #[inline]
    fn sink(&mut self, event: Event) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= heap.len() {
                break;
            }
            if child + 1 < heap.len() && heap[child + 1].before(heap[child]) {
                child += 1;
            }
            if !heap[child].before(event) {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = event;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Event, EventKind, EventQueue};

    #[test]
    fn window_ends_precede_messages_and_messages_precede_execution_ends() {
        let mut events = EventQueue::default();
        let unordered = [
            Event::at(1.0, 2, EventKind::Begin),
            Event::at(1.0, 2, EventKind::End),
            Event::receive(1.0, 2, 7.0, 0, 0),
            Event::receive(1.0, 2, 6.5, 3, 0),
            Event::at(1.0, 1, EventKind::Begin),
            Event::at(1.0, 0, EventKind::Window),
            Event::at(0.5, 9, EventKind::Begin),
        ];
        for event in &unordered {
            events.push(*event);
        }
        let mut expected = unordered;
        expected.sort();
        assert_eq!(std::iter::from_fn(|| events.pop()).collect::<Vec<_>>(), expected);
        assert_eq!((expected[1].what(), expected[3].logical()), (EventKind::Window, 6.5));
    }

    proptest! {
        #[test]
        fn events_are_popped_in_order(steps in proptest::collection::vec(proptest::option::of(0u8..20), 1..80)) {
            let mut events = EventQueue::default();
            let mut sorted: Vec<Event> = Vec::new();
            for step in steps {
                if let Some(time) = step {
                    let event = Event::at(f64::from(time), u32::from(time) % 3, EventKind::End);
                    events.push(event);
                    sorted.push(event);
                    sorted.sort();
                } else {
                    let first = (!sorted.is_empty()).then(|| sorted.remove(0));
                    prop_assert_eq!(events.pop(), first);
                }
                prop_assert_eq!(events.messages().count(), 0);
            }
        }
    }
}
