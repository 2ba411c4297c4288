//! One TCP connection: what is sent never waits, whatever the other end does.

use std::{
    collections::VecDeque,
    io,
    net::{Shutdown, TcpStream},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use raw::Memory;

use super::wire::Head;
use crate::{
    backends::processes::keep_alive,
    model::{memory::SlotCore, wait::lock},
};

/// Bytes of a slot up to here travel with the header in front of them.
const SMALL: usize = 4096;

/// The sending half. What the kernel does not take at once is sent by a thread of the connection's own, which is
/// started when there is something for it to do.
pub struct Connection {
    stream: TcpStream,
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    writer: Writer,
    closed: bool,
    /// Whether who receives comes by soon, to [settle](Connection::settle).
    comes_by: bool,
    /// What goes with the next that is sent.
    held: Vec<u8>,
    /// How many copies have arrived that the other end was not told of.
    owed: u64,
}

/// What the thread that sends does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Writer {
    /// There is none yet.
    #[default]
    None,
    Waits,
    /// It has an item in its hands.
    Sends,
}

impl Queue {
    /// What was held back, and `bytes` after it.
    fn with_held(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.owed > 0 {
            self.held.extend(Head::Done(std::mem::take(&mut self.owed)).to_bytes());
        }
        if self.held.is_empty() {
            return bytes;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend(bytes);
        all
    }
}

enum Item {
    Bytes(Memory, usize),
    Slot(Arc<SlotCore>, usize, usize),
}

impl Connection {
    /// Sets the stream up for what it is used for.
    pub fn new(stream: TcpStream) -> io::Result<Arc<Self>> {
        stream.set_read_timeout(None)?;
        keep_alive(&stream)?;
        Ok(Arc::new(Self { stream, queue: Mutex::default(), more: Condvar::new() }))
    }

    /// The receiving half.
    pub fn receiver(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Sends bytes, and after them those of a slot, in the order of the calls.
    pub fn post(self: &Arc<Self>, mut bytes: Vec<u8>, slot: Option<(&Arc<SlotCore>, usize, usize)>) {
        let mut slot = slot;
        if let Some((core, at, size)) = slot.filter(|(_, _, size)| *size <= SMALL) {
            let end = bytes.len();
            bytes.resize(end + size, 0);
            // Bounds and kind were checked by who asks.
            let read = core.host("copy").map(|memory| memory.read(at, &mut bytes[end..]));
            debug_assert!(matches!(read, Ok(Ok(()))));
            slot = None;
        }
        self.send(&mut lock(&self.queue), bytes, slot);
    }

    /// Sends bytes that nobody waits for with the next that somebody does, or when who receives has come by.
    pub fn post_later(self: &Arc<Self>, bytes: Vec<u8>) {
        let mut queue = lock(&self.queue);
        if queue.comes_by && !queue.closed {
            queue.held.extend(bytes);
        } else {
            self.send(&mut queue, bytes, None);
        }
    }

    /// A copy has arrived; who receives, and calls this, tells the other end when it [settles](Self::settle), unless
    /// something else is sent before.
    pub fn owe(&self) {
        let mut queue = lock(&self.queue);
        queue.owed += 1;
        queue.comes_by = true;
    }

    /// Sends what was held back.
    pub fn settle(self: &Arc<Self>) {
        let mut queue = lock(&self.queue);
        queue.comes_by = false;
        if queue.owed > 0 || !queue.held.is_empty() {
            self.send(&mut queue, Vec::new(), None);
        }
    }

    fn send(
        self: &Arc<Self>,
        queue: &mut Queue,
        bytes: Vec<u8>,
        slot: Option<(&Arc<SlotCore>, usize, usize)>,
    ) {
        if queue.closed {
            return;
        }
        let memory = Memory::of(queue.with_held(bytes));
        let mut sent = 0;
        if queue.items.is_empty() && queue.writer != Writer::Sends {
            match memory.send(self.stream.as_fd(), 0, memory.size(), false) {
                Ok(taken) => sent = taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The receiving half is told the same.
                Err(_) => return,
            }
        }
        if sent < memory.size() {
            queue.items.push_back(Item::Bytes(memory, sent));
        }
        if let Some((core, at, size)) = slot {
            queue.items.push_back(Item::Slot(Arc::clone(core), at, size));
        }
        if queue.items.is_empty() {
            return;
        }
        if queue.writer == Writer::None {
            queue.writer = Writer::Waits;
            let this = Arc::clone(self);
            std::thread::spawn(move || this.write());
        }
        self.more.notify_one();
    }

    fn write(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                queue.items.clear();
                return;
            }
            let Some(item) = queue.items.pop_front() else {
                queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.writer = Writer::Sends;
            drop(queue);
            let sent = match &item {
                Item::Bytes(memory, at) => self.send_all(memory, *at, memory.size() - at),
                Item::Slot(core, at, size) => match core.host("copy") {
                    Ok(memory) => self.send_all(memory, *at, *size),
                    Err(error) => Err(io::Error::other(error)),
                },
            };
            drop(item);
            queue = lock(&self.queue);
            queue.writer = Writer::Waits;
            if sent.is_err() {
                queue.closed = true;
            }
        }
    }

    fn send_all(&self, memory: &Memory, mut at: usize, mut left: usize) -> io::Result<()> {
        while left > 0 {
            match memory.send(self.stream.as_fd(), at, left, true) {
                Ok(sent) => (at, left) = (at + sent, left - sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends nothing more; what the other end has said can still be received.
    pub fn finish(&self) {
        lock(&self.queue).closed = true;
        self.more.notify_all();
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends both halves.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.more.notify_all();
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
