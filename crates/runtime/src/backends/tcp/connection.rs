//! One TCP connection with non-blocking sends.

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

/// Slots up to this many bytes are sent together with their header.
const SMALL: usize = 4096;

/// The sending half. A writer thread, started on demand, sends what the kernel does not accept
/// at once.
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
    /// Whether the receiver will soon call [`flush`](Connection::flush).
    flush_expected: bool,
    /// Bytes delayed until the next send.
    held: Vec<u8>,
    /// Number of arrived copies that are not acknowledged yet.
    unacknowledged: u64,
}

/// State of the writer thread.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Writer {
    /// Not started.
    #[default]
    None,
    Waits,
    /// Sending an item.
    Sends,
}

impl Queue {
    /// The delayed bytes followed by `bytes`.
    fn with_held(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.unacknowledged > 0 {
            self.held.extend(Head::Done(std::mem::take(&mut self.unacknowledged)).to_bytes());
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
    /// Configures the stream.
    pub fn new(stream: TcpStream) -> io::Result<Arc<Self>> {
        stream.set_read_timeout(None)?;
        keep_alive(&stream)?;
        Ok(Arc::new(Self { stream, queue: Mutex::default(), more: Condvar::new() }))
    }

    /// The receiving half.
    pub fn receiver(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Sends bytes, followed by those of a slot, in the order of calls.
    pub fn post(self: &Arc<Self>, mut bytes: Vec<u8>, slot: Option<(&Arc<SlotCore>, usize, usize)>) {
        let mut slot = slot;
        if let Some((core, at, size)) = slot.filter(|(_, _, size)| *size <= SMALL) {
            let end = bytes.len();
            bytes.resize(end + size, 0);
            // The caller has checked bounds and kind.
            let read = core.host("copy").map(|memory| memory.read(at, &mut bytes[end..]));
            debug_assert!(matches!(read, Ok(Ok(()))));
            slot = None;
        }
        self.send(&mut lock(&self.queue), bytes, slot);
    }

    /// Sends bytes with the next send or flush, if a flush is expected, and otherwise at once.
    pub fn post_later(self: &Arc<Self>, bytes: Vec<u8>) {
        let mut queue = lock(&self.queue);
        if queue.flush_expected && !queue.closed {
            queue.held.extend(bytes);
        } else {
            self.send(&mut queue, bytes, None);
        }
    }

    /// Records an arrived copy. The caller acknowledges it by a later [`flush`](Self::flush), unless an earlier send
    /// does.
    pub fn delay_ack(&self) {
        let mut queue = lock(&self.queue);
        queue.unacknowledged += 1;
        queue.flush_expected = true;
    }

    /// Sends delayed bytes and acknowledgements.
    pub fn flush(self: &Arc<Self>) {
        let mut queue = lock(&self.queue);
        queue.flush_expected = false;
        if queue.unacknowledged > 0 || !queue.held.is_empty() {
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
                // The receiving half gets the same error.
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

    /// Closes the sending half; pending data can still be received.
    pub fn finish(&self) {
        lock(&self.queue).closed = true;
        self.more.notify_all();
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes both halves.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.more.notify_all();
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
