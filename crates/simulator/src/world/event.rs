//! Events and their order.

/// What happens; at one place and time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum What {
    /// A window ends.
    Window,
    /// A decision takes effect.
    Reassign,
    /// An actor comes to a unit.
    Bind,
    /// A message arrives.
    Receive,
    /// A unit has done what it began.
    End,
    /// A unit takes its next actor.
    Begin,
}

/// Something that happens: ordered by time, place, kind, logical time, actor and sender.
///
/// A place is the rank of a unit's label; what concerns the whole world has place 0 and comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    time: u64,
    place: u32,
    what: What,
    logical: u64,
    /// Whom it concerns.
    pub actor: u32,
    /// Who sent it.
    pub sender: u32,
}

impl Event {
    /// An event of a place alone; times are not negative.
    pub fn at(time: f64, place: u32, what: What) -> Self {
        Self { time: time.to_bits(), place, what, logical: 0, actor: 0, sender: 0 }
    }

    /// An actor comes; times are not negative.
    pub fn bind(time: f64, place: u32, actor: u32) -> Self {
        Self { actor, ..Self::at(time, place, What::Bind) }
    }

    /// A message for an actor; times are not negative.
    pub fn receive(time: f64, place: u32, logical: f64, actor: u32, sender: u32) -> Self {
        Self { logical: logical.to_bits(), actor, sender, ..Self::at(time, place, What::Receive) }
    }

    /// Whether it happens before the other: the same as the order, and times nearly always decide.
    #[inline]
    fn before(self, other: Self) -> bool {
        self.time < other.time || (self.time == other.time && self < other)
    }

    /// When it happens: bits of numbers that are not negative are in the order of the numbers.
    pub fn time(self) -> f64 {
        f64::from_bits(self.time)
    }

    /// The logical time of a message.
    pub fn logical(self) -> f64 {
        f64::from_bits(self.logical)
    }

    /// What happens.
    pub fn what(self) -> What {
        self.what
    }

    /// Where.
    pub fn place(self) -> u32 {
        self.place
    }
}

/// What is still to happen: a binary heap, the first one at the root.
///
/// Nearly every event that is taken brings forth another: the root is left open until then, so that taking and putting
/// back cost one descent together.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    heap: Vec<Event>,
    /// Whether the root was taken and nothing is in its place yet.
    open: bool,
}

impl Agenda {
    /// Puts an event in.
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

    /// Takes the first event.
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

    /// Every message in flight.
    pub fn messages(&self) -> impl Iterator<Item = Event> {
        self.heap[usize::from(self.open)..].iter().copied().filter(|event| event.what == What::Receive)
    }

    /// Puts an event at the root and lets it down to its place.
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

    use super::{Agenda, Event, What};

    #[test]
    fn the_window_comes_first_and_the_message_before_the_end() {
        let mut agenda = Agenda::default();
        let events = [
            Event::at(1.0, 2, What::Begin),
            Event::at(1.0, 2, What::End),
            Event::receive(1.0, 2, 7.0, 0, 0),
            Event::receive(1.0, 2, 6.5, 3, 0),
            Event::at(1.0, 1, What::Begin),
            Event::at(1.0, 0, What::Window),
            Event::at(0.5, 9, What::Begin),
        ];
        for event in &events {
            agenda.push(*event);
        }
        let mut expected = events;
        expected.sort();
        assert_eq!(std::iter::from_fn(|| agenda.pop()).collect::<Vec<_>>(), expected);
        assert_eq!((expected[1].what(), expected[3].logical()), (What::Window, 6.5));
    }

    proptest! {
        #[test]
        fn events_come_in_their_order(steps in proptest::collection::vec(proptest::option::of(0u8..20), 1..80)) {
            let mut agenda = Agenda::default();
            let mut sorted: Vec<Event> = Vec::new();
            for step in steps {
                if let Some(time) = step {
                    let event = Event::at(f64::from(time), u32::from(time) % 3, What::End);
                    agenda.push(event);
                    sorted.push(event);
                    sorted.sort();
                } else {
                    let first = (!sorted.is_empty()).then(|| sorted.remove(0));
                    prop_assert_eq!(agenda.pop(), first);
                }
                prop_assert_eq!(agenda.messages().count(), 0);
            }
        }
    }
}
