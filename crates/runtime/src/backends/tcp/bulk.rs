//! Copies over a bulk connection: requests are sent, and answered, in program order.

use std::{
    any::Any,
    collections::VecDeque,
    io,
    net::TcpStream,
    os::fd::AsFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use raw::Memory;

use super::{
    connection::Connection,
    wire::{HEAD, Head, Place, Range},
};
use crate::{
    backends::shared::{Far, Near},
    model::{DeviceMemory, Error, InstanceId, communication::GlobalCore, memory::SlotCore, wait::lock},
};

/// How long an acknowledgement may be delayed to travel with another message; less than a message's latency.
const MAX_ACK_DELAY: Duration = Duration::from_micros(20);

/// How long the receiver thread leaves receiving to polling threads before it checks that they still poll.
const YIELD_TIME: Duration = Duration::from_micros(50);

/// The endpoint for copies to and from one peer.
pub struct Copies {
    pub peer: InstanceId,
    pub connection: Arc<Connection>,
    /// Unanswered requests, oldest first.
    pending: Mutex<Pending>,
    receiving: Mutex<Receiving>,
    /// Number of polls by other threads.
    polls: AtomicU64,
    /// Whether the receiver thread currently leaves receiving to polling threads.
    yielding: AtomicBool,
}

#[derive(Default)]
struct Pending {
    requests: VecDeque<Request>,
    lost: bool,
}

enum Request {
    Put {
        to: Arc<GlobalCore>,
        from: Arc<SlotCore>,
    },
    Get {
        to: Arc<SlotCore>,
        at: usize,
        size: usize,
        from: Arc<GlobalCore>,
    },
    /// Dropped when all earlier requests have been answered.
    Mark(#[expect(dead_code, reason = "released on drop")] Arc<dyn Any + Send + Sync>),
}

/// A slot of a peer.
pub struct Remote {
    pub copies: Arc<Copies>,
    pub place: Place,
}

impl DeviceMemory for Remote {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The peer's slot behind a proxy slot.
pub fn remote(core: &SlotCore) -> Option<&Remote> {
    match &core.bytes {
        crate::model::Bytes::Device(memory, _) => memory.as_any().downcast_ref(),
        crate::model::Bytes::Host(_) => None,
    }
}

impl Copies {
    pub fn new(peer: InstanceId, connection: Arc<Connection>) -> io::Result<Arc<Self>> {
        let receiving = Receiving { inbox: Inbox::new(connection.receiver()?), acks_pending: false };
        let (pending, polls, yielding) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Ok(Arc::new(Self { peer, connection, pending, receiving: Mutex::new(receiving), polls, yielding }))
    }

    fn send_request(&self, request: Request, post: impl FnOnce()) -> Result<(), Error> {
        // Locked while sending, so that answers match the request order.
        let mut pending = lock(&self.pending);
        if pending.lost {
            return Err(Error::PeerLost(self.peer));
        }
        if let Request::Put { from: core, .. } | Request::Get { to: core, .. } = &request {
            core.pending.fetch_add(1, SeqCst);
        }
        pending.requests.push_back(request);
        post();
        Ok(())
    }

    /// Starts a copy to a slot of the peer.
    pub fn put(&self, to: Far<'_>, from: Near<'_>, size: usize, place: &Place) -> Result<(), Error> {
        to.0.target.check(to.1, size)?;
        from.0.check(from.1, size)?;
        from.0.host("copy")?;
        let request = Request::Put { to: Arc::clone(to.0), from: Arc::clone(from.0) };
        let head = Head::Put(range(place, to.1, size)).to_bytes().to_vec();
        self.send_request(request, || self.connection.post(head, Some((from.0, from.1, size))))
    }

    /// Starts a copy of size 0 to a slot of the peer, whose delivery may be delayed.
    pub fn signal(&self, to: &Arc<GlobalCore>, from: &Arc<SlotCore>, place: &Place) -> Result<(), Error> {
        let request = Request::Put { to: Arc::clone(to), from: Arc::clone(from) };
        let head = Head::Put(range(place, 0, 0)).to_bytes().to_vec();
        self.send_request(request, || self.connection.post_later(head))
    }

    /// Starts a copy from a slot of the peer.
    pub fn get(&self, to: Near<'_>, from: Far<'_>, size: usize, place: &Place) -> Result<(), Error> {
        from.0.target.check(from.1, size)?;
        to.0.check(to.1, size)?;
        to.0.host("copy")?;
        let request = Request::Get { to: Arc::clone(to.0), at: to.1, size, from: Arc::clone(from.0) };
        let head = Head::Get(range(place, from.1, size)).to_bytes().to_vec();
        self.send_request(request, || self.connection.post(head, None))
    }

    /// Drops `mark` when all earlier copies have been answered.
    pub fn mark(&self, mark: Arc<dyn Any + Send + Sync>) {
        let mut pending = lock(&self.pending);
        if !pending.requests.is_empty() {
            pending.requests.push_back(Request::Mark(mark));
        }
    }

    /// Fails all pending copies after the connection has ended.
    pub fn fail_all(&self) {
        self.connection.close();
        let requests = {
            let mut pending = lock(&self.pending);
            pending.lost = true;
            std::mem::take(&mut pending.requests)
        };
        for request in requests {
            request.fail(Error::PeerLost(self.peer));
        }
    }

    /// The oldest copy. A mark is never the oldest: it is dropped with the copy before it.
    fn next(&self) -> io::Result<Request> {
        lock(&self.pending).requests.pop_front().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Drops the marks at the front.
    fn answered(&self) {
        let mut passed = Vec::new();
        let mut pending = lock(&self.pending);
        while let Some(Request::Mark(_)) = pending.requests.front() {
            passed.extend(pending.requests.pop_front());
        }
        drop(pending);
    }

    /// The receiver loop, until the connection ends. `find` resolves slots of this Instance.
    pub fn receive(&self, find: Find<'_>) -> io::Result<()> {
        let socket = self.connection.receiver()?;
        // Timers precise to 1 µs instead of 50; if this fails, acknowledgements are slightly later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut seen = self.polls.load(SeqCst);
        loop {
            wait_readable(&socket, None)?;
            loop {
                let mut receiving = lock(&self.receiving);
                receiving.all(self, find)?;
                let acks_pending = receiving.acks_pending;
                // A polling thread receives data sooner than this thread could be woken.
                if std::mem::replace(&mut seen, self.polls.load(SeqCst)) != seen {
                    self.yielding.store(true, SeqCst);
                    drop(receiving);
                    std::thread::sleep(YIELD_TIME);
                    let mut receiving = lock(&self.receiving);
                    self.yielding.store(false, SeqCst);
                    receiving.flush(self);
                    continue;
                }
                drop(receiving);
                if !acks_pending || !wait_readable(&socket, Some(MAX_ACK_DELAY))? {
                    lock(&self.receiving).flush(self);
                    break;
                }
            }
        }
    }

    /// Receives complete messages unless another thread does; non-blocking.
    pub fn poll(&self, find: Find<'_>) {
        self.polls.fetch_add(1, SeqCst);
        if !self.yielding.load(SeqCst) {
            return;
        }
        let Ok(mut receiving) = self.receiving.try_lock() else { return };
        // Only while the receiver thread sleeps, not while it waits for the socket.
        if self.yielding.load(SeqCst) && receiving.whole(self, find).is_err() {
            // The receiver thread detects the end of the connection.
            self.connection.close();
        }
    }
}

/// Resolves slots of this Instance.
type Find<'a> = &'a dyn Fn(&Range) -> Option<Arc<SlotCore>>;

/// Whether data or the end of the stream arrives within `time`, or ever.
fn wait_readable(socket: &TcpStream, time: Option<Duration>) -> io::Result<bool> {
    match raw::wait_readable(socket.as_fd(), time) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        readable => readable,
    }
}

/// The receiving state, locked by the thread that receives.
struct Receiving {
    inbox: Inbox,
    /// Whether acknowledgements may be delayed, to be flushed by the receiver thread.
    acks_pending: bool,
}

impl Receiving {
    fn flush(&mut self, copies: &Copies) {
        if std::mem::take(&mut self.acks_pending) {
            copies.connection.flush();
        }
    }

    /// Receives all available messages, and waits for the rest of a partial one.
    fn all(&mut self, copies: &Copies, find: Find<'_>) -> io::Result<()> {
        loop {
            while self.inbox.has_head() {
                self.one(copies, find)?;
            }
            if !self.inbox.more_now()? {
                return Ok(());
            }
        }
    }

    /// Receives complete messages only.
    fn whole(&mut self, copies: &Copies, find: Find<'_>) -> io::Result<()> {
        if !self.inbox.is_whole() {
            self.inbox.more_now()?;
        }
        while self.inbox.is_whole() {
            self.one(copies, find)?;
        }
        Ok(())
    }

    fn one(&mut self, copies: &Copies, find: Find<'_>) -> io::Result<()> {
        let Self { inbox, .. } = self;
        let head = Head::from_bytes(&inbox.head()).ok_or(io::ErrorKind::InvalidData)?;
        // Flush before blocking on a long message, so that the peer does not wait for delayed acknowledgements.
        let long = head.follows() > inbox.available() as u64;
        if long {
            self.flush(copies);
        }
        let Self { inbox, acks_pending } = self;
        // Answers keep the order of the requests: delayed acknowledgements go first.
        let answer = |head: Head, slot: Option<(&Arc<SlotCore>, usize, usize)>| {
            copies.connection.post(head.to_bytes().to_vec(), slot);
        };
        match head {
            Head::Put(range) => {
                if let Some((core, at, size)) = checked_range(find(&range), &range) {
                    let memory = core.host("copy").map_err(io::Error::other)?;
                    inbox.body(memory, at, size)?;
                    // Before counting: a thread that sees the count may leave, and flushes only what is recorded.
                    copies.connection.delay_ack();
                    *acks_pending = true;
                    core.header().count_received();
                    if long {
                        self.flush(copies);
                    }
                } else {
                    inbox.skip(range.size)?;
                    answer(Head::Failed, None);
                }
            }
            Head::Get(range) => {
                if let Some((core, at, size)) = checked_range(find(&range), &range) {
                    answer(Head::Data(range.size), Some((&core, at, size)));
                    core.header().count_sent();
                } else {
                    answer(Head::Failed, None);
                }
            }
            Head::Done(count) => {
                for _ in 0..count {
                    copies.next()?.done()?;
                    copies.answered();
                }
            }
            Head::Data(size) => {
                copies.next()?.complete(inbox, size)?;
                copies.answered();
            }
            Head::Failed => {
                copies.next()?.fail(Error::Gone("the slot".into()));
                copies.answered();
            }
        }
        Ok(())
    }
}

fn range(place: &Place, offset: usize, size: usize) -> Range {
    Range { slot: place.slot, secret: place.secret[0], offset: offset as u64, size: size as u64 }
}

/// The range of a slot of this Instance, if the slot exists and the range is within its bounds.
fn checked_range(core: Option<Arc<SlotCore>>, range: &Range) -> Option<(Arc<SlotCore>, usize, usize)> {
    let (at, size) = (usize::try_from(range.offset).ok()?, usize::try_from(range.size).ok()?);
    let core = core?;
    core.check(at, size).ok()?;
    Some((core, at, size))
}

impl Request {
    fn done(self) -> io::Result<()> {
        let Self::Put { to, from } = self else { return Err(io::ErrorKind::InvalidData.into()) };
        from.pending.fetch_sub(1, SeqCst);
        from.header().count_sent();
        to.header.count_received();
        Ok(())
    }

    fn complete(self, inbox: &mut Inbox, length: u64) -> io::Result<()> {
        let Self::Get { to, at, size, from } = self else { return Err(io::ErrorKind::InvalidData.into()) };
        if length != size as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let result =
            to.host("copy").map_err(io::Error::other).and_then(|memory| inbox.body(memory, at, size));
        to.pending.fetch_sub(1, SeqCst);
        result?;
        to.header().count_received();
        from.header.count_sent();
        Ok(())
    }

    /// Records the failure for the next fence of the local slot, without counting the copy.
    fn fail(self, error: Error) {
        let core = match self {
            Self::Put { from, .. } => from,
            Self::Get { to, .. } => to,
            Self::Mark(_) => return,
        };
        core.pending.fetch_sub(1, SeqCst);
        if let Error::PeerLost(peer) = error {
            lock(&core.tally.reported).insert(peer);
        }
        *lock(&core.tally.failure) = Some(error);
        core.header().kick();
    }
}

/// Received data that is not processed yet.
struct Inbox {
    stream: TcpStream,
    bytes: Memory,
    begin: usize,
    end: usize,
}

impl Inbox {
    fn new(stream: TcpStream) -> Self {
        Self { stream, bytes: Memory::of(vec![0_u8; 1 << 16]), begin: 0, end: 0 }
    }

    /// Number of bytes not processed yet.
    fn available(&self) -> usize {
        self.end - self.begin
    }

    fn has_head(&self) -> bool {
        self.available() >= HEAD
    }

    /// Whether the next header and its whole body have arrived.
    fn is_whole(&self) -> bool {
        if !self.has_head() {
            return false;
        }
        let mut head = [0; HEAD];
        self.read(&mut head);
        Head::from_bytes(&head).is_some_and(|head| head.follows() <= (self.available() - HEAD) as u64)
    }

    /// Takes the next header, which has arrived.
    fn head(&mut self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        self.read(&mut head);
        self.begin += HEAD;
        head
    }

    /// Receives available data without blocking, and returns whether there was any. The end of the stream is an error.
    fn more_now(&mut self) -> io::Result<bool> {
        // Moves the rest, part of a message, to the front.
        let left = self.available();
        if self.begin > 0 && left < HEAD {
            let mut piece = [0; HEAD];
            self.read(&mut piece[..left]);
            (self.begin, self.end) = (0, left);
            let _ = self.bytes.write(0, &piece[..left]);
        }
        if self.end == self.bytes.size() {
            return Ok(false);
        }
        match self.bytes.receive(self.stream.as_fd(), self.end, self.bytes.size() - self.end, false) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                self.end += length;
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn read(&self, bytes: &mut [u8]) {
        let read = self.bytes.read(self.begin, bytes);
        debug_assert!(read.is_ok(), "the range is available");
    }

    fn more(&mut self) -> io::Result<()> {
        let room = self.bytes.size() - self.end;
        self.end += received(self.bytes.receive(self.stream.as_fd(), self.end, room, true))?;
        Ok(())
    }

    /// Receives the next `size` bytes into their slot.
    fn body(&mut self, to: &Memory, mut at: usize, mut size: usize) -> io::Result<()> {
        let here = size.min(self.end - self.begin);
        to.copy_from(at, &self.bytes, self.begin, here).map_err(|_| io::ErrorKind::InvalidData)?;
        self.begin += here;
        (at, size) = (at + here, size - here);
        while size > 0 {
            let length = received(to.receive(self.stream.as_fd(), at, size, true))?;
            (at, size) = (at + length, size - length);
        }
        Ok(())
    }

    fn skip(&mut self, mut size: u64) -> io::Result<()> {
        loop {
            let here = size.min((self.end - self.begin) as u64);
            self.begin += usize::try_from(here).unwrap_or_default();
            size -= here;
            if size == 0 {
                return Ok(());
            }
            (self.begin, self.end) = (0, 0);
            self.more()?;
        }
    }
}

/// Receives at least one byte; the end of the stream is an error.
fn received(length: io::Result<usize>) -> io::Result<usize> {
    match length {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        length => length,
    }
}
