//! Remote procedure calls over channels, for Instances that share nothing else yet.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    channel::{self, Consumer, Mode, Producer, PushError, Setup, Shape},
    data_object::{DataObjects, ObjectId},
};
use crate::{
    backends::caught,
    hicr::Topology,
    model::{Error, InstanceId, Tag},
};

/// Larger messages, in bytes, travel as data objects.
const LARGE: usize = 1 << 20;
/// Ring size for the messages in flight from one Instance to another.
const RING: usize = 4 << 20;

/// A registered function.
type Function = Box<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send>;

#[derive(Serialize, Deserialize)]
enum Message {
    Call {
        number: u64,
        name: String,
        argument: Payload,
    },
    Answer {
        number: u64,
        result: Result<Payload, String>,
    },
    /// Acknowledges that the data object of an answer was copied.
    Copied {
        object: ObjectId,
    },
    Topology {
        text: String,
    },
}

#[derive(Serialize, Deserialize)]
enum Payload {
    Bytes(Vec<u8>),
    Object(ObjectId),
}

/// RPC endpoint of an Instance in a group.
pub struct Rpc<'a> {
    setup: Setup<'a>,
    peers: Vec<InstanceId>,
    /// Channels to each peer.
    to: BTreeMap<InstanceId, Producer<'a>>,
    inbox: Consumer<'a>,
    functions: BTreeMap<String, Function>,
    objects: DataObjects<'a>,
    calls: VecDeque<(InstanceId, u64, String, Payload)>,
    answers: BTreeMap<u64, Result<Payload, String>>,
    /// Published objects: of answers until they are copied, of calls until they are answered.
    topologies: BTreeMap<InstanceId, Topology>,
    /// Peers lost while waiting for another one, to be reported by the next `listen`.
    lost: VecDeque<InstanceId>,
    next: u64,
}

impl<'a> Rpc<'a> {
    /// Collective: connects a sorted group that includes this Instance. Uses one tag per member, starting at `tag`.
    /// An Instance created later joins by a group of two.
    pub fn new(setup: Setup<'a>, tag: Tag, group: &[InstanceId]) -> Result<Self, Error> {
        let mut to = BTreeMap::new();
        let mut inbox = None;
        for (index, consumer) in group.iter().enumerate() {
            let producers: Vec<_> = group.iter().copied().filter(|id| id != consumer).collect();
            let tag = Tag(tag.0 + index as u64);
            let shape = Shape::Variable { capacity: RING };
            let (producer, own) = channel::open(setup, tag, &producers, *consumer, Mode::NonLocking, shape)?;
            to.extend(producer.map(|producer| (*consumer, producer)));
            inbox = own.or(inbox);
        }
        let inbox =
            inbox.ok_or_else(|| Error::misuse("connect", "this Instance is not in the group; add it"))?;
        Ok(Self {
            setup,
            peers: group.iter().copied().filter(|id| *id != setup.me).collect(),
            to,
            inbox,
            functions: BTreeMap::new(),
            objects: DataObjects::new(setup.memory, setup.communication),
            calls: VecDeque::new(),
            answers: BTreeMap::new(),
            topologies: BTreeMap::new(),
            lost: VecDeque::new(),
            next: 1,
        })
    }

    /// Registers a function under a name.
    pub fn register(
        &mut self,
        name: &str,
        function: impl Fn(&[u8]) -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<(), Error> {
        if self.functions.contains_key(name) {
            return Err(Error::misuse(
                "register a function",
                format!("{name:?} is already registered; choose another name"),
            ));
        }
        self.functions.insert(name.to_owned(), Box::new(function));
        Ok(())
    }

    /// Waits for the next call until `deadline` and handles it.
    pub fn listen(&mut self, deadline: impl Into<Option<Instant>>) -> Result<(), Error> {
        let deadline = deadline.into();
        while !self.try_listen()? {
            self.receive(deadline)?;
        }
        Ok(())
    }

    /// Handles the next pending call, if any. A lost peer is reported once, after its pending messages are handled.
    pub fn try_listen(&mut self) -> Result<bool, Error> {
        self.sort_all(None)?;
        let Some((from, number, name, argument)) = self.calls.pop_front() else {
            return self.lost.pop_front().map_or(Ok(false), |id| Err(Error::PeerLost(id)));
        };
        let result = if self.functions.contains_key(&name) {
            let argument = self.unwrap(argument)?;
            let function = &self.functions[&name];
            caught(|| function(&argument)).unwrap_or_else(|panic| Err(panic.to_string()))
        } else {
            Err(format!("Instance {} has no function {name:?}; register it there", self.setup.me))
        };
        let result = result.and_then(|bytes| self.wrap(bytes).map_err(|error| error.to_string()));
        match self.send(from, &Message::Answer { number, result }, None) {
            // The caller has stopped waiting for the answer.
            Ok(()) | Err(Error::PeerLost(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Calls a function of another Instance, which must listen, and waits for its answer until `deadline`.
    ///
    /// Calls from one Instance to another are handled in program order. An unknown name, a panic and the function's own
    /// error are [`Error::Remote`]; a time-out does not cancel the call.
    pub fn call(
        &mut self,
        instance: InstanceId,
        name: &str,
        argument: &[u8],
        deadline: impl Into<Option<Instant>>,
    ) -> Result<Vec<u8>, Error> {
        let deadline = deadline.into();
        let number = self.next;
        self.next += 1;
        let argument = self.wrap(argument.to_vec())?;
        let published = if let Payload::Object(id) = &argument { Some(id.clone()) } else { None };
        self.send(instance, &Message::Call { number, name: name.to_owned(), argument }, deadline)?;
        let answer = loop {
            if let Some(answer) = self.answers.remove(&number) {
                break answer;
            }
            self.sort_all(Some(instance))?;
            if !self.answers.contains_key(&number) {
                self.receive(deadline)?;
            }
        };
        if let Some(id) = published {
            self.objects.destroy(&id)?;
        }
        let answer = answer.map_err(Error::Remote)?;
        let copied = if let Payload::Object(id) = &answer { Some(id.clone()) } else { None };
        let bytes = self.unwrap(answer)?;
        if let Some(object) = copied {
            self.send(instance, &Message::Copied { object }, deadline)?;
        }
        Ok(bytes)
    }

    /// Collective: gathers the topologies of all Instances of the group.
    pub fn gather(&mut self, mine: &Topology) -> Result<BTreeMap<InstanceId, Topology>, Error> {
        let text = mine.to_json().to_string();
        for peer in self.peers.clone() {
            self.send(peer, &Message::Topology { text: text.clone() }, None)?;
        }
        while self.topologies.len() < self.peers.len() {
            match self.inbox.pop()? {
                Some(bytes) => self.sort(&bytes)?,
                None => self.receive(None)?,
            }
        }
        let mut all = std::mem::take(&mut self.topologies);
        all.insert(self.setup.me, mine.clone());
        Ok(all)
    }

    /// Waits until a message may have arrived.
    fn receive(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        self.inbox.until_some(deadline)
    }

    /// Receives all pending messages. Loss of `waited_for` is an error at once; other losses are recorded.
    fn sort_all(&mut self, waited_for: Option<InstanceId>) -> Result<(), Error> {
        loop {
            match self.inbox.pop() {
                Ok(Some(bytes)) => self.sort(&bytes)?,
                Ok(None) => return Ok(()),
                Err(Error::PeerLost(id)) if waited_for != Some(id) => self.lost.push_back(id),
                Err(error) => return Err(error),
            }
        }
    }

    fn sort(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let wrong = |_| {
            Error::misuse("receive a call", "a message is malformed; do all Instances run the same program?")
        };
        let (from, message): (InstanceId, Message) = postcard::from_bytes(bytes).map_err(wrong)?;
        match message {
            Message::Call { number, name, argument } => self.calls.push_back((from, number, name, argument)),
            Message::Answer { number, result } => drop(self.answers.insert(number, result)),
            Message::Copied { object } => drop(self.objects.destroy(&object)?),
            Message::Topology { text } => {
                let wrong = |error| {
                    Error::misuse(
                        "gather topologies",
                        format!("that of Instance {from} is malformed: {error}"),
                    )
                };
                self.topologies.insert(from, Topology::read(&text).map_err(wrong)?);
            }
        }
        Ok(())
    }

    fn wrap(&mut self, bytes: Vec<u8>) -> Result<Payload, Error> {
        if bytes.len() <= LARGE {
            return Ok(Payload::Bytes(bytes));
        }
        let slot = self.setup.memory.allocate(self.setup.space, bytes.len())?;
        slot.write(0, &bytes)?;
        Ok(Payload::Object(self.objects.publish(slot)?))
    }

    fn unwrap(&self, payload: Payload) -> Result<Vec<u8>, Error> {
        match payload {
            Payload::Bytes(bytes) => Ok(bytes),
            Payload::Object(id) => {
                let slot = self.objects.get(&self.objects.get_handle(&id)?, self.setup.space)?;
                self.setup.communication.fence((&slot).into(), 0, 1)?.done()?;
                slot.read_values(0, slot.size())
            }
        }
    }

    fn send(&mut self, to: InstanceId, message: &Message, deadline: Option<Instant>) -> Result<(), Error> {
        let bytes = postcard::to_stdvec(&(self.setup.me, message));
        let bytes = bytes.map_err(|error| Error::system("write a call", error))?;
        let unknown =
            || Error::misuse("call", format!("Instance {to} is not in the group; join it by a group of two"));
        let producer = self.to.get_mut(&to).ok_or_else(unknown)?;
        let mut pause = Duration::from_micros(10);
        loop {
            match producer.push(&bytes) {
                Ok(()) => return Ok(()),
                Err(PushError::Failed(error)) => return Err(error),
                // The peer does not listen and has some megabytes pending.
                Err(PushError::Full | PushError::Locked) => {
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        return Err(Error::TimedOut(format!("buffer space at Instance {to}")));
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
            }
        }
    }
}
