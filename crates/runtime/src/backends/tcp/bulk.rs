//! Copies over a connection: what is asked for goes out in the order in which it was begun, and is answered in it.

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

/// How long the news of a copy may wait for something that it can travel with: less than a message takes.
const HELD: Duration = Duration::from_micros(20);

/// For how long the thread that receives leaves that to who looks, and then sees whether they still do.
const NAP: Duration = Duration::from_micros(50);

/// The other end, as far as copies go.
pub struct Copies {
    pub peer: InstanceId,
    pub connection: Arc<Connection>,
    /// What was asked for and not answered, the oldest first.
    pending: Mutex<Pending>,
    receiving: Mutex<Receiving>,
    /// How often somebody looked for what comes.
    looks: AtomicU64,
    /// Whether the thread that receives has left that to who looks, for a while.
    napping: AtomicBool,
}

#[derive(Default)]
struct Pending {
    asked: VecDeque<Asked>,
    lost: bool,
}

enum Asked {
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
    /// Told when everything before it has been answered.
    Mark(#[expect(dead_code, reason = "dropped, it tells")] Arc<dyn Any + Send + Sync>),
}

/// A slot of another Instance.
pub struct Remote {
    pub copies: Arc<Copies>,
    pub place: Place,
}

impl DeviceMemory for Remote {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The slot of another Instance that this one stands for.
pub fn remote(core: &SlotCore) -> Option<&Remote> {
    match &core.bytes {
        crate::model::Bytes::Device(memory, _) => memory.as_any().downcast_ref(),
        crate::model::Bytes::Host(_) => None,
    }
}

impl Copies {
    pub fn new(peer: InstanceId, connection: Arc<Connection>) -> io::Result<Arc<Self>> {
        let receiving = Receiving { inbox: Inbox::new(connection.receiver()?), owes: false };
        let (pending, looks, napping) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Ok(Arc::new(Self { peer, connection, pending, receiving: Mutex::new(receiving), looks, napping }))
    }

    fn ask(&self, asked: Asked, post: impl FnOnce()) -> Result<(), Error> {
        // Held while sending, so that answers find what was asked in its order.
        let mut pending = lock(&self.pending);
        if pending.lost {
            return Err(Error::PeerLost(self.peer));
        }
        if let Asked::Put { from: core, .. } | Asked::Get { to: core, .. } = &asked {
            core.pending.fetch_add(1, SeqCst);
        }
        pending.asked.push_back(asked);
        post();
        Ok(())
    }

    /// Begins a copy to a slot of the peer.
    pub fn put(&self, to: Far<'_>, from: Near<'_>, size: usize, place: &Place) -> Result<(), Error> {
        to.0.target.check(to.1, size)?;
        from.0.check(from.1, size)?;
        from.0.host("copy")?;
        let asked = Asked::Put { to: Arc::clone(to.0), from: Arc::clone(from.0) };
        let head = Head::Put(range(place, to.1, size)).to_bytes().to_vec();
        self.ask(asked, || self.connection.post(head, Some((from.0, from.1, size))))
    }

    /// Begins a copy of size 0 to a slot of the peer, which it need not hear of at once.
    pub fn tell(&self, to: &Arc<GlobalCore>, from: &Arc<SlotCore>, place: &Place) -> Result<(), Error> {
        let asked = Asked::Put { to: Arc::clone(to), from: Arc::clone(from) };
        let head = Head::Put(range(place, 0, 0)).to_bytes().to_vec();
        self.ask(asked, || self.connection.post_later(head))
    }

    /// Begins a copy from a slot of the peer.
    pub fn get(&self, to: Near<'_>, from: Far<'_>, size: usize, place: &Place) -> Result<(), Error> {
        from.0.target.check(from.1, size)?;
        to.0.check(to.1, size)?;
        to.0.host("copy")?;
        let asked = Asked::Get { to: Arc::clone(to.0), at: to.1, size, from: Arc::clone(from.0) };
        let head = Head::Get(range(place, from.1, size)).to_bytes().to_vec();
        self.ask(asked, || self.connection.post(head, None))
    }

    /// Drops `mark` when all copies begun before have been answered.
    pub fn mark(&self, mark: Arc<dyn Any + Send + Sync>) {
        let mut pending = lock(&self.pending);
        if !pending.asked.is_empty() {
            pending.asked.push_back(Asked::Mark(mark));
        }
    }

    /// The connection has ended: nothing is answered any more.
    pub fn lose(&self) {
        self.connection.close();
        let asked = {
            let mut pending = lock(&self.pending);
            pending.lost = true;
            std::mem::take(&mut pending.asked)
        };
        for asked in asked {
            asked.failed(Error::PeerLost(self.peer));
        }
    }

    /// The oldest copy. Marks are never the oldest: they are told with the copy before them.
    fn next(&self) -> io::Result<Asked> {
        lock(&self.pending).asked.pop_front().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Tells the marks that wait for nothing more.
    fn answered(&self) {
        let mut told = Vec::new();
        let mut pending = lock(&self.pending);
        while let Some(Asked::Mark(_)) = pending.asked.front() {
            told.extend(pending.asked.pop_front());
        }
        drop(pending);
    }

    /// Receives until the connection ends. `find` knows the slots of this Instance.
    pub fn receive(&self, find: Find<'_>) -> io::Result<()> {
        let socket = self.connection.receiver()?;
        // To the microsecond, and not to fifty of them; without it a copy is told of a little later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut seen = self.looks.load(SeqCst);
        loop {
            comes_within(&socket, None)?;
            loop {
                let mut receiving = lock(&self.receiving);
                receiving.all(self, find)?;
                let owes = receiving.owes;
                // Who looks finds by itself what comes, sooner than this thread could be woken.
                if std::mem::replace(&mut seen, self.looks.load(SeqCst)) != seen {
                    self.napping.store(true, SeqCst);
                    drop(receiving);
                    std::thread::sleep(NAP);
                    let mut receiving = lock(&self.receiving);
                    self.napping.store(false, SeqCst);
                    receiving.settle(self);
                    continue;
                }
                drop(receiving);
                if !owes || !comes_within(&socket, Some(HELD))? {
                    lock(&self.receiving).settle(self);
                    break;
                }
            }
        }
    }

    /// Receives what is there and whole, if nobody else does; never waits.
    pub fn look(&self, find: Find<'_>) {
        self.looks.fetch_add(1, SeqCst);
        if !self.napping.load(SeqCst) {
            return;
        }
        let Ok(mut receiving) = self.receiving.try_lock() else { return };
        // Not once the thread is about to wait for the socket, and for nothing else.
        if self.napping.load(SeqCst) && receiving.whole(self, find).is_err() {
            // The thread finds the connection ended.
            self.connection.close();
        }
    }
}

/// Knows the slots of this Instance.
type Find<'a> = &'a dyn Fn(&Range) -> Option<Arc<SlotCore>>;

/// Whether something comes within so long, or ever, or the end.
fn comes_within(socket: &TcpStream, time: Option<Duration>) -> io::Result<bool> {
    match raw::comes_within(socket.as_fd(), time) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        comes => comes,
    }
}

/// What is received with, by whoever has it.
struct Receiving {
    inbox: Inbox,
    /// Whether something may be held back, to which the thread that receives comes back.
    owes: bool,
}

impl Receiving {
    fn settle(&mut self, copies: &Copies) {
        if std::mem::take(&mut self.owes) {
            copies.connection.settle();
        }
    }

    /// Receives all that is there, and the rest of what has begun.
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

    /// Receives what is whole.
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
        // What does not wait for the other end is not waited for by it, either.
        let long = head.follows() > inbox.here() as u64;
        if long {
            self.settle(copies);
        }
        let Self { inbox, owes } = self;
        // Answers keep the order of what they answer: what is owed goes before them.
        let answer = |head: Head, slot: Option<(&Arc<SlotCore>, usize, usize)>| {
            copies.connection.post(head.to_bytes().to_vec(), slot);
        };
        match head {
            Head::Put(range) => {
                if let Some((core, at, size)) = piece(find(&range), &range) {
                    let memory = core.host("copy").map_err(io::Error::other)?;
                    inbox.body(memory, at, size)?;
                    // Before it is counted: who sees the count may leave, and takes along what was not noted.
                    copies.connection.owe();
                    *owes = true;
                    core.header().count_received();
                    if long {
                        self.settle(copies);
                    }
                } else {
                    inbox.skip(range.size)?;
                    answer(Head::Failed, None);
                }
            }
            Head::Get(range) => {
                if let Some((core, at, size)) = piece(find(&range), &range) {
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
                copies.next()?.came(inbox, size)?;
                copies.answered();
            }
            Head::Failed => {
                copies.next()?.failed(Error::Gone("the slot".into()));
                copies.answered();
            }
        }
        Ok(())
    }
}

fn range(place: &Place, offset: usize, size: usize) -> Range {
    Range { slot: place.slot, secret: place.secret[0], offset: offset as u64, size: size as u64 }
}

/// A piece of a slot of this Instance, if there is one and it is within its bounds.
fn piece(core: Option<Arc<SlotCore>>, range: &Range) -> Option<(Arc<SlotCore>, usize, usize)> {
    let (at, size) = (usize::try_from(range.offset).ok()?, usize::try_from(range.size).ok()?);
    let core = core?;
    core.check(at, size).ok()?;
    Some((core, at, size))
}

impl Asked {
    fn done(self) -> io::Result<()> {
        let Self::Put { to, from } = self else { return Err(io::ErrorKind::InvalidData.into()) };
        from.pending.fetch_sub(1, SeqCst);
        from.header().count_sent();
        to.header.count_received();
        Ok(())
    }

    fn came(self, inbox: &mut Inbox, came: u64) -> io::Result<()> {
        let Self::Get { to, at, size, from } = self else { return Err(io::ErrorKind::InvalidData.into()) };
        if came != size as u64 {
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

    /// It does not count; the next fence of the slot of this Instance says why.
    fn failed(self, error: Error) {
        let core = match self {
            Self::Put { from, .. } => from,
            Self::Get { to, .. } => to,
            Self::Mark(_) => return,
        };
        core.pending.fetch_sub(1, SeqCst);
        if let Error::PeerLost(peer) = error {
            lock(&core.tally.told).insert(peer);
        }
        *lock(&core.tally.failure) = Some(error);
        core.header().kick();
    }
}

/// What came and was not looked at.
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

    /// How many bytes came and were not looked at.
    fn here(&self) -> usize {
        self.end - self.begin
    }

    fn has_head(&self) -> bool {
        self.here() >= HEAD
    }

    /// Whether the next header is there, and all that follows it.
    fn is_whole(&self) -> bool {
        if !self.has_head() {
            return false;
        }
        let mut head = [0; HEAD];
        self.read(&mut head);
        Head::from_bytes(&head).is_some_and(|head| head.follows() <= (self.here() - HEAD) as u64)
    }

    /// The next header, which is there.
    fn head(&mut self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        self.read(&mut head);
        self.begin += HEAD;
        head
    }

    /// Takes in what has come, without waiting; whether that was anything. The end is an error.
    fn more_now(&mut self) -> io::Result<bool> {
        // What is left, a piece of a message, goes to the front.
        let left = self.here();
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
            Ok(came) => {
                self.end += came;
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
        debug_assert!(read.is_ok(), "there are as many");
    }

    fn more(&mut self) -> io::Result<()> {
        let room = self.bytes.size() - self.end;
        self.end += received(self.bytes.receive(self.stream.as_fd(), self.end, room, true))?;
        Ok(())
    }

    /// Brings the next `size` bytes where they belong.
    fn body(&mut self, to: &Memory, mut at: usize, mut size: usize) -> io::Result<()> {
        let here = size.min(self.end - self.begin);
        to.copy_from(at, &self.bytes, self.begin, here).map_err(|_| io::ErrorKind::InvalidData)?;
        self.begin += here;
        (at, size) = (at + here, size - here);
        while size > 0 {
            let came = received(to.receive(self.stream.as_fd(), at, size, true))?;
            (at, size) = (at + came, size - came);
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

/// At least one byte, or the end, which is an error here.
fn received(came: io::Result<usize>) -> io::Result<usize> {
    match came {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        came => came,
    }
}
