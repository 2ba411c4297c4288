//! The connections of an Instance to its peers, and the messages over them.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use raw::Header;

use super::{
    bulk::{Copies, Remote},
    collectives::{Collectives, Outcome},
    connection::Connection,
    handshake::{self, Purpose},
    wire::{NAME, PeerMessage, Place, Range},
};
use crate::{
    backends::{
        host::RAM,
        processes::PeerEvent,
        shared::{
            arbiter::Agreed,
            frame::{frame, receive},
        },
    },
    hicr::MemorySpace,
    model::{Bytes, Error, InstanceId, Promise, Tag, fence::Losses, memory::SlotCore, promise, wait::lock},
};

/// How long to retry connecting to a peer whose process is alive.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections and shared state of an Instance.
pub struct Mesh {
    pub(super) me: InstanceId,
    secret: [u8; 32],
    pub(super) losses: Arc<Losses>,
    pub(super) state: Mutex<State>,
    changed: Condvar,
    /// The connected peers, for polling.
    links: Mutex<Arc<Vec<Arc<Copies>>>>,
    /// Slots of this Instance that peers can reach.
    pub(super) slots: Mutex<BTreeMap<u64, Weak<SlotCore>>>,
    pub(super) next: AtomicU64,
}

pub(super) struct State {
    pub(super) peers: BTreeMap<InstanceId, Peer>,
    pub(super) collectives: Collectives,
    pub(super) waiting: BTreeMap<(Tag, Option<u64>), Promise<Agreed>>,
    requests: BTreeMap<u64, (InstanceId, Promise<bool>)>,
    /// Promoted slots of peers.
    pub(super) promoted: Vec<(InstanceId, u64, Weak<SlotCore>)>,
}

/// A peer.
#[derive(Default)]
pub(super) struct Peer {
    control: Option<Arc<Connection>>,
    pub(super) copies: Option<Arc<Copies>>,
    /// Messages queued until it is connected.
    early: Vec<Vec<u8>>,
    /// Whether its address is known.
    listens: bool,
    /// How many of its two connections have ended.
    ended: u8,
    lost: bool,
}

impl Mesh {
    /// Listens for connections of peers.
    pub fn new(me: InstanceId, secret: [u8; 32], listener: TcpListener) -> Arc<Self> {
        let state = State {
            peers: BTreeMap::new(),
            collectives: Collectives::new(me),
            waiting: BTreeMap::new(),
            requests: BTreeMap::new(),
            promoted: Vec::new(),
        };
        let mesh = Arc::new(Self {
            me,
            secret,
            losses: Arc::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            links: Mutex::default(),
            slots: Mutex::default(),
            next: AtomicU64::new(1),
        });
        let accepts = Arc::downgrade(&mesh);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some(mesh) = accepts.upgrade() else { return };
                std::thread::spawn(move || {
                    // Connections from outside the run are dropped.
                    if let Ok((id, purpose)) = handshake::accept(&mut stream, &mesh.secret, mesh.me) {
                        mesh.connected(id, purpose, stream);
                    }
                });
            }
        });
        mesh
    }

    /// Handles a notification by the launcher.
    pub fn notify(self: &Arc<Self>, event: &PeerEvent<'_>) {
        match *event {
            PeerEvent::Address(id, address) => {
                if id == self.me {
                    return;
                }
                // The address of a starting Instance is not valid yet.
                let listens = address.parse::<SocketAddr>().is_ok();
                let connects = {
                    let mut state = lock(&self.state);
                    let peer = state.peers.entry(id).or_default();
                    listens && !std::mem::replace(&mut peer.listens, listens)
                };
                // The larger id connects to the smaller.
                if id < self.me && connects {
                    for purpose in [Purpose::Control, Purpose::Bulk] {
                        let (mesh, address) = (Arc::clone(self), address.to_owned());
                        std::thread::spawn(move || mesh.connect(id, &address, purpose));
                    }
                }
                self.changed.notify_all();
            }
            PeerEvent::Ended(id) => {
                // A connected peer is lost only after everything it sent was received.
                let reached = lock(&self.state)
                    .peers
                    .get(&id)
                    .is_some_and(|peer| peer.control.is_some() || peer.copies.is_some());
                if !reached {
                    self.lost(id);
                }
            }
        }
    }

    fn connect(self: Arc<Self>, id: InstanceId, address: &str, purpose: Purpose) {
        let until = Instant::now() + CONNECT_TIMEOUT;
        loop {
            let connected = TcpStream::connect(address).and_then(|mut stream| {
                handshake::connect(&mut stream, &self.secret, self.me, id, purpose)?;
                Ok(stream)
            });
            match connected {
                Ok(stream) => return self.connected(id, purpose, stream),
                Err(_)
                    if Instant::now() >= until
                        || lock(&self.state).peers.get(&id).is_some_and(|it| it.lost) =>
                {
                    return self.lost(id);
                }
                // It may still start: retry until it has ended.
                Err(_) => {
                    let state = lock(&self.state);
                    drop(self.changed.wait_timeout(state, Duration::from_millis(20)));
                }
            }
        }
    }

    fn connected(self: &Arc<Self>, id: InstanceId, purpose: Purpose, stream: TcpStream) {
        let Ok(connection) = Connection::new(stream) else { return self.lost(id) };
        let mesh = Arc::downgrade(self);
        let mut state = lock(&self.state);
        let peer = state.peers.entry(id).or_default();
        if peer.lost {
            connection.close();
            return;
        }
        match purpose {
            Purpose::Control if peer.control.is_none() => {
                peer.early.drain(..).for_each(|bytes| connection.post(bytes, None));
                peer.control = Some(Arc::clone(&connection));
                std::thread::spawn(move || {
                    if let Ok(mut stream) = connection.receiver() {
                        while let Ok(message) = receive::<PeerMessage>(&mut stream) {
                            let Some(mesh) = mesh.upgrade() else { return };
                            mesh.handle(id, message);
                        }
                    }
                    mesh.upgrade().into_iter().for_each(|mesh| mesh.ended(id));
                });
            }
            Purpose::Bulk if peer.copies.is_none() => {
                let Ok(copies) = Copies::new(id, connection) else {
                    drop(state);
                    return self.lost(id);
                };
                peer.copies = Some(Arc::clone(&copies));
                Arc::make_mut(&mut lock(&self.links)).push(Arc::clone(&copies));
                std::thread::spawn(move || {
                    let find = |range: &Range| mesh.upgrade()?.find(range.slot, range.secret);
                    let _ended = copies.receive(&find);
                    mesh.upgrade().into_iter().for_each(|mesh| mesh.ended(id));
                });
            }
            _ => connection.close(),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Receives available messages on behalf of a polling thread.
    pub(super) fn poll(&self) {
        // Not locked meanwhile: a message may complete a collective, which locks the state.
        let Ok(links) = self.links.try_lock().map(|links| Arc::clone(&links)) else { return };
        for link in &*links {
            link.poll(&|range| self.find(range.slot, range.secret));
        }
    }

    /// Flushes all acknowledgements, since this Instance may be about to exit.
    pub(super) fn flush(&self) {
        let state = lock(&self.state);
        state
            .peers
            .values()
            .filter_map(|peer| peer.copies.as_ref())
            .for_each(|copies| copies.connection.flush());
    }

    /// One of the two connections has ended. The other one is drained before the peer is lost.
    fn ended(&self, id: InstanceId) {
        let both = {
            let mut state = lock(&self.state);
            let peer = state.peers.entry(id).or_default();
            peer.ended += 1;
            peer.control.iter().for_each(|control| control.finish());
            peer.copies.iter().for_each(|copies| copies.connection.finish());
            peer.ended == 2 || peer.control.is_none() || peer.copies.is_none()
        };
        if both {
            self.lost(id);
        }
    }

    /// Both connections have ended, or can never be established.
    fn lost(&self, id: InstanceId) {
        let copies = {
            let mut state = lock(&self.state);
            let peer = state.peers.entry(id).or_default();
            if std::mem::replace(&mut peer.lost, true) {
                return;
            }
            peer.control.take().into_iter().for_each(|control| control.close());
            peer.early.clear();
            let copies = peer.copies.take();
            Arc::make_mut(&mut lock(&self.links)).retain(|link| link.peer != id);
            let (messages, outcomes) = state.collectives.lose(id);
            state.deliver(self.me, messages, outcomes);
            let asked: Vec<_> =
                state.requests.iter().filter(|(_, (of, _))| *of == id).map(|(number, _)| *number).collect();
            for number in asked {
                if let Some((_, promise)) = state.requests.remove(&number) {
                    promise.keep(Err(Error::PeerLost(id)));
                }
            }
            copies
        };
        if let Some(copies) = copies {
            copies.fail_all();
        }
        self.losses.lose(id);
        self.changed.notify_all();
    }

    /// Finds a slot of this Instance that peers can reach.
    pub(super) fn find(&self, slot: u64, secret: u64) -> Option<Arc<SlotCore>> {
        let core = lock(&self.slots).get(&slot).and_then(Weak::upgrade)?;
        (secret == 0 || core.header().secret[0].load(SeqCst) == secret).then_some(core)
    }

    fn handle(&self, from: InstanceId, message: PeerMessage) {
        let answer = match message {
            PeerMessage::Lock { request, place } => {
                let gone = || Error::Gone("the slot".into());
                let core = self.find(place.slot, place.secret[0]).ok_or_else(gone);
                let result = core.map(|core| self.take_lock(&core, from));
                Some(PeerMessage::Locked { request, result })
            }
            PeerMessage::Unlock { place } => {
                if let Some(core) = self.find(place.slot, place.secret[0]) {
                    let _ = core.header().lock.compare_exchange(from.0, 0, SeqCst, SeqCst);
                }
                None
            }
            PeerMessage::Check { request, place } => {
                let core = self.find(place.slot, place.secret[0]);
                let exists = core.is_some_and(|core| {
                    core.header().has_secret(place.secret)
                        && core.check(0, 0).is_ok()
                        && core.header().size.load(SeqCst) == place.size
                });
                Some(PeerMessage::Checked { request, exists })
            }
            PeerMessage::Locked { request, result } => return self.answered(from, request, &result),
            PeerMessage::Checked { request, exists } => return self.answered(from, request, &Ok(exists)),
            PeerMessage::Revoked { slot } => {
                let mut state = lock(&self.state);
                state.promoted.retain(|(owner, number, core)| {
                    let it = (*owner, *number) == (from, slot);
                    core.upgrade().filter(|_| it).iter().for_each(|core| core.header().drop_secret());
                    !it && core.strong_count() > 0
                });
                return;
            }
            message => {
                let mut state = lock(&self.state);
                let (messages, outcomes) = state.collectives.handle(from, message);
                state.deliver(self.me, messages, outcomes);
                return;
            }
        };
        if let Some(answer) = answer {
            lock(&self.state).send(from, &answer);
        }
    }

    fn take_lock(&self, core: &SlotCore, requester: InstanceId) -> bool {
        let lock = &core.header().lock;
        match lock.compare_exchange(0, requester.0, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(holder) => {
                let lost = self.losses.is_lost(InstanceId(holder));
                lost && lock.compare_exchange(holder, requester.0, SeqCst, SeqCst).is_ok()
            }
        }
    }

    fn answered(&self, from: InstanceId, request: u64, result: &Result<bool, Error>) {
        let mut state = lock(&self.state);
        // Accept an answer only from the peer that was asked.
        if state.requests.get(&request).is_some_and(|(of, _)| *of == from) {
            state.requests.remove(&request).into_iter().for_each(|(_, promise)| promise.keep(result.clone()));
        }
    }

    /// Sends a request to a peer and blocks until the answer.
    pub(super) fn ask(
        &self,
        of: InstanceId,
        question: impl FnOnce(u64) -> PeerMessage,
    ) -> Result<bool, Error> {
        let request = self.next.fetch_add(1, SeqCst);
        let (kept, wait) = promise("the peer's answer", || {});
        {
            let mut state = lock(&self.state);
            if state.peers.get(&of).is_none_or(|peer| peer.lost) {
                return Err(Error::PeerLost(of));
            }
            state.requests.insert(request, (of, kept));
            state.send(of, &question(request));
        }
        wait.done()
    }

    /// The copy endpoint of a peer; blocks until it is connected.
    fn copies(&self, id: InstanceId) -> Result<Arc<Copies>, Error> {
        let mut state = lock(&self.state);
        loop {
            match state.peers.get(&id) {
                None => return Err(Error::Gone(format!("Instance {id}"))),
                Some(peer) if peer.lost => return Err(Error::PeerLost(id)),
                Some(Peer { copies: Some(copies), .. }) => return Ok(Arc::clone(copies)),
                Some(_) => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    pub(super) fn remote_slot(&self, owner: InstanceId, place: Place) -> Result<Arc<SlotCore>, Error> {
        let size = usize::try_from(place.size).map_err(|_| Error::Gone("the slot".into()))?;
        let copies = self.copies(owner)?;
        let header = Box::new(Header::new(size));
        header.secret[0].store(place.secret[0], SeqCst);
        header.secret[1].store(place.secret[1], SeqCst);
        let space = MemorySpace { type_: RAM.to_owned(), size: place.size, more: serde_json::Map::new() };
        let bytes = Bytes::Device(Box::new(Remote { copies, place }), header);
        Ok(Arc::new(SlotCore::new(NAME, space, bytes, None, size)))
    }
}

impl State {
    pub(super) fn send(&mut self, to: InstanceId, message: &PeerMessage) {
        // No exchange of this library makes a message that is too large.
        let Ok(bytes) = frame(message) else { return };
        let peer = self.peers.entry(to).or_default();
        match &peer.control {
            _ if peer.lost => {}
            Some(control) => control.post(bytes, None),
            None => peer.early.push(bytes),
        }
    }

    pub(super) fn deliver(
        &mut self,
        me: InstanceId,
        messages: Vec<(InstanceId, PeerMessage)>,
        outcomes: Vec<Outcome>,
    ) {
        for (to, message) in messages {
            debug_assert!(to != me);
            self.send(to, &message);
        }
        for (tag, round, result) in outcomes {
            self.waiting.remove(&(tag, round)).into_iter().for_each(|promise| promise.keep(result.clone()));
        }
    }
}
